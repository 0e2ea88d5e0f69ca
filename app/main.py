"""The ASGI application, for uvicorn or any other server, and the doors beside it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app import doors
from app.adapters.http.app import create_app
from app.bootstrap import Application
from app.settings import load_settings

if TYPE_CHECKING:
    from fastapi import FastAPI


def create() -> FastAPI:
    """Return the HTTP door over the settings of the environment.

    ``uvicorn --factory app.main:create`` serves it; `postbayes serve` is the
    same with the settings' host, port and log level.
    """
    application = Application(load_settings())
    sockets = doors.listen(application.settings)
    return create_app(application, partial(doors.opened, application, sockets))
