"""Gaussian discriminant analysis: one covariance for all classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from app.bayes.likelihood import Contributions, Likelihood
from app.bayes.models.gaussian import (
    FLOOR,
    Added,
    Constant,
    Floor,
    mean,
    population_variance,
)
from app.bayes.moments import MeasurementModel
from app.bayes.sparse import FRACTION_BITS, Measurements, require_choice
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.bayes.moments import MomentSums


SMALLEST_STEP: Final = 1e-10
"""First fraction to try if a matrix has no Cholesky factor."""


class Shrinkage(Protocol):
    """A rule for the fraction of the identity in a shrunk correlation matrix."""

    def fraction(self, correlation: NDArray[np.float64], *, degrees: int) -> float:
        """Return the fraction of the identity, from 0 to 1.

        Parameters
        ----------
        correlation : ndarray of float64, shape (D, D)
            Pooled correlation matrix.
        degrees : int
            Degrees of freedom: messages minus classes with messages.
        """
        ...


@dataclass(frozen=True, slots=True)
class StatedFraction:
    """A fraction that the operator sets; 0 trusts the data alone.

    Raises
    ------
    InvalidObservation
        If `value` is not in [0, 1].
    """

    value: float

    def __post_init__(self) -> None:
        """Refuse values outside [0, 1]."""
        if not 0 <= self.value <= 1:
            msg = f"a shrinkage must be from 0 to 1, got {self.value!r}"
            raise InvalidObservation(msg)

    def fraction(self, correlation: NDArray[np.float64], *, degrees: int) -> float:
        """Return the stated fraction."""
        del correlation, degrees
        return self.value


@dataclass(frozen=True, slots=True)
class RaoBlackwellLedoitWolf:
    r"""The fraction with the least expected squared error, estimated from the data.

    Notes
    -----
    Ledoit and Wolf's estimator [1]_ needs the fourth moments of the data.
    This is its Rao-Blackwell form [2]_ (equation 17): the expectation of
    their estimator given the sample covariance *S* of normal data.  It is a
    function of the sums in the training state, so it can be unlearned.  For the
    covariance of normal data, its error is never larger [2]_; here it is applied
    to the correlations:

    .. math:: \rho = \min\Bigl(1,
        \frac{\frac{n - 2}{n} \mathrm{tr}\,S^2 + \mathrm{tr}^2 S}
        {(n + 2) (\mathrm{tr}\,S^2 - \mathrm{tr}^2 S / D)}\Bigr) .

    References
    ----------
    .. [1] O. Ledoit and M. Wolf, "A well-conditioned estimator for
       large-dimensional covariance matrices", Journal of Multivariate
       Analysis 88(2), 2004, pages 365-411.
    .. [2] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, "Shrinkage
       algorithms for MMSE covariance estimation", IEEE Transactions on Signal
       Processing 58(10), 2010, pages 5016-5029.
    """

    def fraction(self, correlation: NDArray[np.float64], *, degrees: int) -> float:
        """Return the estimated fraction; 1 with less than two degrees of freedom."""
        # With one degree, the formula gives 0.  But that covariance has rank one,
        # and trusting it alone is the worst choice.
        if degrees < 2:  # noqa: PLR2004
            return 1.0
        of_square = float((correlation**2).sum())
        squared = float(np.trace(correlation)) ** 2
        scatter = of_square - squared / max(1, correlation.shape[0])
        error = (degrees - 2) / degrees * of_square + squared
        if error >= (degrees + 2) * scatter:
            return 1.0
        return float(error / ((degrees + 2) * scatter))


def shrunk_factor(
    correlation: NDArray[np.float64], fraction: float
) -> NDArray[np.float64]:
    """Return the lower Cholesky factor of a shrunk correlation matrix.

    Parameters
    ----------
    correlation : ndarray of float64, shape (D, D)
        Symmetric, with ones on the diagonal.
    fraction : float
        Fraction of the identity.  While the result is singular, the fraction is
        raised tenfold.

    Returns
    -------
    ndarray of float64, shape (D, D)
        *L* with ``L @ L.T == (1 - fraction) * correlation + fraction * I``.
    """
    identity: NDArray[np.float64] = np.eye(correlation.shape[0])
    # A pivot below the rounding error of its computation is meaningless: the
    # factorisation of a singular matrix then succeeds or fails by chance.
    smallest = correlation.shape[0] * np.finfo(np.float64).eps
    while fraction < 1:
        shrunk = (1 - fraction) * correlation + fraction * identity
        try:
            factor = np.asarray(np.linalg.cholesky(shrunk), np.float64)
        except np.linalg.LinAlgError:
            pass
        else:
            if (np.diagonal(factor) ** 2).min(initial=1.0) > smallest:
                return factor
        fraction = max(SMALLEST_STEP, 10 * fraction)
    return identity


ESTIMATED = RaoBlackwellLedoitWolf()
"""The fraction that suits the number of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discriminant(MeasurementModel):
    r"""Gaussian event model with one full covariance for all classes.

    Parameters
    ----------
    fraction_bits : int, default 16
        Position of the binary point of the measurements.
    shrinkage : Shrinkage, default RaoBlackwellLedoitWolf()
        Rule for the fraction of the identity.
    floor : Floor or Added, default Floor(1e-9)
        A smallest variance, or a constant to add to each.
    constant : {"floor", "drop"}, default "floor"
        Whether a feature that varies in no class gets the floor or is left out.

    Notes
    -----
    Maximum likelihood [1]_ (proposition 3.14), with :math:`y` the class of a
    message and *n* the number of messages of all classes:

    .. math:: \mu_c = \frac{1}{n_c} \sum_{y = c} x, \quad
        \Sigma = \frac1n \sum (x - \mu_y)(x - \mu_y)^T
        = \frac1n \Bigl(\sum x x^T - \sum_c n_c \mu_c \mu_c^T\Bigr),

    .. math:: \log p(x \mid c) = -\frac12 \bigl(D \log 2\pi + \log|\Sigma|
        + (x - \mu_c)^T \Sigma^{-1} (x - \mu_c)\bigr) .

    The scatter is computed in exact integers.  The correlations are shrunk
    towards zero and the variances are kept, so units do not matter; if the
    matrix is still singular, the shrinkage is raised until it is not.

    A field takes part if all training messages have it.  A message that lacks
    some of them is scored by the marginal distribution of the others, which
    is exact.  A class without messages gets the mean of all messages.

    References
    ----------
    .. [1] H. Bachmann, *Mathematics for Machine Learning*, Nagoya University,
       2022, lecture 7.

    Examples
    --------
    >>> from app.bayes.models.discriminant import StatedFraction
    >>> model = Discriminant(shrinkage=StatedFraction(0.0))
    >>> from app.bayes.moments import MomentSums
    >>> state = MomentSums.zero(2)
    >>> points = ((0, 0), (2, 0), (1, 3)), ((4, 4), (6, 4), (5, 7))
    >>> for label, members in enumerate(points):
    ...     for x, y in members:
    ...         message = Measurements.of({1: x, 2: y})
    ...         state = state + model.observe(message, label=label, n_classes=2)
    >>> likelihood = model.estimate(state)
    >>> likelihood.covariance.round(12).tolist()
    [[0.666666666667, 0.0], [0.0, 2.0]]
    >>> ham, spam = likelihood(Measurements.of({1: 3, 2: 2}))
    >>> round(float(spam - ham), 9)
    -2.0
    """

    fraction_bits: int = FRACTION_BITS
    shrinkage: Shrinkage = ESTIMATED
    floor: Floor | Added = FLOOR
    constant: Constant = "floor"

    def __post_init__(self) -> None:
        """Refuse an unknown choice."""
        require_choice("constant", self.constant, Constant)

    def estimate(self, state: MomentSums) -> DiscriminantLikelihood:
        """Return the likelihood under a training state; O(D^3) work."""
        bits = self.fraction_bits
        n, trained = int(state.messages.sum()), state.messages > 0
        complete = (state.documents == state.messages).all(axis=1)
        scatter = _scatter(state, complete, fraction_bits=bits)
        variances = np.diagonal(scatter)
        if self.constant == "drop":
            varies = variances > 0
            complete[complete] = varies
            scatter = scatter[np.ix_(varies, varies)]
            variances = variances[varies]
        ids, sums = state.ids[complete], state.sums[complete]
        means = np.where(
            trained,
            mean(state.messages, sums, fraction_bits=bits),
            mean(np.array([n]), sums.sum(axis=1, keepdims=True), fraction_bits=bits),
        )
        whole = population_variance(
            state.documents.sum(axis=1),
            state.sums.sum(axis=1),
            state.squares.sum(axis=1),
            fraction_bits=bits,
        )
        raised = self.floor.raised(variances, whole, ids, fraction_bits=bits)
        scale = np.sqrt(raised)
        correlation = scatter / np.multiply.outer(scale, scale)
        np.fill_diagonal(correlation, 1.0)
        degrees = n - int(trained.sum())
        factor = shrunk_factor(
            correlation, self.shrinkage.fraction(correlation, degrees=degrees)
        )
        factor *= scale[:, np.newaxis]
        return DiscriminantLikelihood(ids, means, factor, 0.5**bits)


