"""The route that takes teachings back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request

from app.adapters.http.body import JSON_TYPE, Body, parse_document, require_json
from app.adapters.http.parameters import Strict
from app.adapters.http.query import ProfileName  # noqa: TC001  read at run time
from app.adapters.http.routes import ApplicationDep, parse_id, problems
from app.adapters.undo import UndoIn, UndoOut
from app.storage.undos import Selection

if TYPE_CHECKING:
    from app.bootstrap import Application
    from app.services.undo import Undone

# One is carried out at a time anyway, and each may take a minute.
_THREADS: Final = CapacityLimiter(4)

router = APIRouter(route_class=Strict)


@router.post(
    "/feedback/undo",
    tags=["mail"],
    responses=problems(400, 404, 408, 409, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON_TYPE: {
                    "schema": UndoIn.model_json_schema(),
                    "example": {"source": "ann@example.org", "dry_run": True},
                }
            },
        }
    },
)
async def undo(
    request: Request, body: Body, app: ApplicationDep, profile: ProfileName = None
) -> UndoOut:
    """Take back what was taught, as if it had never been.

    Say whose, of when, or of which messages; what has all of it is taken back.
    The answer comes after it is done, or with `dry_run` without doing anything.
    If it is cut short, the service goes on by itself.
    """
    require_json(request)
    asked = parse_document(body, UndoIn)
    selection = Selection(
        ids=frozenset(parse_id(each) for each in asked.ids),
        source=asked.source,
        since=asked.from_,
        until=asked.until,
    )
    name = profile or app.settings.profile
    act = _forecast if asked.dry_run else _undo
    return UndoOut.of(
        await to_thread.run_sync(partial(act, app, name, selection), limiter=_THREADS)
    )


def _forecast(app: Application, profile: str, asked: Selection) -> Undone:
    return app.undo.forecast(profile, asked)


def _undo(app: Application, profile: str, asked: Selection) -> Undone:
    undone = app.undo.begin(profile, asked, source="http")
    revision = undone.revision
    for newest in app.undo.finish(undone):
        revision = newest
    return replace(undone, revision=revision)
