"""How wide is a feature, and what if it does not vary at all?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.bayes.powers import Integers

Constant = Literal["floor", "drop"]
"""What becomes of a feature that is constant: the floor, or it is left out."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A variance is at least a fraction of the largest variance.

    Parameters
    ----------
    fraction : float, default 1e-9
        Share of the largest variance of any feature over all messages.

    Raises
    ------
    InvalidObservation
        If `fraction` is not in [0, 1].

    Notes
    -----
    The floor is never below one twelfth of a squared step: that is the
    variance of the rounding itself, uniform within a step, so no measurement
    is known better.  It keeps every density finite.

    Both come from the sums over all messages, never from the last batch:
    scikit-learn takes the largest variance of the current batch, and its
    result depends on how the data was cut.

    References
    ----------
    .. [1] W. F. Sheppard, "On the calculation of the most probable values of
       frequency-constants", Proceedings of the London Mathematical Society
       29, 1898, pages 353-380.
    """

    fraction: float = 1e-9

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0 <= self.fraction <= 1:
            msg = f"a variance floor is a share from 0 to 1, got {self.fraction!r}"
            raise InvalidObservation(msg)

    def level(self, whole: NDArray[np.float64], *, fraction_bits: int) -> float:
        """Return the smallest variance that is allowed.  Unit: that of x squared.

        Parameters
        ----------
        whole : ndarray of float64
            The variance of each feature over all messages.
        fraction_bits : int
            Of the fixed point (`app.bayes.measurements`).
        """
        rounding = 0.25**fraction_bits / 12
        return max(rounding, self.fraction * float(whole.max(initial=0.0)))


def mean(
    count: NDArray[np.int64], total: Integers, *, fraction_bits: int
) -> NDArray[np.float64]:
    """Return ``total / count``, 0 where there is no message, in units of x."""
    # A quotient of Python integers is rounded once, however large they are, and a
    # power of two rounds nothing.
    means: NDArray[np.float64] = (total / np.maximum(count, 1)).astype(np.float64)
    means *= 0.5**fraction_bits
    return means


def population_variance(
    count: NDArray[np.int64],
    total: Integers,
    squares: Integers,
    *,
    fraction_bits: int,
) -> NDArray[np.float64]:
    """Return the variance over *n* (not *n* - 1), 0 where there is no message.

    Notes
    -----
    ``(n S2 - S1**2) / n**2`` with exact integers: the difference that loses
    all digits in floating point loses none here.
    """
    safe = np.maximum(count, 1).astype(object)
    # Without a message there is nothing in the sums either.
    spread = safe * squares - total * total
    variances: NDArray[np.float64] = (spread / (safe * safe)).astype(np.float64)
    variances *= 0.25**fraction_bits
    return variances
