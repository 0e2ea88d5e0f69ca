"""How are all features of many keys read, millions of rows?

Contract of this file: many rows are one value of the driver, and while one key is
parsed and summed by the caller, another thread has the database put together the
next.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from app.storage.feature_rows import LEAST, MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.storage.feature_rows import Key


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
        From `app.storage.engine.reading`; until the last key is given, or the
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
