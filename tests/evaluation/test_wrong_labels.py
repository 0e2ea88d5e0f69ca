"""What becomes of the verdicts where people teach wrong labels."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from app.classifier.snapshot import score
from app.classifier.specification import Specification
from app.evaluation.subject import Subject
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

SPECIFICATION = Specification()
HONEST = 400


@cache
def seen(kind, number):
    """Return the features of a generated message."""
    return extract(parse(kind(number)), SPECIFICATION.views).views


def taught(wrong, *, after=0):
    """Return a filter that learned right labels, then others, and right ones again.

    `wrong` says of each message whether its label is.
    """
    subject = Subject(SPECIFICATION)
    for number, is_wrong in enumerate([*wrong, *[False] * after]):
        is_spam = number % 2 == 0
        views = seen(spam if is_spam else ham, number)
        subject.score(views)
        subject.learn(views, "spam" if is_spam != is_wrong else "ham")
    return subject


def dictionary(number):
    """Return spam with the words of the ham, and with thousands of others."""
    known = b" ".join(ham(each).partition(b"\n\n")[2] for each in range(3))
    others = b" ".join(b"word%d" % each for each in range(20_000))
    return b"Subject: copy %d\n\n%s%s\n" % (number, known, others)


def said(subject):
    """Return how many of a hundred fresh ham are unsure, and how many spam."""
    decisions = [
        score(subject.snapshot, seen(ham, number)).decision
        for number in range(5_000, 5_100)
    ]
    return decisions.count("unsure"), decisions.count("spam")


@pytest.mark.parametrize(("flips", "unsure"), [(30, 5), (60, 10)])
def test_a_folder_that_is_taught_by_mistake_leaves_ham_alone(flips, unsure):
    """Also where it is an eighth of all; and a hundred honest messages mend it."""
    wrong = [False] * HONEST + [True] * flips
    then = said(taught(wrong))
    mended = said(taught(wrong, after=100))

    assert then[0] <= unsure
    assert then[1] == 0
    assert mended == (0, 0)


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_slips_of_the_finger_are_borne(share):
    """Anywhere, and by chance."""
    wrong = np.random.default_rng(7).random(HONEST) < share

    assert wrong.any()
    assert said(taught(wrong.tolist())) == (0, 0)


def test_a_dictionary_that_is_taught_as_spam_hides_no_spam():
    """Where every sixth spam is one, spam loses less than a quarter of its log-odds."""
    honest, attacked = taught([False] * HONEST), taught([False] * HONEST)
    for number in range(40):
        views = seen(dictionary, number)
        attacked.score(views)
        attacked.learn(views, "spam")
    before, after = (
        np.mean(
            [score(each.snapshot, seen(spam, 5_000 + n)).log_odds for n in range(9)]
        )
        for each in (honest, attacked)
    )

    assert after > 0.75 * before
    assert said(attacked) == (0, 0)
