"""Feature names: the text behind the ids, for browsing.

The names of the features that are in the count tables, and of no others: a word
that only a forgotten message had is forgotten with it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, select

from app.storage import tables
from app.storage.counts import classes
from app.storage.counts import features as feature_rows
from app.storage.counts import moments as moment_rows
from app.storage.counts.features import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

# As in `app.storage.ledger`.
_FEATURES_PER_QUERY: Final = 500
_ADD: Final = {
    # WHERE as in `app.storage.counts.features`, and JSON as there.
    "sqlite": (
        "INSERT INTO feature_name (profile_id, view, feature, name)"
        " SELECT ?, ?, json_extract(value, '$[0]'), json_extract(value, '$[1]')"
        " FROM json_each(?) WHERE TRUE ON CONFLICT DO NOTHING"
    ),
    "postgresql": (
        "INSERT INTO feature_name (profile_id, view, feature, name)"
        " SELECT %(profile_id)s, %(view)s, t.* FROM unnest("
        "%(features)s::bigint[], %(names)s::text[]) AS t (feature, name)"
        " ON CONFLICT DO NOTHING"
    ),
}
_NOTED: Final = {
    "sqlite": (
        "SELECT feature FROM feature_name WHERE profile_id = ? AND view = ?"
        " AND feature IN (SELECT value FROM json_each(?))"
    ),
    # OFFSET 0 as in `app.storage.counts.features`.
    "postgresql": (
        "SELECT t.feature FROM unnest(%(features)s::bigint[]) AS t (feature)"
        " CROSS JOIN LATERAL (SELECT 1 FROM feature_name"
        " WHERE profile_id = %(profile_id)s AND view = %(view)s"
        " AND feature = t.feature OFFSET 0) AS n"
    ),
}


def add(
    connection: Connection, profile_id: int, view: str, names: Mapping[int, str]
) -> None:
    """Note the text of features; those that are noted already stay."""
    texts = {feature: _storable(names[feature]) for feature in sorted(names)}
    if not texts:
        return
    statement = _ADD[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        rows = json.dumps(list(texts.items()))
        connection.exec_driver_sql(statement, (profile_id, view, rows))
    else:
        columns = {"features": list(texts), "names": list(texts.values())}
        connection.exec_driver_sql(
            statement, {"profile_id": profile_id, "view": view, **columns}
        )


def already_noted(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> set[int]:
    """Return those of the features whose text is noted."""
    asked = sorted(features)
    statement = _NOTED[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql(
            statement, (profile_id, view, json.dumps(asked))
        )
    else:
        found = connection.exec_driver_sql(
            statement, {"profile_id": profile_id, "view": view, "features": asked}
        )
    return set(found.scalars())


def find(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> dict[int, str]:
    """Return the text of those features that have one."""
    table = tables.feature_name
    found = {}
    for chunk in _chunks(features):
        rows = connection.execute(
            select(table.c.feature, table.c.name).where(
                table.c.profile_id == profile_id,
                table.c.view == view,
                table.c.feature.in_(chunk),
            )
        )
        found.update({row.feature: row.name for row in rows})
    return found


def pages(
    connection: Connection, profile_id: int, view: str, *, size: int
) -> Iterator[dict[int, str]]:
    """Give the text of all features of a view, by id, `size` at a time."""
    table = tables.feature_name
    after: int | None = None
    while True:
        asked = (
            select(table.c.feature, table.c.name)
            .where(table.c.profile_id == profile_id, table.c.view == view)
            .order_by(table.c.feature)
            .limit(size)
        )
        if after is not None:
            asked = asked.where(table.c.feature > after)
        page = {row.feature: row.name for row in connection.execute(asked)}
        if not page:
            return
        yield page
        after = max(page)


def drop_uncounted(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> None:
    """Drop the text of those features that no message has any more."""
    table, groups = tables.feature_name, tables.class_count
    # One look at the key for each epoch and label, until each has been found.  A
    # subquery without them would walk all counts of the profile for each feature.
    keys = [
        (
            Key(profile_id, row.epoch, view, row.label),
            moment_rows if row.kind == classes.MOMENTS else feature_rows,
        )
        for row in connection.execute(
            select(groups.c.epoch, groups.c.label, groups.c.kind)
            .where(groups.c.profile_id == profile_id, groups.c.view == view)
            # Where most messages are, most features are.
            .order_by(groups.c.messages.desc())
        )
    ]
    for chunk in _chunks(features):
        left = set(chunk)
        for key, rows in keys:
            if not left:
                break
            left -= rows.counted(connection, key, sorted(left))
        if not left:
            continue
        connection.execute(
            delete(table).where(
                table.c.profile_id == profile_id,
                table.c.view == view,
                table.c.feature.in_(sorted(left)),
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


def _chunks(features: Iterable[int]) -> Iterable[list[int]]:
    """Give the features in lists that fit into one query."""
    asked = list(features)
    for start in range(0, len(asked), _FEATURES_PER_QUERY):
        yield asked[start : start + _FEATURES_PER_QUERY]


def texts_of(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    texts: dict[str, dict[int, str]] = {}
    for row in rows:
        forgets = row.kind == "message" and row.label is None
        if forgets or row.encoded_names is None:
            continue
        ids = row.ids(profile.labels)
        for view, given in row.names.items():
            # As many names as features, or `ScoredRow.of` would have refused.
            named = zip(ids[view].tolist(), given, strict=True)
            texts.setdefault(view, {}).update((i, text) for i, text in named if text)
    return texts


def unnoted(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
    gained: set[int],
) -> dict[int, str]:
    """Return the text of features that gained messages and have none noted."""
    # Most words of a message are noted: to look them up here costs as much as
    # to insert them in vain, but holds no lock.  Only a fold drops names, and it
    # moves the mark.
    kept = texts.keys() & gained
    noted = already_noted(connection, profile_id, view, kept)
    return {feature: texts[feature] for feature in sorted(kept - noted)}
