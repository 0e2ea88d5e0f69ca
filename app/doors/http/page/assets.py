"""Static files of the pages, and the way from `/` to them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from app.doors.http.guard import Guarded, asking
from app.doors.http.page.environment import SECURITY, STATIC

router = APIRouter(route_class=asking(None, Guarded), include_in_schema=False)


@router.get("/")
async def home(request: Request) -> Response:
    """Send a browser to the pages; a program is told that nothing is here."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return RedirectResponse("/ui", HTTPStatus.SEE_OTHER, {"Vary": "Accept"})


@router.get("/ui")
async def pages() -> Response:
    """Send a browser to the first page."""
    return RedirectResponse("/ui/overview", HTTPStatus.SEE_OTHER)


@router.get("/ui/static/{name}")
async def static_file(
    request: Request, name: str, v: Annotated[str | None, Query()] = None
) -> Response:
    """Return a static file; with the digest of what it holds, for a year."""
    found = STATIC.get(name)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    etag = f'"{found.digest}"'
    headers = {
        **SECURITY,
        "ETag": etag,
        "Cache-Control": (
            "public, max-age=31536000, immutable" if v == found.digest else "no-cache"
        ),
    }
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)
