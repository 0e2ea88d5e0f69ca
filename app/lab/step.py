"""How fine are the steps in which the measurements of a table are kept?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from app.errors import MalformedTable
from app.lab.kinds import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.lab.table import Row, Table

# A question may be a thousand times what the table holds.
VALUE_BITS: Final = 37
"""Bits of the largest value of a table in fixed point; LIMIT has ten more."""

MOST_BITS: Final = 200
"""Largest position of the binary point; beyond, its square is no double."""

LEAST_STEPS: Final = 2**12
"""Steps that the values of a column must span: its figures have four digits."""


def fraction_bits(columns: Sequence[str], table: Table) -> int:
    """Return the position of the binary point that the largest value allows.

    Parameters
    ----------
    columns : sequence of str
        Columns of measurements, each with some value.
    table : Table
        The table.

    Raises
    ------
    MalformedTable
        If a cell is no number, or the columns' units are too far apart.
    """
    values = {
        column: [number(row, column) for row in table.rows if column in row.cells]
        for column in columns
    }
    largest = max(abs(v) for found in values.values() for v in found)
    if not largest < 2.0**VALUE_BITS:
        msg = (
            f"{largest:g} is too large; give its column in a larger unit, so that "
            f"values stay below {2.0**VALUE_BITS:g}"
        )
        raise MalformedTable(msg)
    bits = min(MOST_BITS, VALUE_BITS - math.frexp(largest)[1])
    for column, found in values.items():
        span = max(found) - min(found)
        if span and math.ldexp(span, bits) < LEAST_STEPS:
            msg = (
                f"column {column!r} varies by {span:g} only, beside values up to "
                f"{largest:g}; give the columns in units that are closer"
            )
            raise MalformedTable(msg)
    return bits


def number(row: Row, column: str) -> float:
    """Return the number in a cell.

    Raises
    ------
    MalformedTable
        If it is none.
    """
    cell = row.cells[column]
    if not is_number(cell):
        msg = (
            f"{row.where}: column {column!r} holds {cell!r}, which is no number like "
            "3.5; leave it empty if it is not known, leave the column out with "
            "--columns, or take --model mixed"
        )
        raise MalformedTable(msg)
    return float(cell)
