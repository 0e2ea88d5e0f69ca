"""Documents: the JSON of the HTTP door and of `--json`."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
)

from app.errors import InvalidSelection
from app.settings import describe


def _written_out(time: object) -> object:
    if isinstance(time, str) and " " in time.partition("T")[2]:
        raise ValueError(
            "write the + of a time zone as %2B in a query, or give the time in UTC, "
            "such as 2026-03-01T14:30:00Z"
        )
    # Pydantic would read digits as Unix time: an undo from 20261127 on would reach back
    # to 1970.
    if isinstance(time, datetime) or (isinstance(time, str) and ":" in time):
        return time
    raise ValueError("write a date, a time and a zone, such as 2026-03-01T14:30:00Z")


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(
            f"{time.isoformat()} is before the year 1 or after 9999 in UTC; leave it "
            "out, or give a time in between"
        ) from error


Moment = Annotated[
    AwareDatetime, BeforeValidator(_written_out), AfterValidator(_in_utc)
]
"""A time with a time zone, which is in UTC when it is read."""


def moment_of(text: str | None, zone: tzinfo | None = None) -> datetime | None:
    """Parse a time that a person wrote; without a zone it is in `zone`, or local.

    Raises
    ------
    InvalidSelection
        If it is not a time.
    """
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=found.tzinfo or zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{text[:40]!r} is not a time; write 2026-03-01, or 2026-03-01T14:30"
        raise InvalidSelection(msg) from error


class DescribedDocument(BaseModel):
    """A document, whose fields are described by the texts below them."""

    model_config = ConfigDict(json_schema_extra=describe)


class RequestDocument(DescribedDocument):
    """A document or a query of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class AnswerDocument(DescribedDocument):
    """A document of an answer."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def describing(cls, *described: object, **fields: object) -> Self:
        """Return the document of some objects.

        Parameters
        ----------
        *described : object
            Each field is taken from the first object that has an attribute of that
            name.
        **fields : object
            Further fields, or other values for fields.
        """
        found = {
            name: getattr(each, name)
            for each in reversed(described)
            for name in cls.model_fields
            if hasattr(each, name)
        }
        return cls.model_validate(found | fields)


class OfProfileOut(AnswerDocument):
    """A document that begins with the profile that answered."""

    profile: str
    """The profile that answered."""
