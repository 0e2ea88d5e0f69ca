"""Bulk rows: sums of many messages in the ledger, from an import or a pruning.

An import or a pruning is a series of consecutive sums of bounded size, with one source
and one time, written in one transaction.  Folds, followers, audits and undo treat them
like any other row of the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from app.ledger.entry import LedgerRow
from app.ledger.sums import Amounts, encode_sum
from app.ledger.undo import Selection, in_force
from app.ledger.vector import decode_names, encode_names
from app.storage import ledger, profiles, runs, undo_records
from app.storage.fold import unfolded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from app.bayes.state import State
    from app.storage.profiles import ProfileRow

    Names = Mapping[str, Mapping[int, str]]


FEATURES_PER_ROW: Final = 5_000
"""Largest number of features in a row, because a fold sums at least one row at once.

Appending a million features takes 0.7 s on SQLite, with 8.0 bytes each.
"""


class EncodedSum(NamedTuple):
    """A sum, ready to be stored: its month, its vector and its names."""

    epoch: int
    vector: bytes
    encoded_names: bytes | None

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The text of its features, decoded at each call; empty if not stored."""
        return {} if self.encoded_names is None else decode_names(self.encoded_names)


def encoded(
    sums: Mapping[int, State], labels: Sequence[str], names: Names | None = None
) -> list[EncodedSum]:
    """Return statistics, encoded for rows of bounded size.

    Parameters
    ----------
    names : mapping of str to mapping of int to str, optional
        The text of features, view by view, as far as it is to be kept.

    Raises
    ------
    InvalidObservation
        If the statistics are of another number of classes, or a sum is too large.
    """
    return [
        EncodedSum(epoch, encode_sum(part, labels), _names_of(part, names or {}))
        for epoch in sorted(sums)
        for part in sums[epoch].pieces(at_most=FEATURES_PER_ROW)
    ]


def append_sums(
    connection: Connection,
    profile: ProfileRow,
    sums: Iterable[EncodedSum],
    *,
    source: str,
    time: datetime,
) -> list[LedgerRow]:
    """Write sums into the ledger, all or none.

    Parameters
    ----------
    sums : iterable of EncodedSum
        From `encoded`, with the labels of the profile.  Negative counts must not exceed
        the existing ones, or they can never be folded: the caller must ensure this
        while it holds the lock of the profile (`app.storage.profiles.lock`).

    Returns
    -------
    list of LedgerRow
        The rows, in the order of their revisions; none where nothing is added.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    first = profiles.lock(connection, profile) + 1
    rows = [
        LedgerRow.of_sum(
            profile_id=profile.id,
            revision=revision,
            feature_set=profile.feature_set,
            source=source,
            time=time,
            **each._asdict(),
        )
        for revision, each in enumerate(sums, first)
    ]
    ledger.write(connection, profile.id, rows)
    return rows


def _names_of(part: State, names: Names) -> bytes | None:
    """Return the text of a part's features, or None if there is none."""
    found = {
        view: tuple(names[view].get(i, "") for i in x.ids.tolist())
        for view, x in part.items()
        if view in names
    }
    return encode_names(found) if any(map(any, found.values())) else None


def held(connection: Connection, profile: ProfileRow) -> Amounts:
    """Return the amounts that a profile has counted, folded or not.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `app.storage.fold.unfolded`.
    InvalidObservation
        If the unfolded rows alone exceed 64 bits.
    """
    found = Amounts()
    found.add(runs.total(connection, profile))
    for epochs in unfolded(connection, profile):
        for views in epochs.values():
            found.add(views)
    return found


def sums_in_force(connection: Connection, profile_id: int, source: str) -> bool | None:
    """Return whether sums of a source are in force; None if they were never learned."""
    rows = undo_records.matching(connection, profile_id, Selection(source=source))
    sums = [row.revision for row in rows if row.is_sum]
    taken = undo_records.taken_by(connection, profile_id, sums)
    standing = in_force(undo_records.all_of(connection, profile_id))
    return any(not taken.get(each, set()) & standing for each in sums) if sums else None
