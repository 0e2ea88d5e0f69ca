"""Index: the messages that a TREC-style index names.

The format of the TREC spam track: one line per message in stream order, a
label, blanks and a path relative to the folder of the index::

    spam ../data/inmail.1
    ham ../data/inmail.2

Labels are taken as they stand, so that an index can hold more than two.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.corpora.mailbox import read_file, unreadable
from app.errors import MalformedIndex, UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.corpora.mailbox import CorpusMessage

# Longer than any path that Linux opens (PATH_MAX, 4,096 bytes) with a label
# before it: without a limit, a mailbox given as an index by mistake may be
# one line of gigabytes.
LINE_LIMIT: Final = 8_192
"""The longest line of an index.  Unit: bytes."""


def read_index(index: Path) -> Iterator[CorpusMessage]:
    """Yield the messages that `index` names, in its order.

    Parameters
    ----------
    index : Path
        The index file.  Paths in it are relative to its folder, or absolute.

    Raises
    ------
    MalformedIndex
        If a line is not a label and a path; the sentence has its number.
    UnreadableSource
        If the index or a file that it names cannot be read.

    Notes
    -----
    Messages are read one by one as they are asked for, and nothing is kept.
    """
    for number, label, path in _lines(index):
        try:
            yield read_file(path, label=label)
        except UnreadableSource as error:
            msg = f"{index}, line {number}: {error}"
            raise UnreadableSource(msg) from error


def count_index(index: Path) -> int:
    """Return the number of messages that `index` names, having checked its lines.

    Raises
    ------
    MalformedIndex
        If a line is not a label and a path.
    UnreadableSource
        If the index cannot be read.
    """
    return sum(1 for _ in _lines(index))


def _lines(index: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield line number, label and path of every line that is not blank."""
    try:
        with index.open("rb") as file:
            number = 0
            while line := file.readline(LINE_LIMIT + 1):
                number += 1
                # Paths are bytes to the operating system, in no encoding.
                text = os.fsdecode(line).rstrip("\r\n")
                if not text.strip():
                    continue
                label, path = [*text.split(None, 1), ""][:2]
                if not path or len(line) > LINE_LIMIT or "\0" in path:
                    msg = (
                        f"{index}, line {number}: expected a label and a path, "
                        f"such as `spam data/1.eml`, got {text[:60]!r}"
                    )
                    raise MalformedIndex(msg)
                yield number, label, Path(os.path.normpath(index.parent / path))
    except OSError as error:
        raise unreadable(index, error) from error
