"""The event models under the protocol of 2006: attributes, batches, figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif
from sklearn.naive_bayes import GaussianNB

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from benchmarks.which_bayes import (
    BATCH,
    GAUSSIAN,
    MODELS,
    OURS,
    Message,
    Moments,
    Trial,
    information_gain,
    scores,
    select,
)
from tests.support.messages import ham, spam

tables = st.lists(
    st.tuples(st.sets(st.integers(0, 5)), st.booleans()), min_size=4, max_size=30
).filter(lambda rows: len({label for _, label in rows}) == 2)


def state_of(rows):
    """Return the statistics of messages that are sets of words."""
    return FeatureCounts.sum(
        [
            FeatureCounts.of(
                SparseCounts.of(dict.fromkeys(words, 1)), label=int(label), n_classes=2
            )
            for words, label in rows
        ],
        n_classes=2,
    )


@given(tables)
def test_information_gain_is_that_of_scikit_learn(rows):
    """An independent implementation gives the same figures, in nats."""
    state = state_of(rows)
    present = np.array([[int(word) in words for word in range(6)] for words, _ in rows])
    gold = np.array([label for _, label in rows])
    expected = mutual_info_classif(present, gold, discrete_features=True)
    ours = np.zeros(6)
    ours[state.ids] = information_gain(state.documents, state.messages)

    assert expected == pytest.approx(ours, abs=1e-9)


def test_the_attributes_with_the_highest_gain_are_kept():
    """Attributes in fewer than five messages are not considered."""
    rows = [({1, 2}, False)] * 5 + [({2, 3}, True)] * 4 + [({2, 4}, True)] * 6

    assert [1, 4] == select(state_of(rows), 2).ids.tolist()
    assert [1, 2, 4] == select(state_of(rows), 9).ids.tolist()


def test_the_gaussian_is_that_of_scikit_learn():
    """A word that a message lacks has frequency 0."""
    random = np.random.default_rng(1)
    counts = random.poisson(2.0, size=(60, 4)) + np.array([1, 0, 0, 0])
    gold = random.random(60) < 0.4
    counts[gold, 1] += 2
    messages = [
        Message(
            bool(label),
            SparseCounts.of({at: int(n) for at, n in enumerate(row) if n}),
            {},
        )
        for row, label in zip(counts, gold, strict=True)
    ]
    moments = Moments()
    for message in messages:
        moments.add(message)
    chosen = FeatureCounts.sum(
        [FeatureCounts.of(m.words, label=int(m.spam), n_classes=2) for m in messages],
        n_classes=2,
    )
    shares = counts / counts.sum(axis=1, keepdims=True)
    joint = (
        GaussianNB(var_smoothing=0).fit(shares, gold).predict_joint_log_proba(shares)
    )

    assert (joint[:, 1] - joint[:, 0]) == pytest.approx(
        dict(scores(chosen, moments, messages))[GAUSSIAN], rel=1e-6, abs=1e-6
    )


def test_each_batch_is_scored_by_the_batches_before_it(tmp_path):
    """The first batch is learned only; every model has a row for each size."""
    lines = []
    for n in range(BATCH):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (tmp_path / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (tmp_path / "index").write_text("".join(lines))
    ticks = []
    rows = Trial(tmp_path / "index", (5, 20))(lambda: ticks.append(1))

    assert 2 * BATCH == len(ticks)
    assert {(name, size) for name in (*MODELS, GAUSSIAN) for size in (5, 20)} | {
        (OURS, 0)
    } == {(row["model"], row["attributes"]) for row in rows}
    assert all(row["spam_recall"] > 90 for row in rows)


def test_a_class_that_was_not_learned_is_not_expected():
    """After a batch of ham alone, everything is ham."""
    rows = [({1, 2}, False)] * 6
    moments = Moments()
    message = Message(spam=False, words=SparseCounts.of({1: 1, 2: 1}), views={})
    moments.add(message)

    assert all(
        odds == [-np.inf] for _, odds in scores(state_of(rows), moments, [message])
    )
