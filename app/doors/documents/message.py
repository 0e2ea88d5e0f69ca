"""Documents of a message, its source, and a problem."""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from app.errors import InvalidInput, UnknownMessage
from app.features.observation import DIGEST_BYTES
from app.ledger.entry import OWN, PRUNED
from app.ledger.undo import PREFIX as UNDONE
from app.mail.compose import compose


class TextIn(BaseModel):
    """A message as JSON: whole in `message`, or as the fields of a form."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    message: str | None = Field(
        None, description="The whole message, RFC 5322, as text. Excludes the rest."
    )
    subject: str | None = Field(None, description="The subject of the form or comment.")
    from_: str | None = Field(
        None,
        alias="from",
        description="The sender, as `Name <address>` or an address.",
    )
    to: str | None = Field(None, description="The recipient.")
    reply_to: str | None = Field(
        None, description="Where answers go, if not to the sender."
    )
    body: str | None = Field(None, description="The text.")
    html: str | None = Field(None, description="The text once more, as HTML.")

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
        """Tell whether both forms were used at once."""
        fields = self.model_fields_set & {
            "subject",
            "from_",
            "to",
            "reply_to",
            "body",
            "html",
        }
        return self.message is not None and bool(fields)


PRINTABLE = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line; PostgreSQL takes no NUL."""
MAX_SOURCE = 64
_SOURCE = re.compile(PRINTABLE)
# What is undone or audited by its source must not be mixed with what a person
# said under the same name.
_RESERVED: Final = (OWN, PRUNED)
_RESERVED_PREFIXES: Final = (UNDONE, "import:")


def parse_id(text: str) -> bytes:
    """Return the digest that an id stands for.

    Raises
    ------
    UnknownMessage
        If it is not 32 hexadecimal digits, so that no message can have it.
    """
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        msg = (
            f"no message has the id {text[:64]!r}; an id is the 32 hexadecimal "
            "digits that /classify returned"
        )
        raise UnknownMessage(msg)
    return digest


def check_source(source: str) -> None:
    """Raise if the ledger cannot keep who says so.

    Raises
    ------
    InvalidInput
        If it is empty, too long, or not printable text of one line.
    """
    printable = _SOURCE.match(source) and source.isprintable()
    if not printable or len(source) > MAX_SOURCE:
        msg = (
            f"a source is 1 to {MAX_SOURCE} printable characters, such as a user's "
            f"name; got {source[:MAX_SOURCE]!r}"
        )
        raise InvalidInput(msg)
    if source in _RESERVED or source.startswith(_RESERVED_PREFIXES):
        msg = (
            f"the source {source!r} stands for what the filter does itself; give "
            "another name, such as a user's"
        )
        raise InvalidInput(msg)


class ProblemOut(BaseModel):
    """An error, RFC 9457."""

    type: str = Field(description="A URN that programs tell the kind of problem by.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong and what to do about it.")
