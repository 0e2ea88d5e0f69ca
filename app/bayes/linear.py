"""Linear form: naive Bayes as weights and a bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from app.bayes.counts import FeatureCounts
    from app.bayes.models.discrete import (
        Bernoulli,
        BernoulliLikelihood,
        CategoricalLikelihood,
        Multinomial,
        MultinomialLikelihood,
    )
    from app.bayes.models.gaussian import DiscriminantLikelihood, GaussianLikelihood
    from app.kernels import Floats, Ints


@dataclass(frozen=True, slots=True)
class LinearForm:
    r"""A log-joint as a linear function of the message, up to a common term.

    Parameters
    ----------
    ids : ndarray of int64, shape (V,)
        The features, increasing.
    weights : ndarray of float64, shape (V, K)
        Nats per unit of each feature.
    level : ndarray of float64, shape (K,)
        Value at the centre, the log-prior included.  Unit: nats.
    centre : ndarray of float64, shape (V,)
        The message at which the form has that value.  Unit: that of x.

    Notes
    -----
    For two classes, :math:`w = w_+ - w_-` and :math:`b = b_+ - b_-` make
    :math:`w \cdot x + b` the log-odds, and the posterior a logistic function
    of it: :math:`P(+ \mid x) = 1 / (1 + e^{-(w \cdot x + b)})` [1]_.

    The multinomial and the Gaussian form omit terms that are the same for all
    classes (the multinomial coefficient, the term in :math:`x^2`).

    The form is :math:`w \cdot (x - m) + h`, with the centre *m* and the level *h*.
    Where the measurements are large and close together, like Unix times, the terms
    of :math:`w \cdot x + b` are large and cancel, and with them all their digits.

    References
    ----------
    .. [1] K. Weinberger, *CS4780 Machine Learning for Intelligent Systems*,
       Cornell University, 2023, lecture on naive Bayes.
    """

    ids: Ints
    weights: Floats
    level: Floats
    centre: Floats

    def __post_init__(self) -> None:
        """Refuse infinite weights: no bias would go with them."""
        if not np.isfinite(self.weights).all():
            raise InvalidObservation(
                "a probability is 0, so there is no linear form: a weight would be "
                "infinite; smooth the estimates"
            )

    @property
    def bias(self) -> Floats:
        """Value at x = 0, shape (K,).  Unit: nats."""
        return np.asarray(self.level - self.centre @ self.weights)

    def scores(self, ids: Ints, values: Floats) -> Floats:
        """Return ``weights . x + bias`` of each class, shape (K,).

        Parameters
        ----------
        ids : ndarray of int64, shape (n,)
            Features of the message; those without a weight are left out, and those
            that it lacks have the value of the centre.
        values : ndarray of float64, shape (n,)
            Value of each: counts, ones, or measurements in units of x.
        """
        known = np.isin(ids, self.ids)
        row = self.ids.searchsorted(ids[known])
        away = values[known] - self.centre[row]
        return np.asarray(away @ self.weights[row] + self.level)

    def difference(self, *, positive: int, negative: int) -> tuple[Floats, float]:
        """Return the weights (V,) and the bias of the log-odds of two classes."""
        return (
            self.weights[:, positive] - self.weights[:, negative],
            float(self.bias[positive] - self.bias[negative]),
        )


def multinomial_form(
    model: Multinomial, state: FeatureCounts, log_prior: Floats
) -> LinearForm:
    r"""Return the linear form of a multinomial model, over x = counts.

    Notes
    -----
    .. math:: w_{ci} = \log \theta_{ci}, \quad b_c = \log P(c)

    With ``counting="presence"`` it is a function of presence (ones).
    """
    likelihood = model.estimate(state)
    ids = _features(model.vocabulary, state)
    return categorical_form(likelihood, ids, log_prior)


def categorical_form(
    likelihood: BernoulliLikelihood | CategoricalLikelihood | MultinomialLikelihood,
    ids: Ints,
    log_prior: Floats,
) -> LinearForm:
    r"""Return the linear form of a categorical model, over x = 1 for each value.

    Parameters
    ----------
    likelihood : CategoricalLikelihood
        The model.
    ids : ndarray of int64, shape (V,)
        The values, increasing.
    log_prior : ndarray of float64, shape (K,)
        Unit: nats.

    Notes
    -----
    .. math:: w_{cfv} = \log \theta_{cfv}, \quad b_c = \log P(c)
    """
    once = SparseCounts(ids, np.ones(ids.size, np.int64))
    weights = likelihood.contributions(once).features
    return LinearForm(ids, weights, log_prior, np.zeros(ids.size))


def bernoulli_form(
    model: Bernoulli, state: FeatureCounts, log_prior: Floats
) -> LinearForm:
    r"""Return the linear form of a Bernoulli model, over x = presence.

    Raises
    ------
    InvalidObservation
        If the absence of a feature is impossible in some class, which can
        happen without smoothing: its weight would be infinite.

    Notes
    -----
    .. math:: w_{ci} = \log \frac{\theta_{ci}}{1 - \theta_{ci}}, \quad
        b_c = \log P(c) + \sum_i \log (1 - \theta_{ci})
    """
    likelihood = model.estimate(state)
    if likelihood.impossible.any():
        raise InvalidObservation(
            "a feature is in every message of a class: without smoothing "
            "its weight would be infinite"
        )
    ids = _features(model.vocabulary, state)
    return categorical_form(likelihood, ids, log_prior + likelihood.absent)


def _features(declared: int | None, state: FeatureCounts) -> Ints:
    """Return the declared features, or those that training has seen."""
    return state.ids if declared is None else np.arange(declared)


def gaussian_form(likelihood: GaussianLikelihood, log_prior: Floats) -> LinearForm:
    r"""Return the linear form of Gaussian naive Bayes with shared variances.

    Raises
    ------
    InvalidObservation
        If each class has its own variances: the score is quadratic.

    Notes
    -----
    With the mean :math:`m_i` of the class means as the centre,

    .. math:: w_{ci} = \frac{\mu_{ci} - m_i}{\sigma^2_i}, \quad
        h_c = \log P(c) - \sum_i \frac{(\mu_{ci} - m_i)^2}{2 \sigma^2_i}
    """
    variances = likelihood.variances
    if (variances != variances[:, :1]).any():
        msg = 'variances differ between the classes; use variances="shared"'
        raise InvalidObservation(msg)
    centre, means = _centred(likelihood.means)
    weights = means / variances
    level = log_prior - (weights * means).sum(axis=0) / 2
    return LinearForm(likelihood.ids, weights, level, centre)


def discriminant_form(
    likelihood: DiscriminantLikelihood, log_prior: Floats
) -> LinearForm:
    r"""Return the linear form of the Gaussian discriminant.

    It holds for messages that have all the fields.

    Notes
    -----
    With the mean *m* of the class means as the centre,

    .. math:: w_c = \Sigma^{-1} (\mu_c - m), \quad
        h_c = \log P(c) - \frac12 (\mu_c - m)^T \Sigma^{-1} (\mu_c - m)
    """
    centre, means = _centred(likelihood.means)
    half = np.linalg.solve(likelihood.factor, means)
    weights = np.linalg.solve(likelihood.factor.T, half)
    level = log_prior - (half**2).sum(axis=0) / 2
    return LinearForm(likelihood.ids, weights, level, centre)


def _centred(means: Floats) -> tuple[Floats, Floats]:
    """Return the mean of the class means (D, K), and their differences from it."""
    centre = means.mean(axis=1)
    return centre, means - centre[:, np.newaxis]
