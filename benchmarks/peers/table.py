"""Tables: one row for each filter, one column for each stream or family of streams."""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

BEGIN: Final = "<!-- peers: written by benchmarks/peers -->"
END: Final = "<!-- /peers -->"

Row = dict[str, Any]

Cell = tuple[str, "Callable[[Sequence[Row]], str]"]


def _ranking(rows: Sequence[Row]) -> str:
    """Return 1-ROCA and lam, each the mean over some streams."""
    roca = mean(row["roca_pct"] for row in rows)
    lam = mean(row["lam_pct"] for row in rows)
    return f"{roca:.3f} ({lam:.2f})"


def _probability(rows: Sequence[Row]) -> str:
    """Return Brier's score and the calibration error, each the mean."""
    brier = 100 * mean(row["brier"] for row in rows)
    away = mean(row["ece_pct"] for row in rows)
    return f"{brier:.2f} ({away:.2f})"


def _at_few_lost(rows: Sequence[Row]) -> str:
    """Return the spam missed where 0.1 % of the ham is lost, the mean."""
    return f"{mean(row['spam_missed_at_0_1_pct'] for row in rows):.1f}"


RANKING: Final = ("1-ROCA % (lam %)", _ranking)
PROBABILITY: Final = ("Brier score times 100 (calibration error %)", _probability)
AT_FEW_LOST: Final = ("Spam missed, %, where 0.1 % of ham is lost", _at_few_lost)


def in_short(rows: Sequence[Row], *, command: str) -> str:
    """Return Markdown: ranking and probabilities, a column for each family of streams.

    Parameters
    ----------
    rows : sequence of dict
        The figures of all trials: by filter, in the order of the streams.
    command : str
        How they were run.
    """
    families: dict[str, list[str]] = {}
    for name in _sizes(rows):
        families.setdefault(name.rstrip(" 0123456789"), []).append(name)
    return "\n\n".join(
        (
            _origin(rows, command),
            _table(rows, families, RANKING),
            _table(rows, families, PROBABILITY),
        )
    )


def every_stream(rows: Sequence[Row], *, command: str) -> str:
    """Return Markdown: what there is, a column for each stream."""
    alone = {name: [name] for name in _sizes(rows)}
    return "\n\n".join(
        (
            _origin(rows, command),
            *(
                _table(rows, alone, cell)
                for cell in (RANKING, PROBABILITY, AT_FEW_LOST)
            ),
            "Digests of the mail, labels included:",
            _digests(rows),
        )
    )


def _sizes(rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of messages of each stream, in the order of the streams."""
    return {row["stream"]: row["ham"] + row["spam"] for row in rows}


def _origin(rows: Sequence[Row], command: str) -> str:
    """Return when, how and of which programs."""
    dates = sorted({row["date"] for row in rows})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    programs = ", ".join(dict.fromkeys(row["program"] for row in rows))
    return f"Run on {when} by `{command}` ({programs})."


def _table(
    rows: Sequence[Row], columns: Mapping[str, Sequence[str]], cell: Cell
) -> str:
    """Return one figure, or two, of each filter in each column.

    Times are in the file of results, not here: trials run for hours beside each
    other, and the machine is not as busy all the time.
    """
    title, text = cell
    sizes = _sizes(rows)
    headings = [title]
    for name, streams in columns.items():
        many = "" if len(streams) == 1 else f", mean of {len(streams)}"
        headings.append(f"{name}{many} ({sum(sizes[each] for each in streams):,})")
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    by_place = {(row["peer"], row["stream"]): row for row in rows}
    for peer in dict.fromkeys(row["peer"] for row in rows):
        cells = []
        for streams in columns.values():
            there = [
                by_place[peer, name] for name in streams if (peer, name) in by_place
            ]
            # The mean of some would look like the mean of all.
            cells.append(text(there) if len(there) == len(streams) else "not run")
        lines.append("| " + " | ".join([peer, *cells]) + " |")
    return "\n".join(lines)


def _digests(rows: Sequence[Row]) -> str:
    """Return the digest of each stream, to sixteen digits."""
    digests = {row["stream"]: row["sha256"][:16] for row in rows}
    lines = [f"{name:26} {digest}" for name, digest in digests.items()]
    return "\n".join(("```text", *lines, "```"))


def write(path: Path, block: str) -> None:
    """Put the tables between their marks in a document.

    Raises
    ------
    ValueError
        If the document has not the two marks.
    """
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{path} must have the marks {BEGIN!r} and {END!r}, each once")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}", encoding="utf-8")
