"""The verdict, and the list of reasons that adds up to it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.posterior import log_odds
from app.bayes.sparse import SparseCounts
from app.classifier.explain import explain
from app.classifier.learn import delta
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.classifier.specification import Specification, VerdictRule
from app.features.observation import Observation

THREE = Specification(
    labels=("ham", "spam", "phishing"), spam_labels=("spam", "phishing")
)
TWO = Specification()

messages = st.dictionaries(st.integers(0, 12), st.integers(1, 9), max_size=8).map(
    SparseCounts.of
)


def taught(specification, history):
    """Return the snapshot of a history of (message, class)."""
    snapshot = Snapshot.empty(specification)
    for revision, (x, label) in enumerate(history, 1):
        moved = delta(
            {"words": x},
            before=None,
            after=label % specification.n_classes,
            n_classes=specification.n_classes,
        )
        snapshot = snapshot.learn(moved, revision=revision)
    return snapshot


def observation(x, names=()):
    """Return an observation of one view."""
    return Observation(bytes(16), 1, {"words": x}, {"words": names} if names else {})


specifications = st.sampled_from([TWO, THREE])
histories = st.lists(st.tuples(messages, st.integers(0, 5)), max_size=8)


@given(specifications, histories, messages, st.integers(0, 10))
def test_the_explanation_adds_up_to_the_log_odds(specification, history, x, strongest):
    """Prior, listed features and rest sum to the log-odds, for every K."""
    snapshot = taught(specification, history)
    verdict = score(snapshot, {"words": x})

    entries = explain(verdict, snapshot, observation(x), strongest=strongest)

    assert math.isclose(
        verdict.log_odds, math.fsum(e.log_odds for e in entries), abs_tol=1e-9
    )
    assert int(verdict.seen.sum()) == sum(e.features for e in entries)


@given(specifications, histories, messages)
def test_log_odds_and_posterior_are_one_statement(specification, history, x):
    """The log-odds are those of the log-posterior, which sums to one."""
    verdict = score(taught(specification, history), {"words": x})

    assert math.isclose(1.0, np.exp(verdict.log_posterior).sum(), abs_tol=1e-9)
    assert math.isclose(
        verdict.log_odds,
        log_odds(verdict.log_posterior, specification.spam_mask),
        abs_tol=1e-9,
    )
    assert verdict.label == int(np.argmax(verdict.log_posterior))


def test_a_filter_that_knows_nothing_is_unsure_at_the_prior():
    """Before the first message every class has its smoothed prior."""
    verdict = score(Snapshot.empty(TWO), {"words": SparseCounts.of({1: 1})})

    assert verdict.decision == "unsure"
    assert verdict.log_odds == 0.0
    assert verdict.probability == 0.5
    assert verdict.views["words"].features == 0


def test_a_filter_that_was_taught_one_side_only_is_unsure():
    """Without any ham there is nothing to tell spam from."""
    few = taught(TWO, [(SparseCounts.of({1: 1, 2 + n: 1}), 1) for n in range(19)])
    x = SparseCounts.of({1: 1})

    verdict = score(few, {"words": x})
    later = score(
        few.learn(delta({"words": x}, before=None, after=1, n_classes=2), revision=20),
        {"words": x},
    )

    assert verdict.decision == "unsure"
    assert verdict.log_odds > TWO.verdict.spam_threshold
    assert later.decision == "spam"


@pytest.mark.parametrize(("feature", "decision"), [(1, "spam"), (2, "ham")])
def test_what_was_only_in_spam_speaks_for_spam(feature, decision):
    """A taught filter recognises what it was taught."""
    history = [(SparseCounts.of({1: 1}), 1), (SparseCounts.of({2: 1}), 0)] * 20

    verdict = score(taught(TWO, history), {"words": SparseCounts.of({feature: 1})})

    assert verdict.decision == decision


def test_between_the_thresholds_lies_unsure():
    """A message whose log-odds reach neither threshold is unsure."""
    unsure = Specification(verdict=VerdictRule(spam_threshold=1e6, ham_threshold=-1e6))
    history = [(SparseCounts.of({1: 1}), 1), (SparseCounts.of({2: 1}), 0)]

    verdict = score(taught(unsure, history), {"words": SparseCounts.of({1: 1})})

    assert verdict.decision == "unsure"
    assert verdict.log_odds > 0


def test_the_strongest_features_come_first_with_their_counts():
    """Entries fall in strength and carry the messages of each label."""
    history = [
        (SparseCounts.of({1: 1, 3: 1}), 1),
        (SparseCounts.of({1: 2}), 1),
        (SparseCounts.of({2: 1, 3: 1}), 0),
    ]
    snapshot = taught(TWO, history)
    x = SparseCounts.of({1: 1, 3: 4, 9: 1})
    verdict = score(snapshot, {"words": x})

    prior, first, second, rest = explain(
        verdict, snapshot, observation(x, ("one", "three", "new")), strongest=5
    )

    assert {"ham": 1, "spam": 2} == prior.messages
    assert ("one", {"ham": 0, "spam": 2}) == (first.feature, first.messages)
    assert ("three", {"ham": 1, "spam": 1}) == (second.feature, second.messages)
    assert abs(first.log_odds) > abs(second.log_odds)
    assert (0, 0.0) == (rest.features, rest.log_odds)


def test_a_feature_without_text_is_shown_by_its_id():
    """Where no words are stored, the 64-bit id stands in hex."""
    x = SparseCounts.of({-1: 1})
    snapshot = taught(TWO, [(x, 1)])

    entries = explain(
        score(snapshot, {"words": x}), snapshot, observation(x), strongest=1
    )

    assert entries[1].feature == "#ffffffffffffffff"


def test_learning_leaves_the_old_snapshot_as_it_was():
    """A reader of a snapshot never sees it change."""
    x = SparseCounts.of({1: 1, 2: 2})
    old = taught(TWO, [(x, 0), (SparseCounts.of({2: 1}), 1)])
    before = score(old, {"words": x})

    old.learn(delta({"words": x}, before=0, after=1, n_classes=2), revision=3)

    assert before.log_odds == score(old, {"words": x}).log_odds
    assert old.revision == 2


def test_a_view_without_stored_counts_starts_empty():
    """A snapshot of stored states lacks no view of its specification."""
    snapshot = Snapshot.of(TWO, {}, revision=7)

    assert snapshot.revision == 7
    assert 0 == snapshot.tables["words"].vocabulary
