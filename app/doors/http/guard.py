"""Guard: the one place that every request to a route passes before it is answered.

Contract of this file: a guard is asked once per request, by every route of the
application, before body and query are read.  A guard that raises denies; the error
is answered as any other.  Every route says which right it asks, and the last guard
compares that with the rights of the principal.  `require_guarded` refuses an
application with a route that asks no guard, or that says nothing of its right.
`Direct` routes, which have the most frequent requests, bypass the framework, but no
guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_type_hints
from urllib.parse import urlencode

from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Path
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from app.doors.http.body import JSON_TYPE, read_body
from app.doors.serving.request import caller_of
from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from fastapi import APIRouter, FastAPI
    from fastapi.params import Depends
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send

    from app.access.rights import Principal, Right
    from app.doors.serving.request import Site
    from app.services.gate import Gate


RIGHT: Final = "x-right"
"""The right of an operation in the OpenAPI document; absent where everybody may."""
KEPT: Final = 64
"""Queries that a route remembers; each has 64 KiB at most."""


@dataclass(slots=True)
class Access:
    """A request, as far as it decides whether it may be made.

    Parameters
    ----------
    route : Guarded
        What is asked for.
    scope : Scope
        The request, in the terms of ASGI.
    """

    route: Guarded
    scope: Scope

    @property
    def operation(self) -> tuple[str, str]:
        """Method and path as the OpenAPI document has them: `/feedback/{id}`."""
        return self.scope["method"], self.route.path_format

    @property
    def raw(self) -> tuple[str, Iterable[tuple[bytes, bytes]]]:
        """Method and headers as they came, the names in lower case."""
        return self.scope["method"], self.scope["headers"]

    @property
    def headers(self) -> Headers:
        """The headers of the request."""
        return Headers(scope=self.scope)

    @property
    def client(self) -> str | None:
        """Address of the client; None for a Unix socket, or where it is gone."""
        client = self.scope["client"]
        return None if client is None else str(client[0])

    @property
    def right(self) -> Right | None:
        """The right that the route asks; None where everybody may."""
        return self.route.right

    def admit(self, principal: Principal) -> None:
        """Put the principal where `principal_of` finds it."""
        self.scope.setdefault("state", {})["principal"] = principal


Guard = Callable[[Access], Awaitable[None]]
"""Raises an error of `app.errors` where a request may not be made."""


async def of_this_site(site: Site, access: Access) -> None:
    """Deny the requests of web pages of other sites."""
    site.check(*access.raw)


async def with_the_right(gate: Gate, access: Access) -> None:
    """Deny a request without the right that it needs."""
    caller = caller_of(access.scope, gate.proxies, sign_in=gate.sign_in_header)
    try:
        principal = gate.admit(caller, access.right)
    except Forbidden:
        # The page that says so is theirs, too.
        person = gate.identify(caller)
        if person is not None:
            access.admit(person)
        raise
    access.admit(principal)
    if principal.profiles is not None and access.right is not None:
        _hold_to_profiles(access, principal)


def _hold_to_profiles(access: Access, principal: Principal) -> None:
    """Refuse other profiles in the query, whatever the route does with it.

    Where nothing is named, the query gets the one profile of the principal; a route
    would take that of the site.
    """
    scope = access.scope
    query = QueryParams(scope["query_string"])
    site: str = scope["app"].state.application.settings.profile
    named = query.getlist("profile")
    for name in named:
        principal.require(name or site)
    if named or query.getlist("recipient") or "profile" not in access.route.parameters:
        return
    only = principal.only_profile
    if only is None:
        principal.require(site)
    else:
        pairs = [*query.multi_items(), ("profile", only)]
        scope["query_string"] = urlencode(pairs).encode()


def principal_of(request: Request) -> Principal:
    """Return the principal of a request that the guards admit."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


def profile_of(
    request: Request, name: str | None, recipients: Sequence[str] = ()
) -> str:
    """Return the profile that a request names, or that of its recipients.

    Every route that reads or changes a profile takes its name from here.  A principal
    with one profile means that one where it names none.

    Raises
    ------
    Forbidden
        If the principal may not use the profile.
    """
    principal = principal_of(request)
    if not (name or recipients):
        name = principal.only_profile
    app = request.app.state.application
    return principal.require(name or app.recipients.shared(recipients))


class Guarded(APIRoute):
    """A route that asks the guards of its application.

    Notes
    -----
    An application without `state.guards` answers nothing: what is forgotten denies.
    """

    right: ClassVar[Right | None]
    """The right that it needs (`asking`); None if it needs none."""
    parameters: Sequence[str]
    """The names of its query parameters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.openapi_extra = {
            RIGHT: getattr(self, "right", None),
            **(self.openapi_extra or {}),
        }
        self.parameters = [
            field.alias
            for field in get_flat_params(self.dependant)
            # No route reads headers or cookies.
            if not isinstance(field.field_info, Path)
        ]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may be made."""
        # Other methods are refused by the framework.
        if scope["method"] in (self.methods or ()):
            await self.ask(scope)
        await super().handle(scope, receive, send)

    async def ask(self, scope: Scope) -> None:
        """Raise where a guard denies the request."""
        guards: tuple[Guard, ...] = scope["app"].state.guards
        for guard in guards:
            await guard(Access(self, scope))


class Strict(Guarded):
    """A route that refuses a query parameter which it does not know.

    A misspelt parameter would otherwise be ignored: ``?profil=ann`` would undo another
    profile.  `Direct` routes have it from the model of their query.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        handler = super().get_route_handler()

        async def answer(request: Request) -> Response:
            unknown = [
                name for name in request.query_params if name not in self.parameters
            ]
            if unknown:
                raise RequestValidationError(
                    [
                        {"type": "extra_forbidden", "loc": ("query", name), "msg": ""}
                        for name in unknown
                    ]
                )
            return await handler(request)

        return answer


@cache
def asking(right: Right | None, base: type[Guarded] = Strict) -> type[Guarded]:
    """Return the class of the routes that ask a right.

    Parameters
    ----------
    right : Right or None
        What a principal needs; None where everybody may.
    base : type of Guarded
        How these routes answer.

    Examples
    --------
    >>> from app.access.rights import Right
    >>> asking(Right.READ).right
    <Right.READ: 'read'>
    """
    name = f"{base.__name__}{'Open' if right is None else right.name.title()}"
    return type(name, (base,), {"right": right, "__doc__": base.__doc__})


def require_guarded(routers: Iterable[APIRouter]) -> None:
    """Raise if a route asks no guard, or does not say which right it asks.

    Raises
    ------
    TypeError
        Naming the route.
    """
    for router in routers:
        for route in router.routes:
            if not isinstance(route, Guarded):
                msg = (
                    f"{route!r} asks no guard: make its router with a route class "
                    "that is derived from Guarded"
                )
                raise TypeError(msg)
            if not hasattr(route, "right"):
                msg = (
                    f"{route!r} asks no right: make its router with "
                    "`route_class=asking(…)`"
                )
                raise TypeError(msg)


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
