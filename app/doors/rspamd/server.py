"""Server of the rspamd door, an ASGI application.

Failure policy: an error is answered with a status and a document with only `error`.
rspamc then ends with an error, and Haraka by default lets the mail pass
(docs/protocols/rspamd.md).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from app import errors
from app.doors.mta import STRONGEST, parse_flag
from app.doors.rspamd import answer, codec
from app.doors.rspamd.answer import TIMES
from app.doors.rspamd.codec import Ask, Refusal
from app.doors.serving.http1 import WebDoor
from app.doors.serving.process import LEARNING, computing, in_thread
from app.doors.serving.request import Site, caller_of, hung_up, take
from app.ledger.entry import source_of
from app.mail.limits import MAX_BYTES
from app.services.log import SparingLog, Via
from app.services.profiles import label_of
from app.zstd import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from starlette.types import Receive, Scope, Send

    from app.access.rights import Principal
    from app.services.application import Application

log = logging.getLogger(__name__)
STATUS: Final[Mapping[type[errors.PostbayesError], HTTPStatus]] = {
    errors.MessageTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.SlowRequest: HTTPStatus.REQUEST_TIMEOUT,
    errors.InvalidInput: HTTPStatus.BAD_REQUEST,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.PostbayesError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The nearest ancestor of an error's class decides."""
ALREADY_REPORTED: Final = HTTPStatus.ALREADY_REPORTED
KEYS: Final = (b"password", b"authorization", b"x-api-key")
"""The headers that may contain a key; rspamd's clients use the first."""
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Rspamd:
    """The door, over an application.

    Parameters
    ----------
    application : Application
        The use cases and settings.

    Raises
    ------
    InvalidSetting
        If a setting of the door is invalid.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._log = SparingLog(log)
        settings = application.settings
        self._site = Site((settings.host, *settings.host_names))
        self._flag = parse_flag(settings.spam_header)
        self._strongest = STRONGEST if settings.explain_mail else 0
        self._seconds: deque[float] = deque(maxlen=TIMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        self._application.tally.asked("rspamd")
        try:
            response = await self._answer(request)
        except Refusal as refusal:
            response = codec.failure(refusal.status, str(refusal))
        except errors.PostbayesError as error:
            status = errors.answer_to(error, STATUS)
            self._log.warning("rspamd: %s: %s", request.url.path, error)
            response = codec.failure(status, str(error))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        self._site.check(request.method, request.scope["headers"])
        ask = codec.read(request.method, request.url.path, request.headers.items())
        gate = self._application.gate
        caller = caller_of(request.scope, gate.proxies, keys=KEYS)
        try:
            who = gate.admit(caller, ask.right)
        except (errors.Unauthenticated, errors.Forbidden) as error:
            gone = "a client that is gone"
            client = "a local process" if caller.host is None else caller.host or gone
            self._log.warning("rspamd: %s is not allowed to %s", client, ask.kind)
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized") from error
        if ask.has_message:
            limit = self._application.settings.max_request_bytes
            raw = await take(request, limit=limit, kept=MAX_BYTES + 1)
            if ask.packed or raw.startswith(MAGIC):
                raw = codec.unpacked(raw, cut=len(raw) > MAX_BYTES)
            if ask.kind == "scan":
                found = await self._scan(ask, raw, who, partial(hung_up, request))
                return codec.packed(found) if ask.packs else found
            said = source_of("rspamd", ask.user) if who.names_sources else who.name
            return await self._learn(ask, raw, who, said)
        if ask.right is not None:
            who.require_all("statistics, which are of the whole service")
        return await self._tell(ask)

    async def _scan(
        self,
        ask: Ask,
        raw: bytes,
        who: Principal,
        gone: Callable[[], Coroutine[Any, Any, None]],
    ) -> Response:
        app = self._application
        if not raw.strip():
            name = who.require(app.recipients.answering(ask.recipients))
            return codec.document(answer.skipped(app.live.find(name).specification))
        began = time.perf_counter()
        people = list(dict.fromkeys(ask.recipients))
        asked = app.delivery.address(people, principal=who)
        classify = partial(
            app.delivery.answer,
            asked,
            raw,
            strongest=self._strongest,
            door="rspamd",
            sender=ask.sender,
            client=ask.client,
        )
        delivered = await computing(classify, len(raw) * max(1, len(people)), gone)
        seconds = time.perf_counter() - began
        several = delivered.recipients if len(people) > 1 else {}
        document = answer.scanned(
            answer.in_points(delivered.classified, delivered.action),
            message_id=codec.message_id(raw),
            seconds=seconds,
            flag=self._flag,
            recipients={
                each: answer.in_points(theirs, theirs.action)
                for each, theirs in several.items()
            },
        )
        self._seconds.append(seconds)
        app.tally.acted("rspamd", delivered.action)
        return codec.document(document)

    async def _learn(self, ask: Ask, raw: bytes, who: Principal, said: str) -> Response:
        if not raw.strip():
            raise Refusal(HTTPStatus.BAD_REQUEST, "Empty body is not permitted")
        app = self._application
        profile = who.require(app.recipients.shared(ask.recipients))
        label = who.require_label(label_of(app.live.find(profile).row, ask.label))
        taught = await in_thread(
            LEARNING,
            app.feedback.teach,
            profile,
            raw,
            label=label,
            source=said,
            via=Via("rspamd", who),
        )
        if taught.outcome.kind == "unchanged":
            sentence = (
                f"<{codec.message_id(raw)}> has been already learned as "
                f"{taught.outcome.label}, ignore it"
            )
            return codec.failure(ALREADY_REPORTED, sentence)
        app.tally.learned("rspamd")
        return codec.SUCCESS

    async def _tell(self, ask: Ask) -> Response:
        app = self._application
        if ask.kind == "ping":
            return codec.PONG
        if ask.kind == "ready":
            await in_thread(LEARNING, app.ping)
        if ask.kind in {"ready", "healthy"}:
            return codec.SUCCESS
        found = answer.stat(app, self._seconds)
        if ask.kind == "metrics":
            return Response(answer.metrics(found), media_type=OPENMETRICS)
        return codec.document(found)


def rspamd(application: Application) -> WebDoor:
    """Return the door.

    Raises
    ------
    InvalidSetting
        If a setting of the door is invalid.
    """
    return WebDoor(name="rspamd", app=Rspamd(application))
