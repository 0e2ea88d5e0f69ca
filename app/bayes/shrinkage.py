"""How far is a covariance trusted that few messages have taught?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_STEP: Final = 1e-10
"""First fraction that is tried where a matrix has no Cholesky factor."""


class Shrinkage(Protocol):
    """A rule for the share of the target in a shrunk correlation matrix."""

    def fraction(self, correlation: NDArray[np.float64], *, degrees: int) -> float:
        """Return the share of the identity, from 0 to 1.

        Parameters
        ----------
        correlation : ndarray of float64, shape (D, D)
            Pooled correlation matrix.
        degrees : int
            Degrees of freedom: messages minus classes that have one.
        """
        ...


@dataclass(frozen=True, slots=True)
class StatedFraction:
    """A share that the operator states; 0 trusts the data alone.

    Raises
    ------
    InvalidObservation
        If `value` is not in [0, 1].
    """

    value: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.value <= 1:
            msg = f"a shrinkage is a share from 0 to 1, got {self.value!r}"
            raise InvalidObservation(msg)

    def fraction(self, correlation: NDArray[np.float64], *, degrees: int) -> float:
        """Return the stated share."""
        del correlation, degrees
        return self.value


@dataclass(frozen=True, slots=True)
class LedoitWolf:
    r"""The share of least expected squared error, estimated from the data.

    Notes
    -----
    Ledoit and Wolf's estimator [1]_ needs the fourth moments of the data.
    This is its Rao-Blackwell form [2]_ (equation 17): the expectation of
    their estimator given the sample covariance *S* of normal data.  So it is a
    function of the sums that the training state has, it can be unlearned, and
    for normal data its error is never larger:

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
        """Return the estimated share; 1 with less than two degrees of freedom."""
        # The formula gives 0 for one degree: that covariance has rank one, and
        # trusting it alone is the worst there is to do.
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
        Share of the identity.  Where the result is singular, the share is
        raised tenfold until it is not.

    Returns
    -------
    ndarray of float64, shape (D, D)
        *L* with ``L @ L.T == (1 - fraction) * correlation + fraction * I``.
    """
    identity: NDArray[np.float64] = np.eye(correlation.shape[0])
    # A pivot below the rounding error of its computation is no number: the
    # factorisation of a singular matrix succeeds with it, or fails, by luck.
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
