"""Table: a CSV file, the kinds of its columns, and questions as rows."""

from __future__ import annotations

import csv
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from app.errors import MalformedTable, UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# A table for a lecture has a dozen rows. The limits keep a mailbox or a
# database, given by mistake, from filling the memory.
BYTES_LIMIT: Final = 16 * 2**20
"""Size of a file.  Unit: bytes."""
ROWS_LIMIT: Final = 20_000
"""Largest number of rows, without the header."""
COLUMNS_LIMIT: Final = 64
"""Columns of a table: the moments of *D* measurements take *D* * *D* sums."""
DELIMITERS: Final = ",;\t|"
"""Delimiters: the most frequent one in the header separates the cells."""
_QUOTED: Final = re.compile('"[^"]*"')


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


def read_table(path: Path) -> Table:
    """Return the table in a CSV file.

    Parameters
    ----------
    path : Path
        A file in UTF-8 whose first line names the columns.  Blanks around cells and
        empty lines are ignored.

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
        raise UnreadableSource(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > BYTES_LIMIT:
        msg = f"{path} has more than {BYTES_LIMIT} bytes; take a sample of its rows"
        raise MalformedTable(msg)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8"
        raise MalformedTable(msg) from error
    with named(path):
        return read_text(text)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Put the name of a file before the errors about its table."""
    try:
        yield
    except MalformedTable as error:
        raise MalformedTable(f"{path}: {error}") from error


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
        raise MalformedTable(f"the table is not well-formed CSV: {error}") from error
    if not rows:
        raise MalformedTable("the table has no rows below its header")
    return Table(columns, tuple(rows))


def listed(names: Sequence[str]) -> str:
    """Return a list of names for a sentence."""
    return ", ".join(repr(name) for name in names) or "none"


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each line that is not empty."""
    header = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
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
        raise MalformedTable("the table is empty; its first line names the columns")
    if len(columns) > COLUMNS_LIMIT:
        msg = f"the table has {len(columns)} columns; at most {COLUMNS_LIMIT} are read"
        raise MalformedTable(msg)
    for place, name in enumerate(columns):
        if not name:
            raise MalformedTable(f"column {place + 1} has no name in the first line")
        if name in columns[:place]:
            raise MalformedTable(f"two columns have the name {name!r}")
    return tuple(columns)


def _row(cells: list[str], columns: tuple[str, ...], *, line: int, number: int) -> Row:
    if number > ROWS_LIMIT:
        msg = f"the table has more than {ROWS_LIMIT} rows; take a sample of them"
        raise MalformedTable(msg)
    if len(cells) != len(columns):
        raise MalformedTable(
            f"the row that ends in line {line} has {len(cells)} cells, but there are "
            f"{len(columns)} columns; leave a cell empty if its value is unknown"
        )
    pairs = zip(columns, cells, strict=True)
    return Row(f"row {number}", {name: cell for name, cell in pairs if cell})


# With fewer rows, a column of different values need not be one of names.
NAMES: Final = 20
"""Rows from which on a column of different words is a column of names."""
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,9}", re.ASCII)


class Kind(StrEnum):
    """The kind of the cells of a column."""

    MEASUREMENT = "measurement"
    CATEGORY = "category"
    TEXT = "text"
    COUNT = "count"


class Model(StrEnum):
    """The event model that is asked for, or logistic regression."""

    AUTO = "auto"
    CATEGORICAL = "categorical"
    GAUSSIAN = "gaussian"
    DISCRIMINANT = "discriminant"
    BERNOULLI = "bernoulli"
    MULTINOMIAL = "multinomial"
    MIXED = "mixed"
    LOGISTIC = "logistic"


_WORDS: Final = frozenset({Kind.TEXT, Kind.COUNT})
_ALL: Final = frozenset(Kind)
TAKES: Final = {
    Model.AUTO: _ALL,
    Model.CATEGORICAL: frozenset({Kind.CATEGORY}),
    Model.GAUSSIAN: frozenset({Kind.MEASUREMENT}),
    Model.DISCRIMINANT: frozenset({Kind.MEASUREMENT}),
    Model.BERNOULLI: _WORDS,
    Model.MULTINOMIAL: _WORDS,
    Model.MIXED: _ALL,
    Model.LOGISTIC: _ALL,
}
"""The kinds of columns that each model takes."""


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, written with a point.

    Examples
    --------
    >>> [is_number(cell) for cell in ("-1.5e3", ".5", "1,5", "1_000", "nan")]
    [True, True, False, False, False]
    """
    return _NUMBER.fullmatch(cell) is not None


def with_point(cell: str) -> str | None:
    """Return a number that is written with a decimal comma with a point, or None.

    Examples
    --------
    >>> [with_point(cell) for cell in ("-1,5", "1.5", "1,000,000", "a,5")]
    ['-1.5', None, None, None]
    """
    pointed = cell.replace(",", ".", 1)
    return pointed if pointed != cell and is_number(pointed) else None


def is_count(cell: str) -> bool:
    """Return whether a cell is a whole number from 0, below 10**9."""
    return _COUNT.fullmatch(cell) is not None


