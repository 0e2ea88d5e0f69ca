"""Design: columns assigned to event models, with smoothing and prior."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.errors import InvalidObservation, MalformedTable
from app.features.tokens import of_text
from app.lab.counted import Bag, Categories
from app.lab.groups import Choices
from app.lab.measured import Measured, scale_of
from app.lab.table import TAKES, Kind, Model, Table, is_number, kind_of, require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.bayes.models.gaussian import Constant
    from app.bayes.prior import Prior
    from app.bayes.smoothing import Smoothing
    from app.lab.groups import ColumnGroup
    from app.lab.table import Row

CLASSES_LIMIT: Final = 20
"""Largest number of classes; a column with more is a measurement or a name."""
SMALLEST_ADDED: Final = 1e-30
LARGEST_ADDED: Final = 1e30
"""Largest constant for a variance; the values of columns are below 1e11."""


@dataclass(frozen=True, slots=True)
class Design:
    """A table, read as labelled examples.

    Parameters
    ----------
    choices : Choices
        The choices of the user.
    classes : tuple of str
        The values of the target, numbers by size and others by name.
    kinds : mapping of str to Kind
        The columns that teach, and their kinds.
    parts : mapping of str to ColumnGroup
        The columns by event model.
    examples : tuple of (dict, int)
        Views of each row with a class, and the class.
    rows : tuple of Row
        Those rows.
    notes : tuple of str
        Sentences about rows, cells and columns that were left out.
    empty : tuple of str
        Columns without any known value, which teach nothing.
    """

    choices: Choices
    classes: tuple[str, ...]
    kinds: Mapping[str, Kind]
    parts: Mapping[str, ColumnGroup]
    examples: tuple[tuple[dict[str, Any], int], ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    empty: tuple[str, ...]

    @property
    def target(self) -> str:
        """The column that is to be predicted."""
        return self.choices.target

    @property
    def logistic(self) -> bool:
        """Whether it is for logistic regression."""
        return self.choices.model is Model.LOGISTIC

    def model(self, column: str) -> str:
        """Return the name of the event model of a column."""
        if self.logistic:
            return str(Model.LOGISTIC)
        return next(p.model for p in self.parts.values() if column in p.columns)

    def encode(self, row: Row) -> dict[str, Any]:
        """Return the views of a row; unknown cells are in none of them.

        Raises
        ------
        MalformedTable
            If a cell is not of the kind of its column.
        """
        views = {name: part.encode(row) for name, part in self.parts.items()}
        return {name: x for name, x in views.items() if x is not None}


def design(table: Table, choices: Choices) -> Design:
    """Return the design of a table for the choices of a user.

    Raises
    ------
    MalformedTable
        If a column is missing or does not fit, or the target has fewer than two
        classes.
    """
    target = choices.target
    classes = _classes(table, target)
    columns = _columns(table, choices)
    _require_effect(choices)
    rows = tuple(row for row in table.rows if target in row.cells)
    notes = _left_out(table, columns, target)
    if choices.model is Model.LOGISTIC:
        whole = tuple(row for row in rows if row.cells.keys() >= set(columns))
        notes = (
            f"Logistic regression needs complete rows: {len(rows) - len(whole)} of "
            f"{len(rows)} have an empty cell and teach nothing.",
        ) * (len(whole) < len(rows))
        rows = whole
    labelled = Table(table.columns, rows)
    kinds = {
        column: _kind(column, labelled, choices)
        for column in columns
        if labelled.filled(column) or column in choices.values
    }
    parts = _parts(kinds, labelled, choices)
    empty = tuple(column for column in columns if column not in kinds)
    plan = Design(choices, classes, kinds, parts, (), rows, notes, empty)
    labels = [classes.index(row.cells[target]) for row in rows]
    return replace(
        plan, examples=tuple(zip(map(plan.encode, rows), labels, strict=True))
    )


def _require_effect(choices: Choices) -> None:
    """Refuse options that would have no effect."""
    model, plain = choices.model, Choices(target=choices.target)
    for option, what, takes in (
        ("prior", "class prior", None),
        ("smoothing", "pseudo-counts", None),
        ("variances", "variances", "gaussian"),
        ("constant", "variances", None),
        ("deviation", None, "logistic"),
        ("shrinkage", None, "discriminant"),
    ):
        if getattr(choices, option) == getattr(plain, option):
            continue
        if what and model is Model.LOGISTIC:
            msg = f"logistic regression has no {what}; leave out --{option}"
            raise InvalidObservation(msg)
        mixed = takes == Model.GAUSSIAN and model in {Model.AUTO, Model.MIXED}
        if takes not in {None, model} and not mixed:
            msg = f"--{option} is for --model {takes}, not {model}; leave it out"
            raise InvalidObservation(msg)


def _classes(table: Table, target: str) -> tuple[str, ...]:
    """Return the values of the target."""
    require(target, table.columns)
    found = sorted(set(table.filled(target)))
    if len(found) < 2:  # noqa: PLR2004  two are the fewest to choose from
        has = f"one class only, {found[0]!r}" if found else "no value in any row"
        raise MalformedTable(
            f"the target {target!r} has {has}; naive Bayes chooses between two or more"
        )
    if len(found) > CLASSES_LIMIT:
        raise MalformedTable(
            f"the target {target!r} has {len(found)} different values, and the limit "
            f"for classes is {CLASSES_LIMIT}; group them first"
        )
    if all(is_number(name) for name in found):
        found.sort(key=float)
    return tuple(found)


def _columns(table: Table, choices: Choices) -> tuple[str, ...]:
    """Return the columns that teach."""
    chosen = choices.columns
    if chosen is None:
        chosen = tuple(c for c in table.columns if c != choices.target)
    for column in (*chosen, *choices.kinds, *choices.values):
        require(column, table.columns)
    for option, named in (("--as", choices.kinds), ("--values", choices.values)):
        for column in named:
            if column not in chosen:
                raise MalformedTable(
                    f"{option} names {column!r}, which is not among the columns that "
                    "teach"
                )
    if choices.target in chosen:
        msg = f"{choices.target!r} is the target; it cannot be a column that teaches"
        raise MalformedTable(msg)
    return tuple(c for c in table.columns if c in chosen)


def _left_out(table: Table, columns: tuple[str, ...], target: str) -> tuple[str, ...]:
    """Return sentences about rows and cells that are left out."""
    labelled = [row for row in table.rows if target in row.cells]
    missing = Counter(c for row in labelled for c in columns if c not in row.cells)
    notes = []
    unlabelled = len(table.rows) - len(labelled)
    if unlabelled:
        notes.append(f"{unlabelled} of the rows have no {target} and teach nothing.")
    some = [f"{c} ({n})" for c, n in missing.items() if n < len(labelled)]
    if some:
        notes.append(
            "An empty cell means unknown and is left out: " + ", ".join(some) + "."
        )
    none = [c for c, n in missing.items() if n == len(labelled)]
    if none:
        notes.append("Without any known value: " + ", ".join(none) + ".")
    if len(none) == len(columns):
        notes.append("No column teaches anything, so the prior decides.")
    return tuple(notes)


def _kind(column: str, table: Table, choices: Choices) -> Kind:
    """Return the stated or detected kind of a column."""
    model = choices.model
    kind = choices.kinds.get(column)
    if column in choices.values:
        if kind not in {None, Kind.CATEGORY}:
            msg = f"--values {column}=... is for a category, but --as says {kind}"
            raise MalformedTable(msg)
        kind = Kind.CATEGORY
    if kind is None:
        return kind_of(column, table, model=model)
    if kind not in TAKES[model]:
        takes = " or ".join(sorted(TAKES[model]))
        raise MalformedTable(f"--as {column}={kind}: the {model} model takes {takes}")
    return kind


def _parts(
    kinds: Mapping[str, Kind], table: Table, choices: Choices
) -> dict[str, ColumnGroup]:
    """Return the event models, in the order of the kinds."""

    def of(kind: Kind) -> tuple[str, ...]:
        return tuple(column for column, k in kinds.items() if k is kind)

    model = choices.model
    bag = partial(
        Bag,
        model="bernoulli" if model is Model.BERNOULLI else "multinomial",
        smoothing=choices.smoothing,
    )
    parts: dict[str, ColumnGroup] = {}
    if categories := of(Kind.CATEGORY):
        parts["categories"] = Categories.of(categories, table, choices)
    measured, texts, counts = of(Kind.MEASUREMENT), of(Kind.TEXT), of(Kind.COUNT)
    # Under the Gaussian model columns are independent, and each has its own step.
    apart = [(column,) for column in measured]
    joint = model is Model.DISCRIMINANT
    for group in filter(None, [measured] if joint else apart):
        parts[f"measurements {group[0]}"] = Measured(
            model="discriminant" if joint else "gaussian",
            columns=group,
            scales=tuple(scale_of(column, table) for column in group),
            choices=choices,
        )
    vocabulary = _vocabulary(choices.vocabulary, texts)
    for column in texts:
        seen = {word for cell in table.filled(column) for word in of_text(cell)}
        words = vocabulary or tuple(sorted(seen))
        parts[f"text {column}"] = bag(
            columns=(column,), text=True, words=words, closed=vocabulary is not None
        )
    # Under Bernoulli each column is separate: an unknown cell is no evidence, but in
    # a common vocabulary it would be an absent word.
    apart = [(column,) for column in counts]
    for group in filter(None, apart if model is Model.BERNOULLI else [counts]):
        parts[f"counts {group[0]}"] = bag(
            columns=group, text=False, words=group, closed=True
        )
    return parts


def _vocabulary(stated: str | None, texts: Sequence[str]) -> tuple[str, ...] | None:
    """Return the words of a declared vocabulary, split like text and at commas."""
    if stated is None:
        return None
    # In a text, a comma is a word.
    words = tuple(dict.fromkeys(of_text(stated.replace(",", " "))))
    if not words:
        raise MalformedTable(f"--vocabulary {stated!r} has no word")
    if not texts:
        msg = "--vocabulary is for columns of text, and the table has none"
        raise MalformedTable(msg)
    return words


def smoothing(words: str) -> Smoothing:
    """Return the smoothing that an option names.

    Raises
    ------
    InvalidObservation
        If it names none.

    Examples
    --------
    >>> smoothing("laplace"), smoothing("epsilon=1e-6"), smoothing("lidstone=1/2")
    (Lidstone(alpha=1.0), Epsilon(epsilon=1e-06), Lidstone(alpha=0.5))
    """
    match words.split("=", 1):
        case ["none"]:
            return NoSmoothing()
        case ["laplace"]:
            return Lidstone(1.0)
        case ["lidstone", alpha]:
            if not (pseudo_count := _number(alpha, words)):
                msg = "a pseudo-count of 0 is no smoothing; use --smoothing none"
                raise InvalidObservation(msg)
            return Lidstone(pseudo_count)
        case ["epsilon", epsilon]:
            return Epsilon(_number(epsilon, words))
    rule = "the smoothing must be none, laplace, lidstone=A or epsilon=E"
    raise InvalidObservation(f"{rule}, not {words!r}")


def pseudo_counts(words: str) -> tuple[Lidstone, ...]:
    """Return the smoothings of pseudo-counts that an option lists.

    Examples
    --------
    >>> pseudo_counts("1/2, 1")
    (Lidstone(alpha=0.5), Lidstone(alpha=1.0))
    """
    return tuple(Lidstone(_number(alpha, words)) for alpha in words.split(","))


def prior(words: str) -> Prior:
    """Return the class prior that an option names.

    Raises
    ------
    InvalidObservation
        If it names none.

    Examples
    --------
    >>> prior("fixed=1/4,3/4")
    FixedPrior(probabilities=(0.25, 0.75))
    """
    match words.split("=", 1):
        case ["fitted"]:
            return FittedPrior()
        case ["uniform"]:
            return UniformPrior()
        case ["smoothed", alpha]:
            return SmoothedPrior(_number(alpha, words))
        case ["fixed", listed]:
            return FixedPrior(tuple(_number(p, words) for p in listed.split(",")))
    rule = "the prior must be fitted, uniform, smoothed=A or fixed=P,P..."
    raise InvalidObservation(f"{rule}, not {words!r}")


def constant(words: str) -> Constant | float:
    """Return the treatment of variances that an option names, or what it adds.

    Raises
    ------
    InvalidObservation
        If it names none, or adds nothing.

    Examples
    --------
    >>> constant("drop"), constant("add=1/4")
    ('drop', 0.25)
    """
    match words.split("=", 1):
        case ["floor" | "drop" as constant]:
            return constant
        case ["add", number]:
            added = _number(number, words)
            if SMALLEST_ADDED <= added <= LARGEST_ADDED:
                return added
            raise InvalidObservation(
                f"the amount added to a variance must be from {SMALLEST_ADDED:g} to "
                f"{LARGEST_ADDED:g}, got {added!r}"
            )
    raise InvalidObservation(f"--constant must be floor, drop or add=E, not {words!r}")


def shrinkage(words: str) -> float | None:
    """Return the shrinkage that an option states; None if it is to be estimated.

    Raises
    ------
    InvalidObservation
        If it names none.

    Examples
    --------
    >>> shrinkage("0.1"), shrinkage("estimated")
    (0.1, None)
    """
    return None if words == "estimated" else _number(words, words)


def _number(value: str, words: str) -> float:
    over, slash, under = value.partition("/")
    try:
        # Not fractions.Fraction: 1e999999999 would take all memory.
        return float(over) / float(under) if slash else float(over)
    except (ValueError, ZeroDivisionError) as error:
        msg = f"{value!r} in {words!r} is not a number like 0.5 or 1/2"
        raise InvalidObservation(msg) from error
