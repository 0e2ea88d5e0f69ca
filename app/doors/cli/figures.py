"""`postbayes figures`: the accuracy on live mail."""

from __future__ import annotations

import math
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from app.doors.cli.console import OUT, JsonDocument, Profile
from app.doors.documents.figures import FiguresOut
from app.services.application import Application
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.doors.documents.figures import ErrorsOut

# Eighths of a full block.
_BARS: Final = " ▏▎▍▌▋▊▉█"
_BAR_CELLS: Final = 20


@contextmanager
def loaded() -> Iterator[Application]:
    """Give the application of the settings, without its threads."""
    # The service alone posts, and whoever looks need not read its secret.
    settings = load_settings().model_copy(update={"webhook": None})
    app = Application(settings, make=False, patience=math.inf)
    try:
        yield app
    finally:
        app.engine.dispose()


def figures(
    profile: Profile = None,
    window: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="How many of the newest labelled messages."
        ),
    ] = 5_000,
    as_json: JsonDocument = False,
) -> None:
    """Show how well the filter does on the mail that people labelled.

    Every message was scored before it was learned, so these are its errors on
    mail that it had not seen.
    """
    with loaded() as app:
        found = app.figures(profile or app.settings.profile, window=window)
    document = FiguresOut.of_figures(found)
    if as_json:
        OUT.print(document.model_dump_json())
        return
    OUT.print(
        f"{document.profile}: the newest {document.messages} messages that were "
        f"scored and then labelled, {document.ham} ham and {document.spam} spam",
    )
    if document.messages < min(document.learned, document.window):
        OUT.print(
            f"It has learned {document.learned} messages in all; archives, imports and "
            "its own verdicts have no part in these figures."
        )
    if not document.messages:
        return
    for sentence in _sentences(document):
        OUT.print(sentence)
    OUT.print(_curve(document))
    OUT.print(_reliability(document))
    OUT.print(teachers_table(document))


def _sentences(document: FiguresOut) -> list[str]:
    """Return the figures as lines that a person reads."""
    said = [
        f"ham lost      {_share(document.ham_lost, document.ham)}",
        f"spam missed   {_share(document.spam_missed, document.spam)}",
        f"unsure        {_share(document.unsure, document.messages)}",
    ]
    if document.roca_pct is not None and document.roca_interval_pct is not None:
        low, high = document.roca_interval_pct
        said.append(
            f"1-ROCA        {document.roca_pct:.3f} % ({low:.3f} to {high:.3f})"
        )
    if document.ece_pct is not None:
        said.append(f"calibration   off by {document.ece_pct:.2f} % on average")
    return said


def _share(part: int, whole: int) -> str:
    """Return a count with its share of a whole."""
    return f"{part} ({100 * part / whole:.2f} %)" if whole else f"{part}"


def _curve(document: FiguresOut) -> Table:
    """Return the learning curve as a table with bars."""
    table = Table(title="Errors over time, oldest first", title_justify="left")
    for name in ("revisions", "ham lost", "spam missed"):
        table.add_column(name, justify="right")
    table.add_column("wrong")
    worst = max(_wrong(part) for part in document.learning_curve) or 1.0
    for part in document.learning_curve:
        table.add_row(
            f"{part.first_revision}-{part.last_revision}",
            f"{part.ham_lost} of {part.ham}",
            f"{part.spam_missed} of {part.spam}",
            bar(_wrong(part) / worst),
        )
    return table


def _wrong(part: ErrorsOut) -> float:
    """Return the share of messages that were decided wrongly."""
    return (part.ham_lost + part.spam_missed) / part.messages


def _reliability(document: FiguresOut) -> Table:
    """Return what was promised beside what there was."""
    table = Table(title="Where it said, there was", title_justify="left")
    for name in ("probability", "messages", "spam in them"):
        table.add_column(name, justify="right")
    table.add_column("")
    # Most mail is as good as certain: bins that read alike are one row.
    for promised, alike in groupby(document.reliability, lambda b: f"{b.mean:.3f}"):
        bins = list(alike)
        messages = sum(part.messages for part in bins)
        share = sum(part.spam for part in bins) / messages
        table.add_row(promised, f"{messages}", f"{share:.3f}", bar(share))
    return table


def teachers_table(document: FiguresOut) -> Table:
    """Return who labelled the messages, and where the filter had said otherwise."""
    table = Table(title="Who labelled them", title_justify="left")
    table.add_column("source")
    for name in ("share", "ham", "spam", "unsure", "contradicted", "of them sure"):
        table.add_column(name, justify="right")
    table.add_column("corrected by others", justify="right")
    table.add_column("last")
    for each in document.sources:
        table.add_row(
            Text(each.source, style="bold red" if each.suspect else ""),
            f"{100 * each.messages / max(1, document.messages):.1f} %",
            f"{each.ham}",
            f"{each.spam}",
            f"{each.unsure}",
            _share(each.contradicted, each.messages),
            f"{each.sure}",
            f"{each.corrected}",
            "" if each.last is None else f"{each.last:%Y-%m-%d}",
        )
    return table


def bar(share: float) -> str:
    """Return a bar of blocks, `_BAR_CELLS` wide for a share of 1."""
    eighths = round(8 * _BAR_CELLS * min(max(share, 0.0), 1.0))
    return _BARS[8] * (eighths // 8) + _BARS[eighths % 8].strip()
