"""Review: the messages that are worth teaching most; and its JSON twin."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Query, Request, Response

from app.access.rights import Right
from app.doors.documents.history import HistoryEntryOut, ReviewOut
from app.doors.http.guard import asking
from app.doors.http.page.environment import LARGE, render
from app.doors.http.page.history import MAX_ENTRIES, Field, rows_of, shared
from app.doors.http.query import ProfileName  # noqa: TC001  read at run time
from app.doors.http.routes import DATABASE_THREADS, ApplicationDep, problems
from app.doors.serving.process import computing

router = APIRouter(route_class=asking(Right.READ))
page = APIRouter(prefix="/ui", route_class=asking(Right.READ), include_in_schema=False)
REVIEWED: Final = 25
"""Messages of one page: as many as one looks at in a few minutes."""


@router.get("/review", tags=["history"], responses=problems(404, 422, 503))
async def review(
    app: ApplicationDep,
    profile: ProfileName = None,
    limit: Annotated[
        int, Query(ge=1, le=MAX_ENTRIES, description="How many messages at most.")
    ] = REVIEWED,
) -> ReviewOut:
    """Return messages that nobody taught: *unsure* ones first, then by their worth.

    The worth of a message is 4p(1 - p)(1 + u): the uncertainty of its verdict, with
    the probability p of spam, and the share u of its features that the profile had
    never seen. They are chosen among the newest 5,000 verdicts.
    """
    name = profile or app.settings.profile
    look_up = partial(app.verdicts.review, name, limit=limit)
    entries = await to_thread.run_sync(look_up, limiter=DATABASE_THREADS)
    return ReviewOut(
        profile=name, entries=[HistoryEntryOut.of(entry) for entry in entries]
    )


@page.get("/review")
async def review_page(
    request: Request,
    app: ApplicationDep,
    profile: ProfileName = None,
    said: Field = "",
    about: Field = "",
    label: Field = "",
) -> Response:
    """Show these messages with the buttons that teach them."""
    found = await review(app, profile, REVIEWED)
    show = partial(
        render,
        request,
        "review.html",
        here="review",
        profile=profile,
        found=found,
        rows=rows_of(found.entries),
        **shared(app, profile, request, said=said, about=about, label=label),
    )
    return await computing(show, LARGE)
