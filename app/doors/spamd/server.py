"""Server of the spamd door.

Failure policy: an error is one line with a code of sysexits.h.  spamc and Exim then let
the mail pass unchanged (docs/protocols/spamd.md).
"""

from __future__ import annotations

import os
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from app import errors
from app.access.rights import Right
from app.doors.mta import (
    REJECT,
    Flag,
    MailDoor,
    PointsAnswer,
    PointScale,
    end_of_head,
    marks,
    ours,
    printable,
    with_headers,
)
from app.doors.serving.listener import Door
from app.doors.serving.threads import LEARNING, computing, in_thread
from app.doors.spamd import codec
from app.doors.spamd.codec import Request, SpamdSession, success
from app.ledger.entry import source_of
from app.services.access import Caller
from app.services.feedback import Via
from app.services.profiles import label_of
from app.services.recipients import MAX_RECIPIENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from app.doors.serving.listener import Connection
    from app.services.application import Application

# SpamAssassin's default required_score, which clients' configurations expect.
REQUIRED: Final = 5.0
# Earlier versions send a Content-length only with a message.
WITH_LENGTH: Final = (1, 3)
# SpamAssassin's X-Spam-Level has one star per point, and at most 50.
STARS: Final = 50
COLUMNS: Final = 66
# SpamAssassin's rules by upper limit of the probability (rules/23_bayes.cf), so that
# filters on BAYES_99 keep their meaning.
_BAYES: Final = (
    (0.01, "BAYES_00"),
    (0.05, "BAYES_05"),
    (0.20, "BAYES_20"),
    (0.40, "BAYES_40"),
    (0.60, "BAYES_50"),
    (0.80, "BAYES_60"),
    (0.95, "BAYES_80"),
    (0.99, "BAYES_95"),
    (2.00, "BAYES_99"),
)


def scanned(request: Request, answer: PointsAnswer, flag: Flag) -> bytes:
    """Return the answer to a request for a verdict."""
    if request.kind == "CHECK RSPAMC":
        return _metric(answer)
    word = str(answer.spam)
    if request.kind == "REPORT_IFSPAM":
        word = "Yes" if answer.spam else "No"
    spam = ("Spam", f"{word} ; {answer.score:.1f} / {REQUIRED:.1f}")
    with_length = request.version >= WITH_LENGTH
    if request.kind == "CHECK":
        return success([spam])
    returns = request.kind in {"PROCESS", "HEADERS"}
    if returns:
        raw = request.message
        if request.kind == "HEADERS":
            raw = raw[: end_of_head(raw)]
        body = with_headers(raw, _headers(answer, flag), ours(flag))
    else:
        # In UTF-8, as SpamAssassin 4 has its report (PerMsgStatus.pm).
        body = _text(request, answer).encode()
    length = ("Content-length", str(len(body)))
    if with_length:
        return success([length, spam], body)
    return success([length if returns else spam], body)


def _tests(answer: PointsAnswer) -> Iterator[str]:
    """Yield the names of the symbols in the style of SpamAssassin's rules."""
    verdict = answer.classified.verdict
    if verdict.decision != "unsure":
        yield next(name for below, name in _BAYES if verdict.probability < below)
    yield from (symbol.name for symbol in answer.symbols())


def _headers(answer: PointsAnswer, flag: Flag) -> tuple[tuple[str, str], ...]:
    """Return the headers for a message that is returned.

    They are those of Postbayes, and the two of SpamAssassin that filters use.
    """
    yes = "Yes" if answer.spam else "No"
    points = f"score={answer.score:.1f} required={REQUIRED:.1f}"
    names = wrap(", ".join(_tests(answer)), COLUMNS)
    tests = "\n\t".join(line.replace(", ", ",") for line in names)
    return (
        ("X-Spam-Level", "*" * max(0, min(STARS, int(answer.score)))),
        ("X-Spam-Status", f"{yes}, {points}\n\ttests={tests}"),
        *marks(answer.classified, answer.action, flag),
    )


def _report(answer: PointsAnswer) -> str:
    """Return the points and their reasons as text for people.

    It has no empty lines: Exim and others put it into a header, where folding must not
    produce a blank line (RFC 5322 section 3.2.2).
    """
    verdict = answer.classified.verdict
    lines = [
        f"Postbayes decides: {verdict.decision}, with a probability of spam of "
        f"{100 * verdict.probability:.2f} %.",
        f"Profile {printable(answer.classified.profile)}, message "
        f"{answer.classified.observation.id}.",
        f"Content analysis details:   ({answer.score:.1f} points, "
        f"{REQUIRED:.1f} required)",
        " pts rule name              description",
        "---- ---------------------- " + "-" * 50,
    ]
    for symbol in answer.symbols():
        words = " ".join(symbol.options)
        text = f"{symbol.description}: {words}" if words else symbol.description
        lines.append(f"{symbol.score:4.1f} {symbol.name:<22s} {text}")
    return "\n".join([*lines, ""])


