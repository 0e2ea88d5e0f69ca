"""Question of the milter door: a message, its envelope, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.doors.milter import codec
from app.doors.milter.codec import Actions

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The data of a message that are not in its text.

    Parameters
    ----------
    client, address, helo : str
        The client's name in the DNS, its address, and the name that it gives itself.
    sender : str
        Of the SMTP envelope.
    recipients : tuple of str
        Of the SMTP envelope, in order.
    queue_id, host, program, tls, user : str
        The mail server's id of the message, its own name, its program, the version of
        TLS, and the authenticated user; empty where they are unknown.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Headers that a message is given, names and folded values.

    Parameters
    ----------
    below, above : sequence of (str, str)
        Below those that it has, and above them.
    """

    below: Sequence[tuple[str, str]] = ()
    above: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A whole message, and how the mail server can be answered.

    Parameters
    ----------
    envelope : Envelope
        The data beside its text.
    content : bytes
        The message as it was received, without the mail server's own header.
    forged : tuple of (bytes, int)
        Headers of the message that only this filter may write: name, and number among
        those of the name.  They are not in `content`.
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

    def accept(self, marks: Marks) -> bytes:
        """Let the message pass with some headers, and none that are forged."""
        return self._changed(marks) + codec.CONTINUE

    def quarantine(self, marks: Marks, *, reason: str) -> bytes:
        """Have the message held, where the mail server can; else mark it only."""
        held = Actions.QUARANTINE in self.actions
        return (
            self._changed(marks)
            + (codec.quarantine(reason) if held else b"")
            + codec.CONTINUE
        )

    def reject(self, reason: str) -> bytes:
        """Refuse the message, for good."""
        return codec.reply(f"550 5.7.1 {reason}")

    def _changed(self, marks: Marks) -> bytes:
        changes: list[bytes] = []
        if Actions.CHANGE_HEADERS in self.actions:
            # From the last one up: then it does not matter whether a mail server
            # still counts what it has deleted.
            changes += (codec.delete_header(*each) for each in reversed(self.forged))
        if Actions.ADD_HEADERS in self.actions:
            blank = " " if self.leading_space else ""
            changes += (
                codec.add_header(name, blank + value) for name, value in marks.below
            )
            # Above the others, as a header that says who handled the message
            # (RFC 8601 section 4.1).
            changes += (
                codec.insert_header(0, name, blank + value)
                for name, value in marks.above
            )
        return b"".join(changes)
