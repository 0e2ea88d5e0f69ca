"""`postbayes classify`: messages scored and explained."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from app.doors.cli.client import application, ask, parse, read_messages
from app.doors.cli.console import OUT, JsonDocument, Profile, Url
from app.doors.documents.verdict import MAX_EXPLAINED, ClassifyOut
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from app.doors.documents.verdict import EntryOut

COLOURS: Final = {"spam": "bold red", "ham": "bold green", "unsure": "bold yellow"}


def classify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of one message each; standard input if none."),
    ] = None,
    explain: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_EXPLAINED, help="How many features to show, of each side."
        ),
    ] = 0,
    profile: Profile = None,
    url: Url = None,
    as_json: JsonDocument = False,
) -> None:
    """Score messages without learning from them, and say why."""
    with ExitStack() as stack:
        app = None if url is not None else stack.enter_context(application())
        for name, raw in read_messages(files or []):
            if app is not None:
                found = app.classify(
                    profile or app.settings.profile, raw, strongest=explain
                )
                document = ClassifyOut.of(Delivered.of(found))
            else:
                query = {"explain": explain, "profile": profile}
                answer = ask(str(url), "/classify", raw, query)
                document = parse(ClassifyOut, str(url), answer)
            if as_json:
                OUT.print(document.model_dump_json())
            else:
                _print_verdict(name, document, explained=explain > 0)


def _print_verdict(name: str, document: ClassifyOut, *, explained: bool) -> None:
    line = Text(f"{document.decision:6}", style=COLOURS[document.decision])
    line.append(
        f"  {document.probability:7.2%}  {_signed(document.log_odds)}  ",
        style="default",
    )
    line.append(f"{document.id}  {name}", style="dim")
    OUT.print(line)
    if explained:
        for entry in document.explanation:
            OUT.print(_entry_line(entry))


def _entry_line(entry: EntryOut) -> Text:
    colour = "red" if entry.log_odds > 0 else "green"
    line = Text(f"        {_signed(entry.log_odds)}  ", style=colour)
    text = entry.feature
    if entry.kind == "rest":
        text = f"({entry.features} other features)"
    line.append(f"{text:32.60}  ", style="default")
    counts = " · ".join(f"{label} {n}" for label, n in entry.messages.items())
    line.append(counts, style="dim")
    return line


def _signed(log_odds: float | None) -> str:
    return "   -inf" if log_odds is None else f"{log_odds:+7.2f}"
