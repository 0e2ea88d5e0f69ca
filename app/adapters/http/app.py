"""The HTTP door as an ASGI application."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from app import __version__
from app.adapters.http import errors, insight, metrics, reference, routes, undo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from app.bootstrap import Application

DESCRIPTION = """
A spam filter that learns online with naive Bayes, explains every score, and
forgets exactly.  Post a message to `/classify`; post what people say of it to
`/feedback`.  Every error is a problem document (RFC 9457) whose `detail` says
what to do.
"""


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

    app = FastAPI(
        title="Postbayes",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # A request to almost the right path is told so, not sent elsewhere.
        redirect_slashes=False,
    )
    app.state.application = application
    errors.install(app)
    app.include_router(routes.router)
    app.include_router(insight.router)
    app.include_router(metrics.router)
    app.include_router(reference.router)
    app.include_router(undo.router)
    application.tally.registry.register(metrics.State(application))
    app.add_middleware(metrics.CountAnswers, tally=application.tally)
    return app
