"""Ledger: pages and JSON of its rows, and of undo with a dry run."""

from __future__ import annotations

from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, Query, Request, Response

from app.access.rights import Right
from app.doors.documents import Moment, moment_of
from app.doors.documents.history import LedgerOut
from app.doors.documents.message import MAX_IDS, UndoIn, UndoOut
from app.doors.http.body import JsonOf, Source, at_most
from app.doors.http.guard import asking
from app.doors.http.page import link, pages, render, render_table, see_other
from app.doors.http.page.forms import Form, Twin, asked
from app.doors.http.routes import App, Queried, Who, problems, takes
from app.doors.serving.threads import in_database, in_thread
from app.errors import InvalidSelection
from app.features.observation import parse_id
from app.ledger.undo import Selection

if TYPE_CHECKING:
    from datetime import datetime

router = APIRouter(route_class=asking(Right.READ), tags=["profiles"])
page = pages(asking(Right.READ, Twin))
undoing = pages(asking(Right.MANAGE))
managed = APIRouter(route_class=asking(Right.MANAGE), tags=["mail"])
# Undos are carried out one at a time anyway, and each may take a minute.
UNDO_THREADS: Final = CapacityLimiter(4)
"""The threads that plan and carry out undos."""
MOST_ROWS: Final = 500
"""Rows of one answer."""
ROWS: Final = 50
"""Rows of one page."""


@router.get("/ledger", responses=problems(404, 422, 503))
async def ledger(
    app: App,
    name: Queried,
    id: Annotated[str | None, Query(max_length=64)] = None,  # noqa: A002  as the others
    source: Source = None,
    label: Annotated[str | None, Query(max_length=32)] = None,
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Moment | None = None,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    limit: Annotated[int, at_most(MOST_ROWS)] = ROWS,
) -> LedgerOut:
    """Return the rows of the ledger, newest first.

    They include the rows of undos, which have the name of the undo as their source.

    Parameters
    ----------
    id
        Only rows of the message with this id.
    label
        Only rows that gave their message this label.
    since
        Only rows from this time on. With a time zone.
    until
        Only rows before this time. With a time zone.
    before
        Only rows before this revision.
    limit
        Maximum number of rows.
    """
    selected = _selection(_ids(id or ""), source, since, until)
    found = await in_database(
        app.ledgers, name, selected, label=label, before=before, limit=limit
    )
    return LedgerOut.of(found)


@managed.post(
    "/feedback/undo",
    **takes(UndoIn, {"source": "ann@example.org", "dry_run": True}, 404, 409, 503),
)
async def undo(who: Who, document: JsonOf[UndoIn], app: App, name: Queried) -> UndoOut:
    """Take back feedback exactly.

    Select feedback by source, time or messages; feedback that matches all of them is
    taken back. The answer comes once the undo is done or, with `dry_run`, without any
    change. If the request is cut short, the service finishes the undo.
    """
    who.require_every_label("take feedback back")
    selection = _selection(
        document.ids, document.source, document.from_, document.until
    )
    act = (
        app.undo.forecast
        if document.dry_run
        else partial(app.undo, source=who.name, confirm=document.confirm)
    )
    undone = await in_thread(UNDO_THREADS, act, name, selection)
    return UndoOut.of(undone)


@page.get("/ledger")
async def ledger_page(
    request: Request,
    app: App,
    found: Annotated[LedgerOut, Depends(ledger)],
    undone: Annotated[
        str | None, Query(max_length=64, pattern=r"^(undo:[0-9]+|nothing)$")
    ] = None,
) -> Response:
    """Show some rows, and the form that takes rows back."""
    return await render_table(
        request,
        "ledger.html",
        found=found,
        labels=app.live.find(found.profile).row.labels,
        filters=asked(request, "id", "source", "label", "from", "until"),
        undone=undone,
    )


@undoing.post("/ledger/undo")
async def undo_page(
    request: Request, who: Who, app: App, name: Queried, form: Form
) -> Response:
    """Show what an undo would change; or record it, if the form was that page's.

    A recorded undo is carried out by the service, step by step: a large one takes
    longer than a browser waits.
    """
    who.require_every_label("take feedback back")
    given = {key: form[key] for key in ("id", "source", "from", "until")}
    selected = _selection(
        _ids(given["id"]),
        given["source"] or None,
        moment_of(given["from"] or None, UTC),
        moment_of(given["until"] or None, UTC),
    )
    if form["act"] != "undo":
        undone = await in_thread(UNDO_THREADS, app.undo.forecast, name, selected)
        told = UndoOut.of(undone)
        return render(request, "undo.html", here="ledger", asked=given, told=told)
    recorded = await in_thread(
        UNDO_THREADS,
        app.undo.begin,
        name,
        selected,
        source=who.name,
        confirm=form["confirm"] or None,
    )
    undone_as = recorded.name or "nothing"
    return see_other(link("/ui/ledger", request.query_params, undone=undone_as))


def _ids(listed: str) -> list[str]:
    """Return the ids in a field of a form, separated by blanks or commas."""
    return listed.replace(",", " ").split()


def _selection(
    ids: list[str], source: str | None, since: datetime | None, until: datetime | None
) -> Selection:
    if len(ids) > MAX_IDS:
        raise InvalidSelection(
            f"there are {len(ids):,} ids, and the limit of an undo is {MAX_IDS:,}; "
            "give a source or a time"
        )
    return Selection(
        ids=frozenset(map(parse_id, ids)), source=source, since=since, until=until
    )
