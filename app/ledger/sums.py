"""Sums: the statistics of many messages as bytes, and the capacity of a profile.

The vector of the ledger row of a sum has what several messages add together, or what to
subtract: signed numbers, with the names of their labels.  Layout, version 2,
little-endian:

    version    1 byte     0x82, which no vector of a message begins with
    checksum   4 bytes    CRC-32 of everything after it
    size       4 bytes    of the body before it was compressed
    body       one zstd frame; zlib in version 1, which begins with 0x81

and in the body:

    labels     1 byte number, then each: 1 byte length, UTF-8
    views      repeated until the end, sorted by name:
        name      1 byte length, UTF-8
        kind      1 byte     1 features; 2 measurements, in earlier versions
        messages  labels x 8
        n         4 bytes    number of features
        columns   of n numbers each

The columns of features are the differences of their sorted ids, and the occurrences and
messages of each label.  A column has first the lowest bytes of all its numbers, then
the second ones, and so on.  Counts are small and ids dense, so most of these planes are
zeros: zstd compresses the 40 bytes of a feature to 7, and zlib to 8 in seven times the
time.

While a profile is within the limits of its capacity, every sum over its rows, months,
labels or features fits into 64 bits, and so does its product with the weight of a month
(`app.classifier.specification.PARTS`).  Mail cannot exceed the limits, but an imported
file can, so its amounts are checked when it is read, and again together with the
amounts of the profile to which it is added.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.errors import CorruptVector, InconsistentCounts, InvalidObservation
from app.features.id_key import keyable
from app.ledger.vector import (
    COUNT,
    DROPPED,
    LARGEST,
    MOST_VIEWS,
    NUMBER,
    checked,
    encode_names,
    read_name,
    require_new,
    sealed,
    write_name,
)
from app.zstd import unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.sparse import SparseCounts
    from app.features.id_key import IdKey
    from app.kernels import Ints

    Names = Mapping[str, Mapping[int, str]]

VERSION: Final = 0x82
_VERSIONS: Final = frozenset((0x81, VERSION))
_FEATURES: Final = 1
_KIND: Final = bytes((_FEATURES,))
# Of earlier versions: eight columns.
_MOMENTS: Final = 2
_MOMENT_COLUMNS: Final = 8
FEATURES_PER_ROW: Final = 5_000
"""Largest number of features in a row, because a fold sums at least one row at once.

Appending a million features takes 0.7 s on SQLite, with 8.0 bytes each.
"""


def encode_sum(state: State, labels: Sequence[str]) -> bytes:
    """Return statistics as bytes.

    Parameters
    ----------
    state : State
        The statistics; any of the numbers may be negative.

    Raises
    ------
    InvalidObservation
        If the number of classes differs, or the result is larger than `LARGEST` bytes.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> words = FeatureCounts.of(SparseCounts.of({7: 2}), label=1, n_classes=2)
    >>> encoded = encode_sum(State(words=-words), ("ham", "spam"))
    >>> decode_sum(encoded, ("spam", "ham"))["words"].occurrences.tolist()
    [[-2, 0]]
    """
    parts = [bytes((len(labels),)), *map(write_name, labels)]
    for view in sorted(state):
        x = state[view]
        if x.messages.size != len(labels):
            raise InvalidObservation(
                f"View {view!r} has counts of {x.messages.size} labels, but there "
                f"are {len(labels)}."
            )
        # Differences modulo 2**64: ids use all 64 bits, and summing restores them.
        ids = np.diff(x.ids, prepend=np.int64(0))
        parts += [write_name(view), _KIND, x.messages.astype(NUMBER).tobytes()]
        parts += [COUNT.pack(ids.size), _planes(ids), *map(_planes, x.columns.T)]
    body = b"".join(parts)
    return sealed(VERSION, COUNT.pack(len(body)), body, kind="sum")


class EncodedSum(NamedTuple):
    """A sum, ready to be stored: its month, its vector and its names."""

    epoch: int
    vector: bytes
    encoded_names: bytes | None


def encode_sums(
    sums: Mapping[int, State], labels: Sequence[str], names: Names | None = None
) -> list[EncodedSum]:
    """Return statistics as bytes, for ledger rows of bounded size.

    Parameters
    ----------
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


