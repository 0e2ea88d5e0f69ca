"""Which parameters does the query of a route have? No others are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Path
from fastapi.routing import APIRoute

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Request, Response


class Strict(APIRoute):
    """A route that refuses a query parameter which it does not know.

    Else a misspelt one would be as if it had not been given: with ``?profil=ann``
    another profile is undone.  `Direct` routes have it from the model of their query.
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
        # Headers and cookies are read by nobody.
        if not isinstance(field.field_info, Path)
    ]


def refused(name: str) -> dict[str, Any]:
    """Return the error of an unknown parameter, as the framework has it."""
    return {"type": "extra_forbidden", "loc": ("query", name), "msg": ""}
