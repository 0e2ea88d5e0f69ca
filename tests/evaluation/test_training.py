"""Which of the available messages a filter learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.bayes.sparse import SparseCounts
from app.classifier.rule import FusionRule, VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.errors import InvalidSetting
from app.evaluation.subject import EVERYTHING, Subject, Training
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

HAM = range(1, 20)
SPAM = range(31, 50)


def mail(*ids):
    """Return a message of some words."""
    return {"words": SparseCounts.of(dict.fromkeys(ids, 1))}


def subject(training=EVERYTHING):
    """Return a filter of words alone that was taught the same mail of either side."""
    specification = Specification(
        classifiers=classifiers_of(("words",)),
        verdict=VerdictRule(terms=terms_of(("words",))),
    )
    filter_ = Subject(specification, training)
    for n in range(20):
        filter_.learn(mail(*HAM, 100 + n), "ham")
        filter_.learn(mail(*SPAM, 200 + n), "spam")
    return filter_


def odds(filter_, message):
    """Return what is said of a message."""
    return filter_.score(message).log_odds


@pytest.mark.parametrize(
    ("text", "training"),
    [
        ("everything", Training()),
        ("errors", Training(margin=0.0)),
        ("near:2.5", Training(margin=2.5)),
        ("auto:10", Training(own_from=10.0)),
    ],
)
def test_it_is_read_from_a_word(text, training):
    """With nats behind a colon where it takes them."""
    assert training == Training.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "near", "near:", "near:x", "near:nan", "near:-1", "auto:-2", "errors:1"],
)
def test_what_is_no_training_is_refused(text):
    """With what there is."""
    with pytest.raises(
        InvalidSetting, match=r"train must be|distance from the threshold"
    ):
        Training.parse(text)


def test_errors_are_learned_and_what_was_right_is_not():
    """Unsure is an error."""
    filter_ = subject(Training(margin=0.0))
    for n in range(20):
        filter_.learn(mail(500 + n), "spam")
    before = filter_.learned
    filter_.learn(mail(*HAM), "ham")
    filter_.learn(mail(*SPAM), "spam")

    assert before == filter_.learned

    filter_.learn(mail(*HAM), "spam")
    filter_.learn(mail(60, 61), "ham")

    assert before + 2 == filter_.learned


def test_near_the_threshold_is_learned_too():
    """The wider the margin, the more is learned; without end it is everything."""
    clear = mail(*HAM)
    verdict = subject().score(clear)
    beyond = Specification().verdict.ham_threshold - verdict.log_odds

    assert beyond > 0
    assert Training(margin=beyond + 0.1).wants(verdict, "ham", Specification())
    assert not Training(margin=beyond - 0.1).wants(verdict, "ham", Specification())
    assert EVERYTHING.wants(verdict, "ham", Specification())


def test_its_own_verdict_is_learned_after_the_answer():
    """A message is never scored by a filter that knows it, at least at first."""
    own = subject(Training(own_from=3.0))
    told = subject()
    message = mail(*SPAM, 300)

    assert odds(told, message) == odds(own, message)

    told.learn(message, "spam")

    # By the words: how much of the mail is spam is known from what people say alone.
    said, said_own = (each.score(mail(300)).views["words"] for each in (told, own))
    assert said.log_odds == said_own.log_odds
    assert 41 == own.learned


def test_what_people_say_moves_what_was_learned_by_itself():
    """As if the filter had never said it; nothing is counted twice."""
    own = subject(Training(own_from=3.0))
    told = subject()
    message = mail(*SPAM, 300)
    own.score(message)
    own.learn(message, "ham")
    told.learn(message, "ham")

    assert odds(told, mail(300)) == odds(own, mail(300))
    assert told.learned == own.learned


def test_it_is_not_sure_of_what_it_is_unsure_of():
    """Whatever the distance from which it trusts itself."""
    own = subject(Training(own_from=0.0))
    own.score(mail(1, 31))
    own.score(mail(1, 31))

    assert 40 == own.learned
    assert math.isfinite(odds(own, mail(1, 31)))


def test_more_labels_decide_between_ham_and_spam_as_two_would():
    """Bit for bit, through lessons, errors and fits; its labels share each side."""
    rule = VerdictRule(fusion=FusionRule(every=20, window=60))
    two = Subject(Specification(verdict=rule))
    labels = ("ham", "list", "phishing", "spam")
    many = Subject(
        Specification(labels=labels, spam_labels=("phishing", "spam"), verdict=rule)
    )
    for n in range(90):
        # One in nine is on the wrong side, so that the corrections learn.
        unwanted = (n % 2 > 0) ^ (n % 9 == 0)
        views = extract(parse(spam(n) if n % 2 else ham(n))).views
        said, found = two.score(views), many.score(views)

        assert (said.decision, said.log_odds) == (found.decision, found.log_odds)
        assert said.log_posterior.tolist() == pytest.approx(
            np.logaddexp.reduce(found.log_posterior.reshape(2, 2), axis=1).tolist()
        )
        two.learn(views, "spam" if unwanted else "ham")
        many.learn(views, labels[2 * unwanted + n % 3 // 2])
    assert two.snapshot.fusion.fitted_messages > 0
