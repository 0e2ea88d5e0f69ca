"""Vectors: the features of one message as bytes; and names, the text of features.

Layout of a vector, version 2, little-endian:

    version    1 byte     2
    checksum   4 bytes    CRC-32 of everything after it
    size       4 bytes    of the low bytes
    low        the seven low bytes of the differences of all hashed ids
    body       one zstd frame

and in the body:

    views      repeated until the end, sorted by name:
        name     1 byte length, then UTF-8
        kind     1 byte     what the payload is
        n        4 bytes    number of features, of fields, of pairs or of runs
        columns  of n numbers each

    kind 1   features, all counts 1   high bytes of the differences of sorted ids
    kind 2   features                 the same, and counts
    kind 3   measurements             in earlier versions (`DROPPED`)
    kind 4   pairs of words           differences of their places (`_pairs`)
    kind 5   features                 all of `_UNITED`, each once; no column
    kind 6   runs of symbols          differences of sorted runs, without beginnings

A column has one byte with the width of its numbers, then the lowest bytes of all
numbers, then the second ones, and so on.  Ids of words are hashes: only the highest
byte of their differences can be compressed, so the others are stored outside of the
compressed body.  A pair consists of two words of the message, so it takes a byte or
two, and corrections learn all features of the message.  The mean size of a message fell
from 5.3 to 2.7 kB (experiment 0091).

Version 1, which can still be read, has 8 bytes for each id:

    version    1 byte     1
    checksum   4 bytes    CRC-32 of everything after it
    views      repeated until the end, sorted by name:
        name     1 byte length, then UTF-8
        kind     1 byte     what the payload is
        n        4 bytes    number of features or of fields
        ids      n x 8      signed, strictly increasing
        values   n x width of the kind

    kind 1       features   no values: all counts are 1
    kind 2 to 5  features   counts, of the width that `_FIRST_WIDTHS` says
    kind 6       measurements           8 bytes each (`DROPPED`)

Any other layout gets a new version; code that does not know a version refuses the
vector and leaves it unchanged.

Names are a JSON object of lists by view, compressed by zstd with the dictionary
`COMMON`, and by zlib in earlier versions.  They are stored separately because most
readers of a vector do not need them, and forgetting deletes them first.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.models.chain import Runs, require_runs, with_beginnings
from app.bayes.sparse import SparseCounts
from app.errors import CorruptVector, InvalidObservation
from app.features.observation import FeatureNames, Pairs
from app.kernels import columns
from app.kernels import ids as id_kernel
from app.kernels.columns import LOW
from app.zstd import Dictionary, packed, packer, unpacked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from app.kernels import Bytes, Ints


VERSION: Final = 2
MOST_VIEWS: Final = 64
"""Most views of a vector; a message has five."""
DROPPED: Final = frozenset(("structure", "measurements"))
"""Views of earlier versions, which stored vectors, sums and names may still have.

Readers leave them out: no verdict used them (decision 0038)."""
LARGEST: Final = 16 * 1024 * 1024
"""Most bytes of the body of a vector or a sum before compression.

A few bytes of zstd can stand for a gigabyte of zeros.  A message has at most 100,000
features (`app.features.extract.MOST_WORDS`), each with at most 9 bytes, and these are
400,000 features of a sum of two labels.  Precedent: libpng stops at 8 MB of one chunk
(`PNG_USER_CHUNK_MALLOC_MAX`).
"""
MOST_RUNS: Final = 2**16
"""Most runs of symbols of a view; a message has 500 (`app.features.grams`).

A stored byte can be a run, which takes 80 bytes in memory with its beginnings.
"""
MOST_PAIRS: Final = 2**17
"""Most pairs of words of a view; a message has 40,000 (`app.features.extract`).

