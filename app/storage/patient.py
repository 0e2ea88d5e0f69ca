"""How long may PostgreSQL say nothing?

A server that is stopped, or a machine that froze, keeps its connections: the
kernel acknowledges what is sent, and the client waits for an answer for ever.
No time-out of the server or of TCP helps there, so the client counts.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Generator

SILENCE: Final = 30.0
"""Seconds without an answer after which a connection is given up.

Precedent: as long as Postfix waits for a milter (`milter_command_timeout`).
"""


class PatientConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer.

    `silence` is how long it may take, and may be changed. Unit: seconds.
    """

    silence: float = SILENCE

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        """Wait for the server, but not for ever.

        Raises
        ------
        psycopg.OperationalError
            If it says nothing for too long; the connection is closed.
        """
        try:
            return super().wait(_heard(gen, self.silence), *arguments, **named)
        except _SilentError:
            # Its answer, if it ever comes, is to no question of ours any more.
            self.pgconn.finish()
            raise


class _SilentError(psycopg.OperationalError):
    """The server said nothing for too long."""


def _heard(gen: Any, silence: float) -> Generator[Any, Any, Any]:
    """Give what a generator of psycopg gives, and raise if nothing comes.

    psycopg tells it ten times a second that nothing has come yet.
    """
    until = time.monotonic() + silence
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if ready:
                until = time.monotonic() + silence
            elif time.monotonic() > until:
                msg = f"PostgreSQL has not answered for {silence:g} seconds"
                raise _SilentError(msg)
            wanted = gen.send(ready)
    except StopIteration as done:
        return done.value