def _metric(answer: PointsAnswer) -> bytes:
    """Return the verdict in the lines that Exim expects from rspamd.

    Exim reads the words of the second line and the action in the third (Exim 4.96,
    spam.c); further lines are for people.
    """
    action = "no action" if answer.action == "none" else answer.action
    lines = [
        "RSPAMD/1.3 0 EX_OK",
        f"Metric: default; {answer.spam}; {answer.score:.2f} / {REQUIRED:.2f} / "
        f"{REJECT:.2f}",
        f"Action: {action}",
        *(f"Symbol: {each.name}({each.score:.2f})" for each in answer.symbols()),
        f"Profile: {printable(answer.classified.profile)}",
        f"Id: {answer.classified.observation.id}",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("ascii")


def _text(request: Request, answer: PointsAnswer) -> str:
    if request.kind == "SYMBOLS":
        # With a line end up to version 1.2, and without it in later versions.
        end = "" if request.version >= WITH_LENGTH else "\r\n"
        return ",".join(_tests(answer)) + end
    if request.kind == "REPORT_IFSPAM" and not answer.spam:
        return ""
    return _report(answer)


# spamd waits 30 s for the head of a request and 300 s for the whole (--timeout-tcp,
# --timeout-child); spamc gives up after 600 s. Unit: seconds.
IDLE: Final = 30.0
TOTAL: Final = 300.0
EX_TIMEOUT: Final = 79
CODES: Final[Mapping[type[errors.PostbayesError], int]] = {
    errors.EmptyMessage: os.EX_NOINPUT,
    errors.InvalidInput: os.EX_DATAERR,
    errors.NotFound: os.EX_DATAERR,
    errors.Conflict: os.EX_DATAERR,
    errors.Forbidden: os.EX_UNAVAILABLE,
    errors.TooManyRequests: os.EX_TEMPFAIL,
    errors.Unavailable: os.EX_TEMPFAIL,
    errors.PostbayesError: os.EX_SOFTWARE,
}
"""The nearest ancestor of an error's class decides."""


RIGHTS: Final[Mapping[str, Right]] = {"TELL": Right.TEACH}
"""Rights of commands that do not classify; the protocol cannot transmit a key."""


class Spamd(MailDoor):
    """The door, over an application."""

    async def serve(self, connection: Connection) -> None:
        """Answer one request."""
        session = SpamdSession(self._application.settings.max_request_bytes)
        result: Request | bytes | None = None
        while result is None:
            read = connection.read if session.begun else connection.read_between
            try:
                result = session.receive(await read())
            except TimeoutError:
                sentence = f"Timeout: no data for {IDLE:.0f} seconds"
                result = codec.failure(EX_TIMEOUT, sentence)
        early = not isinstance(result, Request)
        if isinstance(result, Request):
            result = await self._answer(result, connection)
        if result:
            await connection.write(result)
        if early:
            await connection.linger()

    async def _answer(self, request: Request, connection: Connection) -> bytes:
        right = RIGHTS.get(request.kind, Right.CLASSIFY)
        if not self._application.gate.may(Caller(connection.host), right):
            self._log.warning(
                "spamd: %s is not allowed to %s (POSTBAYES_KEYLESS_FROM)",
                connection.host,
                right,
            )
            sentence = (
                f"Service Unavailable: {connection.host} may not {right}; "
                "POSTBAYES_KEYLESS_FROM sets the allowed networks"
            )
            return codec.failure(os.EX_UNAVAILABLE, sentence)
        try:
            if request.kind != "TELL":
                size = len(request.message) * max(1, len(_users(request)))
                scan = partial(self._scan, request)
                return await computing(scan, size, connection.gone)
            return await in_thread(LEARNING, self._tell, request)
        except errors.PostbayesError as error:
            code = errors.answer_to(error, CODES)
            self._log.warning("spamd: %s of %r: %s", request.kind, request.user, error)
            return codec.failure(code, str(error))

    def _scan(self, request: Request) -> bytes:
        app = self._application
        if request.kind == "PROCESS" and not request.whole:
            sentence = (
                f"a message of more than {len(request.message) - 1} bytes is not "
                "returned; request only its headers (spamc --headers)"
            )
            return codec.failure(os.EX_DATAERR, sentence)
        delivered = app.delivery.together(
            _users(request), request.message, strongest=self._strongest, door="spamd"
        )
        app.tally.acted("spamd", delivered.action)
        classified, action = delivered.classified, delivered.action
        scale = PointScale.of(classified.specification, spam=REQUIRED, digits=1)
        answer = PointsAnswer(classified, action, scale)
        return scanned(request, answer, self._flag)

    def _tell(self, request: Request) -> bytes:
        """Learn or forget a message, and answer with the change, if any."""
        app = self._application
        profile = app.recipients.shared(_users(request))
        source = source_of("spamd", request.user)
        if request.removes:
            digest = app.feedback.identify(profile, request.message)
            try:
                app.feedback.forget(profile, digest, source=source, via=Via("spamd"))
            except errors.UnknownMessage:
                return success([])
            return success([("DidRemove", "local")])
        # Like SpamAssassin, do nothing without a class.
        if not (request.sets and request.label):
            return success([])
        taught = app.feedback.teach(
            profile,
            request.message,
            label=label_of(app.live.find(profile).row, request.label),
            source=source,
            via=Via("spamd"),
        )
        unchanged = taught.outcome.kind == "unchanged"
        return success([] if unchanged else [("DidSet", "local")])


def _users(request: Request) -> list[str]:
    # Exim can pass all recipients as one user: spam = $recipients.  Those beyond the
    # limit do not affect the profile: a head of 2 MB has a million of them, which took
    # two minutes.
    users = request.user.split(",", MAX_RECIPIENTS)[:MAX_RECIPIENTS]
    return [user for user in users if user.strip()]


def spamd(application: Application) -> Door:
    """Return the door.

    Raises
    ------
    InvalidSetting
        If a setting of the door is invalid.
    """
    serve = Spamd(application).serve
    return Door(name="spamd", serve=serve, idle=IDLE, total=TOTAL)
