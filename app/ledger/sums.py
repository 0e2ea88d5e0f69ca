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
        kind      1 byte     1 features, 2 moments
        messages  labels x 8
        n         4 bytes    number of features, or of rows of sums
        columns   of n numbers each

The columns of features are the differences of their sorted ids, and the occurrences and
messages of each label.  Those of moments are the columns of `MomentRow`.  A column has
first the lowest bytes of all its numbers, then the second ones, and so on.  Counts are
small and ids dense, so most of these planes are zeros: zstd compresses the 40 bytes of
a feature to 7, and zlib to 8 in seven times the time.

Contract of this file: splitting an integer into the words of a moment row is odd,
``split(-n) == -split(n)`` word by word, and joining is linear; so is `from_rows`.  A
database may therefore add and subtract the rows of many deltas column by column, in
any order: joining the result gives the exact sum of the deltas.  A single word has no
meaning.

While a profile is within the limits of its capacity, every sum over its rows, months,
labels or features fits into 64 bits, and so does its product with the weight of a month
(`app.classifier.specification.PARTS`).  Mail cannot exceed the limits, but an imported
file can, so its amounts are checked when it is read, and again together with the
amounts of the profile to which it is added.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, MOST_FIELDS, SparseCounts
from app.bayes.state import State
from app.errors import CorruptVector, InconsistentCounts, InvalidObservation
from app.features.id_key import keyable
from app.ledger.vector import MOST_VIEWS, checked, read_name, require_new
from app.zstd import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.counts import Statistics
    from app.features.id_key import IdKey
    from app.features.observation import Payload

VERSION: Final = 0x82
_VERSIONS: Final = frozenset((0x81, VERSION))
LARGEST: Final = 16 * 1024 * 1024
"""Most bytes of a body before compression: 400,000 features of two labels.

A few bytes of zstd can stand for a gigabyte of zeros.  Precedent: libpng stops
at 8 MB of one chunk (`PNG_USER_CHUNK_MALLOC_MAX`).
"""
_FEATURES: Final = 1
_MOMENTS: Final = 2
_HEAD: Final = struct.Struct("<BI")
_COUNT: Final = struct.Struct("<I")
_NUMBER: Final = np.dtype("<i8")
_SHORT: Final = 0xFF


def encode_sum(state: State, labels: Sequence[str]) -> bytes:
    """Return statistics as bytes.

    Parameters
    ----------
    state : State
        The statistics; any of the numbers may be negative.

    Raises
    ------
    InvalidObservation
        If a name is longer than 255 bytes, the number of classes differs, or the result
        is larger than `LARGEST` bytes.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> words = FeatureCounts.of(SparseCounts.of({7: 2}), label=1, n_classes=2)
    >>> encoded = encode_sum(State(words=-words), ("ham", "spam"))
    >>> decode_sum(encoded, ("spam", "ham"))["words"].occurrences.tolist()
    [[-2, 0]]
    """
    parts = [_short(len(labels)), *(_name(label) for label in labels)]
    encoded = {
        **{view: (_FEATURES, _features(x)) for view, x in state.features.items()},
        **{view: (_MOMENTS, _moments(x)) for view, x in state.moments.items()},
    }
    for view in sorted(state):
        x = state[view]
        if x.messages.size != len(labels):
            raise InvalidObservation(
                f"View {view!r} has counts of {x.messages.size} labels, but there "
                f"are {len(labels)}."
            )
        kind, columns = encoded[view]
        parts += [_name(view), bytes((kind,)), x.messages.astype(_NUMBER).tobytes()]
        parts += [_COUNT.pack(columns.shape[1]), *map(_planes, columns)]
    body = b"".join(parts)
    if len(body) > LARGEST:
        msg = f"A sum of {len(body)} bytes is too large; {LARGEST} are allowed."
        raise InvalidObservation(msg)
    rest = _COUNT.pack(len(body)) + packed(body)
    return _HEAD.pack(VERSION, zlib.crc32(rest)) + rest


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
    for view, x in found.features.items():
        ids, places = key.ordered(view, x.ids)
        found[view] = FeatureCounts(x.messages, ids, x.columns.take(places, axis=0))
    return found


def _body(rest: memoryview) -> bytes:
    """Return the decompressed body, within its limit."""
    (size,) = _COUNT.unpack_from(rest)
    body = unpacked(rest[_COUNT.size :], most=min(size, LARGEST))
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
        views[view], at = _statistics(body, at, where=where, n_classes=len(labels))
    return views


