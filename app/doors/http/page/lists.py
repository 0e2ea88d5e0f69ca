"""Lists: the allow and deny entries of a profile, and their JSON twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.access.lists import (
    DEFAULT_NATS,
    MAX_VALUE,
    SAYS,
    ListEntry,
    ListSubject,
    expiry_of,
    nats_of,
)
from app.access.rights import Right
from app.doors.documents.access import MAX_LISTED_ENTRIES, ListsIn, ListsOut
from app.doors.http.body import Body, ProfileName, at_most, json_body, read_document
from app.doors.http.guard import asking, principal_of, profile_of
from app.doors.http.page.environment import pages, render, see_other
from app.doors.http.page.forms import read_form
from app.doors.http.page.profiles import Name  # noqa: TC001  read at run time
from app.doors.http.routes import ApplicationDep, problems
from app.doors.serving.threads import in_database
from app.errors import InvalidInput
from app.services.clock import now
from app.services.lists import list_entries

if TYPE_CHECKING:
    from app.services.application import Application

router = APIRouter(route_class=asking(Right.READ), tags=["profiles"])
managed = APIRouter(route_class=asking(Right.LISTS), tags=["profiles"])
page = pages(asking(Right.READ))
changing = pages(asking(Right.LISTS))
ROWS: Final = 200
"""Entries of one page."""
_DONE: Final = {
    "set": "The entry is set, and applies from the next message on.",
    "removed": "The entry is removed, and no longer applies.",
}
Text = Annotated[str, Query(max_length=MAX_VALUE + 16)]
After = Annotated[
    str, Query(max_length=MAX_VALUE + 16, description="Only entries after this one.")
]


@router.get("/profiles/{name}/lists", responses=problems(404, 422, 503))
async def lists(
    request: Request,
    name: Name,
    app: ApplicationDep,
    after: After = "",
    limit: Annotated[int, at_most(MAX_LISTED_ENTRIES, "entries")] = 100,
) -> ListsOut:
    """List the allow and deny entries of a profile, by kind and value.

    If none of them matches a message, the entries of the profiles of its domain and of
    the site apply.
    """
    return await _found(app, profile_of(request, name), after, limit)


async def _found(app: Application, name: str, after: str, limit: int) -> ListsOut:
    found = await in_database(
        list_entries,
        app.engine,
        name,
        after=ListSubject.parse(after) if after else None,
        limit=limit,
    )
    return ListsOut.of(found, limit)


@managed.post(
    "/profiles/{name}/lists",
    responses=problems(400, 404, 408, 413, 415, 422, 503),
    openapi_extra=json_body(
        ListsIn, {"entries": [{"entry": "ann@example.org", "nats": -5}]}
    ),
)
async def set_entries(
    request: Request, name: Name, body: Body, app: ApplicationDep
) -> ListsOut:
    """Set allow and deny entries of a profile, all or none, and return them.

    They apply at once in the worker that answers, and within a second in the others.
    """
    principal = principal_of(request)
    name = profile_of(request, name)
    document, time = await read_document(request, body, ListsIn), now()
    entries = [each.read(source=principal.name, now=time) for each in document.entries]
    await in_database(app.add_list_entries, name, entries, actor=principal.name)
    return ListsOut.of(entries)


@managed.delete("/profiles/{name}/lists", responses=problems(404, 422, 503))
async def remove_entry(
    request: Request,
    name: Name,
    app: ApplicationDep,
    entry: Annotated[
        str, Query(max_length=MAX_VALUE + 16, description="The subject of the entry.")
    ],
) -> ListsOut:
    """Remove an entry of a profile, and list the first remaining ones.

    It loses its effect at once in the worker that answers, and within a second in the
    others.
    """
    name = profile_of(request, name)
    subject, actor = ListSubject.parse(entry), principal_of(request).name
    await in_database(app.remove_list_entry, name, subject, actor=actor)
    return await _found(app, name, "", 100)


@page.get("/lists")
async def lists_page(
    request: Request,
    app: ApplicationDep,
    profile: ProfileName = None,
    after: Text = "",
    entry: Text = "",
    done: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    """Show some entries, and the form that sets one."""
    name = profile_of(request, profile)
    found = await _found(app, name, after, ROWS)
    return render(
        request,
        "lists.html",
        here="lists",
        profile=profile,
        found=found,
        above=app.recipients.levels(name)[1:],
        entry=entry,
        says=SAYS,
        nats=DEFAULT_NATS,
        done=_DONE.get(done),
    )


@changing.post("/lists")
async def set_entry_page(
    request: Request, app: ApplicationDep, profile: ProfileName = None
) -> Response:
    """Set an entry."""
    form = await read_form(request)
    name, actor, time = profile_of(request, profile), principal_of(request).name, now()
    strength, expires = form.get("nats", "").strip(), form.get("expires", "").strip()
    try:
        nats = nats_of(form.get("verb", ""), float(strength) if strength else None)
    except ValueError as error:
        msg = f"the nats of an entry must be a number such as 5, got {strength[:40]!r}"
        raise InvalidInput(msg) from error
    entry = ListEntry(
        subject=ListSubject.parse(form.get("entry", "")),
        nats=nats,
        source=actor,
        created_at=time,
        expires_at=expiry_of(expires, time) if expires else None,
        note=form.get("note", "").strip(),
    )
    await in_database(app.add_list_entries, name, [entry], actor=actor)
    return see_other("/ui/lists", profile=profile, done="set")


@changing.post("/lists/remove")
async def remove_entry_page(
    request: Request, app: ApplicationDep, profile: ProfileName = None
) -> Response:
    """Remove an entry."""
    entry = (await read_form(request)).get("entry", "")
    await remove_entry(request, profile_of(request, profile), app, entry)
    return see_other("/ui/lists", profile=profile, done="removed")
