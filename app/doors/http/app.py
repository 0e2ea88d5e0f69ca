"""The HTTP door as an ASGI application, its reference, and addresses without a page.

The framework's page of the reference loads scripts from another site, which many mail
servers cannot reach, and which would see the readers.  `GET /docs` is made from the
same OpenAPI document without any script.  Both are constant and made once: making the
document blocks other requests for 8 ms of CPU, and sending the stored bytes takes 0.02
ms.
"""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import lru_cache, partial
from html import escape
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from app import __version__
from app.access.rights import LOCAL, NOBODY, Right
from app.doors.http import errors, metrics, page, routes
from app.doors.http.body import make_schemas
from app.doors.http.guard import (
    Guarded,
    asking,
    install,
    of_this_site,
    principal_of,
    require_guarded,
    with_the_right,
)
from app.doors.http.page import (
    history,
    ledger,
    lists,
    message,
    overview,
    people,
    profiles,
    prose,
    see_other,
)
from app.doors.http.page.forms import problem_page
from app.doors.serving.process import ending_at_once
from app.doors.serving.request import Site, caller_of
from app.drawing import template
from app.errors import NotFound, PostbayesError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from app.access.rights import Principal
    from app.doors.http.guard import Guard
    from app.services.access import Gate
    from app.services.application import Application


# The same for every service of this version, so it contains nothing private.
reference = APIRouter(route_class=asking(None, Guarded), include_in_schema=False)
# A placeholder for the address of the service; it occurs nowhere else in the page.
_BASE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"


@lru_cache(1)
def _documents(app: FastAPI) -> tuple[bytes, bytes]:
    """Return the OpenAPI document and the page of an application."""
    api = app.openapi()
    document = json.dumps(api, ensure_ascii=False, separators=(",", ":"))
    return document.encode(), reference_page(api, _BASE).encode()


@reference.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    document, _ = _documents(request.app)
    return Response(document, media_type="application/json")


@reference.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Return the page."""
    base = escape(str(request.base_url).rstrip("/"))
    _, html = _documents(request.app)
    return HTMLResponse(
        html.replace(_BASE.encode(), base.encode()),
        # The browser loads nothing but the icon, even if a text contained markup.
        headers={
            "Content-Security-Policy": (
                "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'"
            )
        },
    )


@reference.get("/")
async def home(request: Request) -> Response:
    """Redirect a browser to the pages; return 404 to a program."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return RedirectResponse("/ui", HTTPStatus.SEE_OTHER, {"Vary": "Accept"})


@reference.get("/ui")
@reference.get("/ui/")
async def first_page() -> Response:
    """Redirect a browser to the first page."""
    return see_other("/ui/overview")


missing = APIRouter(route_class=asking(Right.READ, Guarded), include_in_schema=False)
"""The last of the pages: those that do not exist."""


@missing.get("/ui/{path:path}")
async def no_page(path: str) -> Response:
    """Answer with a page that has the navigation, unlike that of the framework."""
    raise NotFound(f"there is no page /ui/{path[:80]}; the address may be mistyped")


def reference_page(api: Mapping[str, Any], base: str) -> str:
    """Render an OpenAPI document as one HTML page."""
    schemas = api.get("components", {}).get("schemas", {})
    return template("doors/http/docs.html").render(
        api=api,
        base=base,
        title=f"{api['info']['title']} {api['info']['version']}",
        operations=[
            (method.upper(), path, operation)
            for path, methods in api["paths"].items()
            for method, operation in methods.items()
        ],
        prose=prose,
        json="application/json",
        anchor=_anchor,
        dumps=json.dumps,
        fields=lambda schema: _walk(schema, schemas, ""),
    )


