r"""How does a message get other headers? As bytes, and nothing else is touched."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

# A sender who writes such headers himself would decide what rules do with his
# mail.
FORGED: Final = ("x-postbayes", "x-spam")
"""Beginnings, in lower case, of the header names that only filters write."""

_MBOX_LINE: Final = re.compile(rb"\A>?From [^\r\n]*\r?\n")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_EMPTY_LINE: Final = re.compile(rb"(?:\A|\n)\r?\n")


def end_of_head(raw: bytes) -> int:
    r"""Return where the body begins: behind the first empty line.

    Examples
    --------
    >>> end_of_head(b"A: 1\r\n\r\nbody"), end_of_head(b"A: 1\nB: 2\n")
    (8, 10)
    """
    end = _EMPTY_LINE.search(raw)
    return len(raw) if end is None else end.end()


def with_headers(
    raw: bytes, headers: Iterable[tuple[str, str]], ours: Iterable[str] = ()
) -> bytes:
    r"""Return a message, or its head alone, with headers on top, forged ones gone.

    Parameters
    ----------
    raw : bytes
        The message as it came.
    headers : iterable of (str, str)
        Name and value; ASCII, folded with LF.
    ours : iterable of str
        Names in lower case that nobody else may write, beside those that begin
        like one of `FORGED`.

    Examples
    --------
    >>> with_headers(b"X-Spam: no\r\n folded\r\nA: 1\r\n\r\nX-Spam: b", [("X", "c")])
    b'X: c\r\nA: 1\r\n\r\nX-Spam: b'
    """
    end = end_of_head(raw)
    # An mbox line stays the first one.
    mbox = _MBOX_LINE.match(raw[:end])
    start = mbox.end() if mbox else 0
    first = raw.find(b"\n")
    newline = "\r\n" if raw[max(0, first - 1) : first] == b"\r" else "\n"
    names = frozenset(ours)
    kept = [raw[:start]]
    for name, value in headers:
        lines = f"{name}: {value}\n".replace("\n", newline)
        kept.append(lines.encode("ascii", "replace"))
    drops = False
    for line in _LINE.findall(raw[start:end]):
        if not line.startswith((b" ", b"\t")):
            name = line.partition(b":")[0].strip().decode("latin-1").lower()
            drops = name in names or name.startswith(FORGED)
        if not drops:
            kept.append(line)
    return b"".join([*kept, raw[end:]])
