"""Sparse vectors of counts and measurements, and sums of sorted rows.

Contract of this file: `ids` is strictly increasing, and a row of zeros is left out,
so equal sums are equal arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    get_args,
)

import numpy as np

from app.errors import InvalidObservation
from app.kernels.counts import merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.kernels import Ints

LARGEST_COUNT: Final = 2**63 - 1
"""Sums beyond it are refused: 64 bits would make them negative."""


def require_room(total: float) -> None:
    """Raise if a sum of counts exceeds 64 bits.

    Raises
    ------
    InvalidObservation
        With the sum.
    """
    if not abs(total) <= LARGEST_COUNT:
        raise InvalidObservation(
            f"a sum of counts comes to {total:.4g}, which 64 bits do not hold; divide "
            "the counts"
        )


def require_choice(parameter: str, given: object, choices: Any) -> None:
    """Raise if a parameter is none of the strings of a `Literal`.

    Raises
    ------
    InvalidObservation
        With the choices.
    """
    if given not in get_args(choices):
        known = " or ".join(map(repr, get_args(choices)))
        raise InvalidObservation(f"{parameter} must be {known}, got {given!r}")


def added(left: Ints, right: Ints) -> Ints:
    """Return the sum of counts of one shape.

    Raises
    ------
    InvalidObservation
        If 64 bits do not hold it.
    """
    total: Ints = left + right
    # A sum that overflows has another sign than both terms.
    if np.count_nonzero(((total ^ left) & (total ^ right)) < 0):
        require_room(float(np.abs(left.astype(np.float64) + right).max()))
    return total


def totalled(counts: Ints) -> Ints:
    """Return the sum over the first axis of counts (n, ...).

    Raises
    ------
    InvalidObservation
        If 64 bits do not hold it.
    """
    # A float is precise enough to tell that a sum is too large; it rounds sums just
    # below the limit up to it.
    require_room(float(np.abs(counts.sum(axis=0, dtype=np.float64)).max(initial=0.0)))
    total: Ints = np.add.reduce(counts)
    return total


def integers(values: Sequence[int], what: str) -> Ints:
    """Return whole numbers as an array.

    Raises
    ------
    InvalidObservation
        If one is not a whole number of 64 bits.
    """
    found = np.array(values) if values else np.empty(0, np.int64)
    if found.dtype.kind != "i":
        # A single float would make the whole array floats; and True is not a number.
        wrong = next(
            n
            for n in values
            if not isinstance(n, int) or isinstance(n, bool) or abs(n) >= 2**63
        )
        raise InvalidObservation(f"{what} is a whole number of 64 bits, got {wrong!r}")
    return found.astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Numbers of one message by id.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Strictly increasing.
    values : ndarray of int64, shape (n,)
        The number of each id.

    Raises
    ------
    InvalidObservation
        If the lengths differ, or `ids` is not strictly increasing.
    """

    ids: Ints
    values: Ints

    holds: ClassVar[str] = "values"
    """The numbers, as an error names them."""

    def __post_init__(self) -> None:
        """Refuse arrays that are not a sparse vector."""
        if self.ids.dtype.kind != "i" or self.values.dtype.kind != "i":
            raise InvalidObservation(
                f"ids and {self.holds} must be whole numbers, "
                f"got {self.ids.dtype} and {self.values.dtype}"
            )
        if self.ids.ndim != 1 or self.ids.shape != self.values.shape:
            raise InvalidObservation(
                f"ids and {self.holds} must be one-dimensional and equally long, "
                f"got shapes {self.ids.shape} and {self.values.shape}"
            )
        # Not np.diff: ids use all 64 bits, and the difference of two of them
        # overflows.
        if np.count_nonzero(self.ids[1:] <= self.ids[:-1]):
            raise InvalidObservation("ids must be strictly increasing")
        self.require_in_range()

    def require_in_range(self) -> None:
        """Raise `InvalidObservation` if a value is out of its range."""

    @classmethod
    def of_sorted(cls, ids: Ints, values: Ints) -> Self:
        """Return the vector of a kernel's arrays, without checking them."""
        made = object.__new__(cls)
        object.__setattr__(made, "ids", ids)
        object.__setattr__(made, "values", values)
        return made

    @property
    def size(self) -> int:
        """Number of distinct ids."""
        return int(self.ids.size)

    def __eq__(self, other: object) -> bool:
        """Compare exactly, id by id."""
        if not isinstance(other, Vector):
            return NotImplemented
        return (
            self.holds == other.holds
            and np.array_equal(self.ids, other.ids)
            and np.array_equal(self.values, other.values)
        )

    # Equal vectors are equal values, but arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class SparseCounts(Vector):
    """How often each feature occurs in one message.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        Feature ids, strictly increasing.
    values : ndarray of int64, shape (n,)
        Occurrences of each feature, at least 1; also called `counts`.

    Raises
    ------
    InvalidObservation
        If the lengths differ, `ids` is not strictly increasing, or a count is
        below 1.

    Examples
    --------
    >>> x = SparseCounts.of({7: 2, -3: 1})
    >>> x.ids.tolist(), x.counts.tolist()
    ([-3, 7], [1, 2])
    """

    holds: ClassVar[str] = "counts"

    def require_in_range(self) -> None:
        """Refuse counts below 1."""
        if np.count_nonzero(self.values < 1):
            msg = f"counts must be at least 1, got {int(self.values.min())}"
            raise InvalidObservation(msg)

    @classmethod
    def of(cls, counts: Mapping[int, int]) -> Self:
        """Return the vector of a mapping from feature id to occurrences."""
        ids = integers(sorted(counts), "an id")
        return cls(ids, integers([counts[i] for i in ids.tolist()], "a count"))

    @property
    def counts(self) -> Ints:
        """Occurrences of each feature."""
        return self.values


