"""`postbayes feedback`: one message taught, or taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.doors.cli.client import application, ask, parse, read_messages
from app.doors.cli.console import OUT, JsonDocument, Profile, Url
from app.doors.documents.feedback import FeedbackOut
from app.errors import InvalidInput
from app.features.observation import parse_id
from app.ledger.entry import check_source


def feedback(
    file: Annotated[
        Path | None, typer.Argument(help="One message; standard input if not given.")
    ] = None,
    label: Annotated[
        str, typer.Option(help="What the message is: a label of the profile.")
    ] = "",
    message_id: Annotated[
        str | None, typer.Option("--id", help="Id of a scored message, instead of it.")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Take the message of --id back, for good.")
    ] = False,
    source: Annotated[
        str, typer.Option(help="Who teaches it; kept in the ledger.")
    ] = "cli",
    profile: Profile = None,
    url: Url = None,
    as_json: JsonDocument = False,
) -> None:
    """Teach one message, durably; or take one back."""
    if bool(label) == forget:
        msg = "say what the message is with --label, or --forget one by its --id"
        raise InvalidInput(msg)
    check_source(source)
    if message_id is not None and file is not None:
        msg = "give either a FILE or --id, not both"
        raise InvalidInput(msg)
    if forget and message_id is None:
        msg = "--forget needs the --id of the message"
        raise InvalidInput(msg)
    raw = None
    if message_id is None:
        ((_, raw),) = read_messages([file] if file else [])
    if url is None:
        document = _teach(raw, message_id, label, source, profile)
    else:
        query = {"source": source, "profile": profile}
        if raw is not None:
            answer = ask(url, "/feedback", raw, {"label": label, **query})
        elif label:
            body = {"id": message_id, "label": label}
            answer = ask(url, "/feedback", None, query, body)
        else:
            answer = ask(url, f"/feedback/{message_id}", None, query)
        document = parse(FeedbackOut, url, answer)
    if as_json:
        OUT.print(document.model_dump_json())
        return
    was = [f"was {document.label_before}"] if document.label_before else []
    labels = ", ".join([document.label, *was] if document.label else was)
    OUT.print(
        f"{document.outcome}: {labels} (id {document.id}, revision {document.revision})"
    )


def _teach(
    raw: bytes | None,
    message_id: str | None,
    label: str,
    source: str,
    profile: str | None,
) -> FeedbackOut:
    """Teach through the database, without a service."""
    with application() as app:
        name = profile or app.settings.profile
        if raw is not None:
            taught = app.feedback.teach(name, raw, label=label, source=source)
        elif label:
            digest = parse_id(message_id or "")
            taught = app.feedback.teach_by_id(name, digest, label=label, source=source)
        else:
            digest = parse_id(message_id or "")
            taught = app.feedback.forget(name, digest, source=source)
        return FeedbackOut.of(taught)
