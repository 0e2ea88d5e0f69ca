"""Who says so? Names that the ledger can keep of those who teach."""

from __future__ import annotations

import re
from typing import Final

from app.errors import InvalidInput
from app.storage.entry import OWN
from app.storage.prune import SOURCE as PRUNED
from app.storage.undos import PREFIX as UNDONE

PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line; PostgreSQL takes no NUL."""

MAX_SOURCE = 64

_SOURCE = re.compile(PRINTABLE)

# What is undone or audited by its source must not be mixed with what a person
# said under the same name.
_RESERVED: Final = (OWN, PRUNED)
_RESERVED_PREFIXES: Final = (UNDONE, "import:")


def check_source(source: str) -> None:
    """Raise if the ledger cannot keep who says so.

    Raises
    ------
    InvalidInput
        If it is empty, too long, or not printable text of one line.
    """
    printable = _SOURCE.match(source) and source.isprintable()
    if not printable or len(source) > MAX_SOURCE:
        msg = (
            f"a source is 1 to {MAX_SOURCE} printable characters, such as a user's "
            f"name; got {source[:MAX_SOURCE]!r}"
        )
        raise InvalidInput(msg)
    if source in _RESERVED or source.startswith(_RESERVED_PREFIXES):
        msg = (
            f"the source {source!r} stands for what the filter does itself; give "
            "another name, such as a user's"
        )
        raise InvalidInput(msg)
