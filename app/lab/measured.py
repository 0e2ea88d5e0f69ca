"""Measured columns: measurements of a table, under a Gaussian event model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import numpy as np

from app.bayes.linear import LinearForm, discriminant_form, gaussian_form
from app.bayes.models.gaussian import (
    Discriminant,
    DiscriminantLikelihood,
    Gaussian,
    GaussianLikelihood,
)
from app.bayes.moments import MomentSums
from app.bayes.sparse import LIMIT, Measurements
from app.errors import InvalidObservation, MalformedTable
from app.lab.groups import ColumnGroup, LearnedTable, Number, rational
from app.lab.table import is_number, with_comma, with_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.bayes.models.gaussian import Constant
    from app.kernels import Floats, Ints
    from app.lab.groups import Choices
    from app.lab.table import Row, Table

NormalLikelihood = GaussianLikelihood | DiscriminantLikelihood
"""A likelihood of measurements."""
# A question may hold a thousand times the largest value of the table.
VALUE_BITS: Final = 37
"""Bits of the largest value of a column in steps; LIMIT has ten more."""
MOST_DECIMALS: Final = 60
"""Largest number of decimals; far beyond, a double cannot hold the square of a step."""
LEAST_STEPS: Final = 2**12
"""Smallest number of steps between the values of a column, for four digits."""


class ColumnScale(NamedTuple):
    """The steps in which a column is measured.

    A step is a power of ten, because cells are decimal numbers: 1.71 is not a multiple
    of any power of two, and the fraction to which it would be rounded is not in the
    table.

    Parameters
    ----------
    places : int
        Decimals of the step, as the largest value of the column allows.
    origin : int
        The number of steps from which values are measured, in the statistics and the
        likelihood.  It is 0, unless the values are large and close together, like Unix
        times: then a double near the value has no digits left for a distance from the
        mean, and a number midway between two classes would not be a tie.
    exact : bool
        Whether each cell is a multiple of the step.
    """

    places: int
    origin: int
    exact: bool

    @property
    def unit(self) -> Fraction:
        """The step, in the unit of the column."""
        return 1 / Fraction(10) ** self.places


def scale_of(column: str, table: Table) -> ColumnScale:
    """Return the scale of a column of measurements with some value.

    Raises
    ------
    MalformedTable
        If a cell is not a number, or the column's values are too far from zero.
    """
    rows = [row for row in table.rows if column in row.cells]
    found = [number(row, column) for row in rows]
    largest, where = max((abs(value), i) for i, value in enumerate(found))
    if not largest < 2.0**VALUE_BITS:
        raise MalformedTable(
            f"{rows[where].where}: column {column!r} holds "
            f"{rows[where].cells[column]!r}, which is too large; give the column in a "
            f"larger unit, so that values stay below {2.0**VALUE_BITS:g}"
        )
    room = 2.0**VALUE_BITS / max(largest, 10.0**-MOST_DECIMALS) if largest else 1e11
    places = min(MOST_DECIMALS, math.floor(math.log10(room)))
    span = max(found) - min(found)
    # Whole numbers need no smaller step, however few there are.
    whole = places >= 0 and all(value == round(value) for value in found)
    if span and span * 10.0**places < LEAST_STEPS and not whole:
        raise MalformedTable(
            f"column {column!r} varies only by {span:g}, with values up to "
            f"{largest:g}; subtract a constant from it"
        )
    exact = [steps(cell, places) for cell in table.filled(column)]
    low, high = round(min(exact)), round(max(exact))
    middle = (low + high) // 2
    origin = middle if FAR * (high - low) < abs(middle) else 0
    return ColumnScale(places, origin, all(each.denominator == 1 for each in exact))


def steps(cell: str, places: int) -> Fraction:
    """Return a number in steps of so many decimals, not rounded.

    Examples
    --------
    >>> steps("1.71", 2), steps("-0.5", 0)
    (Fraction(171, 1), Fraction(-1, 2))
    """
    # A number too small for a double counts as 0; its fraction would take all memory.
    return Fraction(Decimal(cell).scaleb(places)) if float(cell) else Fraction(0)


def number(row: Row, column: str) -> float:
    """Return the number in a cell.

    Raises
    ------
    MalformedTable
        If it is no number.
    """
    cell = row.cells[column]
    if with_point(cell):
        raise MalformedTable(with_comma(row, column))
    if not is_number(cell):
        raise MalformedTable(
            f"{row.where}: column {column!r} holds {cell!r}, which is not a number "
            "like 3.5; leave it empty if it is unknown, leave out the column with "
            "--columns, or use --model mixed"
        )
    return float(cell)


def _varying(state: MomentSums) -> MomentSums:
    """Return the statistics without the fields that are the same in all rows."""
    counts, sums, squares = (
        part.astype(object).sum(axis=1)
        for part in (state.documents, state.sums, state.squares)
    )
    return state.take(counts * squares != sums * sums)


FAR: Final = 1000
"""Values farther from 0 than so many times their range have an origin of their own."""
SHRUNK: Final = 1e-11
"""Smallest fraction beyond rounding error; one step of the shrinkage is 1e-10."""
WEAK: Final = 1e-3
"""Smallest correlation from which the fraction can be computed."""
READABLE: Final = 10**6
"""Largest denominator of a fraction that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(ColumnGroup):
    """Columns of measurements, under a Gaussian event model.

    Parameters
    ----------
    model : {"gaussian", "discriminant"}
        The event model.
    columns : tuple of str
        Their names.
    scales : tuple of ColumnScale
        How each is measured.
    choices : Choices
        The treatment of variances and correlations.
    """

    statistics: ClassVar[type[MomentSums]] = MomentSums

    model: Literal["gaussian", "discriminant"]
    columns: tuple[str, ...]
    scales: tuple[ColumnScale, ...]
    choices: Choices

    @property
    def event_model(self) -> Gaussian | Discriminant:
        """The model of `app.bayes`, over steps."""
        constant: Constant = "drop" if self.choices.constant == "drop" else "floor"
        amount, added = self.choices.added, None
        if amount is not None:
            added = {i: amount * 100.0**x.places for i, x in enumerate(self.scales)}
        if self.model == "gaussian":
            return Gaussian(
                fraction_bits=0,
                constant=constant,
                variances=self.choices.variances,
                added=added,
            )
        return Discriminant(
            fraction_bits=0,
            constant=constant,
            shrinkage=self.choices.shrinkage,
            # Columns have different steps, so their variances cannot be compared, and
            # only the step itself gives a floor.
            floor=0.0,
            added=added,
        )

    def estimate(self, state: MomentSums) -> NormalLikelihood:
        """Return the likelihood, in the units of the columns, from their origins on.

        A column that never varies is left out: it cannot tell the classes apart, and
        with the smallest variance, any other value in a question would cost all classes
        so many nats that nothing else counts.
        """
        if self.choices.added is None:
            state = _varying(state)
        found = self.event_model.estimate(state)
        step = np.array([10.0 ** -self.scales[i].places for i in found.ids.tolist()])
        units = step[:, np.newaxis]
        if isinstance(found, DiscriminantLikelihood):
            return replace(
                found, means=found.means * units, factor=found.factor * units, step=step
            )
        # A column by itself, or none.
        return replace(
            found,
            means=found.means * units,
            variances=found.variances * units**2,
            step=float(step[0]) if step.size else 1.0,
        )

    def encode(self, row: Row) -> Measurements | None:
        """Return the measurements of a row in steps from the origins."""
        found = {}
        for field, column in enumerate(self.columns):
            if column in row.cells:
                places, origin, _ = self.scales[field]
                # Trap: beyond 1e999999, a Decimal overflows.
                if abs(number(row, column)) * 10.0**places > LIMIT:
                    raise MalformedTable(
                        f"{row.where}: column {column!r} holds {row.cells[column]!r}, "
                        "more than a thousand times the values in the table"
                    )
                found[field] = round(steps(row.cells[column], places) - origin)
        return Measurements.of(found, fraction_bits=0) if found else None

    def means(self, likelihood: NormalLikelihood) -> Floats:
        """Return the mean of each class, shape (D, K), in the units of the columns."""
        return likelihood.means + self._starts(likelihood.ids)[:, np.newaxis]

    def dropped(self, likelihood: NormalLikelihood) -> tuple[list[str], str]:
        """Return the columns that the model left out, and why."""
        used = set(likelihood.ids.tolist())
        why = "it never varies"
        if self.choices.constant == "drop":
            why = "constant in some class"
        if self.model == "discriminant":
            why = "not every row has it, or it never varies"
        return [c for field, c in enumerate(self.columns) if field not in used], why

    def notes(self, state: MomentSums, likelihood: NormalLikelihood) -> list[str]:
        """Return how far the correlations were shrunk."""
        if not isinstance(likelihood, DiscriminantLikelihood):
            return []
        shrunk = self._shrunk(state, likelihood)
        unasked = self.choices.shrinkage == 0.0
        why = ", because the matrix is singular" if unasked else ""
        note = f"The correlations are shrunk by {shrunk:.2g}{why}."
        return [note] if shrunk > SHRUNK else []

    def learned(
        self, state: MomentSums, likelihood: NormalLikelihood, classes: Sequence[str]
    ) -> list[LearnedTable]:
        """Return the means and variances of the classes, or the covariance."""
        fields = likelihood.ids.tolist()
        rows = dict(zip(state.ids.tolist(), range(state.ids.size), strict=True))
        names = tuple(self.columns[field] for field in fields)
        means = [
            tuple(
                self._shown(float(value), self._mean(state, rows[field], c), (field,))
                for c, value in enumerate(self.means(likelihood)[i])
            )
            for i, field in enumerate(fields)
        ]
        if isinstance(likelihood, DiscriminantLikelihood):
            used = likelihood.covariance
            covariance = [
                tuple(
                    self._shown(
                        float(used[i, j]),
                        self._covariance(state, rows[f], rows[g]),
                        (f, g),
                        scale=math.sqrt(used[i, i] * used[j, j]),
                    )
                    for j, g in enumerate(fields)
                )
                for i, f in enumerate(fields)
            ]
            return [
                LearnedTable(title, header, tuple(zip(names, numbers, strict=True)))
                for title, header, numbers in (
                    ("mean of each class", tuple(classes), means),
                    ("covariance, shared by the classes", names, covariance),
                )
            ]
        tables = []
        within = [slice(c, c + 1) for c in range(len(classes))]
        if self.choices.variances == "shared":
            within = [slice(None)] * len(classes)
        for i, field in enumerate(fields):
            row = rows[field]
            variances = tuple(
                self._shown(
                    float(value), self._covariance(state, row, row, of), (field,)
                )
                for value, of in zip(likelihood.variances[i], within, strict=True)
            )
            lines = (("mean", means[i]), ("variance", variances))
            title = f"p({names[i]} | class), normal"
            tables.append(LearnedTable(title, tuple(classes), lines))
        return tables

    @property
    def constant_term(self) -> tuple[str, str] | None:
        """The discriminant has one density for every row, at the mean."""
        if self.model == "discriminant":
            return "(all)", "density at the mean"
        return None

    @property
    def coordinates(self) -> dict[int, str]:
        """The columns."""
        return dict(enumerate(self.columns))

    def form(self, state: MomentSums, likelihood: NormalLikelihood) -> LinearForm:
        """Return the weight of each column."""
        nothing = np.zeros(state.n_classes)
        if isinstance(likelihood, DiscriminantLikelihood):
            form = discriminant_form(likelihood, nothing)
        elif self.choices.variances == "class":
            raise InvalidObservation("each class has its own variances")
        else:
            form = gaussian_form(likelihood, nothing)
        starts = self._starts(form.ids)
        centre = form.centre + starts
        # What the new centre was rounded by.
        moved = (centre - starts) - form.centre
        return replace(form, centre=centre, level=form.level + moved @ form.weights)

    def values_of(self, x: Measurements) -> Floats:
        """Return the measurements in the units of their columns."""
        return self._in_units(x.ids, x.values)

    def feature(self, number: int, row: Row) -> tuple[str, str]:
        """Return the column of a measurement, and its cell."""
        column = self.columns[number]
        return column, row.cells[column]

    def _starts(self, ids: Ints) -> Floats:
        """Return the origins of some columns in their units."""
        return self._in_units(ids, np.zeros_like(ids))

    def _in_units(self, ids: Ints, steps: Ints) -> Floats:
        """Return numbers of steps from the origins in the units of their columns."""
        scales = (self.scales[i] for i in ids.tolist())
        each = zip(steps.tolist(), scales, strict=True)
        return np.array([(n + x.origin) / 10**x.places for n, x in each])

    def _mean(self, state: MomentSums, row: int, c: int) -> Fraction | None:
        n, scale = int(state.documents[row, c]), self.scales[int(state.ids[row])]
        return (
            (Fraction(state.sums[row, c], n) + scale.origin) * scale.unit if n else None
        )

    def _shrunk(self, state: MomentSums, likelihood: DiscriminantLikelihood) -> float:
        """Return the share that was taken from the correlations."""
        rows = state.ids.searchsorted(likelihood.ids).tolist()
        covariance = likelihood.covariance
        found = [(0.0, 0.0)]
        for i, row in enumerate(rows):
            for j, column in enumerate(rows[:i]):
                exact = float(self._covariance(state, row, column) or 0)
                scale = math.sqrt(covariance[i, i] * covariance[j, j])
                found.append((abs(exact) / scale, abs(float(covariance[i, j])) / scale))
        # By the strongest correlation: of a weak one, rounding leaves nothing.
        before, after = max(found)
        return 1 - after / before if before > WEAK else 0.0

    def _covariance(
        self, state: MomentSums, row: int, column: int, classes: slice = slice(None)
    ) -> Fraction | None:
        """Return the exact covariance of two columns within some classes."""
        sums = (state.documents[row], state.sums[row], state.sums[column])
        parts = (*sums, state.products[row, column])
        of_classes = list(zip(*(x[classes].tolist() for x in parts), strict=True))
        n = sum(rows for rows, *_ in of_classes)
        each = (p - Fraction(x * y, rows) for rows, x, y, p in of_classes if rows)
        scatter = sum(each, Fraction(0))
        one, other = (self.scales[int(state.ids[at])] for at in (row, column))
        added = rational(self.choices.added or 0.0) * (row == column)
        return scatter / n * one.unit * other.unit + added if n else None

    def _shown(
        self,
        value: float,
        exact: Fraction | None,
        fields: tuple[int, ...],
        *,
        scale: float = 0.0,
    ) -> Number:
        """Return a number with its fraction, if it is exact and the one in use.

        A difference of 1e-12 of `scale` is a rounding error.
        """
        if exact is None:
            return Number(value, note="from all classes")
        if not math.isclose(value, exact, rel_tol=1e-9, abs_tol=1e-12 * scale):
            return Number(value, note=f"instead of {float(exact):.4g}")
        known = all(self.scales[field].exact for field in fields)
        if not known or exact.denominator > READABLE:
            return Number(value)
        return Number(value, str(exact))
