"""The Bernoulli event model against scikit-learn and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import BernoulliNB

from app.bayes.models.discrete import Bernoulli
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable
from app.errors import InconsistentCounts, InvalidObservation


def sparse(row):
    """Return a row of a dense table as a sparse vector."""
    return SparseCounts.of({i: int(n) for i, n in enumerate(row) if n})


def train(rows, labels, n_classes):
    """Return the table after learning the rows one by one."""
    table = FeatureTable(n_classes)
    for row, label in zip(rows, labels, strict=True):
        table.add(
            Bernoulli().observe(sparse(row), label=int(label), n_classes=n_classes)
        )
    return table


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 4),
    # Not smaller: the oracle takes log(1 - exp(log theta)), which loses digits
    # where theta is close to 1.  The exact fractions below go on to 1e-6.
    alpha=st.sampled_from([1.0, 0.1, 0.01]),
)
def test_the_posterior_is_that_of_scikit_learn(seed, n_classes, alpha):
    """The same counts give the same log-probabilities, single and in a batch."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 12)])
    rows = rng.poisson(0.7, (labels.size, 9))
    rows[0] += 1  # each feature occurs somewhere, as the oracle counts columns
    queries = rng.poisson(0.7, (5, 9))
    table = train(rows, labels, n_classes)
    oracle = BernoulliNB(alpha=alpha).fit(rows, labels)
    likelihood = Bernoulli(smoothing=Lidstone(alpha)).estimate(table)
    prior = FittedPrior().log_prior(table.messages)
    log_joint = np.array([likelihood(sparse(row)) for row in queries]) + prior

    assert np.allclose(oracle.predict_joint_log_proba(queries), log_joint, rtol=1e-9)
    assert np.allclose(
        oracle.predict_log_proba(queries),
        log_posterior(log_joint),
        rtol=1e-9,
        atol=1e-9,
    )
    for row, joint in zip(queries, log_joint, strict=True):
        assert np.array_equal(joint, likelihood(sparse(row)) + prior)


SMOOTHINGS = {
    "none": (NoSmoothing(), Fraction),
    "alpha": (Lidstone(0.5), lambda m, n: Fraction(2 * m + 1, 2 * n + 2)),
    "tiny alpha": (
        Lidstone(1e-6),
        lambda m, n: (m + Fraction(1e-6)) / (n + 2 * Fraction(1e-6)),
    ),
    "epsilon": (
        Epsilon(2**-20),
        lambda m, n: Fraction(m, n) if m else Fraction(1, 2**20),
    ),
}


@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=2, max_size=9),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.sampled_from(sorted(SMOOTHINGS)),
)
def test_the_likelihood_is_the_exact_product_over_the_vocabulary(rows, query, name):
    """Presences and absences multiply to the same fraction, zeros included."""
    smoothing, share = SMOOTHINGS[name]
    labels = [i % 2 for i in range(len(rows))]
    table = train(rows, labels, 2)
    exact = []
    for c in range(2):
        members = rows[c::2]
        product = Fraction(1)
        for i in range(4):
            if any(row[i] for row in rows):
                m = sum(row[i] for row in members)
                n = len(members)
                product *= share(m, n) if query[i] else share(n - m, n)
        exact.append(math.log(product) if product else -math.inf)

    assert exact == pytest.approx(
        Bernoulli(smoothing=smoothing).estimate(table)(sparse(query)).tolist(),
        rel=1e-12,
        abs=1e-12,
    )


def test_a_message_that_holds_what_may_not_be_absent_is_possible():
    """Infinite terms are counted, so no infinity is subtracted from another."""
    table = train([[1, 1, 0], [1, 0, 1], [0, 1, 1]], [0, 0, 1], 2)
    likelihood = Bernoulli(smoothing=NoSmoothing()).estimate(table)

    assert math.log(1 / 4) == pytest.approx(likelihood(sparse([1, 0, 0]))[0])
    assert -math.inf == likelihood(sparse([0, 1, 0]))[0]
    assert -math.inf == likelihood(sparse([1, 0, 0]))[1]


