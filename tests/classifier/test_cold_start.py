"""The verdicts of a filter that was taught very few messages."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from app.bayes.state import State
from app.classifier.explain import attribute
from app.classifier.fusion import Lesson
from app.classifier.learn import delta
from app.classifier.record import record
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

# Mail that was scored when it came, each message of it or one in fifty; and an archive.
EVERYTHING, MISTAKES, ARCHIVE, FIVE = "everything", "mistakes", "archive", "five labels"
ARRIVED = {EVERYTHING: 1, MISTAKES: 50, ARCHIVE: None, FIVE: None}
TWO = Specification()
SPECIFICATIONS = {
    EVERYTHING: TWO,
    MISTAKES: TWO,
    ARCHIVE: TWO,
    FIVE: Specification(
        labels=("ham", "news", "spam", "phishing", "unused"),
        spam_labels=("spam", "phishing"),
    ),
}


@cache
def seen(kind, number):
    """Return the features of a message of one kind."""
    return extract(parse(kind(number)), SPECIFICATIONS[EVERYTHING].views).views


@cache
def learned(kind, label, count, n_classes):
    """Return the statistics of so many messages of one kind."""
    moved = [
        delta(seen(kind, number), before=None, after=label, n_classes=n_classes)
        for number in range(count)
    ]
    return State.sum(moved)


@cache
def taught(which, *, hams=0, spams=0):
    """Return the snapshot after so many messages of each side."""
    specification = SPECIFICATIONS[which]
    state = State.sum(
        learned(kind, specification.labels.index(label), count, specification.n_classes)
        for kind, label, count in ((ham, "ham", hams), (spam, "spam", spams))
    )
    scores = record(
        score(Snapshot.empty(specification), {}), specification, arrived=ARRIVED[which]
    )
    labels = ["ham"] * hams + ["spam"] * spams
    lessons = [
        Lesson(
            revision=number,
            digest=number.to_bytes(16),
            label_before=None,
            label=label,
            scores=scores,
        )
        for number, label in enumerate(labels, 1)
    ]
    return Snapshot.of(specification, state, revision=len(labels), lessons=lessons)


def verdicts(which, **messages):
    """Return the verdicts on a ham and a spam that were not taught."""
    snapshot = taught(which, **messages)
    return [score(snapshot, seen(kind, 10_001)) for kind in (ham, spam)]


@pytest.mark.parametrize("which", [EVERYTHING, MISTAKES, ARCHIVE, FIVE])
@pytest.mark.parametrize("messages", [{}, {"spams": 1}, {"hams": 1}, {"spams": 2}])
def test_it_is_unsure_of_everything_in_the_beginning(which, messages):
    """After at most two messages, every verdict is unsure."""
    for verdict in verdicts(which, **messages):
        assert "unsure" == verdict.decision


@pytest.mark.parametrize("which", [EVERYTHING, MISTAKES, ARCHIVE])
@pytest.mark.parametrize("count", [1, 20, 100])
def test_no_feature_speaks_while_one_side_alone_was_taught(which, count):
    """Ham and spam get the same verdict, which is that of the prior."""
    for messages in ({"spams": count}, {"hams": count}):
        of_ham, of_spam = verdicts(which, **messages)
        prior = attribute(of_ham, taught(which, **messages)).prior

        assert prior == pytest.approx(of_ham.log_odds, abs=1e-9)
        assert of_ham.log_odds == pytest.approx(of_spam.log_odds, abs=1e-9)


def test_a_hundred_spam_and_no_ham_are_no_more_than_a_good_reason():
    """Where all mail is taught, the next one is spam too, but not surely so."""
    of_ham, _ = verdicts(EVERYTHING, spams=100)

    assert 100 / 101 == pytest.approx(of_ham.probability, abs=1e-9)


@pytest.mark.parametrize("which", [MISTAKES, ARCHIVE])
def test_one_side_alone_decides_nothing_unless_all_mail_is_taught(which):
    """People who report spam and never ham keep their ham."""
    for messages in ({"spams": 1000}, {"hams": 1000}):
        for verdict in verdicts(which, **messages):
            assert "unsure" == verdict.decision
            assert 0.5 == pytest.approx(verdict.probability, abs=0.01)


@pytest.mark.parametrize("which", [EVERYTHING, MISTAKES, ARCHIVE])
def test_three_ham_are_heard_beside_a_thousand_spam(which):
    """Ham like those is not called spam, and spam is still more likely to be."""
    of_ham, of_spam = verdicts(which, spams=1000, hams=3)

    assert "spam" != of_ham.decision
    assert of_ham.log_odds < of_spam.log_odds


@pytest.mark.parametrize("which", [EVERYTHING, MISTAKES, ARCHIVE, FIVE])
def test_more_messages_of_a_side_speak_more_for_it(which):
    """Evidence is monotone: each doubling makes both ends surer."""
    steps = [verdicts(which, hams=count, spams=count) for count in (1, 2, 4, 8, 16)]
    of_ham, of_spam = ([pair[n].log_odds for pair in steps] for n in (0, 1))

    assert of_ham == sorted(of_ham, reverse=True)
    assert of_spam == sorted(of_spam)


def test_ten_messages_of_each_side_are_enough_for_plain_cases():
    """Useful long before two hundred."""
    of_ham, of_spam = verdicts(EVERYTHING, hams=10, spams=10)

    assert ("ham", "spam") == (of_ham.decision, of_spam.decision)


def test_a_label_that_nobody_uses_takes_no_message():
    """Labels without a message are behind those that have some."""
    for verdict in verdicts(FIVE, hams=20, spams=20):
        unused = [
            SPECIFICATIONS[FIVE].labels.index(name)
            for name in ("news", "phishing", "unused")
        ]

        assert verdict.label not in unused
        assert math.isclose(1.0, np.exp(verdict.log_posterior).sum(), abs_tol=1e-9)


@pytest.mark.parametrize("which", [EVERYTHING, MISTAKES, ARCHIVE, FIVE])
def test_it_is_never_lost_for_a_number(which):
    """Whatever was taught, log-odds and probability are finite."""
    for hams in (0, 1, 3, 1000):
        for spams in (0, 1, 3, 1000):
            for verdict in verdicts(which, hams=hams, spams=spams):
                assert math.isfinite(verdict.log_odds)
                assert 0 <= verdict.probability <= 1
