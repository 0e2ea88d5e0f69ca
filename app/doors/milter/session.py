"""Session of the milter protocol: one connection of a mail server, without I/O.

A table lists the commands that are allowed in each state.  Any other command ends the
connection, and the mail server goes on without a filter.  Only the end of a message
needs a real answer: it becomes a `Question`, which the server of the door answers with
a verdict.

Postfix and Sendmail add their own Received header before delivery, but do not pass it
to a filter (Postfix, MILTER_README, "Limitations").  Mail learned from a mailbox has
this header, and its features are learned.  The same header is therefore made here from
the envelope, only for the classifier.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from app.doors.milter import codec
from app.doors.milter.codec import (
    NAME,
    Actions,
    MilterProtocolError,
    Packet,
    Steps,
    claims,
)
from app.mail.limits import MAX_BYTES
from app.services.recipients import MAX_RECIPIENTS

# Postfix supports versions 2 to 6 (milter_protocol), and libmilter has version 6 since
# Sendmail 8.14.
VERSION: Final = 6
OLDEST: Final = 2
# All that the codec names.
WANTED_ACTIONS: Final = sum(Actions)
WANTED_STEPS: Final = sum(Steps)
# Most forged headers that are removed. A mail server with a limit of 100 kB of headers
# (Postfix's header_size_limit) accepts fewer.
MAX_FORGED: Final = 10_000
_RESULTS: Final = NAME.lower().encode()
# The macros that are read, by their names in Postfix and Sendmail, and what they are of
# the envelope.
_READ: Final = {
    "i": "queue_id",
    "j": "host",
    "v": "program",
    "{tls_version}": "tls",
    "{auth_authen}": "user",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The data that come with a message but are not in its text.

    Parameters
    ----------
    client, address, helo : str
        The client's name in the DNS, its address, and the name in its HELO.
    sender : str
        Sender of the SMTP envelope.
    recipients : tuple of str
        Recipients of the SMTP envelope, in order.
    queue_id, host, program, tls, user : str
        The mail server's id of the message, its name and program, the version of TLS,
        and the authenticated user; empty if unknown.
    """

    client: str = ""
    address: str = ""
    helo: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()
    queue_id: str = ""
    host: str = ""
    program: str = ""
    tls: str = ""
    user: str = ""


Headers = Iterable[tuple[str, str]]
"""Headers to add: names and folded values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A complete message, and the possible answers to the mail server.

    Headers are added below those of the message, and results above them.

    Parameters
    ----------
    content : bytes
        The message as received, without the mail server's own header.
    forged : tuple of (bytes, int)
        Headers in the message that only this filter may write: name, and number among
        those with the name.  `content` does not have them.
    actions : Actions
        The changes that the mail server offers.
    leading_space : bool
        Whether the blank after a colon belongs to the value.
    """

    envelope: Envelope
    content: bytes
    forged: tuple[tuple[bytes, int], ...]
    actions: Actions
    leading_space: bool

    def accept(
        self, headers: Headers = (), results: Headers = (), *, hold: str = ""
    ) -> bytes:
        """Let the message pass with some headers, without the forged ones.

        With a reason to `hold` it, it is held if the mail server can.
        """
        held = hold and Actions.QUARANTINE in self.actions
        return (
            self._changed(headers, results)
            + (codec.quarantine(hold) if held else b"")
            + codec.CONTINUE
        )

    def reject(self, reason: str) -> bytes:
        """Refuse the message permanently."""
        return codec.reply(f"550 5.7.1 {reason}")

    def _changed(self, headers: Headers, results: Headers) -> bytes:
        changes: list[bytes] = []
        if Actions.CHANGE_HEADERS in self.actions:
            # From the last one up, so it does not matter whether a mail server still
            # counts deleted headers.
            changes += (codec.delete_header(*each) for each in reversed(self.forged))
        if Actions.ADD_HEADERS in self.actions:
            blank = " " if self.leading_space else ""
            changes += (codec.add_header(name, blank + text) for name, text in headers)
            # At the top, as a trace header (RFC 8601 section 4.1).
            changes += (
                codec.insert_header(0, name, blank + text) for name, text in results
            )
        return b"".join(changes)


MAX_NAME_CHARS: Final = 255
"""Most characters of a host name (RFC 1035 section 2.3.4); longer ones are cut."""
_STRANGE: Final = re.compile(r"[^!-~]")


