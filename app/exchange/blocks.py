"""Blocks: the container of an export, whose checksums cover every byte.

    POSTBAYES-EXPORT 1    a line
    header                a line, one JSON object (`app.exchange.format`)
    blocks                until the end:
        kind      1 byte     an ASCII letter, "E" in the last block
        packed    4 bytes    length of the content in the file
        size      4 bytes    length of the content
        digest    32 bytes   SHA-256 of kind and content
        content   packed     zlib; as it is where packed equals size

Numbers are little-endian.  The last block has the number of the others, and digests of
them and of the header, so a part that is missing or from another file is noticed.

Contract of this file: for any bytes, a reader gives the blocks as they were written, or
raises `MalformedExport` with a sentence.
"""

from __future__ import annotations

import json
import struct
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from app.errors import MalformedExport

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

VERSION: Final = 1
LARGEST: Final = 64 * 1024 * 1024
"""Most bytes of a block's content, as for a sum (`app.ledger.sums`)."""
MOST_UNPACKED: Final = 100
"""Most bytes of content per byte of the file, beyond the first `LARGEST`.

Blocks of 15,000 messages unpack to 1.0 to 2.9 times their size; zlib can produce 1,030
times.
"""
_MAGIC: Final = b"POSTBAYES-EXPORT "
_LONGEST_LINE: Final = 65_536
_HEAD: Final = struct.Struct("<cII32s")
_END: Final = b"E"
_LEVEL: Final = 6


class Block(NamedTuple):
    """One part of an export."""

    kind: bytes
    content: bytes


class BlockWriter:
    """Writes an export, block by block.

    Parameters
    ----------
    header : bytes
        One line of JSON, without its line end.
    """

    def __init__(self, file: BinaryIO, header: bytes) -> None:
        self._file = file
        self._header = header
        self._digests = sha256()
        self._blocks = 0
        file.write(_MAGIC + b"%d\n" % VERSION + header + b"\n")

    def write(self, kind: bytes, content: bytes) -> None:
        """Write one block.

        Raises
        ------
        MalformedExport
            If it is larger than `LARGEST`.
        """
        if len(content) > LARGEST:
            msg = f"a block of {len(content)} bytes is too large; {LARGEST} are allowed"
            raise MalformedExport(msg)
        digest = sha256(kind + content).digest()
        packed = zlib.compress(content, _LEVEL)
        if len(packed) >= len(content):
            packed = content
        self._file.write(_HEAD.pack(kind, len(packed), len(content), digest))
        self._file.write(packed)
        self._digests.update(digest)
        self._blocks += 1

    def close(self) -> str:
        """Write the last block, and return the digest of the contents."""
        content = self._digests.hexdigest()
        self.write(_END, _trailer(self._header, self._blocks, content))
        return content


class BlockReader:
    """Reads an export, block by block, and trusts no byte of it.

    Raises
    ------
    MalformedExport
        If it does not begin like an export, or is of a newer version.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        magic = file.readline(_LONGEST_LINE)
        if not magic.startswith(_MAGIC):
            raise MalformedExport(
                "this is not an export of Postbayes; for the dump of another filter, "
                "add --from PROGRAM"
            )
        version = magic.removeprefix(_MAGIC).rstrip(b"\n")
        if version != b"%d" % VERSION:
            raise MalformedExport(
                f"this export has the format {version[:20].decode('latin-1')}, but "
                f"this Postbayes reads {VERSION}; import it with a newer version"
            )
        line = file.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise MalformedExport(_CUT)
        self.header: Final = line.rstrip(b"\n")
        self.content = ""
        self._packed = 0
        self._unpacked = 0

    def __iter__(self) -> Iterator[Block]:
        """Yield the checked blocks, except for the last one.

        Raises
        ------
        MalformedExport
            If a block is damaged, or the file is truncated or continues after its end.
        """
        digests = sha256()
        number = 0
        while True:
            kind, digest, content = self._next(number + 1)
            if kind == _END:
                break
            number += 1
            digests.update(digest)
            yield Block(kind, content)
        self.content = digests.hexdigest()
        if content != _trailer(self.header, number, self.content):
            raise MalformedExport(
                "the end of this export does not match the rest: parts are missing, "
                f"or its header was changed. {_AGAIN}"
            )
        if self._file.read(1):
            msg = f"this export was changed: there is data after its end. {_AGAIN}"
            raise MalformedExport(msg)

    def _next(self, number: int) -> tuple[bytes, bytes, bytes]:
        """Return kind, digest and content of the next block."""
        kind, length, size, digest = _HEAD.unpack(self._take(_HEAD.size))
        if max(length, size) > LARGEST:
            raise MalformedExport(
                f"block {number} of this export claims {max(length, size)} bytes; "
                f"{LARGEST} are allowed"
            )
        self._packed += length
        self._unpacked += size
        if self._unpacked > LARGEST + MOST_UNPACKED * self._packed:
            raise MalformedExport(
                f"block {number} of this export unpacks to more than {MOST_UNPACKED} "
                "times its size, which no real export does"
            )
        content = packed = self._take(length)
        if length != size:
            content = _unpacked(packed, size, number)
        if sha256(kind + content).digest() != digest:
            raise MalformedExport(_damaged(number, "its checksum is wrong"))
        return kind, digest, content

    def _take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        taken = self._file.read(size)
        if len(taken) < size:
            raise MalformedExport(_CUT)
        return taken


_AGAIN: Final = "Copy it or export it again; nothing was imported"
_CUT: Final = f"this export was cut short: it ends before its last block. {_AGAIN}"


def _damaged(number: int, why: str) -> str:
    """Return the sentence for a damaged block."""
    return f"block {number} of this export is damaged: {why}. {_AGAIN}"


def _trailer(header: bytes, blocks: int, content: str) -> bytes:
    """Return the content of the last block."""
    end = {"blocks": blocks, "content": content, "header": sha256(header).hexdigest()}
    return json.dumps(end, sort_keys=True).encode()


def _unpacked(packed: bytes, size: int, number: int) -> bytes:
    """Return the content of a compressed block, within its stated size."""
    unpacker = zlib.decompressobj()
    try:
        # One byte more than stated, so that a longer content is noticed.
        content = unpacker.decompress(packed, size + 1)
    except zlib.error as error:
        raise MalformedExport(_damaged(number, "it cannot be unpacked")) from error
    if len(content) != size or not unpacker.eof or unpacker.unused_data:
        raise MalformedExport(_damaged(number, "its size is not the stated one"))
    return content
