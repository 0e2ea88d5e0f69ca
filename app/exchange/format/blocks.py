"""Blocks of an export: compressed, counted and sealed.

Layout, version 1, little-endian (docs/portable.md has all of it):

    POSTBAYES-EXPORT 1    a line
    header                a line, one JSON object (`app.exchange.format.header`)
    blocks                until the end:
        kind      1 byte     an ASCII letter, "E" in the last block
        packed    4 bytes    length of the content in the file
        size      4 bytes    length of the content
        digest    32 bytes   SHA-256 of kind and content
        content   packed     zlib; as it is where packed equals size

The last block counts the others and has digests of all of them and of the
header, so that no part can be missing or of another file.
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
"""Bytes of a block's content, at most; as of a sum (`app.ledger.sums`)."""
MOST_UNPACKED: Final = 100
"""Bytes of content for each byte of the file, at most, beyond the first `LARGEST`.

Blocks of 15,000 messages unpack to 1.0 to 2.9 times their size; zlib can make
1,030 of one.
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
    file : binary file
        Where it goes.
    header : bytes
        One line of JSON, without its end.
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

    Parameters
    ----------
    file : binary file
        At its beginning.

    Raises
    ------
    MalformedExport
        If it does not begin as an export does, or is of a newer version.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        magic = file.readline(_LONGEST_LINE)
        if not magic.startswith(_MAGIC):
            msg = (
                "this is not an export of Postbayes: its first line is another one. "
                "For the dump of another filter say --from PROGRAM"
            )
            raise MalformedExport(msg)
        version = magic.removeprefix(_MAGIC).rstrip(b"\n")
        if version != b"%d" % VERSION:
            msg = (
                f"this export is of the format {version[:20].decode('latin-1')}, and "
                f"this Postbayes reads {VERSION}; import it with a newer one"
            )
            raise MalformedExport(msg)
        line = file.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise MalformedExport(_CUT)
        self.header: Final = line.rstrip(b"\n")
        self.content = ""
        self._packed = 0
        self._unpacked = 0

    def __iter__(self) -> Iterator[Block]:
        """Give the blocks, each checked; the last one is not given.

        Raises
        ------
        MalformedExport
            If a block is damaged, or the file is cut short or goes on after its
            end.
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
            msg = (
                "the end of this export is not that of what is before it: "
                f"parts are missing, or its header was changed. {_AGAIN}"
            )
            raise MalformedExport(msg)
        if self._file.read(1):
            msg = f"something follows the end of this export: it was changed. {_AGAIN}"
            raise MalformedExport(msg)

    def _next(self, number: int) -> tuple[bytes, bytes, bytes]:
        """Return kind, digest and content of the next block."""
        kind, length, size, digest = _HEAD.unpack(self._take(_HEAD.size))
        if max(length, size) > LARGEST:
            msg = (
                f"block {number} of this export says that it has "
                f"{max(length, size)} bytes; {LARGEST} are allowed"
            )
            raise MalformedExport(msg)
        self._packed += length
        self._unpacked += size
        if self._unpacked > LARGEST + MOST_UNPACKED * self._packed:
            msg = (
                f"block {number} of this export unpacks to more than {MOST_UNPACKED} "
                "times its size, which nothing that was learned does"
            )
            raise MalformedExport(msg)
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


_AGAIN: Final = "Copy or make it again; nothing of it was imported"
_CUT: Final = f"this export ends before its last block: it was cut short. {_AGAIN}"


def _damaged(number: int, why: str) -> str:
    """Return the sentence about a damaged block."""
    return f"block {number} of this export is damaged: {why}. {_AGAIN}"


def _trailer(header: bytes, blocks: int, content: str) -> bytes:
    """Return the content of the last block."""
    end = {
        "blocks": blocks,
        "content": content,
        "header": sha256(header).hexdigest(),
    }
    return json.dumps(end, sort_keys=True).encode()


def _unpacked(packed: bytes, size: int, number: int) -> bytes:
    """Return the content of a compressed block, within the size that it states."""
    unpacker = zlib.decompressobj()
    try:
        # One byte more than is stated, so that a longer content is noticed.
        content = unpacker.decompress(packed, size + 1)
    except zlib.error as error:
        raise MalformedExport(_damaged(number, "it cannot be unpacked")) from error
    if len(content) != size or not unpacker.eof or unpacker.unused_data:
        raise MalformedExport(_damaged(number, "it is not of the size that it says"))
    return content