@pytest.mark.parametrize("name", sorted(SMOOTHINGS))
def test_contributions_add_up_also_where_absence_is_impossible(name):
    """Constant and features sum to the likelihood, without a nan."""
    table = train([[1, 1, 0], [1, 0, 1], [0, 1, 1]], [0, 0, 1], 2)
    likelihood = Bernoulli(smoothing=SMOOTHINGS[name][0]).estimate(table)
    for query in ([1, 0, 0], [0, 1, 1], [0, 0, 0], [1, 1, 1]):
        parts = likelihood.contributions(sparse(query))

        assert likelihood(sparse(query)).tolist() == pytest.approx(
            (parts.constant + parts.features.sum(axis=0)).tolist()
        )


def test_features_unseen_in_every_class_are_ignored():
    """They change nothing, and are reported as unseen."""
    table = train([[1, 1, 0], [1, 0, 1]], [0, 1], 2)
    likelihood = Bernoulli().estimate(table)
    parts = likelihood.contributions(SparseCounts.of({0: 1, 77: 2}))

    assert [True, False] == parts.seen.tolist()
    assert [0.0, 0.0] == parts.features[1].tolist()
    assert np.allclose(
        likelihood(sparse([1])), likelihood(SparseCounts.of({0: 1, 77: 2}))
    )


def test_before_the_first_message_every_class_is_alike():
    """No feature, no evidence, no nan."""
    for smoothing in (Lidstone(1.0), Epsilon(0.1), NoSmoothing()):
        likelihood = Bernoulli(smoothing=smoothing).estimate(FeatureTable(3))

        assert [0.0] * 3 == likelihood(SparseCounts.of({1: 1})).tolist()


def test_a_declared_vocabulary_counts_absences_nobody_saw():
    """A word of no message is absent from every message: that is evidence too."""
    table = train([[1], [1], [0]], [0, 0, 1], 2)
    ham, spam = np.exp(Bernoulli(vocabulary=3).estimate(table)(sparse([1])))

    assert Fraction(3, 4) * Fraction(3, 4) ** 2 == pytest.approx(ham)
    assert Fraction(1, 3) * Fraction(2, 3) ** 2 == pytest.approx(spam)


def test_a_declared_vocabulary_that_is_too_small_is_refused():
    """A vocabulary smaller than the one seen in training is refused."""
    with pytest.raises(InvalidObservation, match="has 1 features"):
        Bernoulli(vocabulary=1).estimate(train([[1, 1]], [0], 2))


def test_a_million_absences_cost_one_pass_over_the_histogram_and_are_exact():
    """Ten messages with a vocabulary of a million give the exact power."""
    n = 1_000_000
    table = FeatureTable(2)
    for i in range(10):
        ids = np.arange(i * n // 10, (i + 1) * n // 10)
        x = SparseCounts(ids, np.ones_like(ids))
        table.add(Bernoulli().observe(x, label=0, n_classes=2))
    ham, spam = Bernoulli().estimate(table)(SparseCounts.of({}))

    assert n * math.log(Fraction(10, 12)) == pytest.approx(ham, rel=1e-12)
    assert n * math.log(Fraction(1, 2)) == pytest.approx(spam, rel=1e-12)


def test_a_feature_is_in_no_more_messages_than_its_class_has():
    """The model sees all features, so it finds one that no change has touched."""
    table = train([[1, 0], [1, 1]], [0, 0], 2)
    table.add(-Bernoulli().observe(sparse([0, 1]), label=0, n_classes=2))

    with pytest.raises(
        InconsistentCounts, match="in 2 messages of class 0, which has 1"
    ):
        Bernoulli().estimate(table)


def test_the_least_epsilon_leaves_the_likelihood_finite():
    """The ratio of a probability to it would be infinite."""
    likelihood = Bernoulli(smoothing=Epsilon(1e-310)).estimate(
        train([[1, 0], [1, 1]], [0, 1], 2)
    )

    # Feature 0 is in the message of each class, and cannot be absent but for epsilon.
    assert [math.log(1e-310), 0.0] == pytest.approx(
        likelihood(sparse([1, 1])).tolist(), abs=1e-9
    )
