"""Feature names: the text of features.

The rows of the ledger have the text of their features.  The table has the text of
sealed features (`app.storage.retention`), whose rows have it no more, so a word that
only a forgotten message had is forgotten with its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, select

from app.features.observation import first_names
from app.storage import tables
from app.storage.database.dialect import insert_into, where_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection, Select

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

_TABLE: Final = tables.feature_name


def add(
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
            insert_into(connection, _TABLE).on_conflict_do_nothing(), rows
        )


def find(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> dict[int, str]:
    """Return the text of those features that have one."""
    asked = _of(profile_id, view)
    rows = where_in(connection, asked, _TABLE.c.feature, features)
    return {row.feature: row.name for row in rows}


def of_view(connection: Connection, profile_id: int, view: str) -> dict[int, str]:
    """Return the text of all features of a view that are in the table."""
    rows = connection.execute(_of(profile_id, view))
    return {row.feature: row.name for row in rows}


def _of(profile_id: int, view: str) -> Select[Any]:
    found = select(*_TABLE.c["feature", "name"])
    return found.filter_by(profile_id=profile_id, view=view)


def drop(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> None:
    """Drop the text of features."""
    statement = delete(_TABLE).filter_by(profile_id=profile_id, view=view)
    where_in(connection, statement, _TABLE.c.feature, features)


def _storable(name: str) -> str:
    """Return a name as both databases take it."""
    # NUL is a character of Unicode, but not of PostgreSQL's text; a lone
    # surrogate is not one of UTF-8.
    if name.isascii() and "\0" not in name:
        return name
    mended = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return mended.encode("utf-8", "replace").decode()


def of_rows(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    return first_names(
        (row.ids(profile.labels), row.names)
        for row in rows
        if row.encoded_names is not None
        and (row.kind != "message" or row.label is not None)
    )
