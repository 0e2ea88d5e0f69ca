"""Sources: the names under which the rows of a ledger were taught.

A source is text of one line.  People choose theirs; four kinds of names are the
filter's own, and nobody else may teach under them: what is undone or audited by its
source must not be mixed with what a person said under the same name.
"""

from __future__ import annotations

import re
from typing import Final

from app.errors import InvalidInput

OWN: Final = "auto"
"""The source of what the filter learned by itself, from its own verdicts."""
PRUNED: Final = "prune"
"""The source of the rows that take pruned features out."""
UNDO_PREFIX: Final = "undo:"
"""Begins the source of the rows that an undo writes."""
IMPORT_PREFIX: Final = "import:"
"""Begins the source of the rows that an import writes."""
MAX_SOURCE: Final = 64
PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line; PostgreSQL takes no NUL."""
_PRINTABLE: Final = re.compile(PRINTABLE)


def check_source(source: str) -> None:
    """Raise unless a person may teach under the name of a source.

    Raises
    ------
    InvalidInput
        If the name is empty, too long, not printable text of one line, or one of
        the filter's own.
    """
    printable = _PRINTABLE.match(source) and source.isprintable()
    if not printable or len(source) > MAX_SOURCE:
        msg = (
            f"a source is 1 to {MAX_SOURCE} printable characters, such as a user's "
            f"name; got {source[:MAX_SOURCE]!r}"
        )
        raise InvalidInput(msg)
    if source in (OWN, PRUNED) or source.startswith((UNDO_PREFIX, IMPORT_PREFIX)):
        msg = (
            f"the source {source!r} is reserved for rows that the filter writes "
            "itself; give another name, such as a user's"
        )
        raise InvalidInput(msg)
