"""Vectors: the features of one message as bytes.

Layout, version 1, little-endian:

    version    1 byte     1
    checksum   4 bytes    CRC-32 of everything after it
    views      repeated until the end, sorted by name:
        name     1 byte length, then UTF-8
        kind     1 byte     what the payload is
        n        4 bytes    number of features or of fields
        ids      n x 8      signed, strictly increasing
        values   n x width of the kind

    kind 1       features   no values: all counts are 1
    kind 2 to 5  features   counts, of the width that `_WIDTHS` says
    kind 6       fields     measurements in fixed point, signed, 8 bytes each

Another kind of payload is another kind byte; code that does not know it refuses
the vector and leaves it as it is.  Ids of features are hashes, so they do not
compress: sorted and delta-coded they would save one byte of eight.

The names of the features are kept apart, as compressed JSON, because most
readers of a vector do not need them.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.measurements import MOST_FIELDS, Measurements
from app.bayes.sparse import SparseCounts
from app.errors import CorruptVector, InvalidObservation
from app.features.hashing import FeatureNames

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from app.features.observation import Payload

VERSION: Final = 1
MOST_VIEWS: Final = 64
"""Views of one vector, at most; a message has six."""
LARGEST_NAMES: Final = 32 * 1024 * 1024
"""Bytes of the names of one row before compression, at most.

