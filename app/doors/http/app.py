"""The HTTP door as an ASGI application."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from app import __version__
from app.doors.documents.profile import PolicyIn
from app.doors.documents.verdict import BatchIn
from app.doors.http import batch, errors, metrics, profiles, reference, routes
from app.doors.http.body import parts_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from app.services.application import Application

DESCRIPTION = """
A spam filter that learns online with naive Bayes, explains every score, and
forgets exactly.  Post a message to `/classify`; post what people say of it to
`/feedback`.  Every error is a problem document (RFC 9457) whose `detail` says
what to do.
"""
READ_BY_HAND: Final = (BatchIn, PolicyIn)
"""Documents of requests that the framework does not see, with others inside."""


class Described(FastAPI):
    """An application whose OpenAPI document has every schema that it names."""

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
) -> FastAPI:
    """Return the HTTP door over an application; it starts and stops it.

    Parameters
    ----------
    application : Application
        The use cases.
    beside : callable
        Returns what is entered when the application runs and left before it
        stops: the other doors of the process.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(application.start)
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
        docs_url=None,
        redoc_url=None,
        # A request to almost the right path is told so, not sent elsewhere.
        redirect_slashes=False,
        # The service has metrics of its own, and opens no connection but the one to
        # its database. Whether somebody traces was asked anew for each request.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.state.application = application
    errors.install(app)
    # In the application's own list: a route of an included router is looked for
    # twice, which takes 9 us of the 74 for `/classify`.
    app.router.routes.extend(routes.messages.routes)
    app.include_router(routes.router)
    app.include_router(routes.operation)
    app.include_router(batch.router)
    app.include_router(profiles.router)
    app.include_router(metrics.router)
    app.include_router(reference.router)
    application.tally.registry.register(metrics.Gauges(application))
    app.add_middleware(metrics.CountAnswers, tally=application.tally)
    return app
