"""Bulk rows: sums of many messages in the ledger, from an import or a pruning.

An import or a pruning is a series of consecutive sums of bounded size, with one source
and one time, written in one transaction.  Folds, followers, audits and undo treat them
like any other row of the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from sqlalchemy import exists, select

from app.bayes.counts import FeatureCounts
from app.bayes.state import History, State
from app.errors import InvalidObservation, Irreversible
from app.ledger.entry import PRUNED, LedgerRow
from app.ledger.sums import Amounts, encode_sum
from app.ledger.undo import Selection, in_force
from app.ledger.vector import decode_names, encode_names
from app.storage import ledger, profiles, runs, tables, undo_records
from app.storage.database.dialect import chunks
from app.storage.fold import folded_revision, unfolded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from app.storage.profiles import ProfileRow

    Names = Mapping[str, Mapping[int, str]]
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray


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
    sums : mapping of int to State
        The sums of each month.
    labels : sequence of str
        Name of each class index.
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
    sums: Mapping[int, State],
    *,
    source: str,
    time: datetime,
    names: Names | None = None,
) -> list[LedgerRow]:
    """Write statistics into the ledger, all or none.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Profile of the ledger.
    sums : mapping of int to State
        The sums to add to each month.  Negative counts must not exceed the existing
        ones, or they can never be folded: the caller must ensure this while it holds
        the lock of the profile (`app.storage.profiles.lock`).
    source : str
        The source: ``import:NAME``, ``prune``.
    time : datetime
        The time, with a time zone.
    names : mapping of str to mapping of int to str, optional
        The text of features, view by view, as far as it is to be kept.

    Returns
    -------
    list of LedgerRow
        The rows, in the order of their revisions; none where nothing is added.

    Raises
    ------
    InvalidObservation
        If the statistics are of another number of classes than the profile, a
        view is of another kind in the tables, or a sum is too large.
    ProfileReplaced
        If the profile is gone.
    """
    profiles.lock(connection, profile)
    require_kinds(connection, profile, sums)
    made = encoded(sums, profile.labels, names)
    return append_encoded(connection, profile, made, source=source, time=time)


def append_encoded(
    connection: Connection,
    profile: ProfileRow,
    sums: Iterable[EncodedSum],
    *,
    source: str,
    time: datetime,
) -> list[LedgerRow]:
    """Write sums from `encoded` into the ledger; otherwise like `append_sums`."""
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


def require_kinds(
    connection: Connection, profile: ProfileRow, sums: Mapping[int, State]
) -> None:
    """Raise if a view has another kind than its stored counts.

    Raises
    ------
    InvalidObservation
        With both kinds.
    """
    table = tables.class_count
    found = connection.execute(
        select(table.c.view, table.c.kind)
        .where(table.c.profile_id == profile.id)
        .distinct()
    )
    kinds = {row.view: row.kind for row in found}
    for views in sums.values():
        for view, x in views.items():
            if kinds.setdefault(view, x.kind) != x.kind:
                raise InvalidObservation(
                    f"The view {view!r} of the profile {profile.name!r} holds "
                    f"{kinds[view]}, and {x.kind} cannot be added to it."
                )


def held(connection: Connection, profile: ProfileRow) -> Amounts:
    """Return the amounts that a profile has counted, folded or not.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot.
    profile : ProfileRow
        The profile.

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


# An old feature that few messages had, or that does not separate the labels, is hardly
# evidence and takes as much space as any other.  Pruning removes such features from the
# counts by sums in the ledger, so followers, audits and undo include it.  The number of
# messages of each label stays the same, because they were learned; only these features
# are gone.
#
# Features of vectors that are still in the ledger are not pruned, because forgetting or
# moving such a message subtracts its counts.  So unfolded feedback does not change the
# result: its vectors are in the ledger.

