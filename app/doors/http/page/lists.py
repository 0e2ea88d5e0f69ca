"""Lists: the allow and deny entries of a profile, and their JSON twin."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.access.lists import (
    DEFAULT_NATS,
    MAX_VALUE,
    SAYS,
    ListEntry,
    ListSubject,
    read_entry,
)
from app.access.rights import Right
from app.doors.documents.access import MAX_LISTED_ENTRIES, ListsIn, ListsOut
from app.doors.http.body import JsonOf, at_most
from app.doors.http.guard import asking
from app.doors.http.page import link, pages, render, see_other
from app.doors.http.page.forms import Form  # noqa: TC001  read at run time
from app.doors.http.routes import App, Named, Queried, Who, problems, takes
from app.doors.serving.threads import in_database
from app.services.clock import now
from app.services.lists import list_entries

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


@router.get("/profiles/{name}/lists", responses=problems(404, 422, 503))
async def lists(
    app: App,
    name: Named,
    after: Text = "",
    limit: Annotated[int, at_most(MAX_LISTED_ENTRIES)] = 100,
) -> ListsOut:
    """List the allow and deny entries of a profile, by kind and value.

    If none of them matches a message, the entries of the profiles of its domain and of
    the site apply.

    Parameters
    ----------
    after
        Only entries after this one.
    limit
        Maximum number of entries.
    """
    found = await in_database(
        list_entries,
        app.engine,
        name,
        after=ListSubject.parse(after) if after else None,
        limit=limit + 1,
    )
    return ListsOut.of(found, limit)


@managed.post(
    "/profiles/{name}/lists",
    **takes(ListsIn, {"entries": [{"entry": "ann@example.org", "nats": -5}]}, 404, 503),
)
async def set_entries(
    who: Who, name: Named, document: JsonOf[ListsIn], app: App
) -> ListsOut:
    """Set allow and deny entries of a profile, all or none, and return them.

    They apply at once in the worker that answers, and within a second in the others.
    """

    def read_and_set() -> list[ListEntry]:
        time = now()
        entries = [each.read(source=who.name, now=time) for each in document.entries]
        app.add_list_entries(name, entries, actor=who.name)
        return entries

    # Not in the event loop: domains of other scripts take 0.3 ms each.
    return ListsOut.of(await in_database(read_and_set))


@managed.delete("/profiles/{name}/lists", responses=problems(404, 422, 503))
async def remove_entry(who: Who, name: Named, app: App, entry: Text) -> ListsOut:
    """Remove an entry of a profile, and list the first remaining ones.

    It loses its effect at once in the worker that answers, and within a second in the
    others.

    Parameters
    ----------
    entry
        The subject of the entry.
    """
    subject = ListSubject.parse(entry)
    await in_database(app.remove_list_entry, name, subject, actor=who.name)
    return await lists(app, name)


@page.get("/lists")
async def lists_page(
    request: Request,
    app: App,
    name: Queried,
    after: Text = "",
    entry: Text = "",
    done: Annotated[str, Query(max_length=16)] = "",
) -> Response:
    """Show some entries, and the form that sets one."""
    return render(
        request,
        "lists.html",
        found=await lists(app, name, after, ROWS),
        above=app.recipients.levels(name)[1:],
        entry=entry,
        says=SAYS,
        nats=DEFAULT_NATS,
        done=_DONE.get(done),
    )


@changing.post("/lists")
async def set_entry_page(
    request: Request, who: Who, app: App, name: Queried, form: Form
) -> Response:
    """Set an entry."""
    given = {each: form[each] for each in ("nats", "expires", "note") if form[each]}
    entry = read_entry(form["verb"], form["entry"], source=who.name, now=now(), **given)
    await in_database(app.add_list_entries, name, [entry], actor=who.name)
    return see_other(link("/ui/lists", request.query_params, done="set"))


@changing.post("/lists/remove")
async def remove_entry_page(
    request: Request, who: Who, app: App, name: Queried, form: Form
) -> Response:
    """Remove an entry."""
    await remove_entry(who, name, app, form["entry"])
    return see_other(link("/ui/lists", request.query_params, done="removed"))
