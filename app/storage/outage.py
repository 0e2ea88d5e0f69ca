"""Is PostgreSQL known to say nothing? Then nobody waits to find that out again.

Whoever waits in vain begins an outage, and while it lasts every transaction is
refused at once.  One caller goes on asking, with connections that nobody else
waits for, and ends it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from app.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable


class Outage:
    """What the connections of one engine know of their server."""

    def __init__(self) -> None:
        self.lasts = False
        self.connect: Callable[[], Any] | None = None
        """Opens a connection for `probe`; None while there was none."""
        self.opened = 0
        """Connections until now: a server that was replaced has a new one."""
        self._begun = 0

    def begin(self) -> None:
        """Have everybody refused from now on."""
        self._begun += 1
        self.lasts = True

    def require_over(self) -> None:
        """Raise at once while the server is known to say nothing.

        Raises
        ------
        DatabaseUnavailable
            While it is; nothing was sent to it.
        """
        if self.lasts:
            msg = (
                "The database hangs, and is asked until it answers again. "
                "Nothing of this was stored; try again later."
            )
            raise DatabaseUnavailable(msg)

    def probe(self) -> None:
        """Ask the server, and end the outage unless it is silent again.

        The driver's error is raised where it cannot be asked.
        """
        if self.connect is None:
            return
        before = self._begun
        try:
            with closing(self.connect()) as connection:
                # A pooler lets connect whatever becomes of the server behind it.
                connection.execute("SELECT 1")
        finally:
            self.lasts = self._begun > before
