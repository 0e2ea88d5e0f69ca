"""Message: page and JSON of a mail as the filter reads it, and links of digests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Path, Query, Request, Response

from app.access.rights import Right
from app.doors.documents.message import TextIn
from app.doors.documents.verdict import MessageOut, explained_pct, message_fields
from app.doors.http.body import Body, Explain, openapi_body
from app.doors.http.guard import Guarded, asking, document
from app.doors.http.page import LARGE, link, pages, render, see_other
from app.doors.http.page.forms import Form, read_parts
from app.doors.http.page.history import Teachable, teach_by_id
from app.doors.http.routes import (
    App,
    Queried,
    message_in,
    problems,
)
from app.doors.serving.threads import computing, in_database
from app.errors import EmptyMessage
from app.services.digest import links_of

if TYPE_CHECKING:
    from app.classifier.explain import ListedFeature
    from app.classifier.shading import Shading
    from app.services.application import Application

router = APIRouter(route_class=asking(Right.CLASSIFY), tags=["mail"])
page = pages(asking(Right.CLASSIFY))
STRONGEST: Final = 10
"""Most reasons of each side, and most words, on the page."""
MOST_LINES: Final = 25
"""Strongest passages that the sum lists separately."""


@router.post(
    "/message",
    response_model=MessageOut,
    responses=problems(400, 404, 408, 413, 415, 422, 503),
    openapi_extra=openapi_body(TextIn),
)
async def message(
    request: Request, body: Body, app: App, name: Queried, explain: Explain = STRONGEST
) -> Response:
    """Return one message as the filter reads it, with what each place adds.

    Send the same request as to `/classify`. The answer is that of `/classify`, with
    the message in segments: the contributions of the segments, those of features
    without a place (`elsewhere`) and the prior sum to `log_odds`. Metrics, log and
    history leave the message out, but it can be taught by its id.
    """
    raw = await message_in(request, body)
    inspect = partial(app.inspect, name, raw, strongest=explain)
    return await computing(lambda: document(message_fields(inspect())), LARGE)


@page.get("/message")
async def message_form(request: Request, shared: Teachable) -> Response:
    """Show the form, and the message that was just taught."""
    return render(request, "message.html", found=None, **shared)


@page.post("/message")
async def show_message(request: Request, app: App, name: Queried) -> Response:
    """Show a message that was pasted or chosen as a file."""
    form = await read_parts(request)
    raw = form.get("file") or form.get("message", b"")
    if not raw.strip():
        msg = "paste a message with its headers, or choose its file (.eml)"
        raise EmptyMessage(msg)
    return await computing(lambda: _shown(request, app, name, raw), LARGE)


def _shown(request: Request, app: Application, name: str, raw: bytes) -> Response:
    found = app.inspect(name, raw, strongest=STRONGEST)
    return render(
        request,
        "message.html",
        found=found,
        explained=explained_pct(found.classified),
        sums=sums(found.shading),
        words=strongest_words(found.shading),
    )


def sums(shading: Shading) -> list[tuple[str, str, float]]:
    """Return the summands of the log-odds by place: kind, name and contribution.

    The strongest passages have rows of their own.  The last rows are the remaining
    passages of a long message, and the prior.
    """
    rows: list[tuple[str, str, float]] = [
        (each.kind, each.name, each.log_odds) for each in shading.passages
    ]
    rows += [("no place", view, added) for view, added in shading.elsewhere.items()]
    rows.sort(key=lambda row: -abs(row[2]))
    rest = sum(added for _, _, added in rows[MOST_LINES:])
    more = len(rows) - MOST_LINES
    listed = [row for row in rows[:MOST_LINES] if row[2]]
    if more > 0:
        listed.append(("rest", f"{more:,} more", rest))
    return [*listed, ("prior", "", shading.prior)]


def strongest_words(shading: Shading) -> list[ListedFeature]:
    """Return the strongest features of both sides that have a place, each once."""
    features = {
        (each["view"], each["feature"]): each
        for passage in shading.passages
        for segment in passage.segments
        for each in segment.features
    }
    ranked = sorted(features.values(), key=lambda each: -abs(each["log_odds"]))
    return ranked[: 2 * STRONGEST]


# The link itself is the proof, because its holder has no account.  Unknown parameters
# are allowed, because mail gateways that rewrite links may add some.
linked = pages(asking(None, Guarded))
Token = Annotated[str, Path(max_length=1024)]
STRONGEST_OF_LINK = 8
"""Most reasons of each side on the linked page."""


@linked.get("/digest/{token}")
async def digest_page(
    request: Request,
    app: App,
    token: Token,
    label: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show why a message was decided so, and the buttons that teach it.

    Programs that follow the links of a mail teach nothing: that takes a button.
    """
    profile, digest = links_of(app.settings).open(token)
    (found,) = await in_database(
        app.history.stored, digest, profile=profile, strongest=STRONGEST_OF_LINK
    )
    row = app.live.find(profile).row
    return render(
        request,
        "digest.html",
        here="",
        token=token,
        found=found,
        row=row,
        # The page shows no text from the address.
        taught=label if label in row.labels else None,
    )


@linked.post("/digest/{token}")
async def teach_from_digest(app: App, token: Token, form: Form) -> Response:
    """Teach the message of a link."""
    profile, digest = links_of(app.settings).open(token)
    outcome = await teach_by_id(app, profile, digest, form, None)
    return see_other(link(f"/ui/digest/{token}", label=outcome.label))
