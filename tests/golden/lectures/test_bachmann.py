"""A mail filter of five messages, and a Gaussian discriminant by hand.

H. Bachmann, Mathematics for Machine Learning, Nagoya University, 2022,
lecture 7.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.linear import discriminant_form
from app.bayes.models.discrete import Bernoulli
from app.bayes.models.gaussian import Discriminant
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_odds, log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import Measurements, SparseCounts

HAM, SPAM = 0, 1
MESSAGES = [
    (HAM, "Do math today"),
    (HAM, "Buy book"),
    (SPAM, "Buy"),
    (SPAM, "Today do math drugs"),
    (SPAM, "Buy drugs book today"),
]
VOCABULARY = ["book", "buy", "do", "drugs", "math", "today"]
QUERY = "Buy book today"


def words(text):
    """Return the words of a message, case folded."""
    return SparseCounts.of({VOCABULARY.index(w): 1 for w in text.lower().split()})


def log_joint(smoothing):
    """Return the log-joint of the query under the plain class shares."""
    model = Bernoulli(smoothing=smoothing)
    state = FeatureCounts.sum(
        [
            model.observe(words(text), label=label, n_classes=2)
            for label, text in MESSAGES
        ],
        n_classes=2,
    )
    return model.estimate(state)(words(QUERY)) + FittedPrior().log_prior(state.messages)


@pytest.mark.parametrize(
    ("smoothing", "ham", "spam", "posterior"),
    [
        (
            NoSmoothing(),
            Fraction(1, 32) * Fraction(2, 5),
            Fraction(16, 729) * Fraction(3, 5),
            Fraction(256, 499),
        ),
        (
            Lidstone(1.0),
            Fraction(3, 320),
            Fraction(972, 78125),
            Fraction(20736, 36361),
        ),
    ],
    ids=["no smoothing", "(count + 1) / (messages + 2)"],
)
def test_the_mail_filter_of_five_messages(smoothing, ham, spam, posterior):
    """Both joint probabilities and the posterior are the lecture's fractions."""
    joint = log_joint(smoothing)

    assert spam / (ham + spam) == posterior
    assert [float(ham), float(spam)] == pytest.approx(np.exp(joint), rel=1e-13)
    assert float(posterior) == pytest.approx(
        np.exp(log_posterior(joint))[SPAM], rel=1e-13
    )


CLASSES = [[(0, 0), (2, 0), (1, 3)], [(4, 4), (6, 4), (5, 7)]]


@pytest.fixture
def discriminant():
    """The fitted discriminant of six points, and its state."""
    model = Discriminant(shrinkage=0.0)
    state = MomentSums.sum(
        [
            model.observe(Measurements.of({1: x, 2: y}), label=label, n_classes=2)
            for label, points in enumerate(CLASSES)
            for x, y in points
        ],
        n_classes=2,
    )
    return model.estimate(state), state


def test_the_parameters_of_the_discriminant(discriminant):
    """Proposition 3.14: share, means and the covariance over all points."""
    likelihood, state = discriminant

    assert [0.5, 0.5] == np.exp(FittedPrior().log_prior(state.messages)).tolist()
    assert [[1.0, 5.0], [1.0, 5.0]] == likelihood.means.tolist()
    assert np.allclose([[2 / 3, 0], [0, 2]], likelihood.covariance, rtol=1e-14, atol=0)


def test_the_log_odds_of_the_discriminant(discriminant):
    """6 x + 2 y - 24, as a line and at every point of a grid."""
    likelihood, state = discriminant
    prior = FittedPrior().log_prior(state.messages)
    weights, bias = discriminant_form(likelihood, prior).difference(
        positive=1, negative=0
    )

    assert [6.0, 2.0] == pytest.approx(weights.tolist(), rel=1e-13)
    assert -24 == pytest.approx(bias, rel=1e-13)
    for x in range(-2, 9):
        for y in range(-2, 9):
            joint = likelihood(Measurements.of({1: x, 2: y})) + prior

            assert 6 * x + 2 * y - 24 == pytest.approx(
                log_odds(joint, np.array([False, True])), abs=1e-11
            )