A few bytes of zlib can stand for a gigabyte of blanks.  Of 4 MiB of headers full of
different Cyrillic words, which is what a message can have (`app.mail.limits`), the
names are 22 MB.
"""
_ALL_ONES: Final = 1
# Kind byte -> type of the counts; the narrowest that fits is used.
_WIDTHS: Final[dict[int, np.dtype[Any]]] = {
    2: np.dtype("<u1"),
    3: np.dtype("<u2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i8"),
}
_LARGEST: Final = {kind: int(np.iinfo(width).max) for kind, width in _WIDTHS.items()}
_MEASUREMENTS: Final = 6
_KINDS: Final = frozenset((_ALL_ONES, _MEASUREMENTS, *_WIDTHS))
_STEPS: Final = np.dtype("<i8")
_ID: Final = np.dtype("<i8")
_HEAD: Final = struct.Struct("<BI")
_COUNT: Final = struct.Struct("<I")
# zlib level 1: on names of 300 features level 6 saves another tenth and takes
# three times as long, which is most of what appending a row costs.
_LEVEL: Final = 1
_AS_JSON: Final = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def encode(views: Mapping[str, Payload]) -> bytes:
    """Return the vector of a message as bytes.

    Raises
    ------
    InvalidObservation
        If the name of a view is longer than 255 bytes.

    Examples
    --------
    >>> views = {"words": SparseCounts.of({7: 1, -3: 1})}
    >>> len(encode(views))
    32
    >>> decode(encode(views)) == views
    True
    """
    parts = []
    for view in sorted(views):
        x = views[view]
        name = view.encode()
        if len(name) > 0xFF:  # noqa: PLR2004  (the length is one byte)
            msg = f"The name of a view has at most 255 bytes, got {len(name)}."
            raise InvalidObservation(msg)
        kind, values = _payload(x)
        parts += [bytes((len(name),)), name, bytes((kind,)), _COUNT.pack(x.size)]
        parts += [x.ids.astype(_ID, copy=False).tobytes(), values]
    body = b"".join(parts)
    return _HEAD.pack(VERSION, zlib.crc32(body)) + body


IN_SUM: Final = encode({})
"""The vector of a message whose features are in a sum, with those of others."""


def decode(vector: bytes) -> dict[str, Payload]:
    """Return the views of an encoded vector.

    Raises
    ------
    CorruptVector
        If the bytes were not written by `encode`, were changed since or come
        from a newer version.

    Examples
    --------
    >>> decode(encode({"words": SparseCounts.of({7: 1})})[:-1])
    Traceback (most recent call last):
    app.errors.CorruptVector: The checksum of a stored vector of 23 bytes is wrong.
    """
    if len(vector) < _HEAD.size:
        raise CorruptVector(f"A stored vector of {len(vector)} bytes is too short.")
    version, checksum = _HEAD.unpack_from(vector)
    if version != VERSION:
        msg = f"A stored vector has version {version}; this Postbayes reads {VERSION}."
        raise CorruptVector(msg)
    body = memoryview(vector)[_HEAD.size :]
    if zlib.crc32(body) != checksum:
        msg = f"The checksum of a stored vector of {len(vector)} bytes is wrong."
        raise CorruptVector(msg)
    try:
        return _views(body)
    # The checksum is right, so somebody wrote these bytes on purpose.
    except (IndexError, ValueError, struct.error, InvalidObservation) as error:
        msg = f"A stored vector of {len(vector)} bytes cannot be read: {error}."
        raise CorruptVector(msg) from error


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
            # In a twentieth of the time, to the same bytes.
            texts.as_json()
            if isinstance(texts, FeatureNames)
            else _AS_JSON(list(texts)).encode()
        )
        for view, texts in names.items()
    ]
    return zlib.compress(b"{" + b",".join(lists) + b"}", _LEVEL)


def decode_names(names: bytes) -> dict[str, tuple[str, ...]]:
    """Return the text of a message's features, view by view.

    Raises
    ------
    CorruptVector
        If the bytes were not written by `encode_names` or were changed since, or
        are more than `LARGEST_NAMES` without compression.
    """
    try:
        read = json.loads(_unpacked(names))
        return {str(view): tuple(map(str, texts)) for view, texts in read.items()}
    except (
        zlib.error,
        ValueError,
        AttributeError,
        TypeError,
        RecursionError,
    ) as error:
        msg = f"Stored feature names of {len(names)} bytes cannot be read: {error}."
        raise CorruptVector(msg) from error


def _unpacked(names: bytes) -> bytes:
    """Return what was compressed, within its limit."""
    unpacker = zlib.decompressobj()
    # One byte more than is allowed, so that more than is allowed is seen.
    text = unpacker.decompress(names, LARGEST_NAMES + 1)
    if len(text) > LARGEST_NAMES:
        raise ValueError(f"they are more than {LARGEST_NAMES} bytes")
    if not unpacker.eof or unpacker.unused_data:
        msg = "they do not end where they should"
        raise ValueError(msg)
    return text


def _payload(x: Payload) -> tuple[int, bytes]:
    """Return the kind that `x` takes, and its values; the narrowest that fits."""
    if isinstance(x, Measurements):
        return _MEASUREMENTS, x.values.astype(_STEPS, copy=False).tobytes()
    most = int(np.maximum.reduce(x.counts, initial=1))
    if most == 1:
        return _ALL_ONES, b""
    kind = next(kind for kind, largest in _LARGEST.items() if most <= largest)
    return kind, x.counts.astype(_WIDTHS[kind]).tobytes()


def _views(body: memoryview) -> dict[str, Payload]:
    """Return the views of the body of a vector."""
    views: dict[str, Payload] = {}
    at = 0
    while at < len(body):
        view, x, at = _view(body, at)
        require_new(view, views)
        views[view] = x
    return views


def require_new(view: str, views: Collection[str]) -> None:
    """Raise ValueError if a view is there already, or there is no room for one."""
    if view in views:
        raise ValueError(f"view {view!r} is there twice")
    if len(views) == MOST_VIEWS:
        raise ValueError(f"there are more than {MOST_VIEWS} views")


def _view(body: memoryview, at: int) -> tuple[str, Payload, int]:
    """Return one view, its name and where the next one starts."""
    length = body[at]
    at += 1
    view = bytes(body[at : at + length]).decode()
    at += length
    kind = body[at]
    at += 1
    if kind not in _KINDS:
        raise ValueError(f"view {view!r} is of the unknown kind {kind}")
    (n,) = _COUNT.unpack_from(body, at)
    at += _COUNT.size
    # Copies: a view into the bytes would be read-only and keep them alive.
    ids = np.frombuffer(body, _ID, n, at).astype(np.int64)
    at += n * _ID.itemsize
    if kind == _ALL_ONES:
        return view, SparseCounts(ids, np.ones(n, np.int64)), at
    if kind == _MEASUREMENTS:
        if n > MOST_FIELDS:
            raise ValueError(f"view {view!r} has {n} fields; {MOST_FIELDS} are allowed")
        steps = np.frombuffer(body, _STEPS, n, at).astype(np.int64)
        return view, Measurements(ids, steps), at + n * _STEPS.itemsize
    width = _WIDTHS[kind]
    counts = np.frombuffer(body, width, n, at).astype(np.int64)
    return view, SparseCounts(ids, counts), at + n * width.itemsize
