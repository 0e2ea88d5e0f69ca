"""Routes of API keys, people and events."""

from __future__ import annotations

from typing import Annotated, Final

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, Path, Query, Request

from app.access.people import MAX_NAME
from app.access.rights import ROLES, Right
from app.doors.documents.access import (
    EventOut,
    EventsOut,
    KeyIn,
    KeyOut,
    KeysOut,
    NewKeyOut,
    NewPasswordIn,
    PeopleOut,
    PersonIn,
    PersonOut,
)
from app.doors.http.body import Body, json_body, read_document
from app.doors.http.guard import asking, principal_of
from app.doors.http.routes import ApplicationDep, problems
from app.doors.serving.process import in_database, in_thread
from app.services.access import MAX_EVENTS, list_events, list_keys, made_key
from app.services.sessions import list_people


async def require_whole(request: Request) -> None:
    """Raise if the client may use only some profiles.

    Raises
    ------
    Forbidden
        If it may use only some.
    """
    principal_of(request).require_all(
        "the keys, people and events, which all profiles share"
    )


WHOLE: Final = (Depends(require_whole),)
"""The dependency of routes for objects shared by all profiles."""
router = APIRouter(
    route_class=asking(Right.MANAGE), dependencies=WHOLE, tags=["access"]
)
# Hashing a password takes 64 MiB and 60 ms of a core.
PASSWORDS: Final = CapacityLimiter(2)
Name = Annotated[str, Path(max_length=MAX_NAME)]


@router.get("/keys", responses=problems(422, 503))
async def keys(app: ApplicationDep) -> KeysOut:
    """List the keys, including revoked ones, without their secrets."""
    found = await in_database(list_keys, app.engine)
    return KeysOut(keys=[KeyOut.of(each) for each in found])


@router.post(
    "/keys",
    responses=problems(400, 408, 409, 413, 415, 422, 503),
    openapi_extra=json_body(KeyIn, {"name": "mx1", "rights": ["classify", "teach"]}),
)
async def create_key(request: Request, body: Body, app: ApplicationDep) -> NewKeyOut:
    """Create a key, and return its text only this once.

    It works at once in the worker that answers, and within a second in the others.
    A client can only give rights that it has itself.
    """
    who = principal_of(request)
    asked = await read_document(request, body, KeyIn)
    who.require_rights(asked.rights)
    text, key = made_key(**asked.model_dump())
    await in_database(app.add_key, key, who=who.name)
    return NewKeyOut.of(key, key=text)


@router.delete("/keys/{name}", responses=problems(404, 422, 503))
async def revoke_key(request: Request, name: Name, app: ApplicationDep) -> KeyOut:
    """Revoke a key.

    The worker that answers refuses it at once, the others within two seconds.
    """
    who = principal_of(request).name
    return KeyOut.of(await in_database(app.revoke_key, name, who=who))


@router.get("/people", responses=problems(422, 503))
async def people(app: ApplicationDep) -> PeopleOut:
    """List the people who can sign in, without their passwords."""
    found = await in_database(list_people, app.engine)
    return PeopleOut(people=[PersonOut.of(each) for each in found])


@router.post(
    "/people",
    responses=problems(400, 408, 409, 413, 415, 422, 503),
    openapi_extra=json_body(PersonIn, {"name": "anna", "role": "reader"}),
)
async def add_person(request: Request, body: Body, app: ApplicationDep) -> PersonOut:
    """Add a person who can sign in.

    They can sign in at once in the worker that answers, and within a second in the
    others. A client can only give roles whose rights it has itself.
    """
    who = principal_of(request)
    asked = await read_document(request, body, PersonIn)
    who.require_rights(ROLES.get(asked.role, ()))
    await in_thread(PASSWORDS, app.add_person, **asked.model_dump(), who=who.name)
    return PersonOut.of(app.keys.people[asked.name])


@router.put(
    "/people/{name}/password",
    responses=problems(400, 404, 408, 413, 415, 422, 503),
    openapi_extra=json_body(NewPasswordIn, {"password": "a long sentence"}),
)
async def set_password(
    request: Request, name: Name, body: Body, app: ApplicationDep
) -> PersonOut:
    """Set the password of a person, and end their sessions.

    It takes effect at once in the worker that answers, and within two seconds in the
    others. A client needs the rights of the person's role.
    """
    who = principal_of(request)
    asked = await read_document(request, body, NewPasswordIn)
    return PersonOut.of(
        await in_thread(PASSWORDS, app.set_password, name, asked.password, who=who)
    )


@router.delete("/people/{name}", responses=problems(404, 422, 503))
async def remove_person(request: Request, name: Name, app: ApplicationDep) -> PeopleOut:
    """Remove a person, end their sessions, and list the people who are left.

    It takes effect at once in the worker that answers, and within two seconds in the
    others.
    """
    await in_database(app.remove_person, name, who=principal_of(request).name)
    return await people(app)


@router.get("/events", responses=problems(422, 503))
async def events(
    app: ApplicationDep,
    before: Annotated[
        int | None,
        Query(ge=1, le=2**63 - 1, description="Only events with smaller numbers."),
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_EVENTS, description="Maximum number of events.")
    ] = 100,
) -> EventsOut:
    """List administrative events, newest first.

    Keys created and revoked, people added and removed, sign-ins, policies and lists
    changed, correspondents forgotten, undos, and profiles created and deleted. Wrong
    keys and passwords are metrics, not events.
    """
    found = await in_database(list_events, app.engine, before=before, limit=limit)
    last = found[-1].id if len(found) == limit else None
    return EventsOut(events=[EventOut.describing(each) for each in found], next=last)
