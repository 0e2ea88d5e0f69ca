"""Corpus: the observations of a stream, parsed once, and their months.

Every configuration that is compared reads the same arrays, and so does every
process: they lie in files that the system maps into each of them once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from app.bayes.measurements import Measurements
from app.bayes.sparse import SparseCounts
from app.corpora.parallel import chunks, in_order
from app.errors import UnreadableMessage, UnreadableSource, reading_one_of_many
from app.features.extract import extract
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from app.features.observation import Payload


@dataclass(frozen=True, slots=True)
class Column:
    """One view of all messages, one message after the other.

    Parameters
    ----------
    ids, values : ndarray of int64, shape (N,)
        The features, and their counts or measured values.
    bounds : ndarray of int64, shape (n + 1,)
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.
    """

    ids: NDArray[np.int64]
    values: NDArray[np.int64]
    bounds: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The features of all messages of a stream.

    Parameters
    ----------
    columns : mapping of str to Column
        View by view.
    measured : frozenset of str
        The views that hold measurements.
    seconds : float
        How long reading and parsing took.
    unreadable : mapping of int to str
        The messages that cannot be read, by number, and why. They have no
        features: a filter knows nothing of them but that they came.
    """

    columns: Mapping[str, Column]
    measured: frozenset[str]
    seconds: float
    unreadable: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        raws: Iterable[bytes],
        views: Mapping[str, bool],
        *,
        advance: Callable[[int], object],
        clock: Callable[[], float],
        executor: Executor | None = None,
    ) -> Self:
        """Read and parse messages.

        Parameters
        ----------
        raws : iterable of bytes
            The messages.
        views : mapping of str to bool
            The views that are wanted, and which of them are measurements.
        advance : callable
            Gets now and then the number of messages read since the last call.
        clock : callable
            Seconds since any moment.
        executor : Executor or None
            Who parses them (`app.corpora.parallel`).
        """
        begun = clock()
        parts: dict[str, tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]]]
        parts = {view: ([], []) for view in views}
        unreadable: dict[int, str] = {}
        number = 0
        for chunk in in_order(
            executor, partial(_seen, views=tuple(views)), chunks(raws, len)
        ):
            for found in chunk:
                seen: Mapping[str, Payload] = {}
                if isinstance(found, str):
                    unreadable[number] = found
                else:
                    seen = found
                for view, (ids, values) in parts.items():
                    x = seen.get(view, SparseCounts.of({}))
                    ids.append(x.ids)
                    values.append(x.values if isinstance(x, Measurements) else x.counts)
                number += 1
            advance(len(chunk))
        columns = {
            view: Column(
                _joined(ids),
                _joined(values),
                np.cumsum([0, *(part.size for part in ids)], dtype=np.int64),
            )
            for view, (ids, values) in parts.items()
        }
        measured = frozenset(view for view, measures in views.items() if measures)
        return cls(columns, measured, clock() - begun, unreadable)

    def __getitem__(self, message: int) -> dict[str, Payload]:
        """Return the views of a message."""
        found: dict[str, Payload] = {}
        for view, column in self.columns.items():
            low, high = column.bounds[message : message + 2].tolist()
            kind = Measurements if view in self.measured else SparseCounts
            found[view] = kind(column.ids[low:high], column.values[low:high])
        return found

    def save(self, folder: Path) -> None:
        """Write the arrays into an empty folder."""
        for view, column in self.columns.items():
            for part in ("ids", "values", "bounds"):
                np.save(folder / f"{view}.{part}.npy", getattr(column, part))
        about = {
            "views": list(self.columns),
            "measured": sorted(self.measured),
            "seconds": self.seconds,
        }
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map the arrays of a folder into memory."""
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))

        def mapped(view: str, part: str) -> NDArray[np.int64]:
            # Plain arrays over the map: slices of np.memmap are memmaps again,
            # and every one of them costs a few µs more.
            return np.asarray(np.load(folder / f"{view}.{part}.npy", mmap_mode="r"))

        columns = {
            view: Column(*(mapped(view, part) for part in ("ids", "values", "bounds")))
            for view in about["views"]
        }
        return cls(columns, frozenset(about["measured"]), about["seconds"])


def _seen(
    raws: Sequence[bytes], *, views: Collection[str]
) -> list[Mapping[str, Payload] | str]:
    """Return the features of each message, or why it cannot be read."""
    found: list[Mapping[str, Payload] | str] = []
    for raw in raws:
        try:
            with reading_one_of_many():
                found.append(extract(parse(raw), views).views)
        except UnreadableMessage as error:
            found.append(str(error))
    return found


def _joined(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


AROUND: Final = 50
"""Messages before and after one whose dates decide its month."""
_FIRST_YEAR: Final = 2001


def months_by_dates(moments: Sequence[int | None], name: str) -> tuple[int, ...]:
    """Return the month of each message, by the dates of the messages around it.

    Parameters
    ----------
    moments : sequence of int or None
        Arrival of each message by its own header, in the order of the stream.
        Unit: seconds since 1970; None where there is no date.
    name : str
        Name of the stream.

    Returns
    -------
    tuple of int
        YYYYMM, never falling: the median of the dates around it, since
        some of them come from clocks that are years off, and the latest such
        month so far, since a server's clock does not go back.

    Raises
    ------
    UnreadableSource
        If no message has a date.

    Examples
    --------
    >>> february, march = 1_140_000_000, 1_142_000_000
    >>> found = months_by_dates(
    ...     [february] * 80 + [0, None, 9 * march] + [march] * 80, "mail"
    ... )
    >>> found[0], found[80], found[-1], len(set(found))
    (200602, 200602, 200603, 2)
    """
    moment = np.array([np.nan if each is None else each for each in moments])
    if np.isnan(moment).all():
        msg = (
            f"no message of {name} has a date, and a half-life goes by months; say "
            "with --months how many months the stream took"
        )
        raise UnreadableSource(msg)
    # A message without a date came when the one before it did.
    dated = np.flatnonzero(~np.isnan(moment))
    at = np.maximum(np.searchsorted(dated, np.arange(moment.size), side="right") - 1, 0)
    moment = moment[dated[at]]
    around = [
        np.median(moment[max(0, here - AROUND) : here + AROUND + 1])
        for here in range(moment.size)
    ]
    latest = np.maximum.accumulate(np.array(around))
    dates = [datetime.fromtimestamp(float(each), UTC) for each in latest]
    return tuple(100 * date.year + date.month for date in dates)


def months_evenly(messages: int, months: int) -> tuple[int, ...]:
    """Return the month of each message where all months have as many.

    Parameters
    ----------
    messages : int
        Messages of the stream.
    months : int
        Months that it took.

    Examples
    --------
    >>> months_evenly(5, 2)
    (200101, 200101, 200101, 200102, 200102)
    """
    numbers = [here * months // messages for here in range(messages)]
    return tuple(100 * (_FIRST_YEAR + n // 12) + n % 12 + 1 for n in numbers)
