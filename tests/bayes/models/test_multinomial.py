"""The multinomial event model against scikit-learn and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import MultinomialNB

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Multinomial
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable
from app.errors import InvalidObservation


def sparse(row):
    """Return a row of a dense table as a sparse vector."""
    return SparseCounts.of({i: int(n) for i, n in enumerate(row) if n})


def train(model, rows, labels, n_classes):
    """Return the table after learning the rows one by one."""
    table = FeatureTable(n_classes)
    for row, label in zip(rows, labels, strict=True):
        table.add(model.observe(sparse(row), label=int(label), n_classes=n_classes))
    return table


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 4),
    alpha=st.sampled_from([1.0, 0.1, 1e-6]),
    counting=st.sampled_from(["occurrences", "presence"]),
)
def test_the_posterior_is_that_of_scikit_learn(seed, n_classes, alpha, counting):
    """The same counts give the same log-probabilities, single and in a batch."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 12)])
    rows = rng.poisson(0.7, (labels.size, 9))
    rows[0] += 1  # each feature occurs somewhere, as the oracle counts columns
    queries = rng.poisson(0.7, (5, 9))
    model = Multinomial(smoothing=Lidstone(alpha), counting=counting)
    table = train(model, rows, labels, n_classes)
    counted = rows if counting == "occurrences" else np.minimum(rows, 1)
    asked = queries if counting == "occurrences" else np.minimum(queries, 1)
    oracle = MultinomialNB(alpha=alpha).fit(counted, labels)
    likelihood = model.estimate(table)
    log_joint = np.array([likelihood(sparse(row)) for row in queries])
    log_joint = log_joint + FittedPrior().log_prior(table.messages)

    assert np.allclose(oracle.predict_joint_log_proba(asked), log_joint, rtol=1e-9)
    assert np.allclose(
        oracle.predict_log_proba(asked), log_posterior(log_joint), rtol=1e-9, atol=1e-9
    )
    for row, joint in zip(queries, log_joint, strict=True):
        assert np.array_equal(
            joint, likelihood(sparse(row)) + FittedPrior().log_prior(table.messages)
        )


MODEL = Multinomial(smoothing=Lidstone(0.5), counting="occurrences")
STATE = (
    MODEL.observe(SparseCounts.of({1: 2, 2: 1}), label=0, n_classes=2)
    + MODEL.observe(SparseCounts.of({2: 3, 3: 1}), label=1, n_classes=2)
)  # fmt: skip


def test_the_likelihood_is_the_exact_fraction():
    """Three features, alpha one half: each factor is known."""
    x = SparseCounts.of({1: 2, 3: 1})
    half = Fraction(1, 2)
    ham = ((2 + half) / (3 + 3 * half)) ** 2 * (half / (3 + 3 * half))
    spam = (half / (4 + 3 * half)) ** 2 * ((1 + half) / (4 + 3 * half))

    assert [float(ham), float(spam)] == pytest.approx(
        np.exp(MODEL.estimate(STATE)(x)).tolist(), rel=1e-14
    )


def test_presence_ignores_repeats_in_training_and_in_scoring():
    """A word counts once per message, on both sides."""
    model = Multinomial(counting="presence")
    once = model.estimate(
        model.observe(SparseCounts.of({1: 1, 2: 1}), label=0, n_classes=2)
    )
    often = model.estimate(
        model.observe(SparseCounts.of({1: 9, 2: 4}), label=0, n_classes=2)
    )

    assert (
        once(SparseCounts.of({1: 1})).tolist()
        == often(SparseCounts.of({1: 7})).tolist()
    )


def test_features_unseen_in_every_class_are_ignored():
    """They change no bit, and say that they were not seen."""
    likelihood = MODEL.estimate(STATE)
    known, mixed = SparseCounts.of({1: 1, 2: 2}), SparseCounts.of({1: 1, 2: 2, 9: 5})
    parts = likelihood.contributions(mixed)

    assert np.allclose(likelihood(known), likelihood(mixed), rtol=1e-15, atol=0)
    assert [True, True, False] == parts.seen.tolist()
    assert [0.0, 0.0] == parts.features[2].tolist()
    assert [0.0, 0.0] == parts.constant.tolist()


