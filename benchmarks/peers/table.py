"""The table of the README: one row for each filter, one column for each stream."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN: Final = "<!-- peers: written by benchmarks/peers -->"
END: Final = "<!-- /peers -->"

Row = dict[str, Any]


def table(rows: Sequence[Row], *, peers: Sequence[str], date: str, command: str) -> str:
    """Return Markdown: 1-ROCA % of each filter on each stream, lam % in brackets.

    Parameters
    ----------
    rows : sequence of dict
        The figures of all trials.
    peers : sequence of str
        The filters in the order of the rows.
    date : str
        When they were run.
    command : str
        How.
    """
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    sizes = {row["stream"]: row["ham"] + row["spam"] for row in rows}
    by_place = {(row["peer"], row["stream"]): row for row in rows}
    family = [name for name in streams if name.startswith("enron")]
    singles = [name for name in streams if name not in family]
    headings = ["filter", *(f"{name} ({sizes[name]:,})" for name in singles)]
    if family:
        total = sum(sizes[name] for name in family)
        headings.append(f"Enron-Spam, mean of {len(family)} ({total:,})")
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    for peer in peers:
        cells = [_cell([by_place.get((peer, name))]) for name in singles]
        if family:
            cells.append(_cell([by_place.get((peer, name)) for name in family]))
        # Times are in the file of results, not here: trials run for an hour
        # beside each other, and the machine is not as busy all the time.
        if set(cells) != {"not run"}:
            lines.append("| " + " | ".join([peer, *cells]) + " |")
    return "\n".join((f"Run on {date} by `{command}`:", "", *lines))


def _cell(rows: Sequence[Row | None]) -> str:
    """Return the mean over streams, where the filter was run on all of them."""
    present = [row for row in rows if row is not None]
    if len(present) < len(rows):
        return "not run"
    roca = mean(row["roca_pct"] for row in present)
    lam = mean(row["lam_pct"] for row in present)
    return f"{roca:.3f} ({lam:.2f})"


def write(path: Path, block: str) -> None:
    """Put the table between its marks in a document.

    Raises
    ------
    ValueError
        If the document has not the two marks.
    """
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        msg = f"{path} must have the marks {BEGIN!r} and {END!r}, each once"
        raise ValueError(msg)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}", encoding="utf-8")
