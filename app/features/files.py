"""Files: the names, kinds and members of attached files as features.

All are tagged ``file:``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.kernels.text import NAME, WHOLE

if TYPE_CHECKING:
    from app.features.tokens import Span
    from app.mail.message import Message, Part

# Declared types for the kinds of `app.mail.parse`. Modern office files are zip.
_CALLED: Final = {
    "zip": {"zip", "jar", "docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "apk"},
    "exe": {"exe", "dll", "scr", "com", "pif", "cpl", "sys", "x-msdownload"},
    "ole": {"doc", "xls", "ppt", "msi", "msg", "dot", "pps", "msword"},
    "pdf": {"pdf"},
    "png": {"png"},
    "jpeg": {"jpg", "jpeg", "jpe", "pjpeg", "jfif"},
    "gif": {"gif"},
    "rtf": {"rtf", "doc"},
    "rar": {"rar"},
    "gzip": {"gz", "tgz"},
    "7z": {"7z"},
}
_KNOWN_NAMES: Final = frozenset(name for names in _CALLED.values() for name in names)
_MAX_EXTENSION: Final = 5
_MAX_MEMBERS: Final = 50


def file_words(message: Message) -> list[Span]:
    """Return the features of the files of a message."""
    found: list[Span] = []
    for part in message.parts:
        if part.filename or part.kind or part.members:
            found += of_part(part)
    return found


def of_part(part: Part) -> list[Span]:
    """Return the features of one file."""
    marks = []
    extensions = _extensions(part.filename)
    if part.filename:
        marks += ["." + extension for extension in extensions[-1:]]
    # "invoice.pdf.exe": some programs hide the last extension.
    if len(extensions) > 1 and extensions[-2] in _KNOWN_NAMES:
        marks.append("(double-extension)")
    if part.kind:
        marks.append(f"({part.kind})")
        called = extensions[-1] if extensions else part.media_type.partition("/")[2]
        if called in _KNOWN_NAMES and called not in _CALLED[part.kind]:
            marks.append(f"({part.kind} as {called})")
    for member in part.members[:_MAX_MEMBERS]:
        marks += ["in:." + extension for extension in _extensions(member)[-1:]]
    return [
        ("file:", part.filename, NAME),
        *[("file:", mark, WHOLE) for mark in marks],
    ]


def _extensions(name: str) -> list[str]:
    """Return the extensions of a file's name, in lower case."""
    pieces = name.lower().rpartition("/")[2].split(".")[1:]
    return [piece.strip() for piece in pieces if 0 < len(piece) <= _MAX_EXTENSION]
