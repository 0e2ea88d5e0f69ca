"""Capacity: the counts that a profile can hold in 64 bits.

Contract of this file: while a profile has room, no sum over its rows, months, labels
or features leaves 64 bits, and neither does what half-lives make of one
(`app.classifier.decay.PARTS`).  Mail cannot fill it; what somebody else has written
can, so that it is looked at when it is read, and once more beside what it is added to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import Float, cast, func, select

from app.bayes.counts import FeatureCounts
from app.bayes.measurements import LIMIT, MOST_FIELDS
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation
from app.ledger.vector import MOST_VIEWS
from app.storage import tables
from app.storage.fold.state import unfolded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Column, ColumnElement, Connection, Table

    from app.bayes.statistics import Statistics
    from app.features.observation import Payload
    from app.storage.profiles import ProfileRow

MOST_MESSAGES: Final = 2**31 - 1
"""Messages of a view, at most: as many have sums of measurements in three words
(`app.bayes.measurements.LIMIT`), and bogofilter counts no more."""
MOST_OCCURRENCES: Final = 2**50
"""Occurrences of all features of a view, at most.  Each of as many messages may have
half a million features."""
_LONGEST_VIEW: Final = 255
_WORD: Final = 2.0**64


@dataclass(slots=True)
class Amount:
    """How much one view comes to, whatever its signs.

    Parameters
    ----------
    messages : float
        Of all labels.
    occurrences : float
        Of all features, and the messages that have them.
    measured : float
        The largest sum of measurements.  Unit: that of a message which measures as
        much as one can.
    fields : set of int
        What was measured.
    """

    messages: float = 0.0
    occurrences: float = 0.0
    measured: float = 0.0
    fields: set[int] = field(default_factory=set)


class Amounts:
    """How much has been counted, by view."""

    def __init__(self) -> None:
        self._views: dict[str, Amount] = {}

    def add(self, views: Mapping[str, Statistics]) -> None:
        """Take note of statistics, whatever their signs.

        Raises
        ------
        InvalidObservation
            If there is no room for them.
        """
        for view, x in views.items():
            amount = self.of(view)
            amount.messages += _size(x.messages)
            if isinstance(x, FeatureCounts):
                amount.occurrences += _size(x.columns)
            else:
                amount.fields.update(x.ids.tolist())
                amount.measured += max(
                    _most(x.pairs),
                    _most(x.first) / LIMIT,
                    _most(x.second) / LIMIT**2,
                )
            _require_room(view, amount)

    def add_message(self, views: Mapping[str, Payload], *, times: int) -> None:
        """Take note of a message that is learned, forgotten or both.

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
        msg = f"a view cannot be named {view[:_LONGEST_VIEW]!r}"
        raise InvalidObservation(msg)


def held(connection: Connection, profile: ProfileRow) -> Amounts:
    """Return how much a profile has counted, folded or not.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot.
    profile : ProfileRow
        Whose.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `app.storage.fold.state.unfolded`.
    InvalidObservation
        If what is not folded has no room by itself.
    """
    found = Amounts()
    moments = tables.moment_sum

    def by_view(
        value: ColumnElement[float], table: Table, *columns: str
    ) -> list[tuple[str, float]]:
        found = connection.execute(
            select(table.c.view, value)
            .where(table.c.profile_id == profile.id)
            .group_by(table.c.view, *(table.c[name] for name in columns))
        )
        return [(view, amount) for view, amount in found]

    def summed(column: Column[int]) -> ColumnElement[float]:
        # As floats: the sum of integers may leave 64 bits, and SQLite fails then.
        return func.sum(cast(column, Float))

    of_class, of_feature = tables.class_count, tables.feature_count
    for view, messages in by_view(summed(of_class.c.messages), of_class):
        found.of(view).messages += messages
    counts = summed(of_feature.c.occurrences) + summed(of_feature.c.messages)
    for view, occurrences in by_view(counts, of_feature):
        found.of(view).occurrences += occurrences
    largest = func.max(func.abs(cast(moments.c.high, Float)) + 1)
    for view, most in by_view(largest, moments, "epoch", "label"):
        found.of(view).measured += most * _WORD / LIMIT**2
    for view, each in connection.execute(
        select(moments.c.view, moments.c.field)
        .where(moments.c.profile_id == profile.id)
        .distinct()
    ):
        found.of(view).fields.add(each)
    for epochs in unfolded(connection, profile):
        for views in epochs.values():
            found.add(views)
    return found


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