FRACTION_BITS: Final = 16
"""Default position of the binary point: a step of 2**-16, about 1.5e-5."""
LIMIT: Final = 2**47 - 1
"""Largest magnitude of a value.  Unit: steps.

With the default step, values go to 2.1e9.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Measurements(Vector):
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

    def require_in_range(self) -> None:
        """Refuse values beyond `LIMIT`."""
        # Not np.abs: the smallest 64-bit integer has no absolute value.
        beyond = (self.values > LIMIT) | (self.values < -LIMIT)
        if np.count_nonzero(beyond):
            raise InvalidObservation(
                f"a measurement must be between -{LIMIT} and {LIMIT} steps, "
                f"got {int(self.values[beyond][0])}"
            )

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


def _steps(value: float, fraction_bits: int) -> int:
    """Return the nearest number of steps."""
    scaled = math.ldexp(value, fraction_bits) if abs(value) <= LIMIT else math.inf
    if not abs(scaled) <= LIMIT:
        raise InvalidObservation(
            f"a measurement must be finite and at most {LIMIT} steps of "
            f"2**-{fraction_bits}, got {value!r}"
        )
    return round(scaled)


def one_hot(label: int, n_classes: int) -> Ints:
    """Return a one for the class of a message, and zeros for the others, shape (K,).

    Raises
    ------
    InvalidObservation
        If `label` is not a whole number in ``range(n_classes)``.

    Examples
    --------
    >>> one_hot(1, 3).tolist()
    [0, 1, 0]
    """
    # True would be a mask of all classes.
    if isinstance(label, bool) or not isinstance(label, int | np.integer):
        msg = f"a label is a whole number in range({n_classes}), got {label!r}"
        raise InvalidObservation(msg)
    if not 0 <= label < n_classes:
        raise InvalidObservation(f"label {label} is not in range({n_classes})")
    signs = np.zeros(n_classes, np.int64)
    signs[label] = 1
    return signs


class Rows(NamedTuple):
    """Some counts of each of some features.

    Parameters
    ----------
    ids : ndarray of int64, shape (V,)
        Feature ids, strictly increasing.
    counts : ndarray of int64, shape (V, C)
        C counts of each feature (see `app.bayes.counts.FeatureCounts`).
    """

    ids: Ints
    counts: Ints

    def take(self, row: NDArray[np.intp]) -> Rows:
        """Return some of the rows, by their number."""
        return Rows(self.ids.take(row), self.counts.take(row, axis=0))


def any_of(counts: Ints) -> Ints:
    """Return a non-zero number for each row (n, C) that has a count, shape (n,)."""
    # Column by column: for two columns, ``any(axis=1)`` takes ten times as long with
    # 600 rows, and sixty times with 200,000.
    return reduce(np.bitwise_or, counts.T)


def collected(parts: Sequence[Rows]) -> Rows:
    """Return the sum of many parts, at least one, in one pass over all rows.

    Raises
    ------
    InvalidObservation
        If 64 bits do not hold it.
    """
    rows = Rows(*map(np.concatenate, zip(*parts, strict=True)))
    # Parts of one run follow each other.
    if (rows.ids[1:] > rows.ids[:-1]).all():
        left = any_of(rows.counts).nonzero()[0]
        return rows if left.size == rows.ids.size else rows.take(left)
    # Each id is in each part at most once.
    largest = max(int(rows.counts.max(initial=0)), -int(rows.counts.min(initial=0)))
    if len(parts) * largest > LARGEST_COUNT:
        # In Python's integers, which cannot overflow.
        ids, row = np.unique(rows.ids, return_inverse=True)
        sums = np.zeros((ids.size, rows.counts.shape[1]), object)
        np.add.at(sums, row, rows.counts.astype(object))
        require_room(np.abs(sums).max())
    return Rows(*merged(*rows))


def beside(classes: Sequence[Rows]) -> Rows:
    """Return the counts of classes that were summed one by one.

    Parameters
    ----------
    classes : sequence of Rows
        K counts of shape (n, C), each of one class.

    Returns
    -------
    Rows
        Counts of shape (n, C * K): the first count of each class, then the second.
    """
    # Takes half the time and memory of a sum of parts that are zero in all classes but
    # one.
    ids, row = np.unique(
        np.concatenate([alone.ids for alone in classes]), return_inverse=True
    )
    n, width, k = ids.size, classes[0].counts.shape[1], len(classes)
    found = np.zeros((n, width, k), np.int64)
    ends = np.cumsum([alone.ids.size for alone in classes])
    for c, (alone, end) in enumerate(zip(classes, ends, strict=True)):
        found[row[end - alone.ids.size : end], :, c] = alone.counts
    return Rows(ids, found.reshape(n, width * k))


def in_a_row(xs: Sequence[Vector]) -> tuple[Ints, Ints]:
    """Return the ids and the values of several messages, one after the other."""
    empty = np.empty(0, np.int64)
    return (
        np.concatenate([empty, *(x.ids for x in xs)]),
        np.concatenate([empty, *(x.values for x in xs)]),
    )


Counting = Literal["occurrences", "presence"]
"""The unit that a text model counts: occurrences, or messages with the feature."""
