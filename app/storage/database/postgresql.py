"""PostgreSQL: connections that give up on a silent server.

A server that is stopped, or a machine that froze, keeps its connections: the
kernel acknowledges what is sent, and the client waits for an answer for ever.
No time-out of the server or of TCP helps there, so the client counts.
"""

from __future__ import annotations

import logging
import math
import re
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg.pq import Conninfo
from sqlalchemy import Engine, create_engine, event

from app.errors import InvalidSetting
from app.storage.database.url import READS, SILENCE, require_options

if TYPE_CHECKING:
    from collections.abc import Generator

    from sqlalchemy import URL, Connection

    from app.storage.database.failure import Outage

# libpq looks at the values of its options when it connects, and has no code for them:
# `invalid sslmode value: "x"`, `invalid integer value "x" for connection option "y"`.
_WRONG: Final = re.compile(r'invalid (?:\w+ value|port number)\b.*"')
# Encodings of a database that keep every character of mail. In any other the first
# message with one that it lacks could not be folded, nor any after it. SQL_ASCII is no
# encoding but bytes that nobody looks at: ours go in and come out as UTF-8.
_ENCODINGS: Final = ("UTF8", "SQL_ASCII")


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether what psycopg logs is said nowhere else.

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
logging.getLogger("psycopg").addFilter(_is_news)


class PatientConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer.

    `open` sets what it needs.
    """

    outage: Outage
    """Begins when the server does not answer."""
    patience: float
    """How long it may take at least, and while an outage lasts. Unit: seconds."""
    silence: float
    """How long it may take now; whoever expects more may set it. Unit: seconds."""
    never_writes: bool
    """Whether it was refused to write, though it did not ask for a reader's part."""

    @classmethod
    def open(
        cls, outage: Outage, patience: float, *arguments: Any, **named: Any
    ) -> PatientConnection:
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
        connection.patience = connection.silence = patience
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
            return super().wait(self._heard(gen), *arguments, **named)
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

    def _heard(self, gen: Any) -> Generator[Any, Any, Any]:
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
                elif silent > (self.patience if self.outage.lasts else self.silence):
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


LONG_SILENCE: Final = 30.0
"""What it is where nobody waits, such as in a fold or an undo.

Precedent: as long as Postfix waits for a milter (`milter_command_timeout`).
"""
# What each connection to PostgreSQL is set to, in one question.  A commit that was
# acknowledged survives a crash, as with SQLite's FULL: where an administrator has
# turned that `off` for the sake of others, three or four of 1,400 acknowledged
# feedbacks were gone after `pg_ctl stop -m immediate`.  `on` is what PostgreSQL does
# unless told otherwise, and waits for the standbys that it was told to wait for;
# `local`, `remote_write` and `remote_apply` keep the promise as well, so they stay.
# Set though it be the same: a session follows the configuration file in what it has
# not set itself.
_SETTINGS: Final = """
SELECT set_config('lock_timeout', %s, false),
       set_config('synchronous_commit', coalesce(
           nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)
"""


def postgresql_engine(
    url: URL, *, busy_timeout: float, outage: Outage, options: dict[str, Any]
) -> Engine:
    """Return an engine for a PostgreSQL database.

    Parameters
    ----------
    url : URL
        Where it is.
    busy_timeout : float
        How long a lock is waited for. Unit: seconds.
    outage : Outage
        Begins where the server does not answer.
    options : dict
        Further arguments of SQLAlchemy's engine.

    Raises
    ------
    InvalidSetting
        If the URL has an option that the driver has not.
    """
    options_of_libpq = [each.keyword.decode() for each in Conninfo.get_defaults()]
    require_options(url, options_of_libpq, database="PostgreSQL")
    engine = create_engine(
        url,
        # `append` counts on it: after waiting for the profile's lock, each
        # statement has to see what the others committed.
        isolation_level="READ COMMITTED",
        # One round trip more per transaction, so that a server which was
        # restarted is noticed before a feedback is lost to a dead socket.
        pool_pre_ping=True,
        # A database in SQL_ASCII would otherwise answer in bytes.
        connect_args={
            "client_encoding": "utf8",
            # A host that drops packets is given up as well; libpq takes
            # whole seconds, and one for two.
            "connect_timeout": max(2, math.ceil(busy_timeout)),
            # Of a host that is gone without a word the kernel hears after 25 s
            # of asking, or 20 s after something was sent; by default, hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
        },
        **options,
    )

    # As long for its answer as for a lock, which is silence too.
    patience = 2 * busy_timeout

    def _open(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
        def connect() -> Any:
            return PatientConnection.open(outage, patience, *arguments, **named)

        # The one before may have been found silent a moment ago.
        outage.require_over()
        outage.connect = connect
        return connect()

    def _connect(connection: Any, _record: Any) -> None:
        outage.opened += 1
        with connection.cursor() as cursor:
            cursor.execute(_SETTINGS, [str(round(busy_timeout * 1000))])
        connection.commit()

    def _begin(connection: Connection) -> None:
        driver: Any = connection.connection.dbapi_connection
        options = connection.get_execution_options()
        driver.silence = patience + options.get(SILENCE, LONG_SILENCE)
        # Where an administrator has made transactions read-only by default, None leaves
        # them so. SQLAlchemy's option would reset it to False, and from the first
        # reader on a connection would write in spite of that. It is a part of the
        # BEGIN that the driver sends with the first statement, and costs no question.
        read_only = True if options.get(READS) else None
        if driver.read_only is not read_only:
            driver.read_only = read_only

    def _end(connection: Any, record: Any) -> None:
        if connection is None:
            return
        # Whether it is alive is asked before the next transaction begins.
        connection.silence = patience
        # Its default is that of when it was opened, and may have been set back.
        if connection.never_writes:
            record.invalidate()

    event.listen(engine, "do_connect", _open)
    event.listen(engine, "connect", _connect)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "checkin", _end)
    return engine
