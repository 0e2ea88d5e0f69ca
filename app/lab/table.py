"""Table: a CSV file read whole, its kinds of columns, and exact arithmetic on them.

Contract of this file: it decides nothing.  A group reads cells, hands them to a model
of `app.bayes`, and shows the numbers that the model learned and added.  Scores,
posteriors and decisions are those of `app.bayes`; the arithmetic here is the same on
rational numbers, for reading, and the tests compare the two.
"""

from __future__ import annotations

import csv
import io
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.errors import MalformedTable, UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions
    from app.bayes.linear import LinearForm
    from app.bayes.moments import MomentSums

Rule = Lidstone | Epsilon | NoSmoothing
"""The smoothings that have an exact form."""
ClassPrior = FittedPrior | SmoothedPrior | UniformPrior | FixedPrior
"""The priors that have an exact form."""
WRITTEN_CHARS: Final = 32
"""Length up to which a fraction is written out; nobody reads a longer one."""
FACTORS: Final = 500
"""Factors up to which a product is computed exactly: its digits add up."""
_SMALL: Final = 10**6
TELLS_FROM_1: Final = 5e-5
"""What is closer to 1 would be rounded to it, with four digits."""
SMALLEST_WRITTEN_OUT: Final = 1e-9
"""What is closer to 1 is written as a difference: nobody counts nines."""
SMALLEST_EXPONENT: Final = -700.0
"""What is below has no double whose digits all count."""
TELLS_FROM_1_ABOVE: Final = 5e-4


@dataclass(frozen=True, slots=True)
class Share:
    """A quotient that is not reduced: ``3/6`` says more than ``1/2``.

    Parameters
    ----------
    numerator, denominator : Fraction
        Counts, with pseudo-counts added.

    Examples
    --------
    >>> str(Share(Fraction(3), Fraction(6))), Share(Fraction(3), Fraction(6)).value
    ('3/6', Fraction(1, 2))
    """

    numerator: Fraction
    denominator: Fraction

    @property
    def value(self) -> Fraction:
        """The number; 0 where nothing was counted."""
        if not self.denominator:
            return Fraction(0)
        return self.numerator / self.denominator

    def __str__(self) -> str:
        """Return the quotient as it was counted, if whole numbers were."""
        integers = self.numerator.denominator == self.denominator.denominator == 1
        return f"{self.numerator}/{self.denominator}" if integers else str(self.value)


def rational(number: float) -> Fraction:
    """Return the fraction that a float was written as.

    Examples
    --------
    >>> rational(1 / 3), rational(0.1), rational(1e-7)
    (Fraction(1, 3), Fraction(1, 10), Fraction(1, 10000000))
    """
    near = Fraction(number).limit_denominator(_SMALL)
    return near if float(near) == number else Fraction(repr(number))


def share(smoothing: Rule, *, count: int, total: int, n_values: int) -> Share:
    """Return the smoothed probability of a count.

    Examples
    --------
    >>> str(share(Lidstone(1.0), count=2, total=3, n_values=3))
    '3/6'
    >>> str(share(Epsilon(0.01), count=0, total=3, n_values=3))
    '1/100'
    """
    if isinstance(smoothing, Lidstone):
        alpha = rational(smoothing.alpha)
        return Share(count + alpha, total + alpha * n_values)
    if isinstance(smoothing, Epsilon) and not count:
        return Share(rational(smoothing.epsilon), Fraction(1))
    return Share(Fraction(count), Fraction(total))


def prior_shares(prior: ClassPrior, messages: Sequence[int]) -> tuple[Share, ...]:
    """Return the prior of each class.

    Examples
    --------
    >>> [str(p) for p in prior_shares(SmoothedPrior(1.0), [3, 2])]
    ['4/7', '3/7']
    """
    k, n = len(messages), sum(messages)
    if isinstance(prior, FixedPrior):
        stated = [rational(p) for p in prior.probabilities]
        return tuple(Share(p, Fraction(1)) for p in stated)
    if isinstance(prior, UniformPrior):
        return (Share(Fraction(1), Fraction(k)),) * k
    alpha = rational(prior.alpha) if isinstance(prior, SmoothedPrior) else Fraction(0)
    return tuple(Share(m + alpha, n + alpha * k) for m in messages)


def written(number: Fraction | Share | None) -> str | None:
    """Return a fraction as text, None where there is none or it is too long."""
    text = str(number)
    return None if number is None or len(text) > WRITTEN_CHARS else text


