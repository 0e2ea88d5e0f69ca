"""Measurements: the measured values of a message in fixed point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

FRACTION_BITS: Final = 16
"""Default position of the binary point: a step of 2**-16, about 1.5e-5."""
LIMIT: Final = 2**47 - 1
"""Largest magnitude of a value.  Unit: steps.

The product of two values is below 2**94, so three words of 32 bits hold it,
and 2**31 messages may be summed before a 64-bit column of words overflows
(`app.ledger.sums`).  With the default step, values go to 2.1e9.
"""
MOST_FIELDS: Final = 128
"""Largest number of fields of a view; the sums of their products grow with its square.

Mail has 16 (`app.features.measured`).
"""


@dataclass(frozen=True, slots=True, eq=False)
class Measurements:
    """The measured values of one message.

    Parameters
    ----------
    ids : ndarray of int64, shape (D,)
        Field ids, strictly increasing.
    values : ndarray of int64, shape (D,)
        Value of each field.  Unit: steps, that is 2**-fraction_bits.

    Raises
    ------
    InvalidObservation
        If the lengths differ, `ids` is not strictly increasing, or a value is
        beyond `LIMIT`.

    Notes
    -----
    Values are rounded once, here.  Their sums are integers: exact, the same in
    any order, and reversible.

    Examples
    --------
    >>> x = Measurements.of({4: 0.5, 1: -2.0})
    >>> x.ids.tolist(), x.values.tolist()
    ([1, 4], [-131072, 32768])
    """

    ids: NDArray[np.int64]
    values: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Refuse arrays that are not a set of measurements."""
        if self.ids.dtype.kind != "i" or self.values.dtype.kind != "i":
            msg = (
                "ids and values must be whole numbers, "
                f"got {self.ids.dtype} and {self.values.dtype}"
            )
            raise InvalidObservation(msg)
        if self.ids.ndim != 1 or self.ids.shape != self.values.shape:
            msg = (
                "ids and values must be one-dimensional and equally long, "
                f"got shapes {self.ids.shape} and {self.values.shape}"
            )
            raise InvalidObservation(msg)
        if np.count_nonzero(self.ids[1:] <= self.ids[:-1]):
            msg = "ids must be strictly increasing"
            raise InvalidObservation(msg)
        # Not np.abs: the smallest 64-bit integer has no absolute value.
        beyond = (self.values > LIMIT) | (self.values < -LIMIT)
        if np.count_nonzero(beyond):
            msg = (
                f"a measurement must be between -{LIMIT} and {LIMIT} steps, "
                f"got {int(self.values[beyond][0])}"
            )
            raise InvalidObservation(msg)

    @classmethod
    def of(
        cls, values: Mapping[int, float], *, fraction_bits: int = FRACTION_BITS
    ) -> Self:
        """Return measurements rounded to fixed point, ties to even.

        Parameters
        ----------
        values : mapping of int to float
            Value of each field.
        fraction_bits : int, default 16
            Position of the binary point: a step is 2**-fraction_bits.

        Raises
        ------
        InvalidObservation
            If a value is not finite or too large.
        """
        ids = sorted(values)
        steps = [_steps(values[i], fraction_bits) for i in ids]
        return cls(np.array(ids, np.int64), np.array(steps, np.int64))

    @classmethod
    def of_sorted(cls, ids: NDArray[np.int64], values: NDArray[np.int64]) -> Self:
        """Return measurements without checks: in order, and within `LIMIT`."""
        made = object.__new__(cls)
        object.__setattr__(made, "ids", ids)
        object.__setattr__(made, "values", values)
        return made

    @property
    def size(self) -> int:
        """Number of fields."""
        return int(self.ids.size)

    def __eq__(self, other: object) -> bool:
        """Compare exactly, field by field."""
        if not isinstance(other, Measurements):
            return NotImplemented
        return np.array_equal(self.ids, other.ids) and np.array_equal(
            self.values, other.values
        )

    # Equal measurements are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]


def _steps(value: float, fraction_bits: int) -> int:
    """Return the nearest number of steps."""
    scaled = math.ldexp(value, fraction_bits) if abs(value) <= LIMIT else math.inf
    if not abs(scaled) <= LIMIT:
        msg = (
            f"a measurement must be finite and at most {LIMIT} steps of "
            f"2**-{fraction_bits}, got {value!r}"
        )
        raise InvalidObservation(msg)
    return round(scaled)
