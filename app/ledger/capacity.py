"""Capacity: the counts that a profile can hold in 64 bits.

Contract of this file: while a profile is within these limits, every sum over its rows,
months, labels or features fits into 64 bits, and so does its product with the weight of
a month (`app.classifier.decay.PARTS`).  Mail cannot exceed the limits, but an imported
file can, so its amounts are checked when it is read, and again together with the
amounts of the profile to which it is added.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.measurements import LIMIT, MOST_FIELDS
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation
from app.ledger.vector import MOST_VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.bayes.state import State
    from app.features.observation import Payload

MOST_MESSAGES: Final = 2**31 - 1
"""Most messages of a view: their sums of measurements fit into three words
(`app.bayes.measurements.LIMIT`), and bogofilter has the same limit."""
MOST_OCCURRENCES: Final = 2**50
"""Most occurrences of all features of a view: half a million for each message."""
_LONGEST_VIEW: Final = 255


@dataclass(slots=True)
class Amount:
    """The absolute amounts of one view.

    Parameters
    ----------
    messages : float
        Messages of all labels.
    occurrences : float
        Occurrences of all features, and the messages that have them.
    measured : float
        The largest sum of measurements.  Unit: the largest measurement of one
        message.
    fields : set of int
        The fields that were measured.
    """

    messages: float = 0.0
    occurrences: float = 0.0
    measured: float = 0.0
    fields: set[int] = field(default_factory=set)


class Amounts:
    """The amounts of each view."""

    def __init__(self) -> None:
        self._views: dict[str, Amount] = {}

    def add(self, state: State) -> None:
        """Add the magnitudes of statistics.

        Raises
        ------
        InvalidObservation
            If they exceed the limits.
        """
        for view, counts in state.features.items():
            self.of(view).occurrences += _size(counts.columns)
        for view, sums in state.moments.items():
            amount = self.of(view)
            amount.fields.update(sums.ids.tolist())
            amount.measured += max(
                _most(sums.pairs),
                _most(sums.first) / LIMIT,
                _most(sums.second) / LIMIT**2,
            )
        for view, x in state.items():
            amount = self.of(view)
            amount.messages += _size(x.messages)
            _require_room(view, amount)

    def add_message(self, views: Mapping[str, Payload], *, times: int) -> None:
        """Add a message that is learned, forgotten, or both.

        Raises
        ------
        InvalidObservation
            If it exceeds the limits.
        """
        for view, x in views.items():
            amount = self.of(view)
            amount.messages += times
            if isinstance(x, SparseCounts):
                amount.occurrences += times * (_size(x.counts) + x.size)
            else:
                amount.fields.update(x.ids.tolist())
                amount.measured += times
            _require_room(view, amount)

    def beside(self, held: Amounts) -> None:
        """Raise if these and other amounts together exceed the limits.

        Raises
        ------
        InvalidObservation
            With the sum.
        """
        for view, amount in self._views.items():
            other = held._views.get(view, Amount())
            both = Amount(
                amount.messages + other.messages,
                amount.occurrences + other.occurrences,
                amount.measured + other.measured,
                amount.fields | other.fields,
            )
            _require_room(view, both)
        if len(self._views.keys() | held._views.keys()) > MOST_VIEWS:
            raise InvalidObservation(_TOO_MANY_VIEWS)

    def of(self, view: str) -> Amount:
        """Return the amount of a view, which the caller increases.

        Raises
        ------
        InvalidObservation
            If the name is invalid, or there are too many views.
        """
        if view not in self._views:
            require_view(view)
            if len(self._views) == MOST_VIEWS:
                raise InvalidObservation(_TOO_MANY_VIEWS)
            self._views[view] = Amount()
        return self._views[view]


_TOO_MANY_VIEWS: Final = f"there are more than {MOST_VIEWS} views"


def require_view(view: str) -> None:
    """Raise unless both databases can store the name of a view.

    Raises
    ------
    InvalidObservation
        If it is not printable, or more than 255 bytes.
    """
    if not view.isprintable() or len(view.encode()) > _LONGEST_VIEW:
        raise InvalidObservation(f"a view cannot be named {view[:_LONGEST_VIEW]!r}")


def _require_room(view: str, amount: Amount) -> None:
    """Raise if an amount exceeds the limits of a profile."""
    for name, value, most in (
        ("messages", max(amount.messages, amount.measured), MOST_MESSAGES),
        ("occurrences", amount.occurrences, MOST_OCCURRENCES),
        ("fields", len(amount.fields), MOST_FIELDS),
    ):
        if value > most:
            msg = f"{view!r} comes to {value:.4g} {name}, more than {most:,}"
            raise InvalidObservation(msg)


def _size(counts: NDArray[np.int64]) -> float:
    """Return the sum of magnitudes, which may exceed 64 bits."""
    return float(np.abs(counts.astype(np.float64)).sum())


def _most(values: NDArray[np.int64]) -> float:
    """Return the largest magnitude, of integers of any size."""
    return float(np.abs(values.astype(np.float64)).max(initial=0.0))