def received(envelope: Envelope, date: str) -> bytes:
    r"""Return the Received header, with its line end.

    Examples
    --------
    >>> client = Envelope(client="mx.example.org", address="192.0.2.1", helo="mx")
    >>> received(client, "Fri, 6 Nov 2026 09:00:00 +0000")
    b'Received: from mx (mx.example.org [192.0.2.1]) with SMTP;
    Fri, 6 Nov 2026 09:00:00 +0000\r\n'
    """

    def clean(text: str) -> str:
        return _STRANGE.sub("?", text[:MAX_NAME_CHARS])

    helo, program = clean(envelope.helo), clean(envelope.program.partition(" ")[0])
    client, address = clean(envelope.client), clean(envelope.address)
    secure = "ESMTPS" if envelope.tls else "ESMTP" if program else "SMTP"
    line = f"Received: from {helo or client} ({client} [{address}])"
    if envelope.host:
        line += f" by {clean(envelope.host)} ({program or 'mail'})"
    line += f" with {secure}"
    if envelope.queue_id:
        line += f" id {clean(envelope.queue_id)}"
    return f"{line}; {date}\r\n".encode()


@dataclass(slots=True)
class _Message:
    """A message while it arrives, with its sender and recipients."""

    envelope: Envelope = Envelope()
    recipients: list[str] = field(default_factory=list)
    headers: bytearray = field(default_factory=bytearray)
    # All of them, also those that are forged.
    received: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    counts: dict[bytes, int] = field(default_factory=dict)
    forged: list[tuple[bytes, int]] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Bytes still to keep: the parser's limit, and one more."""
        return max(0, MAX_BYTES + 1 - len(self.headers) - len(self.body))

    @property
    def content(self) -> bytes:
        """The message, without headers that its body repeats.

        Stalwart sends the whole message as its body (stalwartlabs issue 2346, about
        0.13; not run here), and words in base64 are lost behind its headers: a message
        of log-odds 21.5 had 0.1 with them.  It trims values, so white space does not
        count.
        """
        end = self.body.find(b"\r\n\r\n", 0, 2 * len(self.received))
        # Most bodies have none: their 4 MiB must not be taken to words.
        first = b"".join(self.body[: max(end, 0)].split())
        again = end > 0 and first == b"".join(self.received.split())
        body = memoryview(self.body)[end + 4 if again else 0 :]
        return b"\r\n".join((self.headers, body))


State = Literal["greeting", "open", "message"]


