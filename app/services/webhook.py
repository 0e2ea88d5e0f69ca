"""Webhook: events posted to a URL, and the HTTP client for all other servers.

Contract of this file: an answer is read within bounds of bytes and time.  Verdicts and
feedback do not wait for a receiver.  An event has only the fields of its log line.
Events wait for one thread in a queue of bounded length; if it is full, the oldest is
dropped and counted.  They are posted in order, each until it is accepted or refused
for good, so a receiver may get an event twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import threading
import time
from collections import deque
from dataclasses import KW_ONLY, InitVar, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from app import __version__
from app.errors import InvalidSetting, reason
from app.services.clock import Failures, now
from app.services.log import SparingLog
from app.settings import is_web_address, read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

    from app.services.log import Event
    from app.services.metrics import Tally
    from app.settings import Settings


class NoAnswer(Exception):
    """A server that does not answer, or without an end; says why."""


class Answer(NamedTuple):
    """An answer, with its body as it was sent."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    most_bytes: int,
    silent: float,
    within: float,
    transport: httpx2.AsyncBaseTransport | None = None,
    **given: Any,
) -> Answer:
    """Ask a server, and return its answer; redirects are not followed.

    Parameters
    ----------
    method, url, headers, **given
        Of the request, as `httpx2` takes them.
    most_bytes : int
        Of the body.
    silent : float
        How long the server may send nothing.  Unit: seconds.
    within : float
        How long it may take for all of its answer.  Resolving its name has the limits
        of the resolver.  Unit: seconds.
    transport : httpx2.AsyncBaseTransport or None
        How it is reached; None for the network.

    Raises
    ------
    NoAnswer
        If it does not answer within these bounds.
    """
    # Here, since most services ask no other server.
    import httpx2  # noqa: PLC0415

    sent = {
        # What is counted below is what comes.
        "Accept-Encoding": "identity",
        "User-Agent": f"Postbayes/{__version__}",
        **headers,
    }

    async def answered() -> Answer:
        # The time limits of the client begin again with each byte: a server that sends
        # its header byte by byte would hold the thread, and the end of the service.
        async with (
            asyncio.timeout(within),
            httpx2.AsyncClient(
                timeout=silent, follow_redirects=False, transport=transport
            ) as client,
            client.stream(method, url, headers=sent, **given) as answer,
        ):
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > most_bytes:
                    raise NoAnswer(f"the answer has more than {most_bytes:,} bytes")
            return Answer(answer.status_code, answer.headers, bytes(content))

    try:
        return asyncio.run(answered())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NoAnswer(_cause(error)) from error
    except TimeoutError as error:
        raise NoAnswer(f"the answer took longer than {within:g} s") from error


def _cause(error: BaseException) -> str:
    """Return why a server cannot be reached.

    The library says of a refused connection that all attempts failed.
    """
    first = error
    while found := first.__cause__ or first.__context__:
        first = found
    if isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, ConnectionError) and first.errno:
        return os.strerror(first.errno)
    return reason(error)


log = logging.getLogger(__name__)
EVENTS: Final = ("feedback", "spam", "unsure", "ham")
"""The kinds of events: feedback, and verdicts by decision."""
MOST_WAITING: Final = 1_000
"""Most waiting events: about 1 MB."""
TIMEOUT: Final = 10.0
"""How long a receiver may take to answer.  Unit: seconds."""
LAST: Final = 2.0
"""How long a stopping service goes on posting waiting events.  Unit: seconds."""
SIGNATURE: Final = "Postbayes-Signature"
"""Header `t=…,v1=…`: Unix time, and HMAC-SHA256 of it, a dot and the body, in hex."""
_LOOK: Final = 0.25
# Answers after which a receiver may accept the event later.
_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