def decode_sum(vector: bytes, labels: Sequence[str]) -> State:
    """Return the statistics of an encoded sum, with `labels` as its classes.

    Raises
    ------
    CorruptVector
        If the bytes are not from `encode_sum`, were changed, or are of a newer version.
    InconsistentCounts
        If the sum has a label that is not one of `labels`.
    """
    _, rest = checked(vector, "sum", _VERSIONS)
    try:
        return _views(_body(rest), labels)
    # The checksum is right, so these bytes were forged on purpose.
    except (IndexError, ValueError, struct.error, InvalidObservation) as error:
        msg = f"A stored sum of {len(vector)} bytes cannot be read: {error}."
        raise CorruptVector(msg) from error


def redacted_sums(sums: State, key: IdKey | None = None) -> State:
    """Return statistics as `app.ledger.entry.LedgerRow.redacted` returns a row."""
    found = State(keyable(sums))
    if key is None:
        return found
    for view, x in found.items():
        ids, places = key.ordered(x.ids)
        found[view] = FeatureCounts(x.messages, ids, x.columns.take(places, axis=0))
    return found


def _names_of(part: State, names: Names) -> bytes | None:
    """Return the text of a part's features, or None if there is none."""
    found = {
        view: tuple(names[view].get(i, "") for i in x.ids.tolist())
        for view, x in part.items()
        if view in names
    }
    return encode_names(found) if any(map(any, found.values())) else None


def _body(rest: memoryview) -> bytes:
    """Return the decompressed body, within its limit."""
    (size,) = COUNT.unpack_from(rest)
    body = unpacked(rest[COUNT.size :], most=min(size, LARGEST))
    if len(body) != size:
        raise ValueError("it is not of the size that it says")
    return body


def _views(body: bytes, labels: Sequence[str]) -> State:
    """Return the statistics in a body."""
    at = 1
    written = []
    for _ in range(body[0]):
        label, at = read_name(body, at)
        written.append(label)
    if len(set(written)) != len(written):
        raise ValueError(f"a label is there twice: {written}")
    strange = [label for label in written if label not in labels]
    if strange:
        raise InconsistentCounts(
            f"A stored sum has the label {strange[0]!r}, but the labels of the "
            f"profile are {', '.join(labels)}."
        )
    where = np.array([labels.index(label) for label in written], np.intp)
    views = State()
    while at < len(body):
        view, at = read_name(body, at)
        require_new(view, views)
        kind, at = body[at], at + 1
        messages = np.zeros(len(labels), np.int64)
        messages[where] = np.frombuffer(body, NUMBER, where.size, at)
        at += where.size * NUMBER.itemsize
        (n,) = COUNT.unpack_from(body, at)
        at += COUNT.size
        if kind == _FEATURES:
            views[view], at = _features(body, at, n, messages=messages, where=where)
        elif kind == _MOMENTS:
            _, at = _read_columns(body, at, n=n, width=_MOMENT_COLUMNS)
        else:
            raise ValueError(f"it is of the unknown kind {kind}")
    return State({view: x for view, x in views.items() if view not in DROPPED})


