r"""Conversations in packets, as files that a person can read and edit.

A line that begins with ``>`` is the mail server's packet, with ``<`` the
filter's: the byte that names it, a blank, and its data, with ``\0`` and ``\xNN``
for bytes that cannot be written.  ``#`` explains, and ``# settings:`` names the
settings of the door, each as name=value.
"""

from __future__ import annotations

import struct
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden" / "milter"


def packet(line):
    """Return the packet that a line stands for."""
    data = line.encode().decode("unicode_escape").encode("latin-1")
    return struct.pack("!I", len(data) - 1) + data[:1] + data[2:]


def load(path):
    """Return settings, what the mail server sends, and what it is answered."""
    settings, sides = {}, {">": b"", "<": b""}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# settings: "):
            pairs = line.removeprefix("# settings: ").split()
            settings |= dict(pair.split("=") for pair in pairs)
        elif line and not line.startswith("#"):
            sides[line[0]] += packet(line[2:].ljust(2))
    return settings, sides[">"], sides["<"]


def paths():
    """Return the conversations."""
    return sorted(FOLDER.glob("*.txt"))