@dataclass(frozen=True, slots=True)
class DiscriminantLikelihood(Likelihood[Measurements]):
    """A fitted Gaussian discriminant; see `Discriminant.estimate`.

    Parameters
    ----------
    ids : ndarray of int64, shape (D,)
        The fields that take part, increasing.
    means : ndarray of float64, shape (D, K)
        Mean of each class.  Unit: that of x.
    factor : ndarray of float64, shape (D, D)
        Lower Cholesky factor of the shared covariance.  Unit: that of x.
    step : float or ndarray of float64, shape (D,)
        Size of one step of the measurements, or of those of each field.  Unit:
        that of x.
    """

    ids: NDArray[np.int64]
    means: NDArray[np.float64]
    factor: NDArray[np.float64]
    step: float | NDArray[np.float64]

    @property
    def covariance(self) -> NDArray[np.float64]:
        """The shared covariance, shape (D, D).  Unit: that of x, squared."""
        covariance: NDArray[np.float64] = self.factor @ self.factor.T
        return covariance

    def contributions(self, x: Measurements, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by field.

        The quadratic form is a sum over the fields of
        ``-d_i (covariance^-1 d)_i / 2`` with ``d = x - mean``.
        """
        # Imported here: importing scipy takes a quarter of a second, and the service
        # never uses this event model.
        from scipy.linalg import cho_solve  # noqa: PLC0415

        terms = np.zeros((self.means.shape[1], x.size))
        if not self.ids.size:
            nothing = np.zeros(terms.shape[0])
            seen = np.zeros(x.size, np.bool_)
            return Contributions(nothing, terms, seen, nothing[np.newaxis])
        row = self.ids.searchsorted(x.ids)
        seen = self.ids.take(row, mode="clip") == x.ids
        row = row[seen]
        factor = self.factor
        if row.size < self.ids.size:
            # The covariance of some of the fields is a block of the whole;
            # its factor comes from a QR decomposition of the rows, which
            # never fails, where squaring them and factoring again could.
            factor = np.asarray(np.linalg.qr(factor[row].T, mode="r")).T
        step = np.broadcast_to(self.step, self.ids.shape)[row]
        away = (x.values[seen] * step)[:, np.newaxis] - self.means[row]
        terms[:, seen] = (-0.5 * away * cho_solve((factor, True), away)).T
        constant = -0.5 * row.size * math.log(2 * math.pi) - float(
            np.log(np.abs(np.diagonal(factor))).sum()
        )
        constants = np.full(terms.shape[0], constant)
        totals = constants[np.newaxis] + terms.sum(axis=1)
        return Contributions(constants, terms, seen, totals)


def _scatter(
    state: MomentSums, complete: NDArray[np.bool_], *, fraction_bits: int
) -> NDArray[np.float64]:
    """Return the pooled covariance over *n*, shape (D, D).  Unit: that of x squared."""
    size = int(complete.sum())
    scatter = np.zeros((size, size))
    n = int(state.messages.sum())
    for c, messages in enumerate(state.messages.tolist()):
        if messages:
            sums = state.sums[complete, c]
            products = state.products[np.ix_(complete, complete)][:, :, c]
            # Exact until the one division.
            spread = messages * products - np.multiply.outer(sums, sums)
            scatter += (spread / (messages * n * 4**fraction_bits)).astype(np.float64)
    return scatter
