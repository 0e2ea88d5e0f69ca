"""Feature counts: many rows read and written at once.

Contract of this file: the hot statements are SQL as it stands, one per dialect,
because SQLAlchemy's handling of one dictionary per row costs as much as SQLite's
upsert (3.6 µs).  Many rows are one statement.  PostgreSQL takes a column at a time, as
arrays, which saves a message to the server per row; and each statement there leaves
the planner no choice but one look at the key per feature.  SQLite takes JSON: between
two steps of a statement its driver waits for the lock of the interpreter, up to 5 ms,
while it holds the write lock of the database.  Beside a thread that never rests, 5,000
upserts in 300,000 rows took 2.3 s one by one, and 0.14 s so; alone both take 0.09 s.

Contract of this file: many rows are one value of the driver, and while one key is
parsed and summed by the caller, another thread has the database put together the
next.
"""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

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
        From `app.storage.database.engine.writing`.
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


class Counted(NamedTuple):
    """All features of a key: arrays of shape (n,), the features strictly increasing."""

    features: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    messages: NDArray[np.int64]


AT_ONCE: Final = 65_536
"""Rows of one value on SQLite, about: some 2 MB.

What is parsed at once keeps the other threads from running.
"""
# A key that has 4 million features begins with a value of as many rows.
_FIRST_SLICE: Final = 2**58
# How much wider than one slice the next may be.
_WIDER: Final = 64
AHEAD: Final = 4
"""Keys that are fetched while the caller works on one.

Of 50,000 features, most are parsed in 3 ms and fetched in 17; the last of a view, with
which all others are summed, keeps the caller for 140 ms.  Each is some MB of memory.
"""
# An object per row of the driver was most of what a start took.  3.5 million rows,
# time on the wall (SQLite, PostgreSQL): 1.6 and 3.6 s as rows, 0.8 and 1.3 s so.  COPY
# took 5.8 s, because libpq hands it over row by row.
#
# Without a LIMIT, which takes a query within the query, and a fifth more time.
_SLICE: Final = """
    SELECT group_concat(feature), group_concat(occurrences), group_concat(messages)
    FROM feature_count
    WHERE profile_id = ? AND epoch = ? AND view = ? AND label = ?
        AND feature BETWEEN ? AND ?
"""
# In no order, which the server would sort on disk for.  To put the three numbers of a
# row together first takes a tenth more time.
_ALL: Final = """
    SELECT
        string_agg(int8send(feature), ''::bytea),
        string_agg(int8send(occurrences), ''::bytea),
        string_agg(int8send(messages), ''::bytea)
    FROM feature_count
    WHERE profile_id = %s AND epoch = %s AND view = %s AND label = %s
"""


def read(connection: Connection, key: Key) -> Counted:
    """Return all features of a key with their counts."""
    (counted,) = read_each(connection, [key])
    return counted


def read_each(
    connection: Connection, keys: Iterable[Key]
) -> Generator[Counted, None, None]:
    """Give the same of many keys, in their order.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`; until the last key is given, or the
        iterator closed, it is used by another thread.
    keys : iterable of Key
        Whose features.
    """
    fetch: Callable[[Any, Key], Any] = _fetch_slices
    parse: Callable[[Any], Counted] = _of_slices
    # The driver's cursor: the values are as large as their column.
    driver: Any = connection.connection
    if connection.dialect.name == "sqlite":
        cursor = driver.cursor()
    else:
        fetch, parse = _fetch_packed, _of_packed
        cursor = driver.cursor(binary=True)
    fetched: deque[Future[Any]] = deque()
    with closing(cursor), _Fetching() as thread:
        for key in keys:
            fetched.append(thread.submit(fetch, cursor, key))
            if len(fetched) > AHEAD:
                yield parse(fetched.popleft().result())
        while fetched:
            yield parse(fetched.popleft().result())


class _Fetching(ThreadPoolExecutor):
    """One thread; who leaves early waits for what runs, not for what is queued."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="counts")

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)


def _fetch_slices(cursor: Any, key: Key) -> list[tuple[str, str, str]]:
    """Return what SQLite has of a key: columns of numbers between commas."""
    slices: list[tuple[str, str, str]] = []
    first, width = LEAST, _FIRST_SLICE
    while first <= MOST:
        last = min(first + width - 1, MOST)
        found = cursor.execute(_SLICE, (*key, first, last)).fetchone()
        rows = 0
        if found[0] is not None:
            slices.append(found)
            rows = found[0].count(",") + 1
        first = last + 1
        # Ids are hashes, so the next slice has as many per width as this one.
        width = width * AT_ONCE // max(rows, AT_ONCE // _WIDER)
    return slices


def _of_slices(slices: list[tuple[str, str, str]]) -> Counted:
    if not slices:
        return Counted(*(np.empty(0, np.int64) for _ in Counted._fields))
    columns = (
        np.concatenate([np.fromstring(text, np.int64, sep=",") for text in texts])
        for texts in zip(*slices, strict=True)
    )
    return _ordered(Counted(*columns))


def _fetch_packed(cursor: Any, key: Key) -> tuple[bytes | None, ...]:
    """Return what PostgreSQL has of a key: columns of big-endian numbers."""
    columns: tuple[bytes | None, ...] = cursor.execute(_ALL, key).fetchone()
    return columns


def _of_packed(packed: tuple[bytes | None, ...]) -> Counted:
    columns = (np.frombuffer(each or b"", ">i8").astype(np.int64) for each in packed)
    return _ordered(Counted(*columns))


def _ordered(counted: Counted) -> Counted:
    """Return the same by feature."""
    features = counted.features
    # SQLite gives them so, but does not promise it.
    if (features[1:] > features[:-1]).all():
        return counted
    order = np.argsort(features)
    return Counted(*(column.take(order) for column in counted))
