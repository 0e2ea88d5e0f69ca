"""Digest: the page behind a link of a digest, which shows why and teaches."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from app.doors.http.guard import Guarded, asking
from app.doors.http.page.environment import link, render
from app.doors.http.page.forms import read_form, text_of
from app.doors.http.page.message import teach_by_id
from app.doors.http.routes import DATABASE_THREADS, ApplicationDep
from app.services.history import links_of

# The link itself is the proof: its holder has no account.  Mail gateways that rewrite
# links may add parameters of their own.
page = APIRouter(
    prefix="/ui", route_class=asking(None, Guarded), include_in_schema=False
)
Token = Annotated[str, Path(max_length=1024)]
STRONGEST = 8
"""Reasons of each side that the page lists."""


@page.get("/digest/{token}")
async def digest_page(
    request: Request,
    app: ApplicationDep,
    token: Token,
    label: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show why a message was decided so, and the buttons that teach it.

    Programs that follow the links of a mail teach nothing: that takes a button.
    """
    profile, digest = links_of(app.settings).open(token)
    look_up = partial(app.verdicts.message, profile, digest, strongest=STRONGEST)
    entries, found = await to_thread.run_sync(look_up, limiter=DATABASE_THREADS)
    row = app.live.find(profile).row
    return render(
        request,
        "digest.html",
        here="",
        token=token,
        entries=entries,
        now=None if found is None else found.now,
        labels=row.labels,
        spam_labels=row.spam_labels,
        # No text of an address is a sentence of this page.
        taught=label if label in row.labels else None,
    )


@page.post("/digest/{token}")
async def teach_from_digest(
    request: Request, app: ApplicationDep, token: Token
) -> Response:
    """Teach the message of a link."""
    form = await read_form(request)
    profile, digest = links_of(app.settings).open(token)
    label = text_of(form.get("label", b""))
    outcome = await teach_by_id(app, profile, digest, label=label, source="digest")
    back = link(f"/ui/digest/{token}", label=outcome.label)
    return RedirectResponse(back, HTTPStatus.SEE_OTHER)