def _statistics(
    body: bytes, at: int, *, where: NDArray[np.intp], n_classes: int
) -> tuple[Statistics, int]:
    """Return the statistics of one view, and the start of the next."""
    kind = body[at]
    messages = np.zeros(n_classes, np.int64)
    messages[where] = np.frombuffer(body, _NUMBER, where.size, at + 1)
    at += 1 + where.size * _NUMBER.itemsize
    (n,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    if kind == _FEATURES:
        # Labels missing from the sum take no bytes there, and 16 zero bytes here.
        size = n * (1 + 2 * n_classes) * _NUMBER.itemsize
        if size > LARGEST:
            raise ValueError(f"{n} features of {n_classes} labels are {size} bytes")
        columns, at = _read_columns(body, at, n=n, width=1 + 2 * where.size)
        ids = np.cumsum(columns[0])
        if (ids[1:] <= ids[:-1]).any():
            raise ValueError("its features are not in order")
        counts = np.zeros((n, 2 * n_classes), np.int64)
        counts[:, np.append(where, n_classes + where)] = columns[1:].T
        return FeatureCounts(messages, ids, counts), at
    if kind == _MOMENTS:
        columns, at = _read_columns(body, at, n=n, width=len(MomentRow._fields))
        fields = np.unique(columns[:2])
        if fields.size > MOST_FIELDS:
            raise ValueError(f"it has {fields.size} fields; {MOST_FIELDS} are allowed")
        stored = [_moment_row(row, where) for row in columns.T.tolist()]
        if len({row[:4] for row in stored}) < n:
            raise ValueError("a sum is there twice")
        return from_rows(stored, messages), at
    raise ValueError(f"it is of the unknown kind {kind}")


def _moment_row(numbers: list[int], where: NDArray[np.intp]) -> MomentRow:
    """Return a row of sums whose label is an index into the labels written."""
    row = MomentRow(*numbers)
    if not (0 <= row.label < where.size and row.degree in {1, 2}):
        raise ValueError(f"there is no label {row.label}, or no degree {row.degree}")
    if row.other < row.field or (row.degree == 1 and row.other != row.field):
        msg = f"the fields {row.field} and {row.other} have no sum of that degree"
        raise ValueError(msg)
    return row._replace(label=int(where[row.label]))


def _features(x: FeatureCounts) -> NDArray[np.int64]:
    """Return the columns of features, shape (1 + 2K, n)."""
    # Differences modulo 2**64: ids use all 64 bits, and summing restores them.
    ids = np.diff(x.ids, prepend=np.int64(0))
    return np.vstack((ids[None], x.columns.T))


def _moments(x: MomentSums) -> NDArray[np.int64]:
    """Return the columns of sums of measurements, shape (8, n)."""
    return np.array(rows(x), np.int64).reshape(-1, len(MomentRow._fields)).T


def _planes(column: NDArray[np.int64]) -> bytes:
    """Return the bytes of numbers, all lowest ones first."""
    numbers = np.ascontiguousarray(column, _NUMBER)
    return numbers.view(np.uint8).reshape(-1, _NUMBER.itemsize).T.tobytes()


def _read_columns(
    body: bytes, at: int, *, n: int, width: int
) -> tuple[NDArray[np.int64], int]:
    """Return `width` columns of n numbers, shape (width, n)."""
    size = n * width * _NUMBER.itemsize
    planes = np.frombuffer(body, np.uint8, size, at)
    numbers = planes.reshape(width, _NUMBER.itemsize, n).transpose(0, 2, 1)
    read = np.ascontiguousarray(numbers).view(_NUMBER).reshape(width, n)
    return read.astype(np.int64, copy=False), at + size


def _short(number: int) -> bytes:
    """Return a number as one byte."""
    if number > _SHORT:
        raise InvalidObservation(f"A sum has at most {_SHORT} labels, got {number}.")
    return bytes((number,))


def _name(name: str) -> bytes:
    """Return a name with its length before it."""
    encoded = name.encode()
    if len(encoded) > _SHORT:
        msg = f"The name of a view or label has at most 255 bytes, got {len(encoded)}."
        raise InvalidObservation(msg)
    return bytes((len(encoded),)) + encoded


WORD_BITS: Final = 32
"""Bits of one word: a 64-bit column has room for 2**31 of them."""
WORDS: Final = 3
"""Words of one integer: enough for the product of two measurements."""


def split(value: int) -> tuple[int, int, int]:
    """Return the words of an integer, lowest first, all with its sign.

    Raises
    ------
    InvalidObservation
        If the highest word would need more than 63 bits.

    Examples
    --------
    >>> split(5), split(-(2**32) - 5)
    ((5, 0, 0), (-5, -1, 0))
    """
    sign = -1 if value < 0 else 1
    low_mask = 2**WORD_BITS - 1
    magnitude = abs(value)
    high = magnitude >> (2 * WORD_BITS)
    if high >= 2**63:
        msg = f"a sum of measurements does not fit into {WORDS} words: {value}"
        raise InvalidObservation(msg)
    middle = (magnitude >> WORD_BITS) & low_mask
    return sign * (magnitude & low_mask), sign * middle, sign * high


def join_words(words: Sequence[int]) -> int:
    """Return the integer of its words, or of sums of words.

    Examples
    --------
    >>> join_words(split(-(2**80) + 3)) == -(2**80) + 3
    True
    >>> join_words((2**40, -1, 0)) == 2**40 - 2**32
    True
    """
    low, middle, high = words
    return low + (middle << WORD_BITS) + (high << (2 * WORD_BITS))


class MomentRow(NamedTuple):
    """One sum of one class, as stored in a table.

    The first four are the key, the last four are sums.

    Parameters
    ----------
    field, other : int
        The field, and the field with which it is multiplied, which is not smaller;
        equal in a row of degree 1.
    degree : int
        1 for the sum of the field, 2 for the sum of the products.
    label : int
        Class index.
    messages : int
        Messages that have both fields.
    low, middle, high : int
        Words of the sum (`split`).  Unit: steps to the degree.
    """

    field: int
    other: int
    degree: int
    label: int
    messages: int
    low: int
    middle: int
    high: int


def rows(state: MomentSums) -> list[MomentRow]:
    """Return the rows of a state or of a delta; zeros are left out.

    Raises
    ------
    InvalidObservation
        If a sum is too large for its columns.

    Examples
    --------
    >>> from app.bayes.sparse import Measurements
    >>> x = Measurements(np.array([7]), np.array([-3]))
    >>> for row in rows(MomentSums.of(x, label=1, n_classes=2)):
    ...     tuple(row)
    (7, 7, 1, 1, 1, -3, 0, 0)
    (7, 7, 2, 1, 1, 9, 0, 0)
    """
    found = []
    ids = state.ids.tolist()
    sums, products = state.sums, state.products
    for i, row in enumerate(ids):
        for label in range(state.n_classes):
            of_field = [(1, i, sums[i, label])]
            of_field += [(2, j, products[i, j, label]) for j in range(i, len(ids))]
            for degree, j, value in of_field:
                messages = int(state.pairs[i, j, label])
                if messages or value:
                    found.append(
                        MomentRow(row, ids[j], degree, label, messages, *split(value))
                    )
    return found


def from_rows(stored: Iterable[MomentRow], messages: NDArray[np.int64]) -> MomentSums:
    """Return the state of rows; rows of equal key are added.

    Parameters
    ----------
    stored : iterable of MomentRow
        The rows, in any order.
    messages : ndarray of int64, shape (K,)
        Messages of each class.

    Examples
    --------
    >>> from app.bayes.sparse import Measurements
    >>> x = Measurements(np.array([7, 9]), np.array([-3, 2]))
    >>> state = MomentSums.of(x, label=1, n_classes=2)
    >>> from_rows(rows(state), state.messages) == state
    True
    """
    kept = list(stored)
    ids = np.unique(np.array([(r.field, r.other) for r in kept], np.int64))
    k = messages.size
    sums = np.zeros((ids.size, k), object)
    pairs = np.zeros((ids.size, ids.size, k), np.int64)
    products = np.zeros((ids.size, ids.size, k), object)
    place = {field: i for i, field in enumerate(ids.tolist())}
    for r in kept:
        i, j = place[r.field], place[r.other]
        value = join_words((r.low, r.middle, r.high))
        if r.degree == 1:
            sums[i, r.label] += value
            continue
        for a, b in {(i, j), (j, i)}:
            pairs[a, b, r.label] += r.messages
            products[a, b, r.label] += value
    return MomentSums.of_sums(messages, ids, sums, pairs, products)


MOST_MESSAGES: Final = 2**31 - 1
"""Most messages of a view: their sums of measurements fit into three words
(`app.bayes.sparse.LIMIT`), and bogofilter has the same limit."""
MOST_OCCURRENCES: Final = 2**50
"""Most occurrences of all features of a view: half a million for each message."""
_LONGEST_VIEW: Final = 255


@dataclass(slots=True)
class Amount:
    """The absolute amounts of one view.

    Parameters
    ----------
    occurrences : float
        Occurrences of all features, and the messages that have them.
    measured : float
        The largest sum of measurements.  Unit: the largest measurement of one
        message.
    fields : set of int
        The fields that were measured.
    """

    messages: float = 0.0
    occurrences: float = 0.0
    measured: float = 0.0
    fields: set[int] = field(default_factory=set)


class Amounts:
    """The amounts of each view."""

    def __init__(self) -> None:
        self._views: dict[str, Amount] = {}

    def add(self, state: State) -> None:
        """Add the magnitudes of statistics.

        Raises
        ------
        InvalidObservation
            If they exceed the limits.
        """
        for view, counts in state.features.items():
            self.of(view).occurrences += _size(counts.columns)
        for view, sums in state.moments.items():
            amount = self.of(view)
            amount.fields.update(sums.ids.tolist())
            amount.measured += max(
                _most(sums.pairs),
                _most(sums.first) / LIMIT,
                _most(sums.second) / LIMIT**2,
            )
        for view, x in state.items():
            amount = self.of(view)
            amount.messages += _size(x.messages)
            _require_room(view, amount)

    def add_message(self, views: Mapping[str, Payload], *, times: int) -> None:
        """Add a message that is learned, forgotten, or both.

        Raises
        ------
        InvalidObservation
            If it exceeds the limits.
        """
        for view, x in views.items():
            amount = self.of(view)
            amount.messages += times
            if isinstance(x, SparseCounts):
                amount.occurrences += times * (_size(x.counts) + x.size)
            else:
                amount.fields.update(x.ids.tolist())
                amount.measured += times
            _require_room(view, amount)

    def beside(self, held: Amounts) -> None:
        """Raise if these and other amounts together exceed the limits.

        Raises
        ------
        InvalidObservation
            With the sum.
        """
        for view, amount in self._views.items():
            other = held._views.get(view, Amount())
            both = Amount(
                amount.messages + other.messages,
                amount.occurrences + other.occurrences,
                amount.measured + other.measured,
                amount.fields | other.fields,
            )
            _require_room(view, both)
        if len(self._views.keys() | held._views.keys()) > MOST_VIEWS:
            raise InvalidObservation(_TOO_MANY_VIEWS)

    def of(self, view: str) -> Amount:
        """Return the amount of a view, which the caller increases.

        Raises
        ------
        InvalidObservation
            If the name is invalid, or there are too many views.
        """
        if view not in self._views:
            require_view(view)
            if len(self._views) == MOST_VIEWS:
                raise InvalidObservation(_TOO_MANY_VIEWS)
            self._views[view] = Amount()
        return self._views[view]


_TOO_MANY_VIEWS: Final = f"there are more than {MOST_VIEWS} views"


def require_view(view: str) -> None:
    """Raise unless both databases can store the name of a view.

    Raises
    ------
    InvalidObservation
        If it is not printable, or more than 255 bytes.
    """
    if not view.isprintable() or len(view.encode()) > _LONGEST_VIEW:
        raise InvalidObservation(f"a view cannot be named {view[:_LONGEST_VIEW]!r}")


def _require_room(view: str, amount: Amount) -> None:
    """Raise if an amount exceeds the limits of a profile."""
    for name, value, most in (
        ("messages", max(amount.messages, amount.measured), MOST_MESSAGES),
        ("occurrences", amount.occurrences, MOST_OCCURRENCES),
        ("fields", len(amount.fields), MOST_FIELDS),
    ):
        if value > most:
            msg = f"{view!r} comes to {value:.4g} {name}, more than {most:,}"
            raise InvalidObservation(msg)


def _size(counts: NDArray[np.int64]) -> float:
    """Return the sum of magnitudes, which may exceed 64 bits."""
    return float(np.abs(counts.astype(np.float64)).sum())


def _most(values: NDArray[np.int64]) -> float:
    """Return the largest magnitude, of integers of any size."""
    return float(np.abs(values.astype(np.float64)).max(initial=0.0))
