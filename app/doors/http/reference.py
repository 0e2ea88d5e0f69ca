"""`GET /docs`: the reference of the interface as a page without scripts.

The framework's page loads scripts from another site, which many mail servers cannot
reach, and which would see the readers.  This page is made from the same OpenAPI
document without any script.

Both are constant and made once: making the document blocks other requests for 8 ms of
CPU, and sending the stored bytes takes 0.02 ms.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from app.doors.http.guard import Guarded, asking
from app.doors.http.page.environment import prose
from app.drawing import template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# The same for every service of this version, so it contains nothing private.
router = APIRouter(route_class=asking(None, Guarded))
# A placeholder for the address of the service; it occurs nowhere else in the page.
_BASE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"


def _documents(request: Request) -> tuple[bytes, bytes]:
    """Return the OpenAPI document and the page of an application."""
    state = request.app.state
    if not hasattr(state, "documents"):
        api = request.app.openapi()
        openapi = json.dumps(api, ensure_ascii=False, separators=(",", ":"))
        state.documents = openapi.encode(), page(api, _BASE).encode()
    made: tuple[bytes, bytes] = state.documents
    return made


@router.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    document, _ = _documents(request)
    return Response(document, media_type="application/json")


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """Return the page."""
    base = escape(str(request.base_url).rstrip("/"))
    _, html = _documents(request)
    return HTMLResponse(
        html.replace(_BASE.encode(), base.encode()),
        # The browser loads nothing, even if a text contained markup.
        headers={
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"
        },
    )


def page(api: Mapping[str, Any], base: str) -> str:
    """Render an OpenAPI document as one HTML page.

    Parameters
    ----------
    api : mapping
        The document from FastAPI.
    base : str
        Address of the service, for the commands.
    """
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
        command=_command,
        fields=lambda schema: _walk(schema, schemas, ""),
    )


def _command(method: str, path: str, operation: Mapping[str, Any], base: str) -> str:
    """Return a request as a shell command."""
    words = ["curl -sS"]
    if method not in ("GET", "POST"):
        words.append(f"-X {method}")
    taken = operation.get("requestBody", {}).get("content", {})
    if "message/rfc822" in taken:
        words.append("-H 'Content-Type: message/rfc822' --data-binary @message.eml")
    elif "application/json" in taken:
        example = json.dumps(taken["application/json"].get("example", {}))
        words.append(f"-H 'Content-Type: application/json' -d '{example}'")
    return " ".join([*words, f"'{base}{path}'"])


def _walk(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yield name and meaning of the fields of a schema, depth first."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for name, field in schema.get("properties", {}).items():
        yield prefix + name, field.get("description", "")
        for inner, mark in _inside(field):
            # One level is enough for readers; openapi.json has the rest.
            if not prefix:
                yield from _walk(inner, schemas, f"{name}{mark}.")


def _inside(field: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the documents in a field, each with its path from the field."""
    values = field.get("additionalProperties")
    candidates = [(each, "") for each in (field, *field.get("anyOf", ()))]
    candidates.append((field.get("items", {}), "[]"))
    candidates.append((values if isinstance(values, dict) else {}, ".*"))
    yield from (each for each in candidates if "$ref" in each[0])


def _anchor(method: str, path: str) -> str:
    kept = (c if c.isalnum() else "-" for c in f"{method}{path}".lower())
    return "".join(kept).strip("-")
