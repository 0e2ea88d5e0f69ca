"""The HTTP door as an ASGI application."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from app import __version__
from app.adapters.http import errors, routes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from app.bootstrap import Application

DESCRIPTION = """
A spam filter that learns online with naive Bayes, explains every score, and
forgets exactly.  Post a message to `/classify`; post what people say of it to
`/feedback`.  Every error is a problem document (RFC 9457) whose `detail` says
what to do.
"""


def create_app(application: Application) -> FastAPI:
    """Return the HTTP door over an application; it starts and stops it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(application.start)
        yield
        await run_in_threadpool(application.stop)

    app = FastAPI(
        title="Postbayes",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        # A request to almost the right path is told so, not sent elsewhere.
        redirect_slashes=False,
    )
    app.state.application = application
    errors.install(app)
    app.include_router(routes.router)
    return app
