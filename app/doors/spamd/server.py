"""Server of the spamd door.

The failure policy: an error is one line with a code of sysexits.h, upon which
spamc and Exim let mail pass as it came (docs/protocols/spamd.md).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from app import errors
from app.access.rights import Right
from app.doors.mta.headers import parse_flag
from app.doors.mta.points import STRONGEST
from app.doors.serving.listener import Door
from app.doors.serving.process import computing, learning
from app.doors.spamd import answer, codec
from app.doors.spamd.answer import SpamdVerdict
from app.doors.spamd.session import Request, SpamdSession
from app.ledger.entry import source_of
from app.services.gate import Caller
from app.services.log import SparingLog, Via
from app.services.profiles import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.doors.serving.listener import Connection
    from app.services.application import Application

log = logging.getLogger(__name__)
# spamd waits 30 s for the head of a request and 300 s for all of it
# (--timeout-tcp, --timeout-child); spamc itself gives up after 600 s. Unit: seconds.
IDLE: Final = 30.0
TOTAL: Final = 300.0
EX_DATAERR: Final = 65
EX_UNAVAILABLE: Final = 69
EX_TIMEOUT: Final = 79
CODES: Final[Mapping[type[errors.PostbayesError], int]] = {
    errors.EmptyMessage: 66,  # EX_NOINPUT
    errors.InvalidInput: EX_DATAERR,
    errors.NotFound: EX_DATAERR,
    errors.Conflict: EX_DATAERR,
    errors.Unavailable: 75,  # EX_TEMPFAIL
    errors.PostbayesError: 70,  # EX_SOFTWARE
}
"""The nearest class in the line of ancestors decides."""


RIGHTS: Final[Mapping[str, Right]] = {"TELL": Right.TEACH}
"""What a command asks, if not to classify; the protocol has no place for a key."""


class Spamd:
    """The door, over an application.

    Parameters
    ----------
    application : Application
        The use cases and settings.

    Raises
    ------
    InvalidSetting
        If a setting of the door cannot be used.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._log = SparingLog(log)
        settings = application.settings
        self._flag = parse_flag(settings.spam_header)
        self._strongest = STRONGEST if settings.explain_mail else 0

    async def serve(self, connection: Connection) -> None:
        """Answer one request."""
        session = SpamdSession(self._application.settings.max_request_bytes)
        result: Request | bytes | None = None
        while result is None:
            read = connection.read if session.begun else connection.read_between
            try:
                result = session.receive(await read())
            except TimeoutError:
                sentence = f"Timeout: nothing came for {IDLE:.0f} seconds"
                result = codec.failure(EX_TIMEOUT, sentence)
        if isinstance(result, Request):
            result = await self._answer(result, connection)
        if result:
            await connection.write(result)

    async def _answer(self, request: Request, connection: Connection) -> bytes:
        try:
            right = RIGHTS.get(request.kind, Right.CLASSIFY)
            self._application.gate.admit(Caller(connection.host), right)
            if request.kind != "TELL":
                size = len(request.message) * max(1, len(_users(request)))
                scan = partial(self._scan, request)
                return await computing(scan, size, connection.gone)
            return await learning(partial(self._tell, request))
        except (errors.Unauthenticated, errors.TooManyRequests):
            self._log.warning(
                "spamd: %s may not %s (POSTBAYES_KEYLESS_FROM)", connection.host, right
            )
            sentence = (
                f"Service Unavailable: {connection.host} may not {right}; "
                "POSTBAYES_KEYLESS_FROM says who may"
            )
            return codec.failure(EX_UNAVAILABLE, sentence)
        except errors.PostbayesError as error:
            code = errors.answer_to(error, CODES)
            self._log.warning("spamd: %s of %r: %s", request.kind, request.user, error)
            return codec.failure(code, str(error))

    def _scan(self, request: Request) -> bytes:
        app = self._application
        if request.kind == "PROCESS" and not request.whole:
            sentence = (
                f"a message of more than {len(request.message) - 1} bytes is not "
                "given back; ask for its headers alone (spamc --headers)"
            )
            return codec.failure(EX_DATAERR, sentence)
        delivered = app.delivery.together(
            _users(request), request.message, strongest=self._strongest, door="spamd"
        )
        app.tally.acted("spamd", delivered.action)
        return answer.scanned(request, SpamdVerdict.of(delivered, self._flag))

    def _tell(self, request: Request) -> bytes:
        app = self._application
        profile = app.recipients.shared(_users(request))
        said = source_of("spamd", request.user)
        if request.removes:
            digest = app.feedback.identify(profile, request.message)
            try:
                app.feedback.forget(profile, digest, source=said, via=Via("spamd"))
            except errors.UnknownMessage:
                return answer.tell_result(learned=False, forgotten=False)
            return answer.tell_result(learned=False, forgotten=True)
        # SpamAssassin, too, does nothing where it is not told as what.
        if not (request.sets and request.label):
            return answer.tell_result(learned=False, forgotten=False)
        taught = app.feedback.teach(
            profile,
            request.message,
            label=label_of(app.live.find(profile).row, request.label),
            source=said,
            via=Via("spamd"),
        )
        changed = taught.outcome.kind != "unchanged"
        return answer.tell_result(learned=changed, forgotten=False)


def _users(request: Request) -> list[str]:
    # Exim gives all recipients as one user: spam = $recipients.
    return [user for user in request.user.split(",") if user.strip()]


def spamd(application: Application) -> Door:
    """Return the door.

    Raises
    ------
    InvalidSetting
        If a setting of the door cannot be used.
    """
    serve = Spamd(application).serve
    return Door(name="spamd", serve=serve, idle=IDLE, total=TOTAL)
