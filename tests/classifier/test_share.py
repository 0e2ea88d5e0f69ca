"""No view leaves its weight unused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.rule import raised
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.features.observation import Observation
from app.mail.parse import parse
from tests.support.messages import ham, spam

SHIPPED = Specification()

learned = st.lists(st.integers(0, 10**9), min_size=1, max_size=6)


def views_of(raw):
    """Return the views of a message."""
    return extract(parse(raw), SHIPPED.views).views


def states_of(n, *, views):
    """Return the statistics of so many ham and as many spam, of some views alone."""
    states = {view: FeatureCounts.zero(2) for view in views}
    for at in range(n):
        for label, raw in enumerate((ham(at), spam(at))):
            moved = delta(views_of(raw), before=None, after=label, n_classes=2)
            states = {view: state + moved[view] for view, state in states.items()}
    return states


@given(learned)
def test_weights_are_raised_and_never_lowered(messages):
    """The factor is 1 for equal views, and at most the root of their number."""
    factor = raised(np.array(messages))

    assert 1.0 <= factor <= math.sqrt(len(messages)) + 1e-12


@given(st.integers(0, 10**9), st.integers(1, 6))
def test_views_that_know_alike_are_left_alone(messages, views):
    """The factor is exactly 1, so rounding changes no verdict of such a filter."""
    assert 1.0 == raised(np.full(views, messages))


@given(learned, st.integers(1, 10**6))
def test_what_the_least_view_learns_lowers_the_factor(messages, more):
    """Its weight goes back to it."""
    least = int(np.argmin(messages))
    then = list(messages)
    then[least] = min(messages[least] + more, max(messages))

    assert raised(np.array(then)) <= raised(np.array(messages)) + 1e-12


def test_what_is_there_speaks_for_what_is_not():
    """Without pairs, words and headers are raised by the root of 3/2."""
    whole = states_of(20, views=("words", "headers", "pairs"))
    part = {view: whole[view] for view in ("words", "headers")}
    message = views_of(spam(99))
    by_whole = score(Snapshot.of(SHIPPED, whole, revision=1), message)
    by_part = score(Snapshot.of(SHIPPED, part, revision=1), message)
    unraised = by_whole.evidence[:2] @ [-1.0, 1.0]

    assert math.sqrt(1.5) * unraised == pytest.approx(
        by_part.evidence[:2] @ [-1.0, 1.0]
    )
    assert "spam" == by_part.decision


def test_what_was_raised_still_adds_up():
    """The fusion is fitted to what was said, and the explanation sums to it."""
    part = states_of(20, views=("words", "headers"))
    snapshot = Snapshot.of(SHIPPED, part, revision=1)
    message = views_of(spam(99))
    verdict = score(snapshot, message)
    seen = Observation(digest=b"", feature_set=1, views=message)
    entries = explain(attribute(verdict, snapshot), snapshot, seen, strongest=5)
    said = verdict.evidence.T @ snapshot.fusion.weights + verdict.log_prior

    assert verdict.log_odds == pytest.approx(
        sum(entry.log_odds for entry in entries.summands), abs=1e-9
    )
    assert verdict.log_odds == pytest.approx(said[1] - said[0], abs=1e-9)


def test_nothing_is_raised_before_anything_is_known():
    """Before the first message, nothing is divided by zero."""
    verdict = score(Snapshot.empty(SHIPPED), {"words": SparseCounts.of({1: 1})})

    assert [1.0, 1.0, 1.0, 0.0, 0.0, 0.0] == Snapshot.empty(SHIPPED).raised.tolist()
    assert "unsure" == verdict.decision
