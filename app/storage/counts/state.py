"""State: the counts, the rows not folded into them yet, and the text of features.

Contract of this file: a mark is moved under its lock, in the transaction that changes
the counts.

The rows of the ledger have the text of their features.  The table has the text of
sealed features (`app.storage.retention`), whose rows have it no more, so a word that
only a forgotten message had is forgotten with its row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import bindparam, delete, select, update

from app.bayes.state import History, State
from app.classifier.decay import weighted
from app.errors import InconsistentCounts
from app.ledger.entry import sum_by_epoch
from app.storage import tables
from app.storage.counts import runs
from app.storage.database.statements import insert_into, where_in
from app.storage.ledger import batches_after
from app.storage.profiles import require_revision

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection, Select

    from app.classifier.decay import Decay
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

_FOLD: Final = tables.fold
_MINE: Final = _FOLD.c.profile_id == bindparam("profile_id")
_READ: Final = select(_FOLD.c.folded_revision).where(_MINE)
# The lock of the fold's own row, so that feedback waits for no fold, and no fold for
# another (PostgreSQL; on SQLite the transaction is the lock).
_TRY_LOCK: Final = _READ.with_for_update(skip_locked=True)


def read(connection: Connection, profile_id: int) -> int | None:
    """Return the mark of a profile; None if that is gone."""
    found = connection.execute(_READ, {"profile_id": profile_id}).scalar()
    return None if found is None else int(found)


def folded_revision(connection: Connection, profile_id: int) -> int:
    """Return the revision up to which the counts hold every row.

    It is 0 where the profile is gone, since nothing of it is left to hold.
    """
    return read(connection, profile_id) or 0


def try_lock(connection: Connection, profile_id: int) -> int | None:
    """Take the lock of a mark and return it.

    None if another has it, or the profile is gone.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile_id : int
        Whose mark.
    """
    held = connection.execute(_TRY_LOCK, {"profile_id": profile_id}).scalar()
    return None if held is None else int(held)


def move(connection: Connection, profile_id: int, revision: int) -> None:
    """Say how far the counts are; the caller holds the lock."""
    connection.execute(
        update(_FOLD)
        .where(_FOLD.c.profile_id == profile_id)
        .values(folded_revision=revision)
    )


def unfolded(connection: Connection, profile: ProfileRow) -> Iterator[History]:
    """Yield the differences of the ledger from the counts.

    Some rows at a time; the sum of all, and of the counts, is what was learned.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that the profile has not.
    """
    folded = folded_revision(connection, profile.id)
    for some in batches_after(connection, profile.id, revision=folded):
        yield sum_by_epoch(some, profile.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The training state that the database holds.

    Parameters
    ----------
    tables : State
        Per view, the sum of the counts and the unfolded ledger rows; no
        entry for a view that nothing was learned of.
    revision : int
        Of the newest ledger row in that sum.
    folded_revision : int
        Of the newest ledger row that the counts hold.
    """

    tables: State
    revision: int
    folded_revision: int


def load(
    connection: Connection, profile: ProfileRow, decay: Decay | None = None
) -> StoredState:
    """Return the state of a profile.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot, so that a fold or a
        feedback meanwhile changes nothing.
    profile : ProfileRow
        Whose state.
    decay : Decay or None
        What the counts of each epoch weigh in the sum; None: all alike.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    CorruptVector
        If something stored cannot be read.
    InconsistentCounts
        If the database holds a label that the profile has not, or takes something
        back that it never learned.
    """
    revision = require_revision(connection, profile)
    parts = [runs.total(connection, profile, decay=decay)]
    for epochs in unfolded(connection, profile):
        parts += weighted(epochs, decay)
    tables = State.sum(parts)
    for view, x in tables.items():
        if x.negative:
            msg = (
                f"A count of {view} is below zero: something was taken back that was "
                "never learned. `postbayes audit` shows the difference; restore a "
                "backup."
            )
            raise InconsistentCounts(msg)
    return StoredState(
        tables=tables,
        revision=revision,
        folded_revision=folded_revision(connection, profile.id),
    )


def load_by_epoch(connection: Connection, profile: ProfileRow) -> History:
    """Return the state of a profile, taken apart by epoch.

    Raises
    ------
    CorruptVector, InconsistentCounts
        As `app.storage.counts.runs.load`.
    """
    held = runs.load(connection, profile, "counts")
    return History.sum([held, *unfolded(connection, profile)])


_NAMES: Final = tables.feature_name


def add_names(
    connection: Connection, profile_id: int, view: str, names: Mapping[int, str]
) -> None:
    """Store the text of features; those that are stored already stay."""
    key = {"profile_id": profile_id, "view": view}
    rows = [
        {**key, "feature": feature, "name": _storable(names[feature])}
        for feature in sorted(names)
    ]
    if rows:
        connection.execute(
            insert_into(connection, _NAMES).on_conflict_do_nothing(), rows
        )


def find_names(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> dict[int, str]:
    """Return the text of those features that have one."""
    asked = _names_of(profile_id, view)
    rows = where_in(connection, asked, _NAMES.c.feature, features)
    return {row.feature: row.name for row in rows}


def names_of_view(connection: Connection, profile_id: int, view: str) -> dict[int, str]:
    """Return the text of all features of a view that are in the table."""
    rows = connection.execute(_names_of(profile_id, view))
    return {row.feature: row.name for row in rows}


def _names_of(profile_id: int, view: str) -> Select[Any]:
    return select(_NAMES.c.feature, _NAMES.c.name).where(
        _NAMES.c.profile_id == profile_id, _NAMES.c.view == view
    )


def drop_names(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> None:
    """Drop the text of features."""
    gone = delete(_NAMES).where(
        _NAMES.c.profile_id == profile_id, _NAMES.c.view == view
    )
    where_in(connection, gone, _NAMES.c.feature, features)


def _storable(name: str) -> str:
    """Return a name as both databases take it."""
    # NUL is a character of Unicode, but not of PostgreSQL's text; a lone
    # surrogate is not one of UTF-8.
    if name.isascii() and "\0" not in name:
        return name
    mended = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return mended.encode("utf-8", "replace").decode()


def texts_of(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    # Messages share most of their words: each is looked at once, not once a message.
    ids: dict[str, list[NDArray[np.int64]]] = {}
    texts: dict[str, list[str]] = {}
    for row in rows:
        forgets = row.kind == "message" and row.label is None
        if forgets or row.encoded_names is None:
            continue
        of_row = row.ids(profile.labels)
        for view, given in row.names.items():
            # As many names as features, or `ScoredRow.of` would have refused.
            ids.setdefault(view, []).append(of_row[view])
            texts.setdefault(view, []).extend(given)
    found: dict[str, dict[int, str]] = {}
    for view, written in texts.items():
        features, first = np.unique(np.concatenate(ids[view]), return_index=True)
        found[view] = {
            feature: text
            for feature, place in zip(features.tolist(), first.tolist(), strict=True)
            if (text := written[place])
        }
    return found


def missing_names(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
) -> dict[int, str]:
    """Return the text of those features that have none stored."""
    # Most words of a message are stored: to look them up here costs as much as
    # to insert them in vain, but holds no lock.
    asked = sorted(texts)
    there = find_names(connection, profile_id, view, asked)
    return {feature: texts[feature] for feature in asked if feature not in there}
