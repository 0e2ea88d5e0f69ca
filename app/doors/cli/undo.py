"""`postbayes undo`: take back what was taught, by whom or when it was."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.doors.cli.console import OUT, interruptible, progress, undo_of
from app.doors.documents.feedback import UndoOut
from app.doors.documents.message import parse_id
from app.errors import InvalidSelection
from app.ledger.undo import Selection
from app.services.application import Specify, now, open_database
from app.services.memory.live import LiveProfiles
from app.services.undo import Undo
from app.settings import load_settings

if TYPE_CHECKING:
    from app.doors.documents.figures import ErrorsOut


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
            help="Taught then or later: 2026-03-01 or 2026-03-01T14:30, local time "
            "unless it says otherwise.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Taught before then.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would change.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="Whose ledger. [POSTBAYES_PROFILE]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the JSON document of the HTTP door.")
    ] = False,
) -> None:
    """Take back what was taught, as if it had never been.

    All that is given must be true of it: of these messages, by this source, of
    this time. A service on the same database follows within a second. An undo
    that is interrupted is finished by the next one, or by the service.
    """
    asked = Selection(
        ids=frozenset(parse_id(each) for each in ids or ()),
        source=source,
        since=_moment(since),
        until=_moment(until),
    )
    settings = load_settings()
    name = profile or settings.profile
    engine = open_database(settings)
    live = LiveProfiles(engine, Specify(settings))
    live.refresh()
    reverse = Undo(engine, live, now)
    noting = "interrupted; perhaps it is decided: the same command goes on, or says so"
    doing = "interrupted; it is decided, and the same command or the service goes on"
    if dry_run:
        undone = reverse.forecast(name, asked)
    else:
        with interruptible(noting):
            undone = reverse.begin(name, asked, source="undo")
        with interruptible(doing), progress() as bar:
            total = len(undone.plan.work)
            task = bar.add_task("undoing", total=total, rate="")
            start = revision = undone.revision
            for revision in reverse.finish(undone):
                bar.update(task, completed=revision - start)
            undone = replace(undone, revision=revision)
    engine.dispose()
    document = UndoOut.of(undone)
    if as_json:
        OUT.print(document.model_dump_json(), markup=False)
        return
    for sentence in _sentences(document):
        OUT.print(sentence, markup=False)


def _moment(text: str | None) -> datetime | None:
    """Return a time; without a zone it is local."""
    if text is None:
        return None
    try:
        # Without a zone it is taken for local time.
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is no time; write 2026-03-01, or 2026-03-01T14:30+01:00"
        raise InvalidSelection(msg) from error


def _sentences(document: UndoOut) -> list[str]:
    """Return what was taken back, in words."""
    lines = [
        f"{document.profile}: {name} had been begun before, and was carried out now; "
        f"to take it back: {undo_of(name, profile=document.profile)}"
        for name in document.finished
    ]
    if not document.rows and not document.undos:
        more = "more " if lines else ""
        return [
            *lines,
            f"nothing {more}of it is in force: it was never taught, or is taken back "
            "already",
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
    if document.undo is not None:
        again = undo_of(document.undo, profile=document.profile)
        lines.append(f"To take that back: {again}")
    return lines


def _errors(figures: ErrorsOut) -> str:
    """Return error figures in words."""
    return (
        f"{figures.ham_lost} of {figures.ham} ham lost, "
        f"{figures.spam_missed} of {figures.spam} spam missed"
    )
