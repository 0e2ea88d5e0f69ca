"""How are the counts of many features read and written at once?

Contract of this file: the hot statements are SQL as it stands, one per dialect,
because SQLAlchemy's handling of one dictionary per row costs as much as SQLite's
upsert (3.6 µs).  Many rows are one statement.  PostgreSQL takes a column at a time, as
arrays, which saves a message to the server per row; and each statement there leaves
the planner no choice but one look at the key per feature.  SQLite takes JSON: between
two steps of a statement its driver waits for the lock of the interpreter, up to 5 ms,
while it holds the write lock of the database.  Beside a thread that never rests, 5,000
upserts in 300,000 rows took 2.3 s one by one, and 0.14 s so; alone both take 0.09 s.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection


LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
"""The smallest and the largest id of a feature."""


class Key(NamedTuple):
    """What the rows of a statement have in common."""

    profile_id: int
    epoch: int
    view: str
    label: str


class Columns(NamedTuple):
    """What they do not: equally long lists."""

    features: list[int]
    occurrences: list[int]
    messages: list[int]


_GAIN: Final = {
    # WHERE: or ON could be that of a join (https://sqlite.org/lang_upsert.html).
    "sqlite": """
        INSERT INTO feature_count
            (profile_id, epoch, view, label, feature, occurrences, messages)
        SELECT ?, ?, ?, ?,
            json_extract(value, '$[0]'),
            json_extract(value, '$[1]'),
            json_extract(value, '$[2]')
        FROM json_each(?)
        WHERE TRUE
        ON CONFLICT (profile_id, epoch, view, label, feature) DO UPDATE SET
            occurrences = feature_count.occurrences + excluded.occurrences,
            messages = feature_count.messages + excluded.messages
    """,
    "postgresql": """
        INSERT INTO feature_count
            (profile_id, epoch, view, label, feature, occurrences, messages)
        SELECT %(profile_id)s, %(epoch)s, %(view)s, %(label)s, t.*
        FROM unnest(
            %(features)s::bigint[], %(occurrences)s::bigint[], %(messages)s::bigint[]
        ) AS t (feature, occurrences, messages)
        ON CONFLICT (profile_id, epoch, view, label, feature) DO UPDATE SET
            occurrences = feature_count.occurrences + excluded.occurrences,
            messages = feature_count.messages + excluded.messages
    """,
}

# On SQLite the rows that lose something are taken out, and what is left of them is put
# in again; on PostgreSQL the statement computes it.  Either way they are read first,
# which is safe because whoever writes holds the profile's fold lock.
_FOUND: Final = """
    SELECT
        group_concat(feature), group_concat(occurrences), group_concat(messages)
    FROM feature_count
    WHERE profile_id = ? AND epoch = ? AND view = ? AND label = ?
        AND feature IN (SELECT value FROM json_each(?))
"""
_DROP: Final = """
    DELETE FROM feature_count
    WHERE profile_id = ? AND epoch = ? AND view = ? AND label = ?
        AND feature IN (SELECT value FROM json_each(?))
"""
# Not UPDATE ... FROM unnest(...): while a young table has no statistics, the planner
# takes the four fixed columns of the key for selective, and walks all features of the
# label, in the worst case once per feature: 16 s for 1,200 of 50,000.  OFFSET 0 keeps
# it from rewriting the lookup into a join.  What becomes zero is not written before it
# is deleted: most features of a message that is taken back are its own.
_LOSE: Final = """
    WITH found AS MATERIALIZED (
        SELECT t.feature, c.place,
            c.occurrences + t.occurrences AS occurrences,
            c.messages + t.messages AS messages
        FROM unnest(
            %(features)s::bigint[], %(occurrences)s::bigint[], %(messages)s::bigint[]
        ) AS t (feature, occurrences, messages)
        CROSS JOIN LATERAL (
            SELECT ctid AS place, occurrences, messages FROM feature_count
            WHERE profile_id = %(profile_id)s AND epoch = %(epoch)s
                AND view = %(view)s AND label = %(label)s AND feature = t.feature
            OFFSET 0
        ) AS c
    ),
    dropped AS (
        DELETE FROM feature_count WHERE ctid = ANY (ARRAY(
            SELECT place FROM found WHERE occurrences = 0 AND messages = 0
        ))
    ),
    kept AS (
        INSERT INTO feature_count
            (profile_id, epoch, view, label, feature, occurrences, messages)
        SELECT %(profile_id)s, %(epoch)s, %(view)s, %(label)s, feature,
            occurrences, messages
        FROM found
        WHERE occurrences <> 0 OR messages <> 0
        ON CONFLICT (profile_id, epoch, view, label, feature) DO UPDATE SET
            occurrences = excluded.occurrences, messages = excluded.messages
    )
    SELECT count(*) FROM found
