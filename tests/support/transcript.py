"""Conversations as files that a person can read and edit.

A line that begins with ``>`` is the client's, with ``<`` the server's; each
stands for its text with CR LF behind it.  ``>|`` and ``<|`` end with LF alone, a
backslash at the end of a line with nothing, and ``#`` explains.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden"


def load(path):
    """Return what the client of a conversation sends, and what it is answered."""
    sides = {">": b"", "<": b""}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        side, text = line[0], line[1:]
        end = b"\r\n"
        if text.startswith("|"):
            text, end = text[1:], b"\n"
        text = text.removeprefix(" ")
        if text.endswith("\\"):
            text, end = text[:-1], b""
        sides[side] += text.encode() + end
    return sides[">"], sides["<"]


def paths(protocol):
    """Return the conversations of a protocol."""
    return sorted((FOLDER / protocol).glob("*.txt"))
