"""Seven messages, seven rows, and estimates by maximum likelihood.

P. Virtue, 15-388/688 Practical Data Science, Carnegie Mellon University, 2022.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Bernoulli, Categorical, Multinomial, value_id
from app.bayes.models.gaussian import Gaussian, GaussianLikelihood
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import Measurements, SparseCounts

HAM, SPAM = 0, 1
MESSAGES = [
    (SPAM, "Money is free now"),
    (SPAM, "Sir money to teach"),
    (SPAM, "Pat free money now"),
    (HAM, "Pat teach 388"),
    (HAM, "Pat free to teach"),
    (HAM, "Teach 388 now"),
    (HAM, "Pat to teach 301"),
]
# 301 is not in it; tomorrow is in it, and in no message.
VOCABULARY = ["388", "free", "is", "money", "now", "pat", "sir", "teach", "to"]
VOCABULARY += ["tomorrow"]
QUERY = "Pat teach now"


def words(text):
    """Return the words of a message that are in the vocabulary."""
    found = [w for w in text.lower().split() if w in VOCABULARY]
    return SparseCounts.of(Counter(map(VOCABULARY.index, found)))


def train(model, history, n_classes=2):
    """Return the state of labelled observations."""
    return FeatureCounts.sum(
        [model.observe(x, label=label, n_classes=n_classes) for label, x in history],
        n_classes=n_classes,
    )


@pytest.mark.parametrize(
    ("model", "ham", "spam", "posterior"),
    [
        (Bernoulli(smoothing=NoSmoothing(), vocabulary=10), Fraction(9, 448), 0, 0),
        (
            Bernoulli(smoothing=Lidstone(1.0), vocabulary=10),
            Fraction(3125, 367416),
            Fraction(31104, 68359375),
            Fraction(1632586752, 32150164877),
        ),
        (
            Multinomial(smoothing=NoSmoothing(), counting="occurrences", vocabulary=10),
            Fraction(48, 15379),
            Fraction(1, 2016),
            Fraction(2197, 16021),
        ),
        (
            Multinomial(smoothing=Lidstone(1.0), counting="occurrences", vocabulary=10),
            Fraction(160, 85169),
            Fraction(9, 18634),
            Fraction(109503, 535423),
        ),
    ],
    ids=[
        "Bernoulli, no smoothing",
        "Bernoulli, (count + 1) / (messages + 2)",
        "multinomial, no smoothing",
        "multinomial, alpha 1, d 10",
    ],
)
def test_the_seven_messages(model, ham, spam, posterior):
    """Both joint probabilities and the posterior are the lecture's fractions."""
    state = train(model, [(label, words(text)) for label, text in MESSAGES])
    joint = model.estimate(state)(words(QUERY)) + FittedPrior().log_prior(
        state.messages
    )

    assert spam / (ham + spam) == posterior
    assert [float(ham), float(spam)] == pytest.approx(np.exp(joint).tolist(), rel=1e-13)
    assert float(posterior) == pytest.approx(
        float(np.exp(log_posterior(joint))[SPAM]), rel=1e-13
    )


def test_the_words_of_either_class():
    """13 words of ham and 12 of spam are in the vocabulary."""
    state = train(Multinomial(), [(label, words(text)) for label, text in MESSAGES])

    assert [13, 12] == state.totals("occurrences").tolist()


ROWS = [(0, 0, 0), (1, 1, 0), (0, 0, 1), (1, 1, 1), (1, 1, 0), (0, 1, 0), (1, 0, 1)]


def as_features(x1, x2):
    """Return a row as the features that are there."""
    return SparseCounts.of({i: 1 for i, bit in enumerate((x1, x2)) if bit})


def as_fields(x1, x2):
    """Return a row as one value for each of two fields."""
    return SparseCounts.of(
        {value_id(field=i, value=bit): 1 for i, bit in enumerate((x1, x2))}
    )


@pytest.mark.parametrize(
    ("smoothing", "zero", "one", "posterior"),
    [
        (NoSmoothing(), Fraction(2, 21), Fraction(3, 14), Fraction(9, 13)),
        (Lidstone(1.0), Fraction(18, 175), Fraction(4, 21), Fraction(50, 77)),
    ],
    ids=["no smoothing", "+1, +2"],
)
def test_the_seven_rows(smoothing, zero, one, posterior):
    """X1 = 1 and X2 = 0, as Bernoulli features and as two categorical fields."""
    assert one / (zero + one) == posterior

    for model, observation in (
        (Bernoulli(smoothing=smoothing), as_features),
        (Categorical(smoothing=smoothing), as_fields),
    ):
        state = train(model, [(y, observation(x1, x2)) for y, x1, x2 in ROWS])
        prior = FittedPrior().log_prior(state.messages)
        joint = model.estimate(state)(observation(1, 0)) + prior

        assert [float(zero), float(one)] == pytest.approx(
            np.exp(joint).tolist(), rel=1e-13
        )
        assert float(posterior) == pytest.approx(
            float(np.exp(log_posterior(joint))[1]), rel=1e-13
        )


