"""Timed connections: connections to PostgreSQL that give up on a silent server.

A server that is stopped, or a machine that froze, keeps its connections: the
kernel acknowledges what is sent, and the client waits for an answer for ever.
No time-out of the server or of TCP helps there, so the client counts.
"""

from __future__ import annotations

import logging
import re
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Generator

    from app.storage.database.dialect import Outage

# libpq looks at the values of its options when it connects, and has no code for them:
# `invalid sslmode value: "x"`, `invalid integer value "x" for connection option "y"`.
_WRONG: Final = re.compile(r'invalid (?:\w+ value|port number)\b.*"')
# Encodings of a database that keep every character of mail. In any other the first
# message with one that it lacks could not be folded, nor any after it. SQL_ASCII is no
# encoding but bytes that nobody looks at: ours go in and come out as UTF-8.
_ENCODINGS: Final = ("UTF8", "SQL_ASCII")


def _is_new_error(record: logging.LogRecord) -> bool:
    """Return whether what psycopg logs is said nowhere else.

    What fails where rows are sent one behind the other is raised, and then logged for
    the rows behind it, which the server passes over: "error ignored terminating
    <psycopg.Pipeline …>: pipeline aborted".
    """
    args = record.args
    about = args[0] if isinstance(args, tuple) and args else None
    ignored = record.msg.startswith("error ignored")
    return not (ignored and isinstance(about, psycopg.Pipeline))


# For every process that has connections: commands have no log, and say what is warned
# of beside what they end with.
logging.getLogger("psycopg").addFilter(_is_new_error)


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer.

    `open` sets what it needs.
    """

    outage: Outage
    """Begins when the server does not answer."""
    least_timeout: float
    """How long an answer may take at least, and in an outage. Unit: seconds."""
    timeout: float
    """How long an answer may take now; to be set per transaction. Unit: seconds."""
    never_writes: bool
    """Whether it was refused to write, though it did not ask for a reader's part."""

    @classmethod
    def open(
        cls, outage: Outage, least_timeout: float, *arguments: Any, **named: Any
    ) -> TimedConnection:
        """Return a connection.

        Raises
        ------
        psycopg.OperationalError
            If the server cannot be reached.
        InvalidSetting
            If no server could be reached so, or the database has an encoding that
            not all mail fits in.
        """
        try:
            connection = cls.connect(*arguments, **named)
        except psycopg.errors.ConnectionTimeout:
            outage.begin()
            raise
        except psycopg.OperationalError as error:
            if wrong := _WRONG.search(str(error)):
                msg = f"The database URL cannot be used: {wrong[0]}."
                raise InvalidSetting(msg) from error
            raise
        # The name of a host is encoded as it is looked up.
        except UnicodeError:
            msg = "The database URL has a host whose name cannot be one."
            raise InvalidSetting(msg) from None
        _require_unicode(connection)
        connection.outage = outage
        connection.least_timeout = connection.timeout = least_timeout
        connection.never_writes = False
        return connection

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        """Wait for the server, but not for ever.

        Raises
        ------
        psycopg.OperationalError
            If it says nothing for too long; the connection is closed.
        """
        try:
            return super().wait(self._answered(gen), *arguments, **named)
        except _SilentError:
            self.outage.begin()
            # Its answer, if it ever comes, is to no question of ours any more.
            self.pgconn.finish()
            raise
        except psycopg.Error as error:
            _hide_rows(error)
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                self.never_writes = self.read_only is None
            raise

    def _answered(self, gen: Any) -> Generator[Any, Any, Any]:
        """Give what a generator of psycopg gives, and raise if nothing comes.

        psycopg tells it ten times a second that nothing has come yet.
        """
        heard_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent = time.monotonic() - heard_at
                if ready:
                    heard_at = time.monotonic()
                # Others know already that the server hangs: it need not be found
                # out a second time.
                elif silent > (
                    self.least_timeout if self.outage.active else self.timeout
                ):
                    msg = f"PostgreSQL has not answered for {silent:.1f} seconds"
                    raise _SilentError(msg)
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


def _require_unicode(connection: psycopg.Connection[Any]) -> None:
    """Close a connection to a database that cannot keep every character.

    Raises
    ------
    InvalidSetting
        If it is one.
    """
    # The server says it as it is connected to; a pooler that does not is believed.
    encoding = connection.info.parameter_status("server_encoding")
    if encoding is None or encoding in _ENCODINGS:
        return
    name = connection.info.dbname
    connection.close()
    msg = (
        f"The database {name!r} has the encoding {encoding}, in which not every "
        "letter of mail can be stored. Make one with createdb -E UTF8 -l C -T "
        "template0 NAME, and give its URL."
    )
    raise InvalidSetting(msg)


def _hide_rows(error: psycopg.Error) -> None:
    """Take out of an error what PostgreSQL quotes of rows and values.

    DETAIL has the row that violates a constraint, CONTEXT the line that was copied:
    words of mail, which tracebacks would bring into the log.
    """
    if said := error.diag.message_primary:
        error.args = (said,)


class _SilentError(psycopg.OperationalError):
    """The server said nothing for too long."""
