"""Webhook: events posted to a URL.

Contract of this file: verdicts and feedback do not wait for a receiver.  An event has
only the fields of its log line.  Events wait for one thread in a queue of bounded
length; if it is full, the oldest is dropped and counted.  They are posted in order,
each until it is accepted or refused for good, so a receiver may get an event twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import threading
import time
from collections import deque
from dataclasses import KW_ONLY, InitVar, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from app.errors import InvalidSetting
from app.services.client import NoAnswer, answering, open_client
from app.services.clock import Failures, now
from app.services.log import SparingLog
from app.settings import is_web_address, read_secret

if TYPE_CHECKING:
    import httpx2

    from app.services.log import Event
    from app.services.metrics import Tally
    from app.settings import Settings


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
        # It keeps its connection from event to event.
        self._client: httpx2.AsyncClient | None = None

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
        with asyncio.Runner() as runner:
            while (body := self._next()) is not None:
                try:
                    self._attempt(runner, body)
                except Exception:  # the thread's outermost loop: it must go on
                    log.exception("a webhook event was lost")
                    self._done(body, "dropped")
            if self._client is not None:
                runner.run(self._client.aclose())
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

    async def _status(self, body: bytes) -> int:
        client = self._client = self._client or open_client(TIMEOUT)
        headers = {
            "Content-Type": "application/json",
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

    def _attempt(self, runner: asyncio.Runner, body: bytes) -> None:
        from httpx2 import codes  # noqa: PLC0415  most services have no webhook

        final = False
        try:
            with answering(TIMEOUT):
                status = runner.run(self._status(body))
        except NoAnswer as error:
            why = str(error)
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