@pytest.mark.parametrize(
    ("smoothing", "expected"),
    [(NoSmoothing(), Fraction(3, 5)), (Lidstone(1.0), Fraction(4, 7))],
)
def test_the_maximum_likelihood_of_a_coin(smoothing, expected):
    """1, 1, 0, 0, 1: the share of ones, plain and smoothed."""
    model = Bernoulli(smoothing=smoothing)
    history = [(0, SparseCounts.of({1: 1} if bit else {})) for bit in (1, 1, 0, 0, 1)]
    one = model.estimate(train(model, history, 1))(SparseCounts.of({1: 1}))

    assert float(expected) == pytest.approx(float(np.exp(one)[0]), rel=1e-14)


def test_the_better_fit_of_two_normal_distributions():
    """75, 80 and 90 under N(80, 9) and under N(85, 49)."""
    likelihood = GaussianLikelihood(
        np.array([0]), np.array([[80.0, 85.0]]), np.array([[9.0, 49.0]]), 2.0**-16
    )
    fits = sum(likelihood(Measurements.of({0: v})) for v in (75, 80, 90))

    assert [-12.99710, -10.12516] == pytest.approx(fits.tolist(), abs=5e-6)


ANIMALS = [
    ("cat", "blue", "wood"),
    ("dog", "blue", "metal"),
    ("rat", "green", "metal"),
    ("rat", "red", "paper"),
    ("cat", "red", "wood"),
    ("cat", "blue", "wood"),
]
NAMES = ["cat", "dog", "rat"]
VALUES = ["blue", "green", "red", "metal", "paper", "wood"]


def thing(*values):
    """Return the values of an animal: colours are field 0, materials field 1."""
    return SparseCounts.of(
        {value_id(field=VALUES.index(v) // 3, value=VALUES.index(v)): 1 for v in values}
    )


def test_the_categorical_table():
    """Priors and conditional probabilities of three classes, zeros included."""
    model = Categorical(smoothing=NoSmoothing())
    state = train(
        model, [(NAMES.index(name), thing(*rest)) for name, *rest in ANIMALS], 3
    )
    likelihood = model.estimate(state)
    third, half = Fraction(1, 3), Fraction(1, 2)
    expected = {
        "blue": (2 * third, 1, 0),
        "green": (0, 0, half),
        "red": (third, 0, half),
        "metal": (0, 1, half),
        "paper": (0, 0, half),
        "wood": (1, 0, 0),
    }
    prior = np.exp(FittedPrior().log_prior(state.messages))

    assert [1 / 2, 1 / 6, 1 / 3] == pytest.approx(prior.tolist(), rel=1e-15)
    for value, probabilities in expected.items():
        assert [float(p) for p in probabilities] == pytest.approx(
            np.exp(likelihood(thing(value))).tolist(), rel=1e-15
        )


STUDENTS = [
    (1, 90, 30),
    (2, 85, 60),
    (3, 70, 20),
    (3, 60, 25),
    (1, 80, 50),
    (1, 90, 40),
]


def students(**options):
    """Return the fitted Gaussian model of scores and times."""
    model = Gaussian(**options)
    return model.estimate(
        MomentSums.sum(
            [
                model.observe(
                    Measurements.of({0: score, 1: time}), label=c - 1, n_classes=3
                )
                for c, score, time in STUDENTS
            ],
            n_classes=3,
        )
    )


def test_the_gaussian_table():
    """Means and variances over n; the class with one row gets the floor."""
    likelihood = students(floor=0.01)
    floor = 0.01 * max(
        np.var([90, 85, 70, 60, 80, 90]), np.var([30, 60, 20, 25, 50, 40])
    )
    means = [[260 / 3, 85, 65], [40, 60, 45 / 2]]
    variances = [[200 / 9, floor, 25], [200 / 3, floor, 25 / 4]]

    assert np.allclose(means, likelihood.means, rtol=1e-15)
    assert np.allclose(variances, likelihood.variances, rtol=1e-14)


def test_the_gaussian_table_without_constant_features():
    """A class with one row makes every feature constant: the prior is left."""
    likelihood = students(constant="drop")

    assert [0.0] * 3 == likelihood(Measurements.of({0: 85, 1: 40})).tolist()
