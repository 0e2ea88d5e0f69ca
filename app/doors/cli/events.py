"""`postbayes events`: who did what beside the ledger."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app.doors.cli.console import OUT, Json, print_json
from app.doors.documents.access import EventOut
from app.services.access import MAX_EVENTS, list_events
from app.services.application import opened_database
from app.settings import load_settings


def events(
    last: Annotated[
        int,
        typer.Option(min=1, max=MAX_EVENTS, help="How many events to show."),
    ] = 50,
    as_json: Json = False,
) -> None:
    """Show who did what beside the ledger, the newest first.

    Keys made and revoked, people added and removed, sign-ins, policies and lists
    changed, correspondents forgotten, undos, and profiles made and deleted.
    """
    with opened_database(load_settings()) as engine:
        found = list_events(engine, limit=last)
    if as_json:
        documents = [EventOut.of(each).model_dump(mode="json") for each in found]
        print_json({"events": documents})
        return
    for each in found:
        details = "" if each.details is None else f"  {json.dumps(each.details)}"
        OUT.print(
            f"{each.time:%Y-%m-%d %H:%M:%S}  {each.who}  {each.act}  {each.object}"
            f"{details}"
        )
