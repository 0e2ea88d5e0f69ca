"""Documents of a message and of a problem.

A contact form or a comment is not an RFC 5322 message.  It is composed into one and
then parsed like any other, so there is one path from bytes to features.
"""

from __future__ import annotations

import hashlib
from datetime import datetime  # noqa: TC003  pydantic reads it
from typing import TYPE_CHECKING

from pydantic import Field

from app.doors.documents import AnswerDocument, RequestDocument
from app.services.recipients import MAX_ADDRESS, MAX_RECIPIENTS

if TYPE_CHECKING:
    from collections.abc import Mapping


class SentIn(RequestDocument):
    """A message that a user of the site has sent."""

    sender: str = Field(max_length=MAX_ADDRESS)
    """The sender: the address, or the login name of the user."""
    recipients: list[str] = Field(min_length=1, max_length=MAX_RECIPIENTS)
    """The envelope's recipients. If there are more than 20, they are ignored."""


class SentOut(AnswerDocument):
    """The correspondents that a sent message counted."""

    counted: int
    """Recipients who are correspondents now; always 0 without POSTBAYES_AUTHSERV_ID."""


class CorrespondentsOut(AnswerDocument):
    """Whom the users of a profile have written to."""

    addresses: int
    """Number of addresses; 1 or 0 if an address was requested."""
    messages: int
    """Messages to these addresses."""
    last: datetime | None
    """Day of the latest message, in UTC; null if there is none."""


class TextIn(RequestDocument):
    """A message as JSON: whole in `message`, or as the fields of a form."""

    message: str | None = None
    """The whole message (RFC 5322) as text, in place of the other fields."""
    subject: str | None = None
    """The subject of the form or comment."""
    from_: str | None = Field(None, alias="from")
    """The sender, as `Name <address>` or an address."""
    to: str | None = None
    """The recipient."""
    reply_to: str | None = None
    """Address for answers, if not the sender."""
    body: str | None = None
    """The text."""
    html: str | None = None
    """The same text as HTML."""

    def raw(self) -> bytes | None:
        """Return the message in bytes; None if there is none."""
        if self.message is not None:
            return self.message.encode("utf-8", "replace")
        headers = {
            "From": self.from_,
            "To": self.to,
            "Reply-To": self.reply_to,
            "Subject": self.subject,
        }
        given = {name: value for name, value in headers.items() if value is not None}
        if not "".join((*given.values(), self.body or "", self.html or "")).strip():
            return None
        return compose(given, self.body or "", self.html)

    def mixed(self) -> bool:
        """Return whether both forms were used at once."""
        form = TextIn.model_fields.keys() - {"message"}
        return self.message is not None and bool(form & self.model_fields_set)


class ProblemOut(AnswerDocument):
    """An error, RFC 9457."""

    type: str
    """A URN for the type of problem, for programs."""
    title: str
    """The status in words."""
    status: int
    """The HTTP status."""
    detail: str
    """The problem, and what to do about it."""


def compose(headers: Mapping[str, str], text: str, html: str | None = None) -> bytes:
    """Return the raw message of some headers and a body.

    Parameters
    ----------
    headers : mapping of str to str
        Header values by name.  Line ends in a value become spaces, so the text of a
        form cannot add a header.
    text : str
        The plain body.
    html : str, optional
        The same body in HTML; the message is then multipart/alternative.

    Returns
    -------
    bytes
        A message in UTF-8 with LF line ends.

    Examples
    --------
    >>> compose({"Subject": "Hello"}, "How are you?").splitlines()[0]
    b'Subject: Hello'
    """
    lines = [f"{name}: {' '.join(value.split())}" for name, value in headers.items()]
    lines.append("MIME-Version: 1.0")
    if html is None:
        lines += ["Content-Type: text/plain; charset=utf-8", "", text]
    else:
        # A digest of the bodies does not occur in them unless the hash is broken. A
        # search for an unused boundary could be prolonged by a sender at will.
        digest = hashlib.blake2b((text + html).encode("utf-8", "replace"))
        boundary = f"=_{digest.hexdigest()[:32]}"
        lines += [
            f'Content-Type: multipart/alternative; boundary="{boundary}"',
            "",
            f"--{boundary}",
            "Content-Type: text/plain; charset=utf-8",
            "",
            text,
            f"--{boundary}",
            "Content-Type: text/html; charset=utf-8",
            "",
            html,
            f"--{boundary}--",
            "",
        ]
    # JSON can contain a lone surrogate, which cannot be encoded.
    return "\n".join(lines).encode("utf-8", "replace")
