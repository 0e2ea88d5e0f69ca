"""The routes of a profile itself: what it is, and what it decides by."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request

from app.adapters.http.body import (
    JSON_TYPE,
    Body,
    parse_document,
    require_json,
    schema_of,
)
from app.adapters.http.parameters import Strict
from app.adapters.http.routes import DATABASE_THREADS, ApplicationDep, problems
from app.adapters.schemas.policy import PolicyIn
from app.adapters.schemas.profile import ListedOut, ProfileOut, ProfilesOut
from app.services.profiles import learned

router = APIRouter(route_class=Strict)

# A site with a profile for each user has thousands of them.
MAX_LISTED: Final = 1000

Name = Annotated[str, Path(max_length=128)]


@router.get("/profiles", tags=["profiles"], responses=problems(422))
def profiles(
    app: ApplicationDep,
    after: Annotated[
        str, Query(max_length=128, description="Only names that come after this one.")
    ] = "",
    limit: Annotated[
        int, Query(ge=1, le=MAX_LISTED, description="How many profiles at most.")
    ] = 100,
) -> ProfilesOut:
    """List the profiles, in the order of their names.

    One that was made within the last second may be missing.
    """
    rest = sorted(
        ((live.row.name, live.snapshot) for live in app.live if live.row.name > after),
        key=itemgetter(0),
    )
    listed = [
        ListedOut(name=name, revision=snapshot.revision, messages=learned(snapshot))
        for name, snapshot in rest[:limit]
    ]
    more = len(rest) > limit
    return ProfilesOut(profiles=listed, next=listed[-1].name if more else None)


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
        partial(app.change_policy, name, changes), limiter=DATABASE_THREADS
    )
    return ProfileOut.model_validate(app.profile(name), from_attributes=True)