def with_comma(row: Row, column: str) -> str:
    """Return the sentence for a cell with a decimal comma."""
    cell = row.cells[column]
    return (
        f"{row.where}: column {column!r} holds {cell!r}, a number with a decimal "
        f"comma; write it with a point, as {with_point(cell)}"
    )


def kind_of(column: str, table: Table, *, model: Model) -> Kind:
    """Return the kind of a column for a model, by the look of its cells.

    Parameters
    ----------
    column : str
        A column with at least one cell that is not empty.
    table : Table
        The table.
    model : Model
        The model that takes the column.

    Raises
    ------
    MalformedTable
        If the model cannot take the column.

    Notes
    -----
    Numbers are measurements, unless all of them are 0 and 1; they are written with a
    point, and a column with decimal commas is refused.  Columns in
    which most cells are different and of more than one word are text.  All others
    are categories.
    """
    cells = table.filled(column)
    if model in {Model.GAUSSIAN, Model.DISCRIMINANT}:
        return Kind.MEASUREMENT
    if model in {Model.BERNOULLI, Model.MULTINOMIAL}:
        return _words(column, cells, model)
    kind = Kind.CATEGORY if model is Model.CATEGORICAL else _guess(column, table)
    if kind is Kind.CATEGORY:
        _require_categories(column, cells, model)
    return kind


def _words(column: str, cells: Sequence[str], model: Model) -> Kind:
    if all(is_count(cell) for cell in cells):
        return Kind.COUNT
    if all(is_number(cell) or with_point(cell) for cell in cells):
        wrong = next(cell for cell in cells if not is_count(cell))
        raise MalformedTable(
            f"column {column!r} holds {wrong!r}, but the {model} model takes text, or "
            "how often a word occurs; --model mixed takes measurements"
        )
    return Kind.TEXT


def _guess(column: str, table: Table) -> Kind:
    cells = table.filled(column)
    numbers = sum(is_number(cell) for cell in cells)
    if numbers == len(cells):
        return Kind.CATEGORY if set(cells) <= {"0", "1"} else Kind.MEASUREMENT
    commas = [r for r in table.rows if with_point(r.cells.get(column, ""))]
    if 2 * (numbers + len(commas)) > len(cells) and commas:
        # Not a category, which would be learned without a word.
        raise MalformedTable(
            f"{with_comma(commas[0], column)}; for values without an order, use "
            f'--as "{column}=category"'
        )
    if 2 * numbers > len(cells):
        wrong = next(cell for cell in cells if not is_number(cell))
        raise MalformedTable(
            f"column {column!r} is neither numbers nor categories: {numbers} of its "
            f"{len(cells)} values are numbers, but {wrong!r} is not; leave the cell "
            f'empty if the number is unknown, or use --as "{column}=category"'
        )
    return Kind.TEXT if _is_text(cells) else Kind.CATEGORY


def _is_text(cells: Sequence[str]) -> bool:
    longer = sum(len(cell.split()) > 1 for cell in cells)
    return 2 * longer > len(cells) and 2 * len(set(cells)) > len(cells)


def _require_categories(column: str, cells: Sequence[str], model: Model) -> None:
    if all(is_number(cell) for cell in cells):
        return
    way_out = f'leave it out with --columns, or use --as "{column}=category"'
    if model is not Model.CATEGORICAL:
        way_out += f' or --as "{column}=text"'
    if _is_text(cells):
        raise MalformedTable(f"column {column!r} holds text, not categories; {way_out}")
    if len(cells) > NAMES and len(set(cells)) == len(cells):
        raise MalformedTable(
            f"column {column!r} is neither numbers nor categories: its {len(cells)} "
            f"values are all different, like names; {way_out}"
        )


def question(text: str, columns: Sequence[str]) -> Row:
    r"""Return the row that a question spells out.

    Parameters
    ----------
    text : str
        ``column=value`` with commas between; a value with a comma in it takes
        double quotes around both.  Columns that are not named are not known.
    columns : sequence of str
        The columns that there are.

    Raises
    ------
    MalformedTable
        If it is not of this form, or names another column.

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
            raise MalformedTable(
                f"{part!r} in the question {text!r} is not of the form column=value; "
                "a number is written with a point, like 1.5"
            )
        require(name, columns, " to predict from")
        if name in cells:
            raise MalformedTable(f"the question {text!r} has two values for {name!r}")
        cells[name] = value
    filled = {name: value for name, value in cells.items() if value}
    return Row(f"the question {text!r}", filled)


def questions(table: Table, columns: Sequence[str], *, target: str) -> tuple[Row, ...]:
    """Return the rows of a table of questions; they may have their class.

    Raises
    ------
    MalformedTable
        If it has a column that the training table has not.
    """
    for name in table.columns:
        if name != target:
            require(name, columns, " to predict from")
    return table.rows


def require(name: str, columns: Sequence[str], use: str = "") -> None:
    """Raise if there is no such column.

    Raises
    ------
    MalformedTable
        With the use of the column, if any, and the names that there are.
    """
    if name not in columns:
        msg = f"there is no column {name!r}{use}; there are {listed(columns)}"
        raise MalformedTable(msg)
