"""Markup: tables, figures and whole pages of HTML."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from app.drawing.svg import legend

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def html(title: str, main: str) -> str:
    """Return a page that loads nothing from anywhere.

    Parameters
    ----------
    title : str
        Plain text.
    main : str
        Its contents; markup.
    """
    style = files("app.drawing").joinpath("style.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        # Nothing is loaded, and the policy of the page forbids it.
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main>{main}</main></body></html>\n"
    )


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
        Its caption.
    headings : sequence of str
        Headings of the columns.
    rows : iterable of sequence of str
        Plain text, escaped here.
    text : int
        Number of first columns that hold words; the others hold numbers.
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


SERIES: Final = 6
"""Lines that can be distinguished; the classes repeat after them."""


def series(at: int) -> str:
    """Return the class of a line by its number."""
    return f"s{at % SERIES}"


def figure(
    heading: str,
    says: str,
    drawing: str,
    names: Sequence[tuple[str, str]],
    numbers_table: str,
) -> str:
    """Return a figure.

    Parameters
    ----------
    heading, says : str
        Its subject, and how it is read.
    drawing : str
        Markup.
    names : sequence of (str, str)
        Names of its lines, with their classes.
    numbers_table : str
        The same in numbers; markup.
    """
    return (
        f"<figure><h3>{escape(heading)}</h3><p>{escape(says)}</p>"
        f"{legend(names)}{drawing}<details><summary>The numbers</summary>"
        f"{numbers_table}</details></figure>"
    )
