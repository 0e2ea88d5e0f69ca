"""Direct routes: the most frequent requests, without the framework."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from app.doors.http.body import JSON_TYPE, read_body
from app.doors.http.guard import Guarded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import APIRouter, FastAPI
    from fastapi.params import Depends
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send


KEPT: Final = 64
"""Queries that a route remembers; each has 64 KiB at most."""


class Direct(Guarded):
    """A route that the framework describes, and that serves itself.

    Only where `install` has put it, and without dependencies of the application, of
    its router or its own: those are for the framework to solve, which serves the
    route then.

    Its endpoint takes `request`, `body`, `app` and `query`, the last of them a
    frozen model of the whole query, and returns a `Response`.

    Notes
    -----
    FastAPI solves every parameter and dependency by itself, within two stacks of
    contexts.  Served by it, the door alone, without scoring and learning, takes
    147 us for a feedback by id, and so 58; for `/classify` it is 134 and 50
    (`benchmarks/door.py`).
    Both ways answer the same, byte for byte: the tests compare them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._query: type[BaseModel] = get_type_hints(self.endpoint)["query"]
        self._repeated = {
            name
            for name, field in self._query.model_fields.items()
            if field.annotation == list[str]
        }
        # A client asks the same again and again: to read it is a quarter of the door.
        self._read = lru_cache(KEPT)(self._model_of)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        direct = getattr(scope["app"].state, "direct", False)
        if not direct or scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        await self.ask(scope)
        request = Request(scope, receive, send)
        response: Response = await self.endpoint(
            request=request,
            body=await read_body(request),
            app=request.app.state.application,
            query=self._read(scope["query_string"]),
        )
        await response(scope, receive, send)

    def _model_of(self, query: bytes) -> BaseModel:
        """Return the query, or raise as the framework would."""
        given = QueryParams(query)
        values = {
            name: given.getlist(name) if name in self._repeated else given[name]
            for name in self._query.model_fields
            if name in given
        }
        # The model refuses what it does not know, so that a misspelt one is noticed.
        if len(values) < len(given):
            values |= {name: given[name] for name in given if name not in values}
        try:
            return self._query.model_validate(values)
        except ValidationError as error:
            raise RequestValidationError(
                [
                    {**each, "loc": ("query", *each["loc"])}
                    for each in error.errors(include_url=False)
                ]
            ) from error


def install(app: FastAPI, router: APIRouter) -> None:
    """Put direct routes into the application's own list, where they serve themselves.

    A route of an included router is looked for twice, which takes 9 us of the 74 for
    `/classify`.  With dependencies the router is included like any other.
    """
    theirs = [each for route in router.routes for each in _dependencies(route)]
    if app.router.dependencies or router.dependencies or theirs:
        app.include_router(router)
        return
    app.state.direct = True
    app.router.routes.extend(router.routes)


def _dependencies(route: BaseRoute) -> Sequence[Depends]:
    return route.dependencies if isinstance(route, Direct) else ()


def document(content: object) -> Response:
    """Return a document as an answer: a model, or the fields of one."""
    # Numbers as a model writes them: what JSON has no number for is null.
    return Response(to_json(content, inf_nan_mode="null"), media_type=JSON_TYPE)
