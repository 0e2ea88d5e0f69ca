"""The routes of a profile itself: what it is, and what it decides by."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request

from app.adapters.http.body import (
    JSON_TYPE,
    Body,
    parse_document,
    require_json,
    schema_of,
)
from app.adapters.http.routes import LOOK_UP_THREADS, ApplicationDep, problems
from app.adapters.schemas.policy import PolicyIn
from app.adapters.schemas.profile import ProfileOut

router = APIRouter()

Name = Annotated[str, Path(max_length=128)]


@router.get("/profiles/{name}", tags=["profiles"], responses=problems(404, 422))
def profile(name: Name, app: ApplicationDep) -> ProfileOut:
    """Return what a profile is made of and what it has learned."""
    return ProfileOut.model_validate(app.profile(name), from_attributes=True)


@router.patch(
    "/profiles/{name}",
    tags=["profiles"],
    responses=problems(400, 404, 408, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                JSON_TYPE: {
                    "schema": schema_of(PolicyIn),
                    "example": {"reject_from": {"probability": 0.99999}},
                }
            },
        }
    },
)
async def change_policy(
    request: Request, name: Name, body: Body, app: ApplicationDep
) -> ProfileOut:
    """Change what a profile decides by, and return the profile.

    What the JSON does not name stays as it is, and null leaves it to the service's
    settings again. The worker that answers decides so from its next message on, all
    others within a second; verdicts that were given stay.
    """
    require_json(request)
    changes = parse_document(body, PolicyIn).changes()
    # It waits for the database, as a look-up does.
    await to_thread.run_sync(
        partial(app.change_policy, name, changes), limiter=LOOK_UP_THREADS
    )
    return ProfileOut.model_validate(app.profile(name), from_attributes=True)
