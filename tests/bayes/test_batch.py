"""Messages joined for one look-up come apart again exactly."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from app.bayes.batch import join
from app.bayes.counts import FeatureCounts
from app.bayes.likelihood import sums
from app.bayes.models.bernoulli import Bernoulli
from app.bayes.models.multinomial import Multinomial
from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts


def test_no_message_has_no_sum():
    """An empty batch is a batch."""
    joined = join([])

    assert (0, 3) == sums(np.empty((3, 0)), joined.bounds).shape


def test_a_message_without_features_sums_to_zero():
    """It stands between two others and takes nothing from them."""
    one, none = SparseCounts.of({1: 1}), SparseCounts.of({})
    joined = join([one, none, one])

    assert [0, 1, 1, 2] == joined.bounds
    assert [[3.0], [0.0], [4.0]] == sums(np.array([[3.0, 4.0]]), joined.bounds).tolist()


def test_a_feature_of_several_messages_is_looked_up_once():
    """In order, by whoever asks; and known wherever it occurs."""
    xs = [SparseCounts.of({7: 1, 9: 2}), SparseCounts.of({5: 1, 9: 1})]
    state = FeatureCounts.of(xs[0], label=1, n_classes=2)
    asked = []
    source = SimpleNamespace(
        look_up=lambda ids, counting: (
            asked.append((ids.tolist(), counting)) or state.look_up(ids, counting)
        )
    )
    joined = join(xs)
    known = [joined.known(source, "occurrences") for _ in range(2)][1]

    assert [([5, 7, 9], "occurrences")] == asked
    assert [[0, 0, 0, 0], [1, 2, 0, 2], [1, 2, 0, 2]] == known.counts.tolist()
    assert [True, True, False, True] == known.seen.tolist()
    with pytest.raises(ValueError, match="read-only"):
        known.counts += 1


@pytest.mark.parametrize(
    "model",
    [
        Multinomial(),
        Multinomial(counting="occurrences", smoothing=NoSmoothing()),
        Bernoulli(),
        Bernoulli(smoothing=NoSmoothing()),
    ],
    ids=lambda model: f"{type(model).__name__} {type(model.smoothing).__name__}",
)
def test_a_large_batch_answers_bit_for_bit_what_its_messages_answer(model):
    """Long messages too, whose sums depend on the order of addition."""
    rng = np.random.default_rng(20240501)
    xs = [
        SparseCounts.from_occurrences(rng.zipf(1.3, rng.integers(0, 5000)) % 3000)
        for _ in range(60)
    ]
    state = FeatureCounts.sum(
        [model.observe(x, label=i % 3, n_classes=3) for i, x in enumerate(xs[:40])],
        n_classes=3,
    )
    likelihood = model.estimate(state)
    batch = likelihood.batch(xs)

    assert (60, 3) == batch.shape
    for x, row in zip(xs, batch, strict=True):
        assert likelihood(x).tobytes() == row.tobytes()


def test_a_million_features_are_summed_to_the_last_digits():
    """Pairwise summation keeps the error of a long sum small."""
    n = 1_000_000
    x = SparseCounts(np.arange(n), np.ones(n, np.int64))
    state = FeatureCounts.of(x, label=0, n_classes=2)
    ham, spam = Multinomial(smoothing=Lidstone(0.1)).estimate(state)(x)

    assert n * np.log(1.1 / (n + 0.1 * n)) == pytest.approx(ham, rel=1e-14)
    assert n * np.log(0.1 / (0.1 * n)) == pytest.approx(spam, rel=1e-14)
