"""The ASGI application, for uvicorn or any other server."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    return create_app(Application(load_settings()))
