"""Five patients and three weather tables: categorical naive Bayes.

L. Rashidi and L. Frermann, COMP90049 Introduction to Machine Learning,
University of Melbourne, 2022, lecture 6.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Categorical, value_id
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts

COLD, FLU = "Cold", "Flu"
#    headache  sore      temperature cough  diagnosis
PATIENTS = [
    ("severe", "mild", "high", "yes", FLU),
    ("no", "severe", "normal", "yes", COLD),
    ("mild", "mild", "normal", "yes", FLU),
    ("mild", "no", "normal", "no", COLD),
    ("severe", "severe", "normal", "yes", FLU),
]
ANN = ("mild", "severe", "normal", "no")
BOB = ("severe", "mild", "high", "no")


def record(values):
    """Return one value for each field; None for a field that is not known."""
    return SparseCounts.of(
        {
            value_id(field=f, value=int.from_bytes(v.encode()[:6])): 1
            for f, v in enumerate(values)
            if v is not None
        }
    )


def fit(rows, smoothing, classes):
    """Return the likelihood and the log-prior of a table."""
    model = Categorical(smoothing=smoothing)
    state = FeatureCounts.sum(
        [
            model.observe(record(values), label=classes.index(c), n_classes=2)
            for *values, c in rows
        ],
        n_classes=2,
    )
    return model.estimate(state), FittedPrior().log_prior(state.messages)


def joint(rows, query, smoothing, classes):
    """Return the log-joint of a query."""
    likelihood, prior = fit(rows, smoothing, classes)
    return likelihood(record(query)) + prior


def diagnosis(query, smoothing):
    """Return the log-joint of Cold and Flu."""
    return joint(PATIENTS, query, smoothing, [COLD, FLU])


def test_ann_without_smoothing():
    """No flu patient is without a cough."""
    assert [1 / 20, 0] == pytest.approx(np.exp(diagnosis(ANN, NoSmoothing())))


def test_bob_without_smoothing_is_a_tie_at_nothing():
    """Both classes are impossible, so the posterior is even."""
    answer = diagnosis(BOB, NoSmoothing())

    assert [-math.inf, -math.inf] == answer.tolist()
    assert [1 / 2, 1 / 2] == np.exp(log_posterior(answer)).tolist()


@pytest.mark.parametrize("epsilon", [1e-2, 1e-5, 1e-9, 1e-30])
def test_epsilon_is_kept_symbolic(epsilon):
    """Ann: 1/20 and 2 e/45. Bob: e^3/5 and 4 e/45, whatever e is."""
    ann, bob = diagnosis(ANN, Epsilon(epsilon)), diagnosis(BOB, Epsilon(epsilon))

    assert [1 / 20, 2 * epsilon / 45] == pytest.approx(np.exp(ann), rel=1e-12)
    assert [epsilon**3 / 5, 4 * epsilon / 45] == pytest.approx(np.exp(bob), rel=1e-12)


@pytest.mark.parametrize(
    ("query", "cold", "flu", "posterior"),
    [
        (ANN, Fraction(3, 125), Fraction(1, 125), Fraction(1, 4)),
        (BOB, Fraction(1, 500), Fraction(3, 250), Fraction(6, 7)),
    ],
    ids=["Ann", "Bob"],
)
def test_the_patients_with_alpha_one(query, cold, flu, posterior):
    """Joint probabilities and posterior as exact fractions."""
    answer = diagnosis(query, Lidstone(1.0))

    assert flu / (cold + flu) == posterior
    assert [float(cold), float(flu)] == pytest.approx(np.exp(answer), rel=1e-13)
    assert float(posterior) == pytest.approx(
        np.exp(log_posterior(answer))[1], rel=1e-13
    )


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (0, "severe", Fraction(3, 6)),
        (0, "mild", Fraction(2, 6)),
        (0, "no", Fraction(1, 6)),
        (3, "yes", Fraction(4, 5)),
        (3, "no", Fraction(1, 5)),
    ],
)
def test_the_smoothed_tables_of_flu(field, value, expected):
    """Each field has its own number of values: three headaches, two coughs."""
    likelihood, _ = fit(PATIENTS, Lidstone(1.0), [COLD, FLU])
    query = [None] * 4
    query[field] = value

    assert float(expected) == pytest.approx(
        np.exp(likelihood(record(query)))[1], rel=1e-14
    )


#             outlook  temperature humidity windy   class
A = [("sunny", "cool", "normal", "false", "yes")] * 8
A += [("overcast", "cool", "high", "true", "no")]
B = [("rainy", "hot", "normal", "true", c) for c in ("yes", "no") * 3]
B += [
    ("sunny", "cool", "normal", "false", "yes"),
    ("sunny", "mild", "high", "false", "no"),
    ("overcast", "cool", "high", "true", "no"),
]


@pytest.mark.parametrize(
    ("rows", "query", "smoothing", "yes", "no"),
    [
        (A, A[0][:4], NoSmoothing(), Fraction(8, 9), 0),
        (A, A[0][:4], Lidstone(1.0), Fraction(81, 125), Fraction(1, 243)),
        (B, B[0][:4], NoSmoothing(), Fraction(3, 16), Fraction(12, 125)),
        (B, B[0][:4], Lidstone(1.0), Fraction(320, 3969), Fraction(25, 441)),
    ],
    ids=["A plain", "A alpha 1", "B plain", "B alpha 1"],
)
def test_the_weather_tables(rows, query, smoothing, yes, no):
    """Joint probabilities as exact fractions."""
    answer = joint(rows, query, smoothing, ["yes", "no"])

    assert [float(yes), float(no)] == pytest.approx(np.exp(answer), rel=1e-13)


@pytest.mark.parametrize("smoothing", [NoSmoothing(), Epsilon(1e-6), Lidstone(1.0)])
def test_the_prior_decides_where_nothing_is_known(smoothing):
    """Table C: four of five are yes, and there are no features."""
    rows = [(None, c) for c in ("yes", "yes", "yes", "yes", "no")]
    answer = joint(rows, (None,), smoothing, ["yes", "no"])

    assert [4 / 5, 1 / 5] == pytest.approx(np.exp(log_posterior(answer)), rel=1e-15)