A stored byte can be a thousand of them: 30 kB were 16 million, in 800 MB of memory.
"""
_FIRST_VERSION: Final = 1
_ALL_ONES, _COUNTS, _FIELDS, _PAIRS, _UNION, _RUNS = range(1, 7)
_FEATURES: Final = frozenset((_ALL_ONES, _COUNTS))
_WORDS: Final = "words"
_UNITED: Final = ("headers", "pairs", _WORDS)
NUMBER: Final = np.dtype("<i8")
# Bytes of a number; the narrowest that fits is used.
_WIDTHS: Final = (1, 2, 4, 8)
_HEAD: Final = struct.Struct("<BI")
COUNT: Final = struct.Struct("<I")


def encode(views: Mapping[str, SparseCounts]) -> bytes:
    """Return the vector of a message as bytes.

    Raises
    ------
    InvalidObservation
        If the name of a view is longer than 255 bytes, or the result is larger than
        `LARGEST`.

    Examples
    --------
    >>> views = {"words": SparseCounts.of({7: 1, -3: 1})}
    >>> decode(encode(views)) == views
    True
    """
    if not views:
        return IN_SUM
    low: list[bytes] = []
    parts = []
    for view in sorted(views):
        kind, n, blocks = _payload(view, views[view], views, low)
        parts += [write_name(view), bytes((kind,)), COUNT.pack(n), *blocks]
    kept = b"".join(low)
    before = COUNT.pack(len(kept)) + kept
    return sealed(VERSION, before, b"".join(parts), kind="vector")


def sealed(version: int, before: bytes, body: bytes, *, kind: str) -> bytes:
    """Return a vector or a sum with its version and its checksum, to be `checked`.

    Parameters
    ----------
    before, body : bytes
        What comes before the compressed body, and the body.

    Raises
    ------
    InvalidObservation
        If the body is larger than `LARGEST`.
    """
    if len(body) > LARGEST:
        msg = f"A {kind} of {len(body)} bytes is too large; {LARGEST} are allowed."
        raise InvalidObservation(msg)
    rest = before + packed(body)
    return _HEAD.pack(version, zlib.crc32(rest)) + rest


IN_SUM: Final = _HEAD.pack(_FIRST_VERSION, zlib.crc32(b""))
"""The vector of a message whose features are part of a sum."""


def decode(vector: bytes) -> dict[str, SparseCounts]:
    """Return the views of an encoded vector.

    Raises
    ------
    CorruptVector
        If the bytes are not from `encode`, were changed, or are of a newer version.

    Examples
    --------
    >>> decode(encode({"words": SparseCounts.of({7: 1})})[:-1])
    Traceback (most recent call last):
    app.errors.CorruptVector: The checksum of a stored vector of 40 bytes is wrong.
    """
    version, rest = checked(vector, "vector", (_FIRST_VERSION, VERSION))
    try:
        return _first_views(rest) if version == _FIRST_VERSION else _views(rest)
    # The checksum is right, so somebody wrote these bytes on purpose.
    except (IndexError, ValueError, struct.error, InvalidObservation) as error:
        msg = f"A stored vector of {len(vector)} bytes cannot be read: {error}."
        raise CorruptVector(msg) from error


def checked(
    stored: bytes, kind: str, versions: Collection[int]
) -> tuple[int, memoryview]:
    """Return the version of a stored vector or sum, and what follows its checksum.

    Raises
    ------
    CorruptVector
        If the version is not one of `versions`, or the checksum is wrong.
    """
    if len(stored) < _HEAD.size:
        raise CorruptVector(f"A stored {kind} of {len(stored)} bytes is too short.")
    version, _ = _HEAD.unpack_from(stored)
    if version not in versions:
        reads = f"this Postbayes reads {max(versions)}"
        raise CorruptVector(f"A stored {kind} has version {version}; {reads}.")
    if not is_whole(stored):
        msg = f"The checksum of a stored {kind} of {len(stored)} bytes is wrong."
        raise CorruptVector(msg)
    return version, memoryview(stored)[_HEAD.size :]


def is_whole(stored: bytes) -> bool:
    """Whether a stored vector or sum has the bytes that its checksum was made of."""
    if len(stored) < _HEAD.size:
        return False
    checksum: int = _HEAD.unpack_from(stored)[1]
    return zlib.crc32(memoryview(stored)[_HEAD.size :]) == checksum


def require_new(view: str, views: Collection[str]) -> None:
    """Raise ValueError if a view exists already, or there are too many."""
    if view in views:
        raise ValueError(f"view {view!r} is there twice")
    if len(views) == MOST_VIEWS:
        raise ValueError(f"there are more than {MOST_VIEWS} views")


def _payload(
    view: str, x: SparseCounts, views: Mapping[str, SparseCounts], low: list[bytes]
) -> tuple[int, int, list[bytes]]:
    """Return the kind, the number of rows and the columns of a view.

    Its low bytes are appended to `low`.
    """
    if (
        isinstance(x, Pairs)
        and x.size <= MOST_PAIRS
        and (places := _places(x, views)) is not None
    ):
        return _PAIRS, x.size, [_column(places, differences=True)]
    ones = int(np.maximum.reduce(x.counts, initial=1)) == 1
    if ones and view not in _UNITED and _is_united(x.ids, views):
        return _UNION, x.size, []
    if isinstance(x, Runs) and (runs := x.numbers).size <= MOST_RUNS:
        return _RUNS, runs.size, [_column(runs, differences=True)]
    by_id = np.empty((LOW + 1) * x.size, np.uint8)
    columns.write_ids(x.ids, by_id)
    low.append(by_id[: LOW * x.size].tobytes())
    high = by_id[LOW * x.size :].tobytes()
    if ones:
        return _ALL_ONES, x.size, [high]
    return _COUNTS, x.size, [high, _column(x.counts)]


def _column(numbers: Ints, *, differences: bool = False) -> bytes:
    """Return some numbers, or the first and the differences of successive ones."""
    into = np.empty(1 + _WIDTHS[-1] * numbers.size, np.uint8)
    return into[: columns.write_column(numbers, differences, into)].tobytes()


def _read_column(
    body: bytes, at: int, n: int, *, differences: bool = False
) -> tuple[Ints, int]:
    """Return the numbers of a column, and its end."""
    width = body[at]
    if width not in _WIDTHS:
        raise ValueError(f"a number of {width} bytes is unknown")
    column = np.frombuffer(body, np.uint8, n * width, at + 1)
    numbers = np.empty(n, np.int64)
    columns.read_column(column, width, differences, numbers)
    return numbers, at + 1 + n * width


def _places(x: Pairs, views: Mapping[str, SparseCounts]) -> Ints | None:
    """Return the places of pairs among all possible pairs of a message's words.

    With n words sorted by id, the pair of the words at i and j has the place n i + j.
    None if a word is missing.
    """
    words = views[_WORDS].ids if _WORDS in views else x.ids[:0]
    places = np.empty(x.size, np.int64)
    if not id_kernel.paired(words, x.left, x.right, places):
        return None
    places.sort()
    return places


def _pairs(places: Ints, views: Mapping[str, SparseCounts]) -> Pairs:
    """Return the pairs at some places of `_places`."""
    words = views[_WORDS].ids if _WORDS in views else places[:0]
    left, right, ids = np.empty((3, places.size), np.int64)
    if not id_kernel.unpaired(words, places, left, right, ids):
        raise ValueError("a pair is of no words")
    ids.sort()
    return Pairs(ids, np.ones_like(ids), left, right)


def _united(views: Mapping[str, SparseCounts]) -> Ints:
    """Return the features of `_UNITED`, each once."""
    ids = [views[view].ids for view in _UNITED if view in views]
    return np.unique(np.concatenate([np.empty(0, np.int64), *ids]))


def _is_united(ids: Ints, views: Mapping[str, SparseCounts]) -> bool:
    """Whether these are the features of `_UNITED`, each once."""
    sizes = [views[view].size for view in _UNITED if view in views]
    # Most views are too small or too large.
    there = max(sizes, default=0) <= ids.size <= sum(sizes)
    return there and np.array_equal(ids, _united(views))


def _views(rest: memoryview) -> dict[str, SparseCounts]:
    """Return the views of a vector of version 2."""
    (size,) = COUNT.unpack_from(rest)
    end = COUNT.size + size
    low = np.frombuffer(rest[COUNT.size : end], np.uint8).reshape(-1, LOW)
    body = unpacked(rest[end:], most=LARGEST)
    views: dict[str, SparseCounts] = {}
    places: dict[str, Ints] = {}
    united: list[str] = []
    at = 0
    while at < len(body):
        view, at = read_name(body, at)
        require_new(view, [*views, *places, *united])
        kind = body[at]
        (n,) = COUNT.unpack_from(body, at + 1)
        at += 1 + COUNT.size
        # Pairs depend on the words, and united views on both.
        if kind == _PAIRS:
            _require_few(view, f"{n} pairs", n, MOST_PAIRS)
            places[view], at = _read_column(body, at, n, differences=True)
        elif kind == _UNION:
            united.append(view)
        elif kind == _RUNS:
            _require_few(view, f"{n} runs", n, MOST_RUNS)
            runs, at = _read_column(body, at, n, differences=True)
            views[view] = with_beginnings(require_runs(runs))
        elif kind == _FIELDS:
            _, at = _read_column(body, at, n, differences=True)
            _, at = _read_column(body, at, n)
        elif kind in _FEATURES:
            views[view], at = _features(body, at, low[:n], counted=kind == _COUNTS)
            low = low[n:]
        else:
            raise ValueError(f"view {view!r} is of the unknown kind {kind}")
    if low.size:
        raise ValueError("it has more ids than features")
    views |= {view: _pairs(at, views) for view, at in places.items()}
    for view in united:
        ids = _united(views)
        views[view] = SparseCounts(ids, np.ones_like(ids))
    return {view: views[view] for view in sorted(views.keys() - DROPPED)}


def _require_few(view: str, has: str, n: int, most: int) -> None:
    """Raise ValueError if a view has too many of what takes few bytes."""
    if n > most:
        raise ValueError(f"view {view!r} has {has}; {most} are allowed")


def _features(
    body: bytes, at: int, low: Bytes, *, counted: bool
) -> tuple[SparseCounts, int]:
    """Return features with these low bytes of ids, and the start of the next view."""
    n = low.shape[0]
    ids = np.empty(n, np.int64)
    high = np.frombuffer(body, np.uint8, n, at)
    increasing = columns.read_ids(low.reshape(-1), high, ids)
    counts, at = np.ones_like(ids), at + n
    if counted:
        counts, at = _read_column(body, at, n)
    if increasing and int(np.minimum.reduce(counts, initial=1)) > 0:
        return SparseCounts.of_sorted(ids, counts), at
    # Says what is wrong.
    return SparseCounts(ids, counts), at


def write_name(name: str) -> bytes:
    """Return the name of a view or label with its length, one byte, before it."""
    encoded = name.encode()
    return bytes((len(encoded),)) + encoded


def read_name(body: bytes | memoryview, at: int) -> tuple[str, int]:
    """Return a name, and its end."""
    end = at + 1 + body[at]
    if end > len(body):
        raise ValueError("a name is cut short")
    return bytes(body[at + 1 : end]).decode(), end


# Kind byte of version 1 -> type of the counts.
_FIRST_WIDTHS: Final = {2: "<u1", 3: "<u2", 4: "<u4", 5: "<i8", 6: "<i8"}
_FIRST_FIELDS: Final = 6


def _first_views(body: memoryview) -> dict[str, SparseCounts]:
    """Return the views of a vector of version 1."""
    views: dict[str, SparseCounts] = {}
    at = 0
    while at < len(body):
        view, at = read_name(body, at)
        require_new(view, views)
        kind = body[at]
        (n,) = COUNT.unpack_from(body, at + 1)
        at += 1 + COUNT.size
        # Copies: a view into the bytes would be read-only and keep them alive.
        ids = np.frombuffer(body, NUMBER, n, at).astype(np.int64)
        at += ids.nbytes
        counts = np.ones(n, np.int64)
        if kind != _ALL_ONES:
            if kind not in _FIRST_WIDTHS:
                raise ValueError(f"view {view!r} is of the unknown kind {kind}")
            column = np.frombuffer(body, np.dtype(_FIRST_WIDTHS[kind]), n, at)
            counts, at = column.astype(np.int64), at + column.nbytes
        if kind != _FIRST_FIELDS:
            views[view] = SparseCounts(ids, counts)
    return {view: x for view, x in views.items() if view not in DROPPED}


LARGEST_NAMES: Final = 32 * 1024 * 1024
"""Most bytes of the names of a row before compression.

