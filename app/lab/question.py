"""Which rows are to be predicted?"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from app.errors import MalformedTable
from app.lab.table import Row, Table, listed

if TYPE_CHECKING:
    from collections.abc import Sequence


def question(text: str, columns: Sequence[str]) -> Row:
    r"""Return the row that a question spells out.

    Parameters
    ----------
    text : str
        ``column=value`` with commas between; a value with a comma in it takes
        double quotes around both.  What is not named is not known.
    columns : sequence of str
        The columns that there are.

    Raises
    ------
    MalformedTable
        If it is no such text, or names another column.

    Examples
    --------
    >>> question('sore=mild, "text=Buy, now"', ("sore", "text")).cells
    {'sore': 'mild', 'text': 'Buy, now'}
    """
    try:
        parts = next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        msg = f"the question {text!r} is not well-formed: {error}"
        raise MalformedTable(msg) from error
    cells: dict[str, str] = {}
    for part in parts:
        if not part.strip():
            continue
        name, given, value = (word.strip() for word in part.partition("="))
        if not given:
            msg = f"{part!r} in the question {text!r} is not of the form column=value"
            raise MalformedTable(msg)
        _require(name, columns)
        if name in cells:
            msg = f"the question {text!r} has two values for {name!r}"
            raise MalformedTable(msg)
        cells[name] = value
    known = {name: value for name, value in cells.items() if value}
    return Row(f"the question {text!r}", known)


def questions(table: Table, columns: Sequence[str], *, target: str) -> tuple[Row, ...]:
    """Return the rows of a table of questions; they may have their class.

    Raises
    ------
    MalformedTable
        If it has a column that the training table has not.
    """
    for name in table.columns:
        if name != target:
            _require(name, columns)
    return table.rows


def _require(name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        msg = f"a question has the column {name!r}; there are {listed(tuple(columns))}"
        raise MalformedTable(msg)
