"""How do numbers stand in a page? Tables, with a heading for each column."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure as text; a dash where it is not defined.

    Examples
    --------
    >>> number(0.09321), number(5172), number(None)
    ('0.093', '5,172', '-')
    """
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: int
) -> str:
    """Return a table that scrolls by itself where the page is narrow.

    Parameters
    ----------
    caption : str
        What it holds.
    headings : sequence of str
        Of the columns.
    rows : iterable of sequence of str
        Plain text, escaped here.
    text : int
        How many of the first columns hold words; the rest are numbers.
    """

    def cell(at: int, content: str, *, heading: str) -> str:
        kind = "" if at < text else ' class="n"'
        if heading:
            return f'<th scope="{heading}"{kind}>{escape(content)}</th>'
        return f"<td{kind}>{escape(content)}</td>"

    def cells(row: Sequence[str]) -> str:
        return "".join(
            cell(at, content, heading="" if at else "row")
            for at, content in enumerate(row)
        )

    head = "".join(
        cell(at, heading, heading="col") for at, heading in enumerate(headings)
    )
    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def numbers(inside: str) -> str:
    """Return a table that is folded away until somebody asks for it."""
    return f"<details><summary>The numbers</summary>{inside}</details>"
