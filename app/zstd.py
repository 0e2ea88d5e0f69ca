"""zstd (RFC 8878): bytes as frames, and frames as bytes within bounds.

The library is the standard one of Python 3.14, and its backport below that.

Contract of this file: what a stranger sends takes no more memory than `WINDOW_LOG`
and the caller allow.
"""

from __future__ import annotations

import sys
import zlib
from functools import partial
from typing import TYPE_CHECKING, Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a frame (section 3.1.1)."""
WINDOW_LOG: Final = 23
"""Memory that a frame may ask for: 8 MiB.  Unit: log2 of bytes.

Every decoder should have that much (section 3.1.1.1.2); the limit of the library is
128 MiB.
"""
Dictionary = zstd.ZstdDict
"""Text that a packer has seen before each frame."""
BadFrame = zstd.ZstdError
"""Raised if bytes are not a zstd frame."""


def packer(
    dictionary: Dictionary | None = None, *, level: int = 3
) -> Callable[[bytes], bytes]:
    """Return a function that makes frames, after some text or none.

    Level 3 takes 33 us for the names of a mean message, and 5 takes 69 for a twentieth
    less.
    """
    # One for all: it has a lock, each call makes a whole frame, and another one for
    # each call would take twice the time.
    compressor = zstd.ZstdCompressor(
        options={
            int(zstd.CompressionParameter.compression_level): level,
            int(zstd.CompressionParameter.checksum_flag): 1,
        },
        zstd_dict=None if dictionary is None else dictionary.as_digested_dict,
    )
    return partial(compressor.compress, mode=zstd.ZstdCompressor.FLUSH_FRAME)


packed: Final = packer()
"""Makes a frame of bytes."""


def decompressor(dictionary: Dictionary | None = None) -> zstd.ZstdDecompressor:
    """Return what reads one frame that asks for no more than `WINDOW_LOG`."""
    options = {int(zstd.DecompressionParameter.window_log_max): WINDOW_LOG}
    return zstd.ZstdDecompressor(zstd_dict=dictionary, options=options)


def unpacked(
    compressed: bytes | memoryview, *, most: int, dictionary: Dictionary | None = None
) -> bytes:
    """Return what is in a frame, or in zlib, as earlier versions stored it.

    Raises
    ------
    ValueError
        If it is neither, ends early, is followed by something else, or holds more than
        `most` bytes.
    """
    unpacker = (
        decompressor(dictionary)
        if compressed[: len(MAGIC)] == MAGIC
        else zlib.decompressobj()
    )
    try:
        # One byte more than is allowed, so that more than is allowed is seen.
        body = unpacker.decompress(compressed, most + 1)
    except (BadFrame, zlib.error) as error:
        raise ValueError(str(error)) from error
    if len(body) > most:
        raise ValueError(f"they are more than {most} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("they do not end where they should")
    return body