class MilterSession:
    """The filter's side of one connection.

    Parameters
    ----------
    ours : frozenset of str
        Names of headers, in lower case, that only this filter may write.
    authserv_id : str or None
        The name under which only this filter may write Authentication-Results.
    """

    def __init__(self, ours: frozenset[str], authserv_id: str | None = None) -> None:
        self._watched = {name.encode() for name in ours}
        self._authserv_id = authserv_id or ""
        if self._authserv_id:
            self._watched.add(_RESULTS)
        self._state: State = "greeting"
        self._actions = Actions(0)
        self._steps = Steps(0)
        self._client = Envelope()
        self._named: dict[str, str] = {}
        self._message = _Message()
        self.ended = False

    @property
    def between(self) -> bool:
        """Whether no message is being received."""
        return self._state != "message"

    def receive(self, packet: Packet) -> bytes | Question:
        """Return the answer to the mail server, or the question on which it depends.

        Raises
        ------
        MilterProtocolError
            If the command is not allowed now, or is malformed.
        """
        step = _TABLE[self._state].get(packet.command)
        if step is None:
            raise MilterProtocolError(
                f"the command {packet.command!r} is not allowed in the state "
                f"{self._state!r}"
            )
        return step(self, packet.data)

    def negotiate(self, data: bytes) -> bytes:
        """Choose from the options that the mail server offers."""
        version, actions, steps = codec.options(data)
        if version < OLDEST:
            raise MilterProtocolError(
                f"version {version} of the protocol is not supported; {OLDEST} is the "
                "oldest"
            )
        self._actions = Actions(actions & WANTED_ACTIONS)
        self._steps = Steps(steps & WANTED_STEPS)
        if Steps.SKIP in self._steps:
            self._steps &= ~Steps.SILENT_BODY
        self._state = "open"
        return codec.negotiated(min(version, VERSION), self._actions, self._steps)

    def macros(self, data: bytes) -> bytes:
        """Store the macros."""
        given = codec.macros(data)
        self._named |= {_READ[name]: given[name] for name in _READ.keys() & given}
        return b""

    def connect(self, data: bytes) -> bytes:
        """Note the name and the address of the client."""
        name, address = codec.client(data)
        self._client = Envelope(client=name, address=address)
        return self._unless(Steps.SILENT_CONNECT)

    def helo(self, data: bytes) -> bytes:
        """Note the name in the client's HELO."""
        self._client = replace(self._client, helo=codec.text(data))
        return self._unless(Steps.SILENT_HELO)

    def mail(self, data: bytes) -> bytes:
        """Begin a message, with its sender."""
        self._message = _Message(replace(self._client, sender=codec.text(data)))
        self._state = "message"
        return self._unless(Steps.SILENT_MAIL)

    def recipient(self, data: bytes) -> bytes:
        """Note a recipient; recipients beyond the limit do not affect the profile."""
        recipients = self._message.recipients
        if len(recipients) < MAX_RECIPIENTS:
            recipients.append(codec.text(data))
        return self._unless(Steps.SILENT_RECIPIENT)

    def header(self, data: bytes) -> bytes:
        """Add the header as it was in the message."""
        name, value = codec.header(data)
        message = self._message
        if len(message.received) < MAX_BYTES:
            message.received += b"%b:%b\r\n" % (name, value)
        if self._is_forged(name.lower(), value):
            return self._unless(Steps.SILENT_HEADER)
        blank = b"" if Steps.LEADING_SPACE in self._steps else b" "
        # Folded values have bare line feeds (Postfix and Sendmail alike).
        value = value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        line = b"%b:%b%b\r\n" % (name, blank, value)
        message.headers += line[: message.missing]
        return self._unless(Steps.SILENT_HEADER)

    def end_of_headers(self, _: bytes) -> bytes:
        """Go on to the body."""
        return self._unless(Steps.SILENT_END_OF_HEADERS)

    def body(self, data: bytes) -> bytes:
        """Keep a piece, or have the rest skipped."""
        message = self._message
        message.body += data[: message.missing]
        if not message.missing and Steps.SKIP in self._steps:
            return codec.SKIP
        return self._unless(Steps.SILENT_BODY)

    def end(self, data: bytes) -> Question:
        """Ask about the complete message, after a last piece if there is one."""
        message = self._message
        message.body += data[: message.missing]
        question = Question(
            envelope=replace(
                message.envelope, recipients=tuple(message.recipients), **self._named
            ),
            content=message.content,
            forged=tuple(message.forged),
            actions=self._actions,
            leading_space=Steps.LEADING_SPACE in self._steps,
        )
        self._reset()
        return question

    def abort(self, _: bytes) -> bytes:
        """Forget the message, but not the client."""
        self._reset()
        return b""

    def quit_client(self, _: bytes) -> bytes:
        """Forget the client, but not the options: another follows on the connection."""
        self._reset()
        self._client = Envelope()
        self._named = {}
        return b""

    def quit(self, _: bytes) -> bytes:
        """End the session."""
        self.ended = True
        return b""

    def other(self, _: bytes) -> bytes:
        """Ignore an unrequested event, which older servers send anyway."""
        return codec.CONTINUE

    def _is_forged(self, name: bytes, value: bytes) -> bool:
        """Return whether only this filter may write a header; note its position."""
        message = self._message
        if name not in self._watched:
            return False
        number = message.counts[name] = message.counts.get(name, 0) + 1
        if name == _RESULTS and not claims(value, self._authserv_id):
            return False
        if len(message.forged) < MAX_FORGED:
            message.forged.append((name, number))
        return True

    def _reset(self) -> None:
        self._message = _Message()
        # Macros of a message must not count for the next one if the mail server does
        # not send them again.
        for attribute in ("queue_id", "user"):
            self._named.pop(attribute, None)
        self._state = "open"

    def _unless(self, silent: Steps) -> bytes:
        return b"" if silent in self._steps else codec.CONTINUE


_Step = Callable[[MilterSession, bytes], bytes | Question]
_ANYWHERE: Final[dict[bytes, _Step]] = {
    b"D": MilterSession.macros,
    b"A": MilterSession.abort,
    b"Q": MilterSession.quit,
    b"K": MilterSession.quit_client,
    # DATA, and commands unknown to the mail server.
    b"T": MilterSession.other,
    b"U": MilterSession.other,
    # A client may start again with EHLO or MAIL in any state.
    b"C": MilterSession.connect,
    b"H": MilterSession.helo,
    b"M": MilterSession.mail,
}
_TABLE: Final[dict[State, dict[bytes, _Step]]] = {
    "greeting": {b"O": MilterSession.negotiate, b"Q": MilterSession.quit},
    "open": _ANYWHERE,
    "message": {
        **_ANYWHERE,
        b"R": MilterSession.recipient,
        b"L": MilterSession.header,
        b"N": MilterSession.end_of_headers,
        b"B": MilterSession.body,
        b"E": MilterSession.end,
    },
}
