"""Commands about learned mail: `figures`, `teachers` and `word`."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

from rich.text import Text
from typer import Option

from app.doors.cli.client import loaded
from app.doors.cli.console import (
    OUT,
    AsDocument,
    Profile,
    grid,
    number_of,
    plain,
    show,
    undo_of,
)
from app.doors.documents.figures import FiguresOut, WordOut
from app.figures import in_brackets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from app.doors.documents.figures import ErrorsOut, WordInViewOut

# Eighths of a full block.
_BARS: Final = " ▏▎▍▌▋▊▉█"
_BAR_CELLS: Final = 20
Window = Annotated[
    int,
    Option(min=1, max=100_000, help="Number of the newest labelled messages to use."),
]


def figures(
    profile: Profile = None, window: Window = 5_000, as_json: AsDocument = False
) -> None:
    """Show the accuracy of the filter on labelled mail.

    Every message was scored before it was learned, so these are its errors on
    unseen mail.
    """
    with loaded() as app:
        found = app.figures(profile or app.settings.profile, window=window)
    document = FiguresOut.of_figures(found)
    show(document, _lines(document), as_json=as_json)


def _lines(document: FiguresOut) -> Iterator[str | Table]:
    """Yield the figures, a line each, and their tables."""
    yield (
        f"{document.profile}: the newest {number_of(document.messages, 'message')}, "
        f"scored and then labelled: {document.ham:,} ham and {document.spam:,} spam"
    )
    if document.messages < min(document.learned, document.window):
        yield (
            f"It has learned {number_of(document.learned, 'message')} in all; "
            "archives, imports and its own verdicts are not among these figures."
        )
    if not document.messages:
        return
    yield f"ham lost      {_share(document.ham_lost, document.ham)}"
    yield f"spam missed   {_share(document.spam_missed, document.spam)}"
    yield f"unsure        {_share(document.unsure, document.messages)}"
    if document.roca_pct is not None:
        between = in_brackets(document.roca_interval_pct)
        yield f"1-ROCA        {document.roca_pct:.3f} %{between}"
    if document.ece_pct is not None:
        yield f"calibration   off by {document.ece_pct:.2f} % on average"
    yield from ("", "Errors over time, oldest first", _curve(document))
    yield from ("", "Predicted and actual spam", _reliability(document))
    yield from ("", "Who labelled them", teachers_table(document))


def _share(part: int, whole: int) -> str:
    """Return a count with its share of a whole."""
    return f"{part:,} ({100 * part / whole:.2f} %)" if whole else f"{part:,}"


def _curve(document: FiguresOut) -> Table:
    """Return the learning curve as a table with bars."""
    worst = max(map(_wrong, document.learning_curve)) or 1.0
    rows = [
        (
            f"{part.first_revision}-{part.last_revision}",
            f"{part.ham_lost:,} of {part.ham:,}",
            f"{part.spam_missed:,} of {part.spam:,}",
            bar(_wrong(part) / worst),
        )
        for part in document.learning_curve
    ]
    header = ("revisions", "ham lost", "spam missed", "wrong")
    return grid(header, rows, numbers=range(3))


def _wrong(part: ErrorsOut) -> float:
    """Return the share of messages that were decided wrongly."""
    return (part.ham_lost + part.spam_missed) / part.messages


def _reliability(document: FiguresOut) -> Table:
    """Return predicted probabilities beside actual shares."""
    rows = []
    # Most mail is nearly certain, so bins that print alike share a row.
    for promised, alike in groupby(document.reliability, lambda b: f"{b.mean:.3f}"):
        bins = list(alike)
        messages = sum(part.messages for part in bins)
        share = sum(part.spam for part in bins) / messages
        rows.append((promised, f"{messages:,}", f"{share:.3f}", bar(share)))
    header = ("probability", "messages", "spam in them", "")
    return grid(header, rows, numbers=range(3))


def teachers_table(document: FiguresOut) -> Table:
    """Return the table of teachers, with the verdicts that they contradict."""
    rows = [
        (
            plain(each.source, "bold red" if each.suspect else ""),
            f"{each.ham:,}",
            f"{each.spam:,}",
            f"{each.unsure:,}",
            _share(each.contradicted, each.messages),
            f"{each.sure:,}",
            f"{each.corrected:,}",
            "" if each.last is None else f"{each.last:%Y-%m-%d}",
        )
        for each in document.sources
    ]
    # In two lines, for a terminal of 80 columns.
    narrow = [
        Text(name)
        for name in ("contra-\ndicted", "of them\nsure", "corrected\nby others")
    ]
    header: tuple[str | Text, ...] = (
        "source",
        "ham",
        "spam",
        "unsure",
        *narrow,
        "last",
    )
    return grid(header, rows, numbers=range(1, 7))


def bar(share: float) -> str:
    """Return a bar of blocks, `_BAR_CELLS` wide for a share of 1."""
    eighths = round(8 * _BAR_CELLS * min(max(share, 0.0), 1.0))
    return _BARS[8] * (eighths // 8) + _BARS[eighths % 8].strip()


def teachers(
    profile: Profile = None,
    window: Window = 5_000,
    as_json: Annotated[bool, Option("--json")] = False,
) -> None:
    """Show the sources of labels, and which of them contradict the filter or others.

    A suspect contradicts confident verdicts, while others teach as much. For each
    suspect, the command that takes its feedback back is printed.

    Parameters
    ----------
    as_json
        Print one JSON object per source, one per line.
    """
    with loaded() as app:
        found = app.figures(profile or app.settings.profile, window=window)
    document = FiguresOut.of_figures(found)
    if as_json:
        for each in document.sources:
            OUT.print(each.model_dump_json())
        return
    if not document.sources:
        OUT.print(f"{document.profile}: no scored message has been labelled yet")
        return
    OUT.print(teachers_table(document))
    for each in document.sources:
        if each.suspect:
            undo = undo_of(each.source, profile=document.profile)
            says = (
                f"{each.source} contradicts confident verdicts of the filter. "
                f"To see what an undo would take back: {undo} --dry-run"
            )
            OUT.print(plain(says))


def word(word: str, profile: Profile = None, as_json: AsDocument = False) -> None:
    """Show how often a word was learned, month by month, and its evidence.

    *spam : ham* is the ratio of its frequency in spam to that in other mail, for the
    messages up to the end of a month; if counts decay, *weight* is the current weight
    of a message of that month. The nats are what one occurrence adds to the log-odds
    of the view. A word of a script without blanks, such as Chinese, is read as pairs
    of letters, and their counts are shown.

    Parameters
    ----------
    word
        As explanations write it: money, subject:money, "free money".
    """
    with loaded() as app:
        state = app.words(profile or app.settings.profile, word)
    document = WordOut.model_validate(state)
    learned = sum(document.messages.values())
    unseen = (
        f"{document.profile} has not seen {word!r} in the {learned:,} messages it has "
        "learned"
    )
    lines: list[str | Table] = []
    for view, part in document.views.items():
        lines += ("", *_months(view, part, document))
    if document.parts:
        lines += ("", *_parts(document))
    show(document, lines[1:] or [unseen], as_json=as_json)


def _parts(document: WordOut) -> tuple[str, Table]:
    """Return the parts of a word that the filter does not read whole."""
    words = ", ".join(part for part in document.parts if " " not in part)
    rows = [
        (
            part,
            view,
            *(
                f"{number:,} of {found.learned[label]:,}"
                for label, number in found.messages.items()
            ),
            f"{found.log_odds:+.2f}",
        )
        for part, views in document.parts.items()
        for view, found in views.items()
    ]
    header = ["part", "view", *document.messages, "nats"]
    return (
        f"the filter reads {document.word!r} as {words}; {document.profile} has seen "
        f"{sum(map(bool, document.parts.values()))} of these and their pairs",
        grid(header, rows, numbers={*range(2, len(header))}),
    )


def _months(view: str, part: WordInViewOut, document: WordOut) -> tuple[str, Table]:
    """Return the months of a word in one view, below a title."""
    counts = ", ".join(
        f"{part.messages[label]:,} of {number:,} {label}"
        for label, number in part.learned.items()
    )
    # Short headings: with three digits in each column, the table fills a terminal.
    header = ["month", "label", "messages", "times", "share", "spam : ham", "weight"]
    if document.half_life is None:
        header.pop()
    of_month = {
        month.epoch: (_ratio(month.log_odds), f"{month.weight:.3f}")
        for month in part.months
    }
    rows = [
        (
            f"{count.epoch // 100}-{count.epoch % 100:02}",
            count.label,
            f"{count.messages:,} of {count.learned:,}",
            f"{count.occurrences:,}",
            bar(count.messages / count.learned),
            # These are of the month, not of the label, so only in its first row.
            *of_month.pop(count.epoch, ()),
        )[: len(header)]
        for count in part.epochs
    ]
    return (
        f"{view}: {document.word} in {counts}; adds {part.log_odds:+.2f} nats",
        grid(header, rows, numbers={2, 3, 5, 6}),
    )


def _ratio(log_odds: float) -> str:
    """Return the ratio of a word's frequencies in spam and other mail.

    Examples
    --------
    >>> _ratio(0.7), _ratio(-4.2)
    ('2.0 : 1', '1 : 67')
    """
    times = math.exp(abs(log_odds))
    number = f"{times:.1f}" if times < 10 else f"{times:,.0f}"  # noqa: PLR2004
    return f"{number} : 1" if log_odds >= 0 else f"1 : {number}"
