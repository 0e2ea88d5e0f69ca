"""Which files does a message bring, and are they what they say?

Every feature is tagged ``file:``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.features.tokens import of_name

if TYPE_CHECKING:
    from app.mail.message import Message, Part

# What senders call the kinds of `app.mail.files`. Office files of today are zip.
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


def file_words(message: Message) -> list[str]:
    """Return the features of the files of a message."""
    found: list[str] = []
    for part in message.parts:
        if part.filename or part.kind or part.members:
            found += _of_part(part)
    return found


def _of_part(part: Part) -> list[str]:
    """Return the features of one file."""
    found = []
    extensions = _extensions(part.filename)
    if part.filename:
        found += ["file:" + word for word in of_name(part.filename)]
        found += ["file:." + extension for extension in extensions[-1:]]
    # "invoice.pdf.exe": what some programs hide is the last one.
    if len(extensions) > 1 and extensions[-2] in _KNOWN_NAMES:
        found.append("file:(double-extension)")
    if part.kind:
        found.append(f"file:({part.kind})")
        called = extensions[-1] if extensions else part.media_type.partition("/")[2]
        if called in _KNOWN_NAMES and called not in _CALLED[part.kind]:
            found.append(f"file:({part.kind} as {called})")
    for member in part.members[:_MAX_MEMBERS]:
        found += ["file:in:." + extension for extension in _extensions(member)[-1:]]
    return found


def _extensions(name: str) -> list[str]:
    """Return what follows the dots of a file's name, lower case."""
    pieces = name.lower().rpartition("/")[2].split(".")[1:]
    return [piece.strip() for piece in pieces if 0 < len(piece) <= _MAX_EXTENSION]
