"""Guard: the one place that every request to a route passes before it is answered.

Contract of this file: a guard is asked once per request, by every route of the
application, before body and query are read.  A guard that raises denies; the error
is answered as any other.  `require_guarded` refuses an application with a route that
asks no guard.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fastapi.routing import APIRoute
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastapi import APIRouter
    from starlette.types import Receive, Scope, Send

    from app.doors.serving.site import Site


class Access:
    """A request, as far as it decides whether it may be made.

    Parameters
    ----------
    route : APIRoute
        What is asked for.
    scope : Scope
        The request, in the terms of ASGI.
    """

    __slots__ = ("_scope", "route")

    def __init__(self, route: APIRoute, scope: Scope) -> None:
        self.route = route
        self._scope = scope

    @property
    def operation(self) -> tuple[str, str]:
        """Method and path as the OpenAPI document has them: `/feedback/{id}`."""
        return self._scope["method"], self.route.path_format

    @property
    def raw(self) -> tuple[str, Iterable[tuple[bytes, bytes]]]:
        """Method and headers as they came, the names in lower case."""
        return self._scope["method"], self._scope["headers"]

    @property
    def headers(self) -> Headers:
        """The headers of the request."""
        return Headers(scope=self._scope)

    @property
    def client(self) -> str | None:
        """Address of the client; None for a Unix socket, or where it is gone."""
        client = self._scope["client"]
        return None if client is None else str(client[0])


Guard = Callable[[Access], Awaitable[None]]
"""Raises an error of `app.errors` where a request may not be made."""


async def of_this_site(site: Site, access: Access) -> None:
    """Deny the requests of web pages of other sites."""
    site.check(*access.raw)


class Guarded(APIRoute):
    """A route that asks the guards of its application.

    Notes
    -----
    An application without `state.guards` answers nothing: what is forgotten denies.
    """

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


def require_guarded(routers: Iterable[APIRouter]) -> None:
    """Raise if a route asks no guard.

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