def signature(secret: bytes, body: bytes, *, at: int) -> str:
    """Return the signature of a body that is posted at a time, in Unix seconds.

    Examples
    --------
    >>> signature(b"0123456789abcdef", b"{}", at=1793953800)[:24]
    't=1793953800,v1=6aaf8ded'
    """
    made = hmac.new(secret, b"%d." % at + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={made}"


@dataclass(eq=False)
class Webhook(threading.Thread):
    """Posts events to one URL, from a thread of its own.

    Parameters
    ----------
    secret : bytes
        Key of the signatures.
    events : collection of str
        Which of `EVENTS` are posted.
    most : int
        Most waiting events.
    """

    url: str
    secret: bytes
    events: frozenset[str]
    _: KW_ONLY
    tally: Tally
    failures: InitVar[Failures | None] = None
    most: int = MOST_WAITING

    def __post_init__(self, failures: Failures | None) -> None:
        """Begin with an empty queue."""
        super().__init__(name="webhook", daemon=True)
        self._failures = failures or Failures()
        # A receiver that refuses everything would write a line for each verdict.
        self._log = SparingLog(log)
        self._waiting: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._until: float | None = None

    def wants(self, kind: str) -> bool:
        """Return whether events of a kind are posted."""
        return kind in self.events

    def __call__(self, event: Event) -> None:
        """Add an event to the queue, without waiting."""
        document = {
            "event": event.name,
            "event_id": uuid4().hex,
            "time": now().isoformat(timespec="milliseconds"),
            **{name: value for name, value in event.fields().items() if name != "ms"},
        }
        # A header can contain a lone surrogate, which is written as an escape.
        body = json.dumps(document).encode()
        with self._changed:
            if len(self._waiting) >= self.most:
                self._waiting.popleft()
                self.tally.posted("dropped")
            self._waiting.append(body)
            self._changed.notify()

    def stop(self) -> None:
        """Post waiting events for a moment, and end the thread; idempotent."""
        with self._changed:
            if self._until is None:
                self._until = time.monotonic() + LAST
            self._changed.notify()
        if self.ident is not None:
            # Not for ever: resolving a name has the limits of the resolver.
            self.join(LAST + TIMEOUT)

    def run(self) -> None:
        """Post the events until the end."""
        # Imported here, since most services have no webhook.
        import httpx2  # noqa: PLC0415

        with asyncio.Runner() as runner:
            client = httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False)
            while (body := self._next()) is not None:
                try:
                    self._attempt(runner, client, body)
                except Exception:  # the thread's outermost loop: it must go on
                    log.exception("a webhook event was lost")
                    self._done(body, "dropped")
            runner.run(client.aclose())
        left = len(self._waiting)
        for _ in range(left):
            self.tally.posted("dropped")
        if left:
            log.warning("%d webhook events were lost", left)

    def _next(self) -> bytes | None:
        """Wait for an event and for the end of a pause; None means stop."""
        with self._changed:
            while True:
                if self._until is not None and (
                    not self._waiting or time.monotonic() >= self._until
                ):
                    return None
                if self._waiting and not self._failures.pausing(self.url):
                    return self._waiting[0]
                pausing = bool(self._waiting) or self._until is not None
                self._changed.wait(_LOOK if pausing else None)

    async def _status(self, client: httpx2.AsyncClient, body: bytes) -> int:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"Postbayes/{__version__}",
            SIGNATURE: signature(self.secret, body, at=int(time.time())),
        }
        # Only the status counts. The body is not read, because it may have no end.
        async with (
            # The client's limit begins again with each byte.
            asyncio.timeout(TIMEOUT),
            client.stream("POST", self.url, content=body, headers=headers) as answer,
        ):
            # They would come back with each further event: a receiver that sets new
            # ones refuses requests as soon as they are longer than it allows.
            client.cookies.clear()
            return answer.status_code

    def _attempt(
        self, runner: asyncio.Runner, client: httpx2.AsyncClient, body: bytes
    ) -> None:
        from httpx2 import TransportError, codes  # noqa: PLC0415  as in `run`

        final = False
        try:
            status = runner.run(self._status(client, body))
        except TransportError as error:
            why = _cause(error)
        except TimeoutError:
            why = f"the answer took longer than {TIMEOUT:g} s"
        else:
            if codes.is_success(status):
                self._done(body, "sent")
                if self._failures.resolve(self.url):
                    log.info("the webhook accepts events again")
                return
            why = f"it answered {status}"
            if codes.is_redirect(status):
                why += (
                    ", and redirects are not followed; POSTBAYES_WEBHOOK must name "
                    "the address to which it leads"
                )
            final = not codes.is_server_error(status) and status not in _LATER
        self.tally.posted("failed")
        if final:
            self._log.warning(
                "the webhook refused an event, which was dropped: %s", why
            )
            self._done(body, "dropped")
        elif self._failures.report(self.url, why):
            log.warning(
                "the webhook does not accept events, which are kept for now: %s", why
            )

    def _done(self, body: bytes, outcome: str) -> None:
        """Remove an event from the queue, unless it was dropped already."""
        with self._changed:
            if self._waiting and self._waiting[0] is body:
                self._waiting.popleft()
                self.tally.posted(outcome)


def webhook_of(settings: Settings, tally: Tally) -> Webhook | None:
    """Return the webhook of the settings; None without one.

    Raises
    ------
    InvalidSetting
        As `webhook_secret`.
    """
    secret = webhook_secret(settings)
    if settings.webhook is None or secret is None:
        return None
    events = frozenset(settings.webhook_events)
    return Webhook(settings.webhook, secret, events, tally=tally)


def webhook_secret(settings: Settings) -> bytes | None:
    """Return the secret of the webhook; None without a webhook.

    Raises
    ------
    InvalidSetting
        If the settings of the webhook are invalid.
    """
    if settings.webhook is None:
        return None
    if not is_web_address(settings.webhook):
        raise InvalidSetting(
            "POSTBAYES_WEBHOOK is not a web address; write one like "
            "https://hooks.example.org/postbayes"
        )
    strangers = [each for each in settings.webhook_events if each not in EVENTS]
    if strangers or not settings.webhook_events:
        raise InvalidSetting(
            f"POSTBAYES_WEBHOOK_EVENTS can be {', '.join(EVENTS)}, got "
            f"{', '.join(strangers) or 'none'}"
        )
    return read_secret(
        settings.webhook_secret_file,
        "POSTBAYES_WEBHOOK_SECRET_FILE",
        purpose="POSTBAYES_WEBHOOK needs a secret that signs its events",
    )
