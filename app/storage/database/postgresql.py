"""PostgreSQL: engine, locks, notifications, and connections that give up on silence."""

from __future__ import annotations

import logging
import math
import re
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from psycopg.pq import Conninfo
from sqlalchemy import Engine, create_engine, event, text

from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    DatabaseUnprepared,
    InconsistentCounts,
    InvalidSetting,
)
from app.storage.database.dialect import (
    EXTRA_RESPONSE_TIME,
    NEGATIVE,
    OTHER_VERSION,
    READ_ONLY,
    Diagnosis,
    Dialect,
    first_line,
    require_options,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from sqlalchemy import URL, Connection

    from app.storage.database.dialect import Outage

# A server that is stopped, or a machine that froze, keeps its connections: the
# kernel acknowledges all packets, and the client waits for an answer for ever.
# No time-out of the server or of TCP helps, so the client counts the seconds.

# libpq looks at the values of its options when it connects, and has no code for them:
# `invalid sslmode value: "x"`, `invalid integer value "x" for connection option "y"`.
_WRONG: Final = re.compile(r'invalid (?:\w+ value|port number)\b.*"')
# Encodings of a database that can store every character of mail. In any other, the
# first message with a missing character could not be folded, nor any after it.
# SQL_ASCII stores bytes without interpreting them: ours go in and come out as UTF-8.
_ENCODINGS: Final = ("UTF8", "SQL_ASCII")


def _is_new_error(record: logging.LogRecord) -> bool:
    """Return whether a log record of psycopg is reported nowhere else.

    If one of several pipelined rows fails, its error is raised, and then logged for the
    rows behind it, which the server skips: "error ignored terminating
    <psycopg.Pipeline …>: pipeline aborted".
    """
    args = record.args
    about = args[0] if isinstance(args, tuple) and args else None
    ignored = record.msg.startswith("error ignored")
    return not (ignored and isinstance(about, psycopg.Pipeline))


# For every process with connections: commands have no log, and print warnings in
# addition to their result.
logging.getLogger("psycopg").addFilter(_is_new_error)


class TimedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer.

    `open` sets its attributes.
    """

    outage: Outage
    """Begins when the server does not answer."""
    least_timeout: float
    """Shortest time-out of an answer, also used in an outage. Unit: seconds."""
    timeout: float
    """Current time-out of an answer; set per transaction. Unit: seconds."""
    never_writes: bool
    """Whether the server refused writes, although the connection is not read-only."""
    settings: Mapping[str, Any]
    """Values for `_SETTINGS`."""
    pooled: bool
    """Whether a pooler such as PgBouncer may give each transaction another session."""
    started: float
    """When the server was started that had the last transaction."""

    @classmethod
    def open(
        cls, outage: Outage, busy_timeout: float, *arguments: Any, **named: Any
    ) -> TimedConnection:
        """Return a connection that waits so long for a lock.

        Raises
        ------
        psycopg.OperationalError
            If the server cannot be reached.
        InvalidSetting
            If the URL can reach no server, or the database has an encoding that
            cannot store all mail.
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
        # Looking up a host encodes its name.
        except UnicodeError:
            msg = "The host name in the database URL is not valid."
            raise InvalidSetting(msg) from None
        # Whatever fails, the connection does not stay open until it is collected.
        with ExitStack() as failing:
            failing.callback(connection.close)
            _require_unicode(connection)
            connection.outage = outage
            # As long for its answer as for a lock, because waiting is silence too.
            connection.least_timeout = connection.timeout = 2 * busy_timeout
            connection.never_writes = False
            connection.settings = {
                "process": connection.info.backend_pid,
                "timeout": str(round(busy_timeout * 1000)),
            }
            ((connection.pooled, connection.started, *_),) = connection.execute(
                _SETTINGS, connection.settings
            )
            connection.commit()
            # Another session has no prepared statement of that name, or another one.
            if connection.pooled:
                connection.prepare_threshold = None
            failing.pop_all()
        return connection

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        """Wait for the server, with a time limit.

        Raises
        ------
        psycopg.OperationalError
            If it is silent for too long; the connection is closed.
        """
        try:
            return super().wait(self._answered(gen), *arguments, **named)
        except _SilentError:
            self.outage.begin()
            # A late answer would no longer match a question.
            self.pgconn.finish()
            raise
        except psycopg.Error as error:
            # DETAIL has the row that violates a constraint, CONTEXT the line that was
            # copied: words of mail, which tracebacks would put into the log.
            if message := error.diag.message_primary:
                error.args = (message,)
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                self.never_writes = self.read_only is None
            # The session has ended, but a pooler closes the connection later, and
            # psycopg cannot roll back in the middle of a pipeline.
            elif _ended_session(error):
                self.pgconn.finish()
            raise

    def _answered(self, gen: Any) -> Generator[Any, Any, Any]:
        """Give what a generator of psycopg gives, and raise if nothing comes.

        psycopg reports ten times a second that nothing has arrived yet.
        """
        heard_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                silent = time.monotonic() - heard_at
                if ready:
                    heard_at = time.monotonic()
                # It is already known that the server hangs, so there is no need to
                # wait again.
                elif silent > (
                    self.least_timeout if self.outage.active else self.timeout
                ):
                    msg = f"PostgreSQL did not answer for {silent:.1f} seconds"
                    raise _SilentError(msg)
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


def _ended_session(error: psycopg.Error) -> bool:
    """Return whether an error of a server or a pooler ended the session."""
    # PostgreSQL translates the other one, and PgBouncer sends only that.
    severity = error.diag.severity_nonlocalized or error.diag.severity
    return severity == "FATAL"


def _require_unicode(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database that cannot store every character.

    Raises
    ------
    InvalidSetting
        If the database is one.
    """
    # The server reports the encoding at connection; a pooler that does not is trusted.
    encoding = connection.info.parameter_status("server_encoding")
    if encoding is None or encoding in _ENCODINGS:
        return
    name = connection.info.dbname
    raise InvalidSetting(
        f"The database {name!r} has the encoding {encoding}, which cannot store every "
        "letter of mail. Create a database with createdb -E UTF8 -l C.UTF-8 -T "
        "template0 NAME, and give its URL."
    )


class _SilentError(psycopg.OperationalError):
    """The server was silent for too long."""


LONG_RESPONSE_TIME: Final = 30.0
"""The time-out of an answer for work that nobody waits for, such as a fold or an undo.

Precedent: as long as Postfix waits for a milter (`milter_command_timeout`).
"""
# The settings of each connection to PostgreSQL, in one query.  A pooler, which gives
# its clients a number of its own as their process, may use another session for the next
# transaction; then each transaction makes them for itself.  An acknowledged commit
# survives a crash, as with SQLite's FULL: if an administrator has set
# synchronous_commit to `off`, three or four of 1,400 acknowledged lessons were gone
# after `pg_ctl stop -m immediate`.  `on` is the default of PostgreSQL, and waits for
# the configured standbys; `local`, `remote_write` and `remote_apply` keep the promise
# as well, so they are not changed.  The setting is made even if it is the same,
# because a session follows later changes of the configuration file in settings that it
# has not made itself.  psycopg reads times in the style ISO only.
_SETTINGS: Final = """
SELECT pooled,
       extract(epoch FROM pg_postmaster_start_time())::float AS started,
       set_config('DateStyle', 'ISO', pooled),
       set_config('lock_timeout', %(timeout)s, pooled),
       set_config('synchronous_commit', coalesce(
           nullif(current_setting('synchronous_commit'), 'off'), 'on'), pooled)
FROM (SELECT pg_backend_pid() <> %(process)s AS pooled) AS connection
"""


# Key of the advisory lock of migrations: the first eight bytes of "postbayes", so that
# it is unlikely to be anybody else's.
_ADVISORY_LOCK: Final = int.from_bytes(b"postbaye", "big")
# How long a process waits for another that migrates.  Unit: milliseconds.
_MIGRATION_TIMEOUT: Final = 300_000
_DAMAGED: Final = (
    DatabaseDamaged,
    "PostgreSQL reports a damaged database: {text}. Restore a backup as "
    "docs/operating.md describes.",
)
_MISSING: Final = (
    DatabaseUnprepared,
    "Something is missing in the database: {text}. Correct the search_path of {user}, "
    "or restore a backup as docs/operating.md describes.",
)
# The appendix "Error Codes" of PostgreSQL's manual.
_DIAGNOSES: Final[dict[str, tuple[Any, str]]] = {
    "XX001": _DAMAGED,  # data_corrupted
    "XX002": _DAMAGED,  # index_corrupted
    "42P01": _MISSING,  # undefined_table
    "3F000": _MISSING,  # invalid_schema_name
    "42703": (DatabaseUnprepared, OTHER_VERSION),  # undefined_column
    # invalid_column_reference: ON CONFLICT without its key, which pg_restore makes last
    "42P10": (
        DatabaseUnprepared,
        "The database has rows without their keys: a restore has not ended, or has "
        "failed ({text}). Wait for its end, or restore the backup again as "
        "docs/operating.md describes.",
    ),
    "23514": (InconsistentCounts, NEGATIVE),  # check_violation
    # insufficient_privilege
    "42501": (
        DatabaseUnprepared,
        "PostgreSQL refuses {user}: {text}. Make it the owner of the tables, or GRANT "
        "it all rights to them and CREATE on their schema.",
    ),
    # disk_full
    "53100": (
        DatabaseUnavailable,
        "The disk of PostgreSQL is full ({text}); free some space there.",
    ),
    # read_only_sql_transaction
    "25006": (
        DatabaseUnavailable,
        "The database is read-only: {text}. Name the primary server in the database "
        "URL, or let the database write (default_transaction_read_only).",
    ),
}
# The problems of a database; most errors mean that it is unavailable.
_TROUBLE: Final = {
    "55P03": "is busy",  # lock_not_available
    "40P01": "is busy",  # deadlock_detected
    "40001": "is busy",  # serialization_failure
    # query_canceled, by a time-out of the server, or by somebody.
    "57014": "has stopped it",
}
_DEFECTS: Final = (
    psycopg.IntegrityError,
    psycopg.ProgrammingError,
    psycopg.DataError,
)
# Notifications of other schemas of the database arrive too, and lead to no change.
_LISTEN: Final = "LISTEN postbayes"
# Not in the transaction of the feedback: a notifying transaction commits under a lock
# of the whole cluster, and would wait for the disk under it.  This one does not wait
# for the disk; SET LOCAL, because a pooler gives the connection to others.
_NOTIFY: Final = "BEGIN; SET LOCAL synchronous_commit TO off; NOTIFY postbayes; COMMIT"


class CommitListener:
    """A connection that is notified of the commits of other processes.

    It must not be in a transaction.  Behind a pooler it only notifies: the session that
    had LISTENed would serve others, and PgBouncer logs each notification that reaches
    it in between.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._heard = False
        self._own = driver.info.backend_pid
        # For notifications that arrive with the answer to a statement.
        driver.add_notify_handler(lambda note: self._note(note.pid))
        if not driver.pooled:
            driver.execute(_LISTEN)

    def fileno(self) -> int:
        """Return the descriptor of the socket, readable after a notification."""
        descriptor: int = self._driver.fileno()
        return descriptor

    def notify(self) -> None:
        """Notify all listeners, in a transaction of its own."""
        self._driver.execute(_NOTIFY)

    def heard(self) -> bool:
        """Read the notifications; return whether another process sent any of them."""
        self._driver.pgconn.consume_input()
        while note := self._driver.pgconn.notifies():
            self._note(note.be_pid)
        heard, self._heard = self._heard, False
        return heard

    def _note(self, process: int) -> None:
        self._heard |= process != self._own


class Postgresql(Dialect):
    """A server, which processes of several machines use."""

    is_server = True
    reading_options: ClassVar[Mapping[str, Any]] = {
        "isolation_level": "REPEATABLE READ"
    }

    def place(self, url: URL) -> str:
        """Return the names of the server and of its database."""
        servers = url.host or ", ".join(
            url.normalized_query.get("host", ["this machine"])
        )
        return f"{servers}, database {url.database or url.username}"

    def create_engine(
        self,
        url: URL,
        *,
        busy_timeout: float,
        make: bool,  # noqa: ARG002  (a server makes none by being asked)
        options: dict[str, Any],
    ) -> Engine:
        """Return an engine whose connections do not wait for ever."""
        options_of_libpq = [each.keyword.decode() for each in Conninfo.get_defaults()]
        require_options(url, options_of_libpq, database="PostgreSQL")
        engine = create_engine(
            url,
            # `append` relies on it: after waiting for the profile's lock, each
            # statement has to see the commits of the others.
            isolation_level="READ COMMITTED",
            # One more round trip per transaction, to notice a restarted server before a
            # feedback is lost to a dead socket.
            pool_pre_ping=True,
            # A database in SQL_ASCII would otherwise answer in bytes.
            connect_args={
                "client_encoding": "utf8",
                # Its name in `pg_stat_activity` and in the log of the server.
                "fallback_application_name": "postbayes",
                # A host that drops packets is given up as well; libpq takes
                # whole seconds, and one for two.
                "connect_timeout": max(2, math.ceil(busy_timeout)),
                # The kernel notices a vanished host after 25 s of silence, or 20 s
                # after something was sent; by default, after hours.
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 20_000,
            },
            **options,
        )

        def _open(_dialect: Any, _record: Any, arguments: Any, named: Any) -> Any:
            connect = partial(
                TimedConnection.open, self.outage, busy_timeout, *arguments, **named
            )
            # The previous connection may have been found silent a moment ago.
            self.outage.require_over()
            self.outage.connect = connect
            return connect()

        def _connect(_connection: Any, _record: Any) -> None:
            self.outage.opened += 1

        def _begin(connection: Connection) -> None:
            driver: Any = connection.connection.dbapi_connection
            options = connection.get_execution_options()
            driver.timeout = driver.least_timeout + options.get(
                EXTRA_RESPONSE_TIME, LONG_RESPONSE_TIME
            )
            # Where an administrator has made transactions read-only by default, None
            # leaves them so. SQLAlchemy's option would reset it to False, and from the
            # first reader on a connection would write in spite of that. It is a part of
            # the BEGIN that the driver sends with the first statement, and costs no
            # question.
            read_only = True if options.get(READ_ONLY) else None
            if driver.read_only is not read_only:
                driver.read_only = read_only
            if driver.pooled:
                found = connection.exec_driver_sql(_SETTINGS, driver.settings).one()
                # A pooler keeps the connections of its clients over a failover.
                self.outage.opened += found.started != driver.started
                driver.started = found.started

        def _end(connection: Any, record: Any) -> None:
            if connection is None:
                return
            # The next transaction checks whether it is alive before it begins.
            connection.timeout = connection.least_timeout
            # Its default is from the time of opening, and may have been changed back.
            if connection.never_writes:
                record.invalidate()

        event.listen(engine, "do_connect", _open)
        event.listen(engine, "connect", _connect)
        event.listen(engine, "begin", _begin)
        event.listen(engine, "checkin", _end)
        return engine

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Give a transaction during which no other process migrates."""
        with connection.begin():
            # A server may be silent for long while it builds an index.
            driver: Any = connection.connection.dbapi_connection
            driver.timeout = math.inf
            usual = connection.execute(text("SHOW lock_timeout")).scalar_one()
            set_timeout = text("SELECT set_config('lock_timeout', :value, true)")
            connection.execute(set_timeout, {"value": str(_MIGRATION_TIMEOUT)})
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK}
            )
            # The long time-out is only for waiting for other migrations: one that waits
            # for a table's lock makes every query wait behind it.
            connection.execute(set_timeout, {"value": usual})
            yield

    def listen(self, driver: Any) -> CommitListener:
        """Return a listener, which leaves no transaction open."""
        driver.autocommit = True
        return CommitListener(driver)

    def diagnose(self, url: URL, error: BaseException | None) -> Diagnosis | None:
        """Return the diagnosis of an error of psycopg."""
        message = first_line(error)
        state: str | None = getattr(error, "sqlstate", None)
        if known := _DIAGNOSES.get(state or ""):
            # If the URL does not contain it, the driver's environment may.
            name = url.username
            user = f"the user {name!r}" if name else "the user of the database URL"
            kind, sentence = known
            return Diagnosis(kind, sentence.format(text=message, user=user))
        # A statement with a defect ends no session: PgBouncer 1.24 passes on why it
        # cannot log in, such as 3D000, a database that does not exist.
        if isinstance(error, _DEFECTS) and not _ended_session(error):
            return None
        trouble = _TROUBLE.get(state or "", "is unavailable")
        sentence = f"The database {trouble}: {message}."
        # No answer of the server, or none that has a code: not even its refusal of a
        # password or a name has one for libpq.
        if state is None:
            sentence += " If that lasts, check the server and the database URL."
        return Diagnosis(DatabaseUnavailable, sentence, passes=True)
