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
            min=0, max=MAX_EXPLAINED, help="How many reasons to show, of each side."
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
                print_verdict(name, document, explained=explain > 0)


def print_verdict(name: str, document: ClassifyOut, *, explained: bool) -> None:
    """Print a verdict in one line, and its explanation below."""
    line = Text(f"{document.decision:6}", style=COLOURS[document.decision])
    line.append(
        f"  {document.probability:7.2%}  {_signed(document.log_odds)}  ",
        style="default",
    )
    line.append(f"{document.id}  {name}", style="dim")
    OUT.print(line)
    if explained:
        for level in document.levels:
            learned = " · ".join(f"{label} {n}" for label, n in level.messages.items())
            times = f", each as {level.weight}" if level.weight > 1 else ""
            OUT.print(_line(level.log_odds or 0.0, level.profile, f"{learned}{times}"))
        if document.levels:
            OUT.print(Text("        by family", style="dim"))
        for family, nats in document.families.items():
            OUT.print(_line(nats, family, ""))
        share = document.explained_pct
        OUT.print(
            Text(
                "        of these"
                if share is None
                else f"        of these, {share:.0f} % by the reasons shown",
                style="dim",
            )
        )
        for entry in document.explanation:
            # The prior is one of the subtotals.
            if entry.kind != "prior":
                OUT.print(_entry_line(entry))


def _entry_line(entry: EntryOut) -> Text:
    if entry.kind == "rest":
        return _line(entry.log_odds, f"({entry.features} other features)", "")
    # What is stated is said whole.
    text = entry.title[:60] if entry.features else entry.title
    seen = entry.parts[0].messages if entry.parts else {}
    counts = " · ".join(f"{label} {n}" for label, n in seen.items())
    more = f"{entry.features} features; " if entry.features > 1 else ""
    first = f"{entry.parts[0].feature}: " if more and counts else ""
    return _line(entry.log_odds, text, f"{more}{first}{counts}")


def _line(nats: float, text: str, more: str) -> Text:
    line = Text(f"        {_signed(nats)}  ", style="red" if nats > 0 else "green")
    line.append(f"{text:36}  ", style="default")
    line.append(more, style="dim")
    return line


def _signed(log_odds: float | None) -> str:
    return "   -inf" if log_odds is None else f"{log_odds:+7.2f}"
