"""Server of the milter door.

Failure policy: after any error here, mail passes unmarked.
"""

from __future__ import annotations

import asyncio
import logging
from email.utils import format_datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from app.access.rights import Right
from app.classifier.statement import Origin
from app.doors.milter.codec import (
    NAME,
    MilterProtocolError,
    PacketDecoder,
    parse_authserv_id,
    result,
)
from app.doors.milter.session import MilterSession, received
from app.doors.mta import EXPLAINED, MailDoor, marks, ours
from app.doors.serving.listener import Door
from app.doors.serving.threads import computing
from app.errors import PostbayesError
from app.services.access import Caller
from app.services.clock import now

if TYPE_CHECKING:
    from app.doors.milter.session import Envelope, Question
    from app.doors.serving.listener import Connection
    from app.services.application import Application

log = logging.getLogger(__name__)
# After this time the message passes unmarked. Postfix waits 300 s for the answer at the
# end of a message (milter_content_timeout), and Sendmail too (T=E:5m), while the client
# waits for their answer. The largest message takes a second to score.
PATIENCE: Final = 20.0
# Between two events the mail server may wait for its client: Postfix waits 300 s
# (smtpd_timeout). If a milter hung up first, the mail server would apply its
# milter_default_action.
IDLE: Final = 610.0
# Postfix and Sendmail open a connection for each client.
TOTAL: Final = 86_400.0


RIGHT: Final = Right.CLASSIFY
"""The right that a connection needs; the protocol cannot transmit a key."""


class Milter(MailDoor):
    """The door, over an application."""

    def __init__(self, application: Application) -> None:
        super().__init__(application, strongest=EXPLAINED)
        settings = application.settings
        self._ours = ours(self._flag)
        self._authserv_id = parse_authserv_id(settings.milter_authserv_id)
        self._skip_authenticated = settings.milter_skip_authenticated

    async def serve(self, connection: Connection) -> None:
        """Speak the protocol until either side is done."""
        caller = Caller(connection.host)
        if not self._application.gate.may(caller, RIGHT):
            self._log.warning(
                "milter: %s is not allowed to connect (POSTBAYES_KEYLESS_FROM)",
                connection.host,
            )
            return
        session, decoder = MilterSession(self._ours, self._authserv_id), PacketDecoder()
        while not session.ended:
            read = connection.read_between if session.between else connection.read
            data = await read()
            if not data:
                return
            try:
                for packet in decoder.feed(data):
                    answer = session.receive(packet)
                    if not isinstance(answer, bytes):
                        answer = await self._answer(answer, connection)
                    if answer:
                        await connection.write(answer)
            except MilterProtocolError as error:
                self._log.warning(
                    "%s does not speak milter: %s", connection.peer, error
                )
                return

    async def _answer(self, question: Question, connection: Connection) -> bytes:
        """Return the answer about a message; on an error, let it pass."""
        envelope = question.envelope
        if envelope.user and self._skip_authenticated:
            self._sent(envelope)
            self._application.tally.acted("milter", "skipped")
            return question.accept()
        try:
            async with asyncio.timeout(PATIENCE):
                # Each recipient may have a profile of their own.
                size = len(question.content) * max(1, len(envelope.recipients))
                judge = partial(self._judge, question)
                return await computing(judge, size, connection.gone)
        except TimeoutError:
            reason = f"scoring took more than {PATIENCE:.0f} s"
        except PostbayesError as error:
            reason = str(error)
        # The outermost point of a message: the next one is tried again.
        except Exception:  # noqa: BLE001  logged with its traceback
            self._log.exception("%s passed unmarked", envelope.queue_id)
            reason = ""
        if reason:
            log.warning("%s passed unmarked: %s", envelope.queue_id, reason)
        self._application.tally.acted("milter", "unmarked")
        return question.accept()

    def _judge(self, question: Question) -> bytes:
        app, envelope = self._application, question.envelope
        raw = received(envelope, format_datetime(now())) + question.content
        delivered = app.delivery.together(
            envelope.recipients,
            raw,
            strongest=self._strongest,
            door="milter",
            queue=envelope.queue_id,
            origin=Origin(envelope.sender, envelope.address),
        )
        classified, action = delivered.classified, delivered.action
        app.tally.acted("milter", action)
        id_, log_odds = classified.observation.id, classified.verdict.log_odds
        if action == "reject":
            return question.reject(f"This message looks like spam (id {id_})")
        if envelope.user and action == "none":
            self._sent(envelope)
        name = self._authserv_id
        return question.accept(
            marks(classified, action, self._flag),
            () if name is None else [(NAME, result(classified, name))],
            hold=f"spam, log-odds {log_odds:+.2f}" if action == "quarantine" else "",
        )

    def _sent(self, envelope: Envelope) -> None:
        """Count the recipients of a user's mail as correspondents."""
        self._application.correspondents.sent(
            envelope.sender, envelope.recipients, login=envelope.user
        )


def milter(application: Application) -> Door:
    """Return the door.

    Raises
    ------
    InvalidSetting
        If the header that marks spam or the name for results is invalid.
    """
    serve = Milter(application).serve
    return Door(name="milter", serve=serve, idle=IDLE, total=TOTAL, half_closes=False)
