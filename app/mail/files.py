"""File signatures and the entries of archives.

Nothing is unpacked: only the directory of an archive is read.
"""

from __future__ import annotations

import struct
from typing import Final

from app.mail.limits import MAX_MEMBER_NAME_BYTES, MAX_MEMBERS

MAGIC: Final = (
    (b"PK\x03\x04", "zip"),
    (b"MZ", "exe"),
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"{\\rtf", "rtf"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x1f\x8b\x08", "gzip"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
)
"""First bytes of file formats, from their specifications."""
# APPNOTE.TXT 6.3.10, sections 4.3.16 and 4.3.12: end of central directory,
# and one entry of it up to its variable fields.
_END: Final = struct.Struct("<4s4H2LH")
_ENTRY: Final = struct.Struct("<4s4B4HL2L5H2L")
_END_MAGIC: Final = b"PK\x05\x06"
_ENTRY_MAGIC: Final = b"PK\x01\x02"
_MAX_COMMENT: Final = 65_535
_UTF8_FLAG: Final = 0x800


def kind(content: bytes) -> str:
    r"""Return the type of a file by its first bytes, or "".

    Examples
    --------
    >>> kind(b"%PDF-1.7\n"), kind(b"hello")
    ('pdf', '')
    """
    return next((name for magic, name in MAGIC if content.startswith(magic)), "")


def members(content: bytes) -> tuple[tuple[str, ...], str]:
    """Return the names in a zip archive, and its defect, or "".

    Parameters
    ----------
    content : bytes
        The archive, possibly truncated.

    Returns
    -------
    names : tuple of str
        The first `MAX_MEMBERS`, in the order of the directory.
    defect : str
        ``archive-broken`` or ``archive-too-large``.
    """
    # Not zipfile: it reads a directory of any size before its size is known, and
    # raises any error of struct, codecs and seek.
    end = content.rfind(_END_MAGIC, max(0, len(content) - _MAX_COMMENT - _END.size))
    if end < 0 or end + _END.size > len(content):
        return (), "archive-broken"
    _, _, _, _, total, size, _, _ = _END.unpack_from(content, end)
    at = end - size
    names: list[str] = []
    while at >= 0 and at + _ENTRY.size <= end and len(names) < MAX_MEMBERS:
        entry = _ENTRY.unpack_from(content, at)
        if entry[0] != _ENTRY_MAGIC:
            return tuple(names), "archive-broken"
        flags, name_size, extra_size, comment_size = entry[5], *entry[12:15]
        start = at + _ENTRY.size
        name = content[start : start + min(name_size, MAX_MEMBER_NAME_BYTES)]
        names.append(name.decode("utf-8" if flags & _UTF8_FLAG else "cp437", "replace"))
        at = start + name_size + extra_size + comment_size
    if len(names) == MAX_MEMBERS and at < end:
        return tuple(names), "archive-too-large"
    return tuple(names), "" if at == end and len(names) == total else "archive-broken"
