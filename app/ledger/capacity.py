"""Capacity: the counts that a profile can hold in 64 bits.

Contract of this file: while a profile has room, no sum over its rows, months, labels
or features leaves 64 bits, and neither does its product with the weight of a month
(`app.classifier.decay.PARTS`).  Mail cannot exhaust the room; a file written by
somebody else can, so its amounts are checked when it is read, and once more together
with the amounts of the profile that it is added to.
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
"""Messages of a view, at most: as many have sums of measurements in three words
(`app.bayes.measurements.LIMIT`), and bogofilter counts no more."""
MOST_OCCURRENCES: Final = 2**50
"""Occurrences of all features of a view, at most.  Each of as many messages may have
half a million features."""
_LONGEST_VIEW: Final = 255


@dataclass(slots=True)
class Amount:
    """The amounts of one view, whatever their signs.

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
        """Add statistics, whatever their signs.

        Raises
        ------
        InvalidObservation
            If there is no room for them.
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
        """Add a message that is learned, forgotten or both.

        Raises
        ------
        InvalidObservation
            If there is no room for it.
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
        """Raise if there is no room for these beside others.

        Raises
        ------
        InvalidObservation
            With what it comes to.
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
        """Return how much a view comes to, to be added to.

        Raises
        ------
        InvalidObservation
            If no view can have this name, or there are too many.
        """
        if view not in self._views:
            require_view(view)
            if len(self._views) == MOST_VIEWS:
                raise InvalidObservation(_TOO_MANY_VIEWS)
            self._views[view] = Amount()
        return self._views[view]


_TOO_MANY_VIEWS: Final = f"there are more than {MOST_VIEWS} views"


def require_view(view: str) -> None:
    """Raise if no view can have a name, on both databases.

    Raises
    ------
    InvalidObservation
        If it is not printable, or more than 255 bytes.
    """
    if not view.isprintable() or len(view.encode()) > _LONGEST_VIEW:
        raise InvalidObservation(f"a view cannot be named {view[:_LONGEST_VIEW]!r}")


def _require_room(view: str, amount: Amount) -> None:
    """Raise if it is more than a profile may count."""
    for name, value, most in (
        ("messages", max(amount.messages, amount.measured), MOST_MESSAGES),
        ("occurrences", amount.occurrences, MOST_OCCURRENCES),
        ("fields", len(amount.fields), MOST_FIELDS),
    ):
        if value > most:
            msg = f"{view!r} comes to {value:.4g} {name}, more than {most:,}"
            raise InvalidObservation(msg)


def _size(counts: NDArray[np.int64]) -> float:
    """Return the sum of magnitudes, which may leave 64 bits."""
    return float(np.abs(counts.astype(np.float64)).sum())


def _most(values: NDArray[np.int64]) -> float:
    """Return the largest magnitude, of integers of any size."""
    return float(np.abs(values.astype(np.float64)).max(initial=0.0))
