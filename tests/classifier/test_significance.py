"""Significance: features that could go without moving a verdict by much."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.classifier.explain import attribute
from app.classifier.snapshot import Snapshot, insignificant, score
from app.classifier.specification import TEXT_VIEWS, Specification
from tests.support.builders import seen
from tests.support.messages import ham, spam

SPECIFICATION = Specification()
messages = st.tuples(
    st.sets(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 1)
)


def learned(taught):
    """Return the snapshot of messages: sets of words, with their labels."""
    words = [
        FeatureCounts.of(
            SparseCounts.of(dict.fromkeys(words, 1)), label=label, n_classes=2
        )
        for words, label in taught
    ]
    views = {"words": FeatureCounts.sum(words, n_classes=2)}
    return Snapshot.of(SPECIFICATION, views, revision=len(taught))


def test_a_word_of_both_sides_is_weak_and_one_of_either_is_not():
    """The frequency of the word does not matter."""
    taught = [({1, 2}, 0), ({1, 3}, 1)] * 40
    found = insignificant(learned(taught), TEXT_VIEWS, max_log_odds=0.1)

    assert [1] == found["words"].tolist()


def test_nothing_is_weak_where_nothing_is_known():
    """An empty profile has no features to do without."""
    found = insignificant(Snapshot.empty(SPECIFICATION), {"words"}, max_log_odds=1.0)

    assert {"words": []} == {view: ids.tolist() for view, ids in found.items()}


@given(
    st.lists(messages, min_size=2, max_size=20),
    messages,
    st.floats(0.0, 2.0, allow_nan=False),
)
def test_without_weak_words_no_verdict_moves_by_more_than_the_bound(taught, asked, b):
    """By less than the bound times the weights, if the totals stay as they are."""
    snapshot = learned(taught)
    weak = set(insignificant(snapshot, {"words"}, max_log_odds=b)["words"].tolist())
    verdict = score(snapshot, {"words": SparseCounts.of(dict.fromkeys(asked[0], 1))})
    ids = np.array(sorted(asked[0]))
    taken = (
        attribute(verdict, snapshot)
        .contributions["words"][np.isin(ids, sorted(weak))]
        .sum()
    )
    weights = sum(
        weight
        for weight, term in zip(
            snapshot.fusion.weights * snapshot.raised,
            SPECIFICATION.verdict.terms,
            strict=True,
        )
        if term.classifier == "words"
    )

    assert abs(taken) <= b * weights + 1e-9


def test_real_mail_has_weak_features_in_every_view():
    """Features that all messages of both sides have are weak."""
    parts = {}
    for n in range(20):
        for label, raw in enumerate((ham(n), spam(n))):
            for view in ("words", "headers", "pairs"):
                x = seen(raw).views[view]
                parts.setdefault(view, []).append(
                    FeatureCounts.of(x, label=label, n_classes=2)
                )
    views = {view: FeatureCounts.sum(x, n_classes=2) for view, x in parts.items()}
    snapshot = Snapshot.of(SPECIFICATION, views, revision=40)
    found = insignificant(snapshot, TEXT_VIEWS, max_log_odds=0.25)

    assert {"words", "headers", "pairs"} <= found.keys()
    assert all(0 < found[v].size < views[v].ids.size for v in ("words", "headers"))
