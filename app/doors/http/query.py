"""Query parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Path
from pydantic import BaseModel, ConfigDict

from app.doors.documents.verdict import MAX_EXPLAINED
from app.doors.http.guard import Guarded
from app.ledger.entry import MAX_SOURCE, PRINTABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Request, Response
    from fastapi.routing import APIRoute

# RFC 5321 section 4.5.3.1.8 has a server take 100; Postfix sends 50 at once
# (default_destination_recipient_limit).
MAX_QUERIED: Final = 100
ProfileName = Annotated[
    str | None,
    Query(
        description="Name of the profile. Where it is not given, the recipients' "
        "answers, and without recipients that of POSTBAYES_PROFILE."
    ),
]
Recipient = Annotated[
    list[str],
    Query(
        max_length=MAX_QUERIED,
        description="Who receives the message, an address or a user's name; may be "
        "repeated.",
    ),
]
Explain = Annotated[
    int,
    Query(
        ge=0,
        le=MAX_EXPLAINED,
        description="How many reasons to explain with, of each side.",
    ),
]
Label = Annotated[
    str | None, Query(description="What the message was: a label of the profile.")
]
Source = Annotated[
    str | None,
    Query(
        max_length=MAX_SOURCE,
        pattern=PRINTABLE,
        description="Who teaches it; kept in the ledger.",
    ),
]


class ClassifyQuery(BaseModel):
    """The query of `/classify`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: ProfileName = None
    recipient: Recipient = []
    explain: Explain = 10


class FeedbackQuery(BaseModel):
    """The query of `/feedback`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: Label = None
    profile: ProfileName = None
    recipient: Recipient = []
    source: Source = None


class Strict(Guarded):
    """A route that refuses a query parameter which it does not know.

    A misspelt parameter would otherwise be ignored: ``?profil=ann`` would undo another
    profile.  `Direct` routes have it from the model of their query.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()
        names = parameters(self)

        async def answer(request: Request) -> Response:
            unknown = [name for name in request.query_params if name not in names]
            if unknown:
                raise RequestValidationError([refused(name) for name in unknown])
            return await handler(request)

        return answer


def parameters(route: APIRoute) -> list[str]:
    """Return the names of the query parameters of a route."""
    return [
        field.alias
        for field in get_flat_params(route.dependant)
        # No route reads headers or cookies.
        if not isinstance(field.field_info, Path)
    ]


def refused(name: str) -> dict[str, Any]:
    """Return the error of an unknown parameter, as the framework has it."""
    return {"type": "extra_forbidden", "loc": ("query", name), "msg": ""}
