"""Table: a CSV file read whole, within limits."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import MalformedTable, UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# A table for a lecture has a dozen rows. The limits keep a mailbox or a
# database, given by mistake, from filling the memory.
BYTES_LIMIT: Final = 16 * 2**20
"""Size of a file.  Unit: bytes."""
ROWS_LIMIT: Final = 20_000
"""Rows of a table, the header not counted."""
COLUMNS_LIMIT: Final = 64
"""Columns of a table: the moments of *D* measurements take *D* * *D* sums."""
DELIMITERS: Final = ",;\t|"
"""Delimiters: the most frequent one in the header separates the cells."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, or a question that is put like one.

    Parameters
    ----------
    where : str
        Name of the row in a sentence: "row 3".
    cells : mapping of str to str
        The value of each column; unknown cells are left out.
    """

    where: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns, all different.
    rows : tuple of Row
        At least one.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def filled(self, column: str) -> list[str]:
        """Return the cells of a column that are not empty, in row order."""
        return [row.cells[column] for row in self.rows if column in row.cells]

    def require(self, column: str) -> None:
        """Raise if there is no such column.

        Raises
        ------
        MalformedTable
            With the names that there are.
        """
        if column not in self.columns:
            msg = f"there is no column {column!r}; there are {listed(self.columns)}"
            raise MalformedTable(msg)


def read_table(path: Path) -> Table:
    """Return the table in a CSV file.

    Parameters
    ----------
    path : Path
        A file in UTF-8 whose first line names the columns.  Cells are taken
        without the blanks around them; empty lines are passed over.

    Raises
    ------
    UnreadableSource
        If the file cannot be read.
    MalformedTable
        If it is not a table, or too large.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_LIMIT + 1)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise UnreadableSource(msg) from error
    if len(raw) > BYTES_LIMIT:
        msg = f"{path} has more than {BYTES_LIMIT} bytes; take a sample of its rows"
        raise MalformedTable(msg)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8"
        raise MalformedTable(msg) from error
    try:
        return read_text(text)
    except MalformedTable as error:
        msg = f"{path}: {error}"
        raise MalformedTable(msg) from error


def read_text(text: str) -> Table:
    r"""Return the table in the text of a CSV file.

    Raises
    ------
    MalformedTable
        If it is not a table, or too large.

    Examples
    --------
    >>> table = read_text("class;words\nham;do math\nspam;\n")
    >>> table.columns, table.rows[1]
    (('class', 'words'), Row(where='row 2', cells={'class': 'spam'}))
    """
    try:
        lines = _lines(text)
        columns = _header(next(lines, (0, []))[1])
        rows = [
            _row(cells, columns, line=line, number=number)
            for number, (line, cells) in enumerate(lines, start=1)
        ]
    except csv.Error as error:
        msg = f"the table is not well-formed CSV: {error}"
        raise MalformedTable(msg) from error
    if not rows:
        msg = "the table has no rows below its header"
        raise MalformedTable(msg)
    return Table(columns, tuple(rows))


def listed(names: tuple[str, ...]) -> str:
    """Return names as a sentence lists them."""
    return ", ".join(repr(name) for name in names) or "none"


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not empty."""
    header = text.lstrip("\r\n").partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text, newline=""),
        # Not csv.Sniffer: it takes a letter for the delimiter of a single column.
        delimiter=max(DELIMITERS, key=header.count),
        skipinitialspace=True,
        strict=True,
    )
    for cells in reader:
        if cells:
            yield reader.line_num, [cell.strip() for cell in cells]


def _header(columns: list[str]) -> tuple[str, ...]:
    if not columns:
        msg = "the table is empty; its first line names the columns"
        raise MalformedTable(msg)
    if len(columns) > COLUMNS_LIMIT:
        msg = f"the table has {len(columns)} columns; at most {COLUMNS_LIMIT} are read"
        raise MalformedTable(msg)
    for place, name in enumerate(columns):
        if not name:
            msg = f"column {place + 1} has no name in the first line"
            raise MalformedTable(msg)
        if name in columns[:place]:
            msg = f"two columns have the name {name!r}"
            raise MalformedTable(msg)
    return tuple(columns)


def _row(cells: list[str], columns: tuple[str, ...], *, line: int, number: int) -> Row:
    if number > ROWS_LIMIT:
        msg = f"the table has more than {ROWS_LIMIT} rows; take a sample of them"
        raise MalformedTable(msg)
    if len(cells) != len(columns):
        msg = (
            f"the row that ends in line {line} has {len(cells)} cells, but there are "
            f"{len(columns)} columns; leave a cell empty where nothing is known"
        )
        raise MalformedTable(msg)
    pairs = zip(columns, cells, strict=True)
    return Row(f"row {number}", {name: cell for name, cell in pairs if cell})