def test_before_the_first_message_every_class_is_alike():
    """Useful from the first message: no error, no nan."""
    likelihood = Multinomial().estimate(FeatureTable(3))

    assert [0.0] * 3 == likelihood(SparseCounts.of({1: 1})).tolist()
    assert [0.0] * 3 == likelihood(SparseCounts.of({})).tolist()


def test_without_smoothing_an_unknown_word_makes_a_class_impossible():
    """The class has minus infinity, and no NaN."""
    model = Multinomial(smoothing=NoSmoothing(), counting="occurrences")
    ham, spam = model.estimate(STATE)(SparseCounts.of({1: 2, 9: 1}))

    assert 2 * math.log(2 / 3) == pytest.approx(ham, rel=1e-15)
    assert -math.inf == spam


def test_epsilon_stands_in_for_each_zero():
    """Two occurrences of an unknown word are epsilon squared."""
    model = Multinomial(smoothing=Epsilon(1e-6), counting="occurrences")
    _, spam = model.estimate(STATE)(SparseCounts.of({1: 2}))

    assert 2 * math.log(1e-6) == pytest.approx(spam, rel=1e-15)


def test_a_declared_vocabulary_takes_part_in_smoothing():
    """Smoothing counts all ten declared words, of which three were seen."""
    model = Multinomial(smoothing=Lidstone(1.0), counting="occurrences", vocabulary=10)
    ham, spam = np.exp(model.estimate(STATE)(SparseCounts.of({2: 1})))

    assert 2 / 13 == pytest.approx(ham, rel=1e-15)
    assert 4 / 14 == pytest.approx(spam, rel=1e-15)


def test_a_declared_vocabulary_that_is_too_small_is_refused():
    """A vocabulary smaller than the one seen in training is refused."""
    with pytest.raises(InvalidObservation, match="has 2 features"):
        Multinomial(vocabulary=2).estimate(STATE)


def test_a_count_of_billions_is_finite_and_right():
    """A feature with 10^9 occurrences, against the exact fraction."""
    state = FeatureCounts.of_counts(
        np.array([1, 1]),
        np.array([1, 2]),
        np.array([[10**9, 1], [1, 3]]),
        np.array([[1, 1], [1, 1]]),
    )
    model = Multinomial(smoothing=Lidstone(1.0), counting="occurrences")
    x = SparseCounts.of({1: 10**9, 2: 1})
    logs = model.estimate(state)(x).tolist()
    expected = [
        10**9 * math.log1p(-2 / (10**9 + 3)) + math.log(2 / (10**9 + 3)),
        10**9 * math.log(1 / 3) + math.log(2 / 3),
    ]

    # A probability of 1 - 2e-9 is a double to 1e-16, and 10^9 draws of it to
    # 1e-7.
    assert expected[0] == pytest.approx(logs[0], abs=2e-7)
    assert expected[1] == pytest.approx(logs[1], rel=1e-14)


def test_products_far_below_the_smallest_double_are_right():
    """Two thousand words, against the exact product of two thousand fractions."""
    n = 2000
    ham = SparseCounts.of({i: 1 + i % 7 for i in range(n)})
    spam = SparseCounts.of({i: 1 + i % 5 for i in range(0, n, 2)})
    model = Multinomial(smoothing=Lidstone(1.0), counting="occurrences")
    state = FeatureCounts.sum(
        [
            model.observe(x, label=label, n_classes=2)
            for label, x in enumerate((ham, spam))
        ],
        n_classes=2,
    )
    products = []
    for x in (ham, spam):
        counts = dict(zip(x.ids.tolist(), x.counts.tolist(), strict=True))
        top = math.prod(counts.get(i, 0) + 1 for i in range(n))
        products.append(Fraction(top, (sum(counts.values()) + n) ** n))
    query = SparseCounts.of(dict.fromkeys(range(n), 1))
    exact = [math.log(p.numerator) - math.log(p.denominator) for p in products]
    odds = products[1] / products[0]

    assert 0.0 == math.exp(exact[0])
    assert exact == pytest.approx(model.estimate(state)(query).tolist(), rel=1e-13)
    assert math.log(odds.numerator) - math.log(odds.denominator) == pytest.approx(
        np.diff(log_posterior(model.estimate(state)(query)))[0], rel=1e-11
    )
