"""`postbayes undo`: teachings taken back by message, source or time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.doors.cli.console import (
    JsonDocument,
    Profile,
    interruptible,
    located_stage,
    progress,
    show,
    undo_of,
)
from app.doors.documents.feedback import UndoOut
from app.errors import InvalidSelection
from app.features.observation import parse_id
from app.ledger.undo import Selection
from app.services.clock import now
from app.services.startup import load_profiles, opened_database
from app.services.undo import Undo
from app.settings import load_settings

if TYPE_CHECKING:
    from app.doors.documents.figures import ErrorsOut
    from app.services.undo import Undone


def undo(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of messages.", metavar="[ID]...")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Who taught it, import:NAME, or undo:7 to take back an undo."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Only feedback from this time on: 2026-03-01 or 2026-03-01T14:30, in "
            "local time unless a time zone is given.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only feedback before this time.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would change.")
    ] = False,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            help="The token of --dry-run; needed if more than 20 messages and more "
            "than 1 % of those learned would change.",
        ),
    ] = None,
    profile: Profile = None,
    as_json: JsonDocument = False,
) -> None:
    """Take back feedback exactly.

    With several options, only feedback that matches all of them is taken back. A
    service on the same database follows within a second. An interrupted undo is
    finished by the next one, or by the service.
    """
    asked = Selection(
        ids=frozenset(parse_id(each) for each in ids or ()),
        source=source,
        since=_time(since),
        until=_time(until),
    )
    settings = load_settings()
    name = profile or settings.profile
    with opened_database(settings) as engine:
        reverse = Undo(engine, load_profiles(engine, settings), now)
        if dry_run:
            undone = reverse.forecast(name, asked)
        else:
            undone = _carry_out(reverse, name, asked, confirm)
    document = UndoOut.of(undone)
    lines = _sentences(document)
    if document.undo is not None:
        again = undo_of(document.undo, profile=document.profile)
        lines.append(
            "To have them back, learn the archive again."
            if undone.plan.of_parts
            else f"To take that back: {again}"
        )
    show(document, lines, as_json=as_json)


def _carry_out(
    reverse: Undo, name: str, asked: Selection, confirm: str | None
) -> Undone:
    """Record an undo and carry it out, with a progress bar."""
    with interruptible(
        "interrupted; the undo may have been recorded: run the same command again to "
        "finish it or to see that nothing is left"
    ):
        undone = reverse.begin(name, asked, source="undo", confirm=confirm)
    with (
        interruptible(
            "interrupted; the undo is recorded, and the service or the same command "
            "finishes it"
        ),
        progress() as bar,
    ):
        show = located_stage(bar, "undoing", len(undone.plan.work))
        revision = undone.revision
        for revision in reverse.finish(undone):
            show(revision - undone.revision)
    return replace(undone, revision=revision)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        # Without a zone it is taken for local time.
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time; write 2026-03-01, or 2026-03-01T14:30+01:00"
        raise InvalidSelection(msg) from error


def _sentences(document: UndoOut) -> list[str]:
    """Return the undo as lines that a person reads."""
    lines = [
        f"{document.profile}: {name} was left unfinished, and is carried out now; "
        f"to take it back: {undo_of(name, profile=document.profile)}"
        for name in document.finished
    ]
    if not document.rows and not document.undos:
        more = "more " if lines else ""
        return [
            *lines,
            f"nothing {more}to take back: it was never taught, is taken back already, "
            "or is forgotten",
        ]
    would = "would take" if document.dry_run else "took"
    back = list(document.undos)
    # To undo an undo is about no row that somebody taught.
    if document.rows:
        back.insert(0, f"{document.rows} rows of the ledger")
    lines.append(f"{document.profile}: {would} back {', '.join(back)}")
    lines += [
        f"  {moved.messages} messages: {moved.label_before or 'not learned'} -> "
        f"{moved.label or 'not learned'}"
        for moved in document.messages
    ]
    lines += [
        f"  {messages:+d} messages of imports: {label}"
        for label, messages in document.summed.items()
        if messages
    ]
    if document.features is not None:
        lines.append(f"  {document.features} features change their counts")
    if document.figures_before is not None and document.figures_after is not None:
        lines.append(f"  errors now: {_errors(document.figures_before)}")
        lines.append(f"  errors then: {_errors(document.figures_after)}")
    if document.confirm is not None:
        lines.append(f"To do it, repeat this with: --confirm {document.confirm}")
    return lines


def _errors(figures: ErrorsOut) -> str:
    return (
        f"{figures.ham_lost} of {figures.ham} ham lost, "
        f"{figures.spam_missed} of {figures.spam} spam missed"
    )
