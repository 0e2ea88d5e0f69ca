"""Points: what a verdict is on the scale that mail servers compare with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.rule import VerdictRule
from app.classifier.specification import Specification
from app.classifier.verdict import ActionRule
from app.doors.mta import MOST, PointsAnswer, PointScale
from tests.support.standin import classified

# Thresholds 1e-40 apart would make a nat worth 1e41 points.
nats = st.floats(-50, 50).map(lambda value: round(value, 6))
digits = st.sampled_from([1, 2])
SPAM = 6.0


@st.composite
def scales(draw):
    """Scales of thresholds in their order, two of which may be the same."""
    low, middle, high = sorted(draw(st.tuples(nats, nats, nats)))
    return PointScale(
        ham_to=low,
        spam_from=middle,
        reject_from=draw(st.sampled_from([None, high])),
        spam=SPAM,
        digits=draw(digits),
    )


def decided(scale, log_odds):
    """Return the decision and the action that the thresholds ask for."""
    if log_odds < scale.spam_from:
        return "unsure" if log_odds > scale.ham_to else "ham", "none"
    rejects = scale.reject_from is not None and log_odds >= scale.reject_from
    return "spam", "reject" if rejects else "add header"


@given(scales(), nats, nats)
def test_more_log_odds_are_never_fewer_points(scale, one, other):
    """The scale is monotone, whatever the thresholds."""
    low, high = sorted([one, other])

    assert scale.score(low, *decided(scale, low)) <= scale.score(
        high, *decided(scale, high)
    )


@given(scales(), st.floats(allow_nan=False), st.booleans())
def test_points_agree_with_decision_and_action(scale, log_odds, known):
    """Who compares points with thresholds does what the answer says in words."""
    decision, action = decided(scale, log_odds) if known else ("unsure", "none")

    points = scale.score(log_odds, decision, action)

    assert (decision == "spam") == (points >= SPAM)
    assert scale.reject_from is None or (action == "reject") == (points >= 15.0)
    assert -MOST <= points <= MOST
    assert points == round(points, scale.digits)


def test_the_thresholds_have_their_points():
    """0 where ham ends, 6 where spam begins, 15 where mail is rejected."""
    scale = PointScale.of(
        Specification(
            verdict=VerdictRule(ham_threshold=-1.0, spam_threshold=3.0),
            action=ActionRule(spam_from=3.0, reject_from=9.0),
        ),
        spam=SPAM,
        digits=2,
    )

    assert [0.0, 3.0, 6.0, 10.5, 15.0] == [
        scale.line(log_odds) for log_odds in (-1.0, 1.0, 3.0, 6.0, 9.0)
    ]


@pytest.mark.parametrize("log_odds", [math.inf, -math.inf])
def test_certainty_has_points_that_can_be_printed(log_odds):
    """A model without smoothing is infinitely sure."""
    scale = PointScale(ham_to=0, spam_from=2, reject_from=None, spam=SPAM, digits=2)

    assert math.copysign(MOST, log_odds) == scale.line(log_odds)


@given(scales(), st.lists(st.sampled_from([b"money", b"pills", b"noon"]), max_size=3))
def test_symbols_add_up_to_the_score(scale, words):
    """The prior takes what is left, so that they do so to the last digit."""
    answer = classified(b"Subject: x\n\n" + b" ".join(words))
    score = scale.score(answer.verdict.log_odds, answer.verdict.decision, "none")

    found = list(PointsAnswer(answer, "none", scale).symbols())

    assert score == pytest.approx(sum(symbol.score for symbol in found), abs=1e-9)
    assert all(symbol.description for symbol in found)
