"""History and review: pages to find and teach verdicts, and their JSON twins."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query, Request, Response

from app.access.lists import addresses_in
from app.access.rights import Right
from app.classifier.verdict import Decision, HistoryFilter
from app.doors.documents import Moment  # noqa: TC001  read at run time
from app.doors.documents.history import (
    Door,
    HistoryEntryOut,
    HistoryOut,
    MessageHistoryOut,
    ReviewOut,
)
from app.doors.http.body import Explain, at_most
from app.doors.http.guard import asking
from app.doors.http.page import link, pages, render_table, see_other
from app.doors.http.page.forms import Form, Twin, asked
from app.doors.http.page.ledger import UNDO_THREADS
from app.doors.http.routes import (
    App,
    Queried,
    Who,
    digest_of_path,
    problems,
    taught_by_id,
)
from app.doors.serving.threads import in_database, in_thread
from app.errors import MalformedRequest
from app.ledger.undo import Selection
from app.services.feedback import Via
from app.services.history import line_of

if TYPE_CHECKING:
    from app.access.rights import Principal
    from app.ledger.teaching import Outcome
    from app.services.application import Application

router = APIRouter(route_class=asking(Right.READ), tags=["history"])
page = pages(asking(Right.READ, Twin))
teaching = pages(asking(Right.TEACH))
MAX_ENTRIES: Final = 200
"""Verdicts of one answer."""
ENTRIES: Final = 50
"""Verdicts of one page."""
REVIEWED: Final = 25
"""Messages on one page of the review: enough for a few minutes."""
STRONGEST: Final = 10
MAX_BACK: Final = 2_000
SAID: Final = {
    "learned": "learned as {label}",
    "relabelled": "moved to {label}",
    "unchanged": "was already taught as {label}; nothing changed",
    "undone": "taken back, as if it had never been taught",
    "nothing": "was not taught; there was nothing to take back",
}
"""Messages after a click, by outcome; the text never comes from the address."""
Digest = Annotated[bytes, Depends(digest_of_path)]
# Forms send empty fields.
Field = Annotated[str, Query(max_length=40)]


@router.get("/history", responses=problems(400, 404, 422, 503))
async def history(
    app: App,
    name: Queried,
    search: Annotated[str, Query(max_length=200)] = "",
    verdict: Decision | None = None,
    door: Door | None = None,
    taught: Annotated[bool | None, Query()] = None,
    since: Annotated[Moment | None, Query(alias="from")] = None,
    until: Moment | None = None,
    before: Annotated[str | None, Query(max_length=80)] = None,
    limit: Annotated[int, at_most(MAX_ENTRIES)] = ENTRIES,
) -> HistoryOut:
    """Return verdicts, newest first, with sender, subject and recipients.

    They are kept for POSTBAYES_HISTORY_DAYS. A search examines 20,000 of them; the
    `next` of the answer continues it.

    Parameters
    ----------
    search
        Text to find in sender, subject, recipients and envelope; case, accents, points
        and other forms of letters do not matter.
    verdict
        Only verdicts with this decision.
    door
        Only verdicts through this door.
    taught
        Only messages that are taught now, or only those that are not.
    since
        Only verdicts from this time on. With a time zone.
    until
        Only verdicts before this time. With a time zone.
    before
        The `next` of the previous answer.
    limit
        Maximum number of verdicts.
    """
    entries, following = await in_database(
        app.history.page,
        name,
        HistoryFilter(
            # Normalised like the lines, so that text copied from one is found.
            search=line_of(search),
            decision=verdict,
            door=door,
            taught=taught,
            since=since,
            until=until,
        ),
        before=None if before is None else _place(before),
        limit=limit,
    )
    return HistoryOut.of(name, entries, following)


@router.get("/history/{id}", responses=problems(404, 422, 503))
async def message_history(
    app: App,
    name: Queried,
    digest: Annotated[bytes, Depends(digest_of_path)],
    explain: Explain = STRONGEST,
) -> MessageHistoryOut:
    """Return the verdicts and the feedback on one message, with an explanation.

    `now` explains it with what is learned now, from its stored features.
    """
    (stored,) = await in_database(
        app.history.stored, digest, profile=name, strongest=explain
    )
    return MessageHistoryOut.of(digest, stored)


async def teachable(
    request: Request,
    who: Who,
    app: App,
    name: Queried,
    said: Field = "",
    about: Field = "",
    label: Field = "",
) -> dict[str, Any]:
    """Return the context of pages with teaching buttons, for those who may teach."""
    row = app.live.find(name).row
    sentence = None
    if said in SAID and (label in row.labels or "{label}" not in SAID[said]):
        sentence = SAID[said].format(label=label)
    path = request.url.path
    return {
        "labels": row.labels if who.may(Right.TEACH) else (),
        "spam_labels": row.spam_labels,
        "said": sentence,
        "about": about if about.isalnum() else "",
        "back": f"{path}?{request.url.query}" if request.url.query else path,
    }


Teachable = Annotated[dict[str, Any], Depends(teachable)]
"""The context of a page with teaching buttons."""


@page.get("/history")
async def history_page(
    request: Request, found: Annotated[HistoryOut, Depends(history)], shared: Teachable
) -> Response:
    """Show some verdicts, a search, and the buttons that teach and take back."""
    names = ("search", "verdict", "taught", "door", "from", "until")
    return await render_table(
        request,
        "history.html",
        found=found,
        given=asked(request, *names),
        **shared,
    )


@page.get("/history/{id}")
async def message_page(
    request: Request,
    found: Annotated[MessageHistoryOut, Depends(message_history)],
    shared: Teachable,
) -> Response:
    """Show one message with its verdicts and feedback."""
    return await render_table(
        request,
        "verdict.html",
        here="history",
        found=found,
        addresses_in=addresses_in,
        **shared,
    )


@router.get("/review", responses=problems(404, 422, 503))
async def review(
    app: App,
    name: Queried,
    limit: Annotated[int, at_most(MAX_ENTRIES)] = REVIEWED,
) -> ReviewOut:
    """Return messages that were not taught, *unsure* ones first, then by worth.

    The worth of a message is 4p(1 - p)(1 + u), where p is the probability of spam and
    u the share of features that were new to the profile. The messages are from the
    newest 5,000 verdicts.

    Parameters
    ----------
    limit
        Maximum number of messages.
    """
    entries = await in_database(app.history.review, name, limit=limit)
    return ReviewOut(
        profile=name, entries=[HistoryEntryOut.of(entry) for entry in entries]
    )


@page.get("/review")
async def review_page(
    request: Request, found: Annotated[ReviewOut, Depends(review)], shared: Teachable
) -> Response:
    """Show these messages with the buttons that teach them."""
    return await render_table(request, "review.html", found=found, **shared)


async def teach_by_id(
    app: Application, profile: str, digest: bytes, form: Form, who: Principal | None
) -> Outcome:
    """Teach a message the label of a form, and wait until it is on disk.

    Nobody is known who follows the link of a digest.

    Raises
    ------
    UnknownProfile, UnknownMessage, UnknownLabel, Forbidden, DatabaseUnavailable
        As `/feedback`.
    """
    label, source = form["label"], "digest"
    if who is not None:
        label, source = who.require_label(label), who.name
    taught = await taught_by_id(
        app, profile, digest, label=label, source=source, via=Via("http")
    )
    return taught.outcome


@teaching.post("/history/{id}/teach")
async def teach_from_history(
    request: Request, who: Who, app: App, name: Queried, form: Form, digest: Digest
) -> Response:
    """Teach a message, and come back to the page of the click."""
    outcome = await teach_by_id(app, name, digest, form, who)
    return _back(request, form, digest, said=outcome.kind, label=outcome.label or "")


@teaching.post("/history/{id}/undo")
async def undo_from_history(
    request: Request, who: Who, app: App, name: Queried, form: Form, digest: Digest
) -> Response:
    """Take back the feedback on a message, and come back."""
    who.require_every_label("take feedback back")
    selected = Selection(ids=frozenset({digest}))
    undone = await in_thread(UNDO_THREADS, app.undo, name, selected, source=who.name)
    said = "nothing" if undone.name is None else "undone"
    return _back(request, form, digest, said=said, label="")


def _back(
    request: Request, form: Form, digest: bytes, *, said: str, label: str
) -> Response:
    """Redirect back to the page of a form, with a message about the outcome."""
    there, _, query = form["back"][:MAX_BACK].partition("?")
    # Only to a path of these pages.
    path = there if there.startswith("/ui/") else "/ui/history"
    kept = {**request.query_params, **dict(parse_qsl(query))}
    anchor = form["anchor"]
    back = link(path, kept, said=said, about=digest.hex(), label=label)
    return see_other(f"{back}#{anchor}" if anchor.replace("-", "").isalnum() else back)


def _place(text: str) -> tuple[datetime, bytes]:
    """Parse a place written by `cursor`.

    Raises
    ------
    MalformedRequest
        If the text is not from `cursor`.
    """
    time, _, digest = text.partition("-")
    try:
        then = datetime.strptime(time, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
        return then, bytes.fromhex(digest)
    except ValueError as error:
        msg = f"`before` is {text[:40]!r}; use the value of the previous answer"
        raise MalformedRequest(msg) from error
