"""The HTTP door as an ASGI application, and the traces of its requests."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from app import __version__
from app.doors.documents.access import KeyIn, ListsIn, PersonIn
from app.doors.documents.message import BatchIn
from app.doors.documents.profile import PolicyIn
from app.doors.http import errors, metrics, profiles, reference, routes
from app.doors.http.body import parts_of
from app.doors.http.guard import (
    install,
    of_this_site,
    require_guarded,
    with_the_right,
)
from app.doors.http.page import (
    environment,
    history,
    ledger,
    lists,
    message,
    overview,
    people,
    site,
)
from app.doors.http.page.environment import problem_page
from app.doors.serving.request import Site
from app.errors import PostbayesError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from opentelemetry.trace import Tracer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from app.doors.http.guard import Guard
    from app.services.application import Application


class TraceRequests:
    """Makes a span of each request, within the client's trace if it sends one.

    Parameters
    ----------
    app : ASGI application
        The application.
    tracer : Tracer
        Makes spans.
    """

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        from opentelemetry.propagate import extract  # noqa: PLC0415
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        self._app = app
        self._tracer = tracer
        self._extract = extract
        self._kind = SpanKind.SERVER

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application, and record the span."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # `traceparent` and `tracestate` (W3C Trace Context).
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.startswith(b"trace")
        }
        method = scope["method"]
        with self._tracer.start_as_current_span(
            method, context=self._extract(carrier), kind=self._kind
        ) as span:

            async def noting(message: Message) -> None:
                if message["type"] == "http.response.start":
                    # Not the path, which may contain a person's name.
                    route = getattr(scope.get("route"), "path_format", None)
                    if route is not None:
                        span.update_name(f"{method} {route}")
                        span.set_attribute("http.route", route)
                    span.set_attribute("http.request.method", method)
                    span.set_attribute("http.response.status_code", message["status"])
                await send(message)

            await self._app(scope, receive, noting)


DESCRIPTION = """
A spam filter that learns online with naive Bayes, explains every score, and forgets
exactly. Post a message to `/classify`, and the label that a person gives it to
`/feedback`. Every error is a problem document (RFC 9457), whose `detail` says what to
do.
"""
READ_BY_HAND: Final = (BatchIn, KeyIn, ListsIn, PersonIn, PolicyIn)
"""Request documents that the framework does not see, with nested documents."""
ROUTERS: Final = (
    routes.scored,
    routes.taught,
    message.router,
    routes.router,
    routes.operation,
    routes.batch,
    profiles.router,
    profiles.managed,
    profiles.replicated,
    people.managed,
    metrics.router,
    reference.router,
    environment.router,
    history.router,
    history.page,
    history.teaching,
    overview.router,
    overview.page,
    message.page,
    message.teaching,
    ledger.router,
    ledger.page,
    ledger.undoing,
    lists.router,
    lists.managed,
    lists.page,
    lists.changing,
    people.router,
    people.page,
    people.own,
    people.managing,
    site.router,
    site.page,
    site.changing,
    message.linked,
)
"""The routers with all routes; those with the most frequent requests stand first."""


class Described(FastAPI):
    """An application with a complete OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return the document."""
        document = super().openapi()
        for model in READ_BY_HAND:
            schemas = document["components"]["schemas"]
            schemas |= parts_of(model)
        return document


def create_app(
    application: Application,
    beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    guards: Sequence[Guard] = (),
) -> FastAPI:
    """Return the HTTP door over an application; it starts and stops it.

    Parameters
    ----------
    application : Application
        The use cases.
    beside : callable
        Returns a context for the other doors of the process: entered when the
        application runs, and left before it stops.
    guards : sequence of Guard
        Called in order before each request to any route, after the guard against pages
        of other sites and before the guard that checks the right.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(application.start)
        # Without the secret, forms are refused, as while the database is unavailable.
        with suppress(PostbayesError):
            await run_in_threadpool(application.sessions.prepare)
        try:
            async with beside():
                yield
        finally:
            await run_in_threadpool(application.stop)

    app = Described(
        title="Postbayes",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        # `reference` serves both documents.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A request to a slightly wrong path gets an error, not a redirect.
        redirect_slashes=False,
        # The service has its own metrics, and opens connections only to its database.
        # The framework would check at each request whether tracing is on.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.application = application
    errors.install(app, ROUTERS, problem_page)
    settings = application.settings
    site = Site((settings.host, *settings.host_names))
    app.state.guards = (
        partial(of_this_site, site),
        *guards,
        partial(with_the_right, application.gate),
    )
    require_guarded(ROUTERS)
    for router in ROUTERS:
        install(app, router)
    app.add_middleware(metrics.CountAnswers, tally=application.tally)
    if application.tally.tracer is not None:
        app.add_middleware(TraceRequests, tracer=application.tally.tracer)
    return app
