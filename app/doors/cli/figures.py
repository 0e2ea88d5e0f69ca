"""`postbayes figures` and `postbayes word`: accuracy on live mail, and one word."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from app.doors.cli.console import OUT
from app.doors.documents.figures import FiguresOut, WordOut
from app.services.application import Application
from app.settings import load_settings

if TYPE_CHECKING:
    from app.doors.documents.figures import ErrorsOut, WordInViewOut

Profile = Annotated[
    str | None, typer.Option(help="Name of the profile. [POSTBAYES_PROFILE]")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the JSON document of the HTTP door.")
]
# Eighths of a full block.
_BARS: Final = " ▏▎▍▌▋▊▉█"
_BAR_CELLS: Final = 20


def figures(
    profile: Profile = None,
    window: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="How many of the newest labelled messages."
        ),
    ] = 5_000,
    as_json: Json = False,
) -> None:
    """Tell how well the filter does on the mail that people labelled.

    Every message was scored before it was learned, so these are its errors on
    mail that it had not seen.
    """
    app = Application(load_settings())
    try:
        made = app.figures(profile or app.settings.profile, window=window)
    finally:
        app.engine.dispose()
    document = FiguresOut.of_figures(made)
    if as_json:
        OUT.print(document.model_dump_json(), markup=False)
        return
    OUT.print(
        f"{document.profile}: the newest {document.messages} messages that were "
        f"scored and then labelled, {document.ham} ham and {document.spam} spam",
        markup=False,
    )
    if not document.messages:
        return
    for sentence in _sentences(document):
        OUT.print(sentence, markup=False)
    OUT.print(_curve(document))
    OUT.print(_reliability(document))


def word(
    word: Annotated[
        str,
        typer.Argument(
            help='As explanations write it: money, subject:money, "free money".'
        ),
    ],
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Tell how often a word was learned, month by month, and what it says.

    *nats* is what the messages up to the end of a month said of it; where counts
    decay, *weight* is what a message of that month counts as now.
    """
    app = Application(load_settings())
    try:
        state = app.words(profile or app.settings.profile, word)
    finally:
        app.engine.dispose()
    document = WordOut.model_validate(state, from_attributes=True)
    if as_json:
        OUT.print(document.model_dump_json(), markup=False)
        return
    if not document.views:
        learned = sum(document.messages.values())
        OUT.print(
            f"{document.profile} has not seen {word!r} in the {learned} messages "
            "it has learned",
            markup=False,
        )
    for view, part in document.views.items():
        OUT.print(_months(view, part, document))


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
            _bar(_wrong(part) / worst),
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
        table.add_row(promised, f"{messages}", f"{share:.3f}", _bar(share))
    return table


def _months(view: str, part: WordInViewOut, document: WordOut) -> Table:
    """Return the months of a word in one view."""
    counts = ", ".join(
        f"{part.messages[label]} of {number} {label}"
        for label, number in part.learned.items()
    )
    table = Table(
        title=f"{view}: {document.word} in {counts}; {part.log_odds:+.2f} nats",
        title_justify="left",
    )
    table.add_column("month")
    table.add_column("label")
    # Short names: with three digits in each, the table is as wide as a terminal.
    for name in ("messages", "times"):
        table.add_column(name, justify="right")
    table.add_column("share")
    table.add_column("nats", justify="right")
    if document.half_life is not None:
        table.add_column("weight", justify="right")
    of_month = {
        month.epoch: (f"{month.log_odds:+.2f}", f"{month.weight:.3f}")
        for month in part.months
    }
    for count in part.epochs:
        row = (
            f"{count.epoch // 100}-{count.epoch % 100:02}",
            count.label,
            f"{count.messages} of {count.learned}",
            f"{count.occurrences}",
            _bar(count.messages / count.learned),
            # Of the month, not of the label: in the first of its rows.
            *of_month.pop(count.epoch, ()),
        )
        table.add_row(*row[: len(table.columns)])
    return table


def _bar(share: float) -> str:
    """Return a bar of blocks, `_BAR_CELLS` wide where the share is 1."""
    eighths = round(8 * _BAR_CELLS * min(max(share, 0.0), 1.0))
    return _BARS[8] * (eighths // 8) + _BARS[eighths % 8].strip()
