"""Log: the format of every line, events with fields, and lines that repeat.

Contract of this file: each entry is one line of bounded length, whatever a stranger
sent.  Unprintable characters are escaped, and the lines of a traceback are indented.
Only lines that are written are formatted.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from app.mail.encoding import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from app.settings import Settings

MAX_LINE: Final = 4_000
"""Most characters of a line, before escaping.

Precedent: syslog receivers take 2,048 at least (RFC 5424 section 6.1), rsyslog 8,192.
"""
SLOW: Final = 3.0
"""A start that logs nothing for this long looks hung.  Unit: seconds."""
log = logging.getLogger(__name__)
_QUOTED: Final = frozenset(" \"'=\\")


@dataclass(slots=True)
class Event:
    """A log line with its fields, computed only if it is written; None is left out.

    Examples
    --------
    >>> str(Event("verdict", lambda: {"decision": "spam", "reason": "free money"}))
    'verdict decision=spam reason="free money"'
    """

    name: str
    fields: Callable[[], Mapping[str, str | float | None]]

    def __str__(self) -> str:
        """Return the line as text."""
        pairs = (
            f"{name}={_value(value)}"
            for name, value in self.fields().items()
            if value is not None
        )
        return " ".join((self.name, *pairs))


def _value(value: str | float) -> str:
    if not isinstance(value, str):
        return f"{value}"
    text = shown(value)
    # Quoted if it could be read as several fields.
    if not text or not _QUOTED.isdisjoint(text):
        return json.dumps(text, ensure_ascii=False)
    return text


class TextFormat(logging.Formatter):
    """Lines for people: time in UTC, level, place and message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, and those of a traceback."""
        line = (
            f"{_time(record)} {record.levelname:<7} {record.name}: "
            f"{shown(record.getMessage().strip(), MAX_LINE)}"
        )
        trace = _traceback(self, record)
        return "\n".join([line, *(f"  {shown(x, MAX_LINE)}" for x in trace)])


class JsonFormat(logging.Formatter):
    """Lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line."""
        found: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        event = record.msg
        if isinstance(event, Event):
            found["event"] = event.name
            found |= {
                name: shown(value) if isinstance(value, str) else value
                for name, value in event.fields().items()
                if value is not None
            }
        else:
            found["message"] = shown(record.getMessage().strip(), MAX_LINE)
        trace = _traceback(self, record)
        if trace:
            found["traceback"] = [shown(each, MAX_LINE) for each in trace]
        return json.dumps(found)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    if not record.exc_info:
        return []
    return formatter.formatException(record.exc_info).splitlines()


EVERY: Final = 60.0
"""Seconds in which a repeated line is written once."""
MOST_KINDS: Final = 1_000
"""Kinds of lines that are remembered; asyncio writes addresses into some of its own."""


class SparingLog(logging.LoggerAdapter[logging.Logger]):
    """A log for events that strangers can repeat: each kind of line once a minute.

    Lines are of one kind if they have the same format string, and the same class of
    error among their values.

    Examples
    --------
    >>> now = [0.0]
    >>> sparing = SparingLog(log, lambda: now[0])
    >>> [sparing.passes("gone") for _ in range(3)]
    ['', None, None]
    >>> now[0] = 60.0
    >>> sparing.passes("gone")
    ' (and 2 more like it before)'
    """

    def __init__(
        self, log: logging.Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(log)
        self._clock = clock
        self._lock = threading.Lock()
        self._passed: dict[str, tuple[float, int]] = {}

    def passes(self, kind: str) -> str | None:
        """Return the text to add to a line; None if the line is left out."""
        now = self._clock()
        with self._lock:
            last, left_out = self._passed.get(kind, (now - EVERY, 0))
            if now - last < EVERY:
                self._passed[kind] = last, left_out + 1
                return None
            if len(self._passed) >= MOST_KINDS:
                self._passed.clear()
            self._passed[kind] = now, 0
        return f" (and {left_out} more like it before)" if left_out else ""

    def log(self, level: int, msg: object, *args: object, **named: Any) -> None:
        """Log a line, unless one of its kind was written within the last minute."""
        if not self.isEnabledFor(level):
            return
        # The class of error counts too, so that errors caused by strangers do not hide
        # an outage.
        given = (*args, named.get("exc_info"))
        errors = (type(x).__name__ for x in given if isinstance(x, Exception))
        left_out = self.passes(" ".join((str(msg), *errors)))
        if left_out is not None:
            line = f"{msg}{left_out}"
            self.logger.log(level, line, *args, **named)


@contextmanager
def logging_if_slow(
    line: str, *, timer: Callable[..., threading.Timer] = threading.Timer
) -> Iterator[None]:
    """Log a line as soon as something has taken longer than `SLOW` seconds."""
    slow = timer(SLOW, log.info, (line,))
    # The work may fail and end the process.
    slow.daemon = True
    slow.start()
    try:
        yield
    finally:
        slow.cancel()


_LIBRARIES: Final = SparingLog(log)


def _passes(record: logging.LogRecord) -> bool:
    """Limit the lines that a library logs about its clients."""
    # Below its first line, asyncio describes the objects that were involved.
    first, _, _ = str(record.msg).partition("\n")
    # As in `SparingLog`, an error of another class is not hidden.
    error = record.exc_info[0] if record.exc_info else None
    left_out = _LIBRARIES.passes(f"{first} {error}")
    if left_out:
        record.msg = str(record.msg).rstrip() + left_out
    return left_out is not None


def keep_log(settings: Settings) -> None:
    """Log from the level of the settings on, in their format.

    Handlers that somebody else has set up stay.  Those set up here follow the settings,
    which may have been reloaded.
    """
    logger = logging.getLogger()
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.handlers[0].setFormatter(TextFormat())
    for handler in logger.handlers:
        if isinstance(handler.formatter, (TextFormat, JsonFormat)):
            json_lines = settings.log_format == "json"
            handler.setFormatter(JsonFormat() if json_lines else TextFormat())
            logger.setLevel(settings.log_level.upper())
    # Those of Python would be lines without a time, in a log of JSON as well.
    logging.captureWarnings(True)
    # What joserfc calls insecure of a provider's token is the older name of Ed25519.
    warnings.filterwarnings("ignore", "EdDSA is deprecated")
    # Postbayes logs its start and its end itself, once.
    for name in ("alembic", "uvicorn", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # Only uvicorn knows which free port it was given.
    if settings.port == 0:
        logging.getLogger("uvicorn").setLevel(logging.INFO)
    for name in ("uvicorn.error", "asyncio"):
        # Once, however often the settings are read.
        logging.getLogger(name).addFilter(_passes)