def posterior(joint: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the joint divided by its sum; uniform where all of it is zero."""
    total = sum(joint)
    if not total:
        return (Fraction(1, len(joint)),) * len(joint)
    return tuple(j / total for j in joint)


def probability(exact: str | None, logs: NDArray[np.float64], c: int) -> str:
    """Return a probability; as a power where a double has neither it nor the rest."""
    rest = float(np.logaddexp.reduce(np.delete(logs, c)))
    for log, before in ((float(logs[c]), ""), (rest, "1 - ")):
        if exact is None and -math.inf < log < SMALLEST_EXPONENT:
            return before + power(log)
    return with_decimals(exact, math.exp(logs[c]), rest=math.exp(min(rest, 0.0)))


def with_decimals(
    fraction: str | None, value: float, *, rest: float | None = None
) -> str:
    """Return a fraction and its decimals; the one alone where it says it all."""
    decimals = four_digits(value, 1 - value if rest is None else rest)
    if fraction is None:
        return decimals
    return f"{fraction} ({decimals})" if "/" in fraction else fraction


def four_digits(value: float, rest: float) -> str:
    """Return a number with four digits, or with as many as tell it from 1.

    Examples
    --------
    >>> four_digits(0.99996, 4e-5), four_digits(1.0, 1e-20), four_digits(1.0, 0.0)
    ('0.99996', '1 - 1e-20', '1')
    >>> four_digits(1.0005, -0.0005), four_digits(1.00002, -0.00002)
    ('1.0005', '1.00002')
    """
    above = -TELLS_FROM_1_ABOVE <= rest < -SMALLEST_WRITTEN_OUT
    if not (above or 0 < rest < TELLS_FROM_1):
        return f"{value:.4g}"
    if 0 < rest < SMALLEST_WRITTEN_OUT:
        return f"1 - {rest:.2g}"
    return f"{value:.{-math.floor(math.log10(abs(rest)))}f}"


def power(nats: float) -> str:
    """Return the number that has a logarithm, of whatever size."""
    return "0" if nats == -math.inf else f"exp({nats:.4f})"


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
        raise UnreadableSource(f"{path} cannot be read: {error.strerror}") from error
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
            raise MalformedTable(f"column {place + 1} has no name in the first line")
        if name in columns[:place]:
            raise MalformedTable(f"two columns have the name {name!r}")
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


@dataclass(frozen=True, slots=True)
class Number:
    """A learned number.

    Parameters
    ----------
    value : float
        As `app.bayes` has it.
    fraction : str or None
        Exactly, where it is exact and short.
    note : str or None
        A remark for the reader; None where there is nothing to remark.
    """

    value: float
    fraction: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class LearnedTable:
    """A table of learned numbers.

    Parameters
    ----------
    title : str
        Name of the numbers: "P(cough | diagnosis)".
    header : tuple of str
        Names of the columns: mostly the classes.
    rows : tuple of (str, tuple of Number)
        Name and numbers of each row.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Number, ...]], ...]


@dataclass(frozen=True, slots=True)
class RowTerm:
    """One summand of the score of a row, for each class.

    Parameters
    ----------
    column : str
        The column that it comes from.
    feature : str
        Its value, or its word.
    nats : ndarray of float64, shape (K,)
        Unit: nats.
    seen : bool
        Whether it takes part: training has seen it, or it is declared.  If not, it
        adds 0.
    """

    column: str
    feature: str
    nats: NDArray[np.float64]
    seen: bool


class ColumnGroup(ABC):
    """Columns of a table under one event model.

    Attributes
    ----------
    model : str
        Name of the event model.
    columns : tuple of str
        Names of the columns.
    """

    __slots__ = ()
    statistics: ClassVar[type[FeatureCounts | MomentSums]] = FeatureCounts
    model: str
    columns: tuple[str, ...]

    @property
    @abstractmethod
    def event_model(self) -> Any:
        """The model of `app.bayes`: observe and estimate."""

    def estimate(self, state: Any) -> Any:
        """Return the likelihood under a training state."""
        return self.event_model.estimate(state)

    @property
    def closed(self) -> bool:
        """Whether the words are those that were declared."""
        return False

    @property
    def constant_term(self) -> tuple[str, str] | None:
        """Column and feature of the summand of every row; None if there is none."""
        return None

    @abstractmethod
    def encode(self, row: Row) -> Any | None:
        """Return the cells of a row as the event model takes them.

        None where none of them is known.

        Raises
        ------
        MalformedTable
            If a cell is not of the kind of its column.
        """

    @abstractmethod
    def learned(
        self, state: Any, likelihood: Any, classes: Sequence[str]
    ) -> list[LearnedTable]:
        """Return the learned numbers as tables."""

    @abstractmethod
    def feature(self, number: int, row: Row) -> tuple[str, str]:
        """Return the column of a feature of a row, and its value or word."""

    @property
    @abstractmethod
    def coordinates(self) -> Mapping[int, str]:
        """The features that a linear form may have a weight for, by their id."""

    @property
    def baseline(self) -> frozenset[int]:
        """The features that the others of their column already tell."""
        return frozenset()

    @abstractmethod
    def form(self, state: Any, likelihood: Any) -> LinearForm | None:
        """Return the linear form of the log-likelihood, None where there is none."""

    def values_of(self, x: Any) -> NDArray[np.float64]:
        """Return what the weights of a row's features are multiplied by."""
        values: NDArray[np.float64] = x.values.astype(np.float64)
        return values

    def total(self, states: Iterable[Any], *, n_classes: int) -> Any:
        """Return the sum of training states."""
        return self.statistics.sum(states, n_classes=n_classes)

    def terms(self, row: Row, x: Any, contributions: Contributions) -> list[RowTerm]:
        """Return the summands of the log-likelihood of a row."""
        terms = []
        if self.constant_term is not None:
            terms.append(
                RowTerm(*self.constant_term, contributions.constant, seen=True)
            )
        return terms + [
            RowTerm(*self.feature(number, row), nats, bool(seen))
            for number, nats, seen in zip(
                x.ids.tolist(), contributions.features, contributions.seen, strict=True
            )
        ]

    def dropped(self, likelihood: Any) -> tuple[list[str], str]:  # noqa: ARG002
        """Return the columns that the model left out, and why."""
        return [], ""

    def notes(self, state: Any, likelihood: Any) -> list[str]:  # noqa: ARG002
        """Return sentences about what the model changed."""
        return []

    def unknown_words(self, row: Row) -> list[str]:  # noqa: ARG002
        """Return the words of a row that the table lacks."""
        return []

    def factors(
        self,
        state: Any,  # noqa: ARG002
        x: Any,  # noqa: ARG002
        *,
        n_classes: int,  # noqa: ARG002
    ) -> list[list[Fraction]] | None:
        """Return the exact factors of the likelihood in each class.

        None where they are not rational, or too many.
        """
        return None


