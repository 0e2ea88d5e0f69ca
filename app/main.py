"""The ASGI application, for uvicorn or any other server, and the doors beside it."""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from app import doors
from app.adapters.http.app import create_app
from app.adapters.log import keep_log
from app.adapters.orphan import ending_with_its_parent
from app.bootstrap import Application
from app.errors import PostbayesError
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI

log = logging.getLogger(__name__)


def create() -> FastAPI:
    """Return the HTTP door over the settings of the environment.

    ``uvicorn --factory app.main:create`` serves it; `postbayes serve` is the
    same with the settings' host, port and log level.

    Raises
    ------
    PostbayesError
        If it cannot be put together; one of several workers says so and exits.
    """
    settings = load_settings()
    # `postbayes serve` has begun to where this is its own process. Workers are
    # processes that uvicorn starts, which have nothing of that.
    keep_log(settings)
    several = settings.workers > 1
    try:
        application = Application(settings)
        sockets = doors.listen(settings)
    except PostbayesError as error:
        if not several:
            raise
        # The first process has found nothing wrong, and starts another: what is
        # away may be back, and the other workers go on. One sentence for each.
        log.error("this worker cannot start: %s", error)  # noqa: TRY400
        sys.exit(1)

    @asynccontextmanager
    async def beside() -> AsyncIterator[None]:
        # What is there now stays: modules, routes, statements, counts. Python's
        # collector would walk all of it every thousand feedbacks or so, for 95 ms
        # in which nobody is answered; of what came since it walks 3 ms. In the
        # application that serves, and not where tests make many. `postbayes serve`
        # has started without it.
        gc.freeze()
        gc.enable()
        watched = ending_with_its_parent() if several else nullcontext()
        async with watched, doors.opened(application, sockets):
            yield

    return create_app(application, beside)