A few bytes can stand for a gigabyte of blanks.  The largest message (`app.mail.limits`)
with 4 MiB of headers full of different Cyrillic words has 22 MB of names.
"""
_AS_JSON: Final = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
# Read as a part of the program, as its modules are.
_COMMON: Final = Path(__file__).with_name("names.json")
COMMON: Final = Dictionary(_COMMON.read_bytes().rstrip(), is_raw=True)
"""Dictionary of the compressor: text in it costs nothing in a message.

It makes English names a fifth to a quarter smaller (experiment 0091).  It is part of
the format: no byte of it may change.
"""
_packed: Final = packer(COMMON)


def encode_names(names: Mapping[str, Sequence[str]]) -> bytes:
    """Return the text of a message's features as compressed bytes.

    Examples
    --------
    >>> names = {"words": ("money", "subject:money")}
    >>> decode_names(encode_names(names)) == names
    True
    """
    lists = [
        _AS_JSON(view).encode()
        + b":"
        + (
            # Takes a twentieth of the time, with the same bytes as result.
            texts.as_json()
            if isinstance(texts, FeatureNames)
            else _AS_JSON(list(texts)).encode()
        )
        for view, texts in names.items()
    ]
    return _packed(b"{" + b",".join(lists) + b"}")


def decode_names(names: bytes) -> dict[str, tuple[str, ...]]:
    """Return the text of a message's features, view by view.

    Raises
    ------
    CorruptVector
        If the bytes are not from `encode_names`, were changed, or have more than
        `LARGEST_NAMES` bytes decompressed.
    """
    try:
        read = json.loads(unpacked(names, most=LARGEST_NAMES, dictionary=COMMON))
        return {
            str(view): tuple(map(str, texts))
            for view, texts in read.items()
            if view not in DROPPED
        }
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        msg = f"Stored feature names of {len(names)} bytes cannot be read: {error}."
        raise CorruptVector(msg) from error
