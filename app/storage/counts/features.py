"""Feature counts: many rows read and written at once.

Contract of this file: many rows are one statement and one value of the driver, and
while one key is parsed and summed by the caller, another thread has the database put
together the next.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from sqlalchemy import bindparam, select

from app.storage import tables
from app.storage.database.dialect import LEAST, MOST, dialect_of
from app.storage.database.statements import BulkInsert, BulkLookup

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Connection


class Key(NamedTuple):
    """The columns that the rows of a statement share."""

    profile_id: int
    epoch: int
    view: str
    label: str


class Columns(NamedTuple):
    """The columns in which they differ: equally long lists."""

    features: list[int]
    occurrences: list[int]
    messages: list[int]


_TABLE: Final = tables.feature_count
_GAIN: Final = BulkInsert(
    _TABLE,
    shared=Key._fields,
    given=("feature", "occurrences", "messages"),
    conflict="""
        ON CONFLICT (profile_id, epoch, view, label, feature) DO UPDATE SET
            occurrences = feature_count.occurrences + excluded.occurrences,
            messages = feature_count.messages + excluded.messages
    """,
)
_COUNTED: Final = BulkLookup(_TABLE, shared=Key._fields, given="feature")
_PAGE: Final = (
    select(_TABLE.c.feature, _TABLE.c.occurrences, _TABLE.c.messages)
    .where(
        *(_TABLE.c[name] == bindparam(name) for name in Key._fields),
        _TABLE.c.feature >= bindparam("first"),
    )
    .order_by(_TABLE.c.feature)
    .limit(bindparam("size"))
)


def gain(connection: Connection, key: Key, columns: Columns) -> None:
    """Add to the counts of features, none of the numbers negative."""
    _GAIN.run(connection, key._asdict(), *columns)


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
    return dialect_of(connection).change_counts(connection, key, columns)


def counted(connection: Connection, key: Key, features: Sequence[int]) -> set[int]:
    """Return those of the features that have a row."""
    return _COUNTED.run(connection, key._asdict(), features)


def pages(
    connection: Connection, key: Key, *, size: int
) -> Iterator[NDArray[np.int64]]:
    """Give the rows of `read`, `size` at a time, each array of shape (n, 3)."""
    first = LEAST
    while True:
        rows = connection.execute(_PAGE, key._asdict() | {"first": first, "size": size})
        page = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 3)
        if page.size:
            yield page
        # The largest id has no successor.
        last = int(page[-1, 0]) if len(page) == size else MOST
        if last == MOST:
            return
        first = last + 1


class Counted(NamedTuple):
    """All features of a key: arrays of shape (n,), the features strictly increasing."""

    features: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    messages: NDArray[np.int64]


AHEAD: Final = 4
"""Keys that are fetched while the caller works on one.

Of 50,000 features, most are parsed in 3 ms and fetched in 17; the last of a view, with
which all others are summed, keeps the caller for 140 ms.  Each is some MB of memory.
"""
# An object per row of the driver was most of what a start took.  3.5 million rows,
# time on the wall (SQLite, PostgreSQL): 1.6 and 3.6 s as rows, 0.8 and 1.3 s so.  COPY
# took 5.8 s, because libpq hands it over row by row.


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
    dialect = dialect_of(connection)

    def parsed(fetched: Future[Any]) -> Counted:
        return _ordered(Counted(*dialect.parse_counts(fetched.result())))

    waiting: deque[Future[Any]] = deque()
    # The driver's cursor: the values are as large as their column.
    with closing(connection.connection.cursor()) as cursor, _Fetching() as thread:
        for key in keys:
            waiting.append(thread.submit(dialect.fetch_counts, cursor, key))
            if len(waiting) > AHEAD:
                yield parsed(waiting.popleft())
        while waiting:
            yield parsed(waiting.popleft())


class _Fetching(ThreadPoolExecutor):
    """One thread; leaving early waits for what runs, not for what is queued."""

    def __init__(self) -> None:
        super().__init__(1, thread_name_prefix="counts")

    def __exit__(self, *_: object) -> None:
        self.shutdown(cancel_futures=True)


def _ordered(counted: Counted) -> Counted:
    """Return the same by feature."""
    features = counted.features
    # SQLite gives them so, but does not promise it.
    if (features[1:] > features[:-1]).all():
        return counted
    order = np.argsort(features)
    return Counted(*(column.take(order) for column in counted))