def _walk(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of the fields of a schema, depth first."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        yield prefix + name, field.get("description", "")
        values = field.get("additionalProperties")
        inside = [(each, "") for each in (field, *field.get("anyOf", ()))]
        inside.append((field.get("items", {}), "[]"))
        inside.append((values if isinstance(values, dict) else {}, ".*"))
        for inner, mark in inside:
            # One level is enough for readers; openapi.json has the rest.
            if "$ref" in inner and not prefix:
                yield from _walk(inner, schemas, f"{name}{mark}.")


def _anchor(method: str, path: str) -> str:
    kept = (c if c.isalnum() else "-" for c in f"{method}{path}".lower())
    return "".join(kept).strip("-")


DESCRIPTION = """
A spam filter that learns online with naive Bayes, explains every score, and forgets
exactly. Post a message to `/classify`, and the label that a person gives it to
`/feedback`. Every error is a problem document (RFC 9457), whose `detail` says what to
do. Clients on the same machine need no key; others send `Authorization: Bearer pb_…`.
"""
TAGS: Final = {
    "mail": "Score messages, teach them, and take feedback back.",
    "history": "The verdicts of the last days, and what to review among them.",
    "profiles": "Profiles, their words, ledgers, figures and lists.",
    "access": "Keys, people, and who changed what.",
    "operation": "Health, metrics and settings.",
}
"""The tags of the operations."""
# Those with the most frequent requests stand first, and `missing`, of this file, last.
_FILES: Final = (
    *(routes, message, profiles, ledger, people, metrics, page, history),
    *(overview, lists, sys.modules[__name__]),
)
ROUTERS: Final = tuple(
    each
    for file in _FILES
    for each in vars(file).values()
    if isinstance(each, APIRouter)
)
"""The routers of all files with routes."""


class Described(FastAPI):
    """An application with a complete OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return the document."""
        document = super().openapi()
        # The framework does not see the bodies of `JsonOf`.
        document["components"]["schemas"] |= make_schemas()
        document["components"]["securitySchemes"] = {
            "key": {"type": "http", "scheme": "bearer"}
        }
        _widen(document)
        return document


def _widen(node: object) -> None:
    """Say of integers without a limit that they may need 64 bits.

    Clients generated for Java, Go or C# read others into 32, and a memory in bytes, or
    the occurrences of words in ten million messages, would be an error there.
    """
    if isinstance(node, list):
        for each in node:
            _widen(each)
    elif isinstance(node, dict):
        if node.get("type") == "integer" and node.get("maximum", inf) >= 2**31:
            node["format"] = "int64"
        for each in node.values():
            _widen(each)


def reader_of(gate: Gate, request: Request) -> Principal:
    """Return for whom an error is worded.

    A route for everybody knows no principal: there, a client that needs no key is told
    what it may read elsewhere.
    """
    principal = principal_of(request)
    if principal is NOBODY and gate.needs_no_key(
        caller_of(request.scope, gate.proxies)
    ):
        return LOCAL
    return principal


def create_app(
    application: Application,
    beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    guards: Sequence[Guard] = (),
) -> FastAPI:
    """Return the HTTP door over an application; it starts and stops it.

    Parameters
    ----------
    beside : callable
        Returns a context for the other doors of the process: entered when the
        application runs, and left before it stops.
    guards : sequence of Guard
        Called in order before each request to any route, after the guard against pages
        of other sites and before the guard that checks the right.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            # Compiling the kernels takes a minute on a slow machine.
            with ending_at_once():
                await run_in_threadpool(application.warm_up)
            await run_in_threadpool(application.start)
            # Without the secret, forms are refused, as while the database is away.
            with suppress(PostbayesError):
                await run_in_threadpool(application.keys.make_secret)
            async with beside():
                yield
        finally:
            await run_in_threadpool(application.stop)

    app = Described(
        title="Postbayes",
        version=__version__,
        description=DESCRIPTION,
        license_info={"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The service that sent this document."}],
        openapi_tags=[{"name": name, "description": of} for name, of in TAGS.items()],
        lifespan=lifespan,
        # The router `reference` serves both documents.
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
    errors.install(app, ROUTERS, problem_page, partial(reader_of, application.gate))
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
    return app