def _features(
    body: bytes, at: int, n: int, *, messages: Ints, where: NDArray[np.intp]
) -> tuple[FeatureCounts, int]:
    """Return the counts of n features, and the start of the next view."""
    n_classes = messages.size
    # Labels missing from the sum take no bytes there, and 16 zero bytes here.
    size = n * (1 + 2 * n_classes) * NUMBER.itemsize
    if size > LARGEST:
        raise ValueError(f"{n} features of {n_classes} labels are {size} bytes")
    columns, at = _read_columns(body, at, n=n, width=1 + 2 * where.size)
    ids = np.cumsum(columns[0])
    if (ids[1:] <= ids[:-1]).any():
        raise ValueError("its features are not in order")
    counts = np.zeros((n, 2 * n_classes), np.int64)
    counts[:, np.append(where, n_classes + where)] = columns[1:].T
    return FeatureCounts(messages, ids, counts), at


def _planes(column: Ints) -> bytes:
    """Return the bytes of numbers, all lowest ones first."""
    numbers = np.ascontiguousarray(column, NUMBER)
    return numbers.view(np.uint8).reshape(-1, NUMBER.itemsize).T.tobytes()


def _read_columns(body: bytes, at: int, *, n: int, width: int) -> tuple[Ints, int]:
    """Return `width` columns of n numbers, shape (width, n)."""
    size = n * width * NUMBER.itemsize
    planes = np.frombuffer(body, np.uint8, size, at)
    numbers = planes.reshape(width, NUMBER.itemsize, n).transpose(0, 2, 1)
    read = np.ascontiguousarray(numbers).view(NUMBER).reshape(width, n)
    return read.astype(np.int64, copy=False), at + size


MOST_MESSAGES: Final = 2**31 - 1
"""Most messages of a view, as in bogofilter."""
MOST_OCCURRENCES: Final = 2**50
"""Most occurrences of all features of a view: half a million for each message."""
_LONGEST_VIEW: Final = 255


class Amounts(dict[str, tuple[float, float]]):
    """The absolute amounts of each view: its messages, and its occurrences.

    Occurrences are those of all features, and the messages that have them.
    """

    def add(self, state: State) -> None:
        """Add the magnitudes of statistics.

        Raises
        ------
        InvalidObservation
            As `increase`.
        """
        for view, x in state.items():
            self.increase(view, _size(x.messages), _size(x.columns))

    def add_message(self, views: Mapping[str, SparseCounts], *, times: int) -> None:
        """Add a message that is learned, forgotten, or both.

        Raises
        ------
        InvalidObservation
            As `increase`.
        """
        for view, x in views.items():
            self.increase(view, times, times * (_size(x.counts) + x.size))

    def beside(self, held: Amounts) -> None:
        """Raise if these and other amounts together exceed the limits.

        Raises
        ------
        InvalidObservation
            With the sum.
        """
        both = Amounts(held)
        for view, amount in self.items():
            both.increase(view, *amount)

    def increase(self, view: str, messages: float, occurrences: float) -> None:
        """Increase the amounts of a view.

        Raises
        ------
        InvalidObservation
            If they exceed the limits, the name is invalid, or there are too many views.
        """
        if view not in self:
            require_view(view)
            if len(self) == MOST_VIEWS:
                raise InvalidObservation(f"there are more than {MOST_VIEWS} views")
        before = self.get(view, (0.0, 0.0))
        self[view] = before[0] + messages, before[1] + occurrences
        limits = ("messages", MOST_MESSAGES), ("occurrences", MOST_OCCURRENCES)
        for value, (name, most) in zip(self[view], limits, strict=True):
            if value > most:
                msg = f"{view!r} comes to {value:.4g} {name}, more than {most:,}"
                raise InvalidObservation(msg)


def require_view(view: str) -> None:
    """Raise unless both databases can store the name of a view.

    Raises
    ------
    InvalidObservation
        If it is not printable, or more than 255 bytes.
    """
    if not view.isprintable() or len(view.encode()) > _LONGEST_VIEW:
        raise InvalidObservation(f"a view cannot be named {view[:_LONGEST_VIEW]!r}")


def _size(counts: Ints) -> float:
    """Return the sum of magnitudes, which may exceed 64 bits."""
    return float(np.abs(counts.astype(np.float64)).sum())
