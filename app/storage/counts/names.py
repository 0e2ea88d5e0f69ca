"""Feature names: the text behind the ids, for browsing.

The rows of the ledger have the text of their features.  Contract of this file: the
table has the text of sealed features (`app.storage.upkeep.retention`), whose rows have
it no more.  So a word that only a forgotten message had is forgotten with its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import delete, select

from app.storage import tables
from app.storage.database.statements import BulkInsert, BulkLookup, chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

_TABLE: Final = tables.feature_name
_OF_VIEW: Final = ("profile_id", "view")
_ADD: Final = BulkInsert(
    _TABLE,
    shared=_OF_VIEW,
    given=("feature", "name"),
    conflict="ON CONFLICT DO NOTHING",
)
_STORED: Final = BulkLookup(_TABLE, shared=_OF_VIEW, given="feature")


def add(
    connection: Connection, profile_id: int, view: str, names: Mapping[int, str]
) -> None:
    """Store the text of features; those that are stored already stay."""
    features = sorted(names)
    if features:
        texts = [_storable(names[feature]) for feature in features]
        shared = {"profile_id": profile_id, "view": view}
        _ADD.run(connection, shared, features, texts)


def find(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> dict[int, str]:
    """Return the text of those features that have one."""
    found = {}
    for chunk in chunks(features):
        rows = connection.execute(
            select(_TABLE.c.feature, _TABLE.c.name).where(
                _TABLE.c.profile_id == profile_id,
                _TABLE.c.view == view,
                _TABLE.c.feature.in_(chunk),
            )
        )
        found.update({row.feature: row.name for row in rows})
    return found


def all_of(connection: Connection, profile_id: int, view: str) -> dict[int, str]:
    """Return the text of all features of a view that are in the table."""
    asked = select(_TABLE.c.feature, _TABLE.c.name).where(
        _TABLE.c.profile_id == profile_id, _TABLE.c.view == view
    )
    return {row.feature: row.name for row in connection.execute(asked)}


def stored(
    connection: Connection, profile_id: int, view: str, features: Sequence[int]
) -> set[int]:
    """Return those of the features that have a text."""
    shared = {"profile_id": profile_id, "view": view}
    return _STORED.run(connection, shared, features)


def drop(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> None:
    """Drop the text of features."""
    for chunk in chunks(features):
        connection.execute(
            delete(_TABLE).where(
                _TABLE.c.profile_id == profile_id,
                _TABLE.c.view == view,
                _TABLE.c.feature.in_(chunk),
            )
        )


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


def missing(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
) -> dict[int, str]:
    """Return the text of those features that have none stored."""
    # Most words of a message are stored: to look them up here costs as much as
    # to insert them in vain, but holds no lock.
    asked = sorted(texts)
    there = stored(connection, profile_id, view, asked)
    return {feature: texts[feature] for feature in asked if feature not in there}