_LEDGER: Final = tables.ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The features to prune, at one revision.

    Parameters
    ----------
    revision : int
        Revision of the newest ledger row at the time of the search.
    sums : History
        The sums to add to each month, with negative counts.
    features : mapping of str to int
        Number of features to remove, view by view.
    rows : int
        Number of rows of counts to remove.
    """

    revision: int
    sums: History
    features: Mapping[str, int]
    rows: int


def find(
    connection: Connection,
    profile: ProfileRow,
    *,
    views: Collection[str],
    max_messages: int,
    before_epoch: int,
    weak: Mapping[str, NDArray[np.int64]],
) -> Pruning | None:
    """Return the features to prune, or None while more than feedback is unfolded.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`.
    profile : ProfileRow
        Profile of the counts.
    views : collection of str
        The views to search: views of text, whose number of features is unbounded.
    max_messages : int
        Features of more messages, over all labels and months, are kept.
    before_epoch : int
        Features of messages of this month or later are kept.
    weak : mapping of str to ndarray of int64
        Weak features, view by view, which are removed however many messages have
        them (`app.classifier.explain`).
    """
    revision = profiles.require_revision(connection, profile)
    folded = folded_revision(connection, profile.id)
    if _moved_since(connection, profile.id, revision=folded):
        return None
    epochs = runs.load(connection, profile, "counts")
    months: dict[str, dict[int, FeatureCounts]] = {}
    for month, state in epochs.items():
        for view, x in state.features.items():
            months.setdefault(view, {})[month] = x
    rare = {
        view: _rare(
            months[view],
            max_messages=max_messages,
            before_epoch=before_epoch,
            weak=weak.get(view, np.empty(0, np.int64)),
        )
        for view in sorted(months.keys() & set(views))
    }
    rare = _without_needed(connection, profile, rare)
    sums = History()
    rows: int = 0
    for month in sorted(epochs):
        for view, x in epochs[month].features.items():
            found = np.isin(x.ids, rare.get(view, ()), assume_unique=True)
            if not found.any():
                continue
            part = FeatureCounts(
                np.zeros_like(x.messages), x.ids[found], x.columns[found]
            )
            rows += int(part.documents.astype(np.bool_).sum())
            sums += History({month: State({view: -part})})
    features = {view: int(ids.size) for view, ids in rare.items() if ids.size}
    return Pruning(revision=revision, sums=sums, features=features, rows=rows)


def carry_out(
    connection: Connection, profile: ProfileRow, pruning: Pruning, *, time: datetime
) -> list[LedgerRow]:
    """Remove the found features, and return the rows of the ledger that do so.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Profile of the ledger.
    pruning : Pruning
        From `find`.
    time : datetime
        The time of the pruning.

    Raises
    ------
    Irreversible
        If counts were pruned, imported or undone since; nothing is pruned.
    """
    profiles.lock(connection, profile)
    if _moved_since(connection, profile.id, revision=pruning.revision):
        raise Irreversible(
            "a pruning, import or undo ran in the meantime; nothing was pruned, so "
            "try again"
        )
    return append_sums(connection, profile, pruning.sums, source=PRUNED, time=time)


def _moved_since(connection: Connection, profile_id: int, *, revision: int) -> bool:
    """Whether anything was undone, imported or pruned after a revision."""
    # Feedback does not change the result: its vectors are in the ledger.
    return connection.execute(
        select(
            exists().where(
                _LEDGER.c.profile_id == profile_id,
                _LEDGER.c.revision > revision,
                (_LEDGER.c.kind == "sum") | _LEDGER.c.undo.is_not(None),
            )
        )
    ).scalar_one()


def _rare(
    months: Mapping[int, FeatureCounts],
    *,
    max_messages: int,
    before_epoch: int,
    weak: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the old features of a view that few messages had, or that are weak."""
    every = State.sum(State(view=x) for x in months.values()).features["view"]
    recent = [x.ids for month, x in months.items() if month >= before_epoch]
    few = every.documents.sum(axis=1) <= max_messages
    goes = every.ids[few | np.isin(every.ids, weak)]
    return np.setdiff1d(goes, np.concatenate([np.empty(0, np.int64), *recent]))


def _without_needed(
    connection: Connection, profile: ProfileRow, rare: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """Return the features without those that a vector in the ledger still has."""
    left = dict(rare)
    # All months: an old message may have been moved today.
    revisions = connection.execute(
        select(_LEDGER.c.revision).where(
            _LEDGER.c.profile_id == profile.id, _LEDGER.c.vector.is_not(None)
        )
    ).scalars()
    for chunk in chunks(revisions.all()):
        needed: dict[str, list[NDArray[np.int64]]] = {}
        for row in ledger.get_many(connection, profile.id, chunk):
            # A pruning itself needs nothing: its features are gone.
            if row.source == PRUNED and row.kind == "sum":
                continue
            for view, ids in row.ids(profile.labels).items():
                needed.setdefault(view, []).append(ids)
        for view in left.keys() & needed.keys():
            left[view] = np.setdiff1d(left[view], np.concatenate(needed[view]))
    return left


def sums_in_force(connection: Connection, profile_id: int, source: str) -> bool:
    """Return whether sums of a source are learned, and were not taken back."""
    rows = undo_records.matching(connection, profile_id, Selection(source=source))
    sums = [row.revision for row in rows if row.is_sum]
    taken = undo_records.taken_by(connection, profile_id, sums)
    standing = in_force(undo_records.all_of(connection, profile_id))
    return any(not taken.get(revision, set()) & standing for revision in sums)
