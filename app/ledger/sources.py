"""Sources: who taught a ledger row, and a selection of what to take back.

A source is text of one line.  People choose theirs; four kinds of names are the
filter's own, and nobody else may teach under them: what is undone or audited by its
source must not be mixed with what a person said under the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import InvalidInput
from app.ledger.entry import OWN

if TYPE_CHECKING:
    from datetime import datetime

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The teachings to take back: those that match everything given.

    Parameters
    ----------
    ids : frozenset of bytes
        Digests of messages; empty means any.
    source : str or None
        Who taught them, as the ledger has it, or ``undo:7`` for an undo; None means
        anybody.
    since, until : datetime or None
        From then on, and before then; None means any time.
    """

    ids: frozenset[bytes] = frozenset()
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def document(self) -> dict[str, object]:
        """Return the selection as JSON takes it."""
        return {
            "ids": sorted(digest.hex() for digest in self.ids),
            "source": self.source,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }
