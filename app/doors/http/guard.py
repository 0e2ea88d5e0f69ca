"""Guard: the checks that every request to a route must pass, and routes that call them.

Contract of this file: every route of the application calls each guard once per request,
before it reads body and query.  A guard denies by raising an error, which is answered
like any other.  Every route declares the right that it requires, and the last guard
compares it with the rights of the principal.  `require_guarded` refuses an application
with a route that calls no guards or declares no right.  `Direct` routes, which have the
most frequent requests, bypass the framework, but no guard.
"""

from __future__ import annotations

from collections import Counter
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
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from app.access.rights import NOBODY
from app.doors import described
from app.doors.http.body import JSON_TYPE, read_body
from app.doors.serving.request import caller_of, require_place
from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastapi import APIRouter, FastAPI
    from starlette.types import Receive, Scope, Send

    from app.access.rights import Principal, Right
    from app.doors.serving.request import Site
    from app.services.access import Gate


RIGHT: Final = "x-right"
"""The right of an operation in the OpenAPI document; absent if everybody may."""
KEPT: Final = 64
"""Most queries that a route caches; each has at most 64 KiB."""


@dataclass(slots=True)
class Access:
    """A request as guards see it: its route, and its ASGI scope with the headers."""

    route: Guarded
    scope: Scope

    @property
    def operation(self) -> tuple[str, str]:
        """Method and path as in the OpenAPI document: `/feedback/{id}`."""
        return self.scope["method"], self.route.path_format

    @property
    def right(self) -> Right | None:
        """The right that the route requires; None if everybody may."""
        return self.route.right

    def admit(self, principal: Principal) -> None:
        """Store the principal for `principal_of`."""
        self.scope.setdefault("state", {})["principal"] = principal


Guard = Callable[[Access], Awaitable[None]]
"""Raises an error of `app.errors` to deny a request."""


async def of_this_site(site: Site, access: Access) -> None:
    """Deny requests without a place, and those from web pages of other sites."""
    require_place(access.scope)
    site.check(access.scope["method"], access.scope["headers"])


async def with_the_right(gate: Gate, access: Access) -> None:
    """Deny a request without the right that it needs."""
    caller = caller_of(access.scope, gate.proxies, sign_in=gate.sign_in_header)
    try:
        principal = gate.admit(caller, access.right)
    except Forbidden:
        # The page with the error is shown for this principal.
        person = gate.identify(caller)
        if person is not None:
            access.admit(person)
        raise
    access.admit(principal)
    if principal.profiles is not None and access.right is not None:
        _hold_to_profiles(access, principal)


def _hold_to_profiles(access: Access, principal: Principal) -> None:
    """Refuse other profiles in the query, whatever the route does with them.

    If the query names no profile, it gets the principal's only profile; otherwise a
    route would use that of the site.
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
    """Return the principal of a request; `NOBODY` if it was not admitted."""
    principal: Principal = request.scope.get("state", {}).get("principal", NOBODY)
    return principal


def profile_of(
    request: Request, name: str | None, recipients: Sequence[str] = ()
) -> str:
    """Return the profile that a request names, or that of its recipients.

    Every route that reads or changes a profile gets its name here.  The default of a
    principal with only one profile is that profile.

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
    """A route that calls the guards of its application.

    Notes
    -----
    An application without `state.guards` denies every request.
    """

    right: ClassVar[Right | None]
    """The required right (see `asking`); None if everybody may."""
    parameters: Mapping[str, bool]
    """The names of its query parameters, and whether one may be given again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Generators of clients call their functions so.
        self.operation_id = self.name
        says, meanings = described(self.endpoint)
        self.summary, _, self.description = says.partition("\n\n")
        right = getattr(self, "right", None)
        self.openapi_extra = {
            RIGHT: right,
            # Clients of the same machine need no key.
            "security": [] if right is None else [{}, {"key": []}],
            **(self.openapi_extra or {}),
        }
        # Dependencies may share some, and no route reads headers or cookies.
        parameters = get_flat_params(self.dependant)
        for field in parameters:
            about = field.field_info
            about.description = meanings.get(field.name, about.description)
        self.parameters = {
            field.alias: field.field_info.annotation == list[str]
            for field in parameters
            if not isinstance(field.field_info, Path)
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an admitted request."""
        # The framework refuses other methods.
        if scope["method"] in (self.methods or ()):
            await self.ask(scope)
        await super().handle(scope, receive, send)

    async def ask(self, scope: Scope) -> None:
        """Raise if a guard denies the request, or a parameter has several values.

        Otherwise one of them would be ignored.
        """
        guards: tuple[Guard, ...] = scope["app"].state.guards
        for guard in guards:
            await guard(Access(self, scope))
        again = [
            {
                "type": "repeated",
                "loc": ("query", name),
                "msg": "Input should be given once",
            }
            for name in _repeated(scope["query_string"])
            if self.parameters.get(name) is False
        ]
        if again:
            raise RequestValidationError(again)


@lru_cache(KEPT)
def _repeated(query: bytes) -> tuple[str, ...]:
    """Return the parameters that a query has more than once."""
    if b"&" not in query:
        return ()
    counts = Counter(name for name, _ in QueryParams(query).multi_items())
    return tuple(name for name, count in counts.items() if count > 1)


class Strict(Guarded):
    """A route that refuses unknown query parameters.

    Otherwise a misspelt parameter would be ignored: ``?profil=ann`` would undo in a
    different profile.  The model of a `Direct` route's query does the same.
    """

    async def ask(self, scope: Scope) -> None:
        """Raise if a guard denies the request, or it has an unknown parameter."""
        await super().ask(scope)
        unknown = [
            {"type": "extra_forbidden", "loc": ("query", name), "msg": ""}
            for name in QueryParams(scope["query_string"])
            if name not in self.parameters
        ]
        if unknown:
            raise RequestValidationError(unknown)


@cache
def asking(right: Right | None, base: type[Guarded] = Strict) -> type[Guarded]:
    """Return a class of routes that require a right; None if everybody may.

    Examples
    --------
    >>> from app.access.rights import Right
    >>> asking(Right.READ).right
    <Right.READ: 'read'>
    """
    name = f"{base.__name__}{'Open' if right is None else right.name.title()}"
    return type(name, (base,), {"right": right, "__doc__": base.__doc__})


def require_guarded(routers: Iterable[APIRouter]) -> None:
    """Raise if a route calls no guards or declares no right.

    Raises
    ------
    TypeError
        The message names the route.
    """
    for router in routers:
        for route in router.routes:
            if not isinstance(route, Guarded):
                raise TypeError(
                    f"{route!r} asks no guard: make its router with a route class "
                    "that is derived from Guarded"
                )
            if not hasattr(route, "right"):
                raise TypeError(
                    f"{route!r} asks no right: make its router with "
                    "`route_class=asking(…)`"
                )


class Direct(Guarded):
    """A route that the framework describes but does not serve.

    This works if `install` has added it, and without dependencies of the application,
    the router or the route.  Otherwise the framework solves the dependencies and serves
    the route.

    Its endpoint takes `request`, `body`, `app` and `query`, a frozen model of the whole
    query, and returns a `Response`.

    Notes
    -----
    FastAPI solves every parameter and dependency separately, within two stacks of
    contexts.  Without scoring and learning, a lesson by id takes 147 us with FastAPI
    and 58 us here; `/classify` takes 134 and 50 us (`benchmarks/door.py`).  Tests check
    that both ways give the same answers, byte for byte.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._query: type[BaseModel] = get_type_hints(self.endpoint)["query"]
        # Clients repeat their queries, and parsing one takes a quarter of the door's
        # time.
        self._read = lru_cache(KEPT)(self._model_of)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        direct = getattr(scope["app"].state, "direct", False) and not self.dependencies
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
        """Return the parsed query, or raise the framework's error."""
        given = QueryParams(query)
        # The model refuses unknown parameters, so that misspelt ones are noticed.
        values = {
            name: given.getlist(name) if self.parameters.get(name) else given[name]
            for name in given
        }
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
    """Add the routes of a router to the application's own list of routes.

    An application with dependencies includes the router, so that every route asks them.
    Otherwise, the framework would look up each route twice, which takes 9 of the 74 us
    of `/classify`, and would build all 75 again at the first request, which then takes
    120 ms instead of 4, and during which nobody else is answered.
    """
    if app.router.dependencies:
        app.include_router(router)
        return
    app.state.direct = True
    app.router.routes.extend(router.routes)


def document(content: object) -> Response:
    """Return an answer with a document: a model, or the fields of one."""
    # Numbers as in a model: infinities and NaN, which JSON lacks, become null.
    return Response(to_json(content, inf_nan_mode="null"), media_type=JSON_TYPE)