# Below it, a column of names can be a column of values that are all different.
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


def is_count(cell: str) -> bool:
    """Return whether a cell is a whole number from 0, below 10**9."""
    return _COUNT.fullmatch(cell) is not None


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
    Numbers are measurements, unless all of them are 0 and 1.  Columns in
    which most cells are different and of more than one word are text.  All others
    are categories.
    """
    cells = table.filled(column)
    if model in {Model.GAUSSIAN, Model.DISCRIMINANT}:
        return Kind.MEASUREMENT
    if model in {Model.BERNOULLI, Model.MULTINOMIAL}:
        return _words(column, cells, model)
    kind = Kind.CATEGORY if model is Model.CATEGORICAL else _guess(column, cells)
    if kind is Kind.CATEGORY:
        _require_categories(column, cells, model)
    return kind


def _words(column: str, cells: Sequence[str], model: Model) -> Kind:
    if all(is_count(cell) for cell in cells):
        return Kind.COUNT
    if all(is_number(cell) for cell in cells):
        wrong = next(cell for cell in cells if not is_count(cell))
        msg = (
            f"column {column!r} holds {wrong!r}, but the {model} model takes text, or "
            "how often a word occurs; --model mixed takes measurements"
        )
        raise MalformedTable(msg)
    return Kind.TEXT


def _guess(column: str, cells: Sequence[str]) -> Kind:
    numbers = sum(is_number(cell) for cell in cells)
    if numbers == len(cells):
        return Kind.CATEGORY if set(cells) <= {"0", "1"} else Kind.MEASUREMENT
    if 2 * numbers > len(cells):
        wrong = next(cell for cell in cells if not is_number(cell))
        msg = (
            f"column {column!r} is neither: {numbers} of its {len(cells)} values are "
            f"numbers, but {wrong!r} is none; leave the cell empty if the number is "
            f'not known, or say --as "{column}=category"'
        )
        raise MalformedTable(msg)
    return Kind.TEXT if _is_text(cells) else Kind.CATEGORY


def _is_text(cells: Sequence[str]) -> bool:
    longer = sum(len(cell.split()) > 1 for cell in cells)
    return 2 * longer > len(cells) and 2 * len(set(cells)) > len(cells)


def _require_categories(column: str, cells: Sequence[str], model: Model) -> None:
    if all(is_number(cell) for cell in cells):
        return
    way_out = (
        f'leave it out with --columns, or say --as "{column}=category" '
        f'or --as "{column}=text"'
    )
    if model is Model.CATEGORICAL:
        way_out = f'leave it out with --columns, or say --as "{column}=category"'
    if _is_text(cells):
        raise MalformedTable(f"column {column!r} holds text, not categories; {way_out}")
    if len(cells) > NAMES and len(set(cells)) == len(cells):
        msg = (
            f"column {column!r} is neither numbers nor categories: its {len(cells)} "
            f"values are all different, like names; {way_out}"
        )
        raise MalformedTable(msg)


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
            msg = f"{part!r} in the question {text!r} is not of the form column=value"
            raise MalformedTable(msg)
        _require(name, columns)
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
            _require(name, columns)
    return table.rows


def _require(name: str, columns: Sequence[str]) -> None:
    if name not in columns:
        msg = f"a question has the column {name!r}; there are {listed(tuple(columns))}"
        raise MalformedTable(msg)
