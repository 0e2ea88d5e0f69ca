"""Documents of a message, its source, and a problem."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

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


class ProblemOut(BaseModel):
    """An error, RFC 9457."""

    type: str = Field(description="A URN that programs tell the kind of problem by.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong and what to do about it.")
