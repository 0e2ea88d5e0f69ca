"""Documents: the JSON of the HTTP door and of `--json`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class RequestDocument(BaseModel):
    """A document or a query of a request; a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class AnswerDocument(BaseModel):
    """A document of an answer."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def describing(cls, *described: object, **fields: object) -> Self:
        """Return the document of some objects.

        Parameters
        ----------
        *described : object
            A field is the attribute of its name; the first object that has it counts.
        **fields : object
            The fields that are no attribute, or that have another value.
        """
        found = {
            name: getattr(each, name)
            for each in reversed(described)
            for name in cls.model_fields
            if hasattr(each, name)
        }
        return cls.model_validate(found | fields)
