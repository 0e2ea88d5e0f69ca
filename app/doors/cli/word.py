"""`postbayes word`: the counts of one word, month by month."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from app.doors.cli.console import OUT, JsonDocument, Profile
from app.doors.cli.figures import bar, loaded
from app.doors.documents.figures import WordOut

if TYPE_CHECKING:
    from app.doors.documents.figures import WordInViewOut


def word(
    word: Annotated[
        str,
        typer.Argument(
            help='As explanations write it: money, subject:money, "free money".'
        ),
    ],
    profile: Profile = None,
    as_json: JsonDocument = False,
) -> None:
    """Show how often a word was learned, month by month, and what it is worth.

    *spam : ham* is how many times as frequent it was in spam as in the other mail, by
    the messages up to the end of a month; where counts decay, *weight* is what a
    message of that month counts as now. The nats are what one occurrence adds to the
    log-odds of the view.
    """
    with loaded() as app:
        state = app.words(profile or app.settings.profile, word)
    document = WordOut.model_validate(state, from_attributes=True)
    if as_json:
        OUT.print(document.model_dump_json())
        return
    if not document.views:
        learned = sum(document.messages.values())
        OUT.print(
            f"{document.profile} has not seen {word!r} in the {learned} messages "
            "it has learned"
        )
    for view, part in document.views.items():
        OUT.print(_months(view, part, document))


def _months(view: str, part: WordInViewOut, document: WordOut) -> Table:
    """Return the months of a word in one view."""
    counts = ", ".join(
        f"{part.messages[label]} of {number} {label}"
        for label, number in part.learned.items()
    )
    table = Table(
        title=f"{view}: {document.word} in {counts}; adds {part.log_odds:+.2f} nats",
        title_justify="left",
    )
    table.add_column("month")
    table.add_column("label")
    # Short names: with three digits in each, the table is as wide as a terminal.
    for name in ("messages", "times"):
        table.add_column(name, justify="right")
    table.add_column("share")
    table.add_column("spam : ham", justify="right")
    if document.half_life is not None:
        table.add_column("weight", justify="right")
    of_month = {
        month.epoch: (_ratio(month.log_odds), f"{month.weight:.3f}")
        for month in part.months
    }
    for count in part.epochs:
        row = (
            f"{count.epoch // 100}-{count.epoch % 100:02}",
            count.label,
            f"{count.messages} of {count.learned}",
            f"{count.occurrences}",
            bar(count.messages / count.learned),
            # Of the month, not of the label: in the first of its rows.
            *of_month.pop(count.epoch, ()),
        )
        table.add_row(*row[: len(table.columns)])
    return table


def _ratio(log_odds: float) -> str:
    """Return how many times as frequent a word is on one side as on the other.

    Examples
    --------
    >>> _ratio(0.7), _ratio(-4.2)
    ('2.0 : 1', '1 : 67')
    """
    times = math.exp(abs(log_odds))
    said = f"{times:.1f}" if times < 10 else f"{times:,.0f}"  # noqa: PLR2004
    return f"{said} : 1" if log_odds >= 0 else f"1 : {said}"
