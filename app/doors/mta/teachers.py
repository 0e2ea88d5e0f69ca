"""Teachers: the names that those who teach through a mail door have in the ledger."""

from __future__ import annotations

from app.ledger.entry import MAX_SOURCE


def source(door: str, user: str) -> str:
    r"""Return the source in the ledger of a user who teaches through a door.

    Examples
    --------
    >>> source("spamd", "ann@example.org"), source("spamd", "\0" + "x" * 100)[:10]
    ('spamd:ann@example.org', 'spamd:xxxx')
    """
    who = "".join(c for c in user if c.isprintable())
    return f"{door}:{who}"[:MAX_SOURCE] if who else door