"""
_COUNTED: Final = {
    "sqlite": """
        SELECT feature FROM feature_count
        WHERE profile_id = ? AND epoch = ? AND view = ? AND label = ?
            AND feature IN (SELECT value FROM json_each(?))
    """,
    "postgresql": """
        SELECT t.feature FROM unnest(%(features)s::bigint[]) AS t (feature)
        CROSS JOIN LATERAL (
            SELECT 1 FROM feature_count
            WHERE profile_id = %(profile_id)s AND epoch = %(epoch)s
                AND view = %(view)s AND label = %(label)s AND feature = t.feature
            OFFSET 0
        ) AS c
    """,
}
_PAGE: Final = {
    "sqlite": """
        SELECT feature, occurrences, messages FROM feature_count
        WHERE profile_id = ? AND epoch = ? AND view = ? AND label = ? AND feature >= ?
        ORDER BY feature LIMIT ?
    """,
    "postgresql": """
        SELECT feature, occurrences, messages FROM feature_count
        WHERE profile_id = %s AND epoch = %s AND view = %s AND label = %s
            AND feature >= %s
        ORDER BY feature LIMIT %s
    """,
}


def gain(connection: Connection, key: Key, columns: Columns) -> None:
    """Add to the counts of features, none of the numbers negative."""
    statement = _GAIN[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(statement, (*key, _json(columns)))
    else:
        connection.exec_driver_sql(statement, _given(key, columns))


def lose(connection: Connection, key: Key, columns: Columns) -> int:
    """Add to the counts of features that are there, and return how many were.

    The numbers may be negative; a sum that is fails the table's CHECK.  Rows that
    become zero are deleted.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    key : Key
        What the rows have in common.
    columns : Columns
        The features, strictly increasing, and what is added to each.
    """
    if connection.dialect.name == "sqlite":
        return _lose_on_sqlite(connection, key, columns)
    found = connection.exec_driver_sql(_LOSE, _given(key, columns))
    changed: int = found.scalar_one()
    return changed


def _lose_on_sqlite(connection: Connection, key: Key, columns: Columns) -> int:
    asked = (*key, json.dumps(columns.features))
    texts = connection.exec_driver_sql(_FOUND, asked).one()
    stored = [np.fromstring(text or "", np.int64, sep=",") for text in texts]
    place = np.searchsorted(columns.features, stored[0])
    occurrences = stored[1] + np.take(columns.occurrences, place)
    messages = stored[2] + np.take(columns.messages, place)
    left = (occurrences != 0) | (messages != 0)
    connection.exec_driver_sql(_DROP, asked)
    if left.any():
        kept = (column[left].tolist() for column in (stored[0], occurrences, messages))
        gain(connection, key, Columns(*kept))
    return int(left.size)


def counted(connection: Connection, key: Key, features: Sequence[int]) -> set[int]:
    """Return those of the features that have a row."""
    statement = _COUNTED[connection.dialect.name]
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql(statement, (*key, json.dumps(features)))
    else:
        found = connection.exec_driver_sql(
            statement, key._asdict() | {"features": _array(features)}
        )
    return set(found.scalars())


def pages(
    connection: Connection, key: Key, *, size: int
) -> Iterator[NDArray[np.int64]]:
    """Give the rows of `read`, `size` at a time, each array of shape (n, 3)."""
    first: int | None = LEAST
    while first is not None:
        rows = connection.exec_driver_sql(
            _PAGE[connection.dialect.name], (*key, first, size)
        )
        page = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 3)
        if page.size:
            yield page
        first = _next(page[:, 0], size=size)


def _next(features: NDArray[np.int64], *, size: int) -> int | None:
    """Return where the page after one begins, or None after the last."""
    # The largest id has no successor.
    last = int(features.max()) if features.size == size else MOST
    return last + 1 if last < MOST else None


def _given(key: Key, columns: Columns) -> dict[str, object]:
    """Return the parameters of a statement of PostgreSQL."""
    return key._asdict() | {
        name: _array(column) for name, column in columns._asdict().items()
    }


def _array(column: Sequence[int]) -> str:
    """Return a column for PostgreSQL: psycopg takes eight times as long for a list."""
    return f"{{{','.join(map(str, column))}}}"


def _json(columns: Columns) -> str:
    """Return the columns as rows for SQLite."""
    return json.dumps(list(zip(*columns, strict=True)))
