"""How does a diagram stand in the page? With a heading, a legend and its numbers."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from app.evaluation.report_page.svg import legend
from app.evaluation.report_page.tables import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

SERIES: Final = 6
"""Lines that can be told apart; the classes repeat after them."""


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
        What it shows, and how it is read.
    drawing : str
        Markup.
    names : sequence of (str, str)
        What its lines are, with their classes.
    numbers_table : str
        The same in numbers; markup.
    """
    return (
        f"<figure><h3>{escape(heading)}</h3><p>{escape(says)}</p>"
        f"{legend(names)}{drawing}{numbers(numbers_table)}</figure>"
    )
