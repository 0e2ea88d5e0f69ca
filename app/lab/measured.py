"""Measured columns: measurements of a table, under a Gaussian event model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from app.bayes.measurements import LIMIT, Measurements
from app.bayes.models.discriminant import (
    Discriminant,
    DiscriminantLikelihood,
    Shrinkage,
    StatedFraction,
)
from app.bayes.models.gaussian import Gaussian, GaussianLikelihood
from app.bayes.moments import MomentSums
from app.errors import MalformedTable
from app.lab.columns import ColumnGroup, LearnedTable, Number
from app.lab.kinds import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.bayes.models.gaussian import Constant
    from app.lab.table import Row, Table

# A question may hold a thousand times the largest value of the table.
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
        If it is no number.
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


SHRUNK: Final = 1e-11
"""Smallest share that is no rounding error; one step of the shrinkage is 1e-10."""
WEAK: Final = 1e-3
"""Correlation from which on its share can be read."""
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
    fraction_bits : int
        Position of the binary point, as the largest value allows.
    constant : {"floor", "drop"}
        Treatment of a column that does not vary.
    shrinkage : Shrinkage
        Share of the uncorrelated target, for the discriminant.
    """

    statistics: ClassVar[type[MomentSums]] = MomentSums

    model: Literal["gaussian", "discriminant"]
    columns: tuple[str, ...]
    fraction_bits: int
    constant: Constant
    shrinkage: Shrinkage

    @property
    def event_model(self) -> Gaussian | Discriminant:
        """The model of `app.bayes`."""
        if self.model == "gaussian":
            return Gaussian(fraction_bits=self.fraction_bits, constant=self.constant)
        return Discriminant(
            fraction_bits=self.fraction_bits,
            constant=self.constant,
            shrinkage=self.shrinkage,
        )

    def encode(self, row: Row) -> Measurements | None:
        """Return the measurements of a row in fixed point."""
        found = {}
        for field, column in enumerate(self.columns):
            if column in row.cells:
                found[field] = number(row, column)
                if abs(found[field]) > math.ldexp(LIMIT, -self.fraction_bits):
                    msg = (
                        f"{row.where}: column {column!r} holds {row.cells[column]!r}, "
                        "a thousand times what is in the table"
                    )
                    raise MalformedTable(msg)
        bits = self.fraction_bits
        return Measurements.of(found, fraction_bits=bits) if found else None

    def notes(
        self,
        state: MomentSums,
        likelihood: GaussianLikelihood | DiscriminantLikelihood,
    ) -> list[str]:
        """Return which columns were left out, and how far the rest was shrunk."""
        notes = []
        used = set(likelihood.ids.tolist())
        dropped = [c for field, c in enumerate(self.columns) if field not in used]
        if dropped:
            why = "constant in some class"
            if self.model == "discriminant":
                why = "not every row has it, or it varies nowhere"
            left_out = ", ".join(dropped)
            notes.append(f"Left out by the {self.model} model: {left_out} ({why}).")
        if isinstance(likelihood, DiscriminantLikelihood):
            shrunk = self._shrunk(state, likelihood)
            if shrunk > SHRUNK:
                why = ""
                if self.shrinkage == StatedFraction(0.0):
                    why = ", because the matrix is singular"
                notes.append(f"The correlations are shrunk by {shrunk:.2g}{why}.")
        return notes

    def learned(
        self,
        state: MomentSums,
        likelihood: GaussianLikelihood | DiscriminantLikelihood,
        classes: Sequence[str],
    ) -> list[LearnedTable]:
        """Return the means and variances of the classes, or the covariance."""
        fields = likelihood.ids.tolist()
        rows = dict(zip(state.ids.tolist(), range(state.ids.size), strict=True))
        names = tuple(self.columns[field] for field in fields)
        means = [
            tuple(
                _shown(float(value), self._mean(state, rows[field], c))
                for c, value in enumerate(likelihood.means[i])
            )
            for i, field in enumerate(fields)
        ]
        if isinstance(likelihood, DiscriminantLikelihood):
            used = likelihood.covariance
            covariance = [
                tuple(
                    _shown(
                        float(used[i, j]),
                        self._pooled(state, rows[f], rows[g]),
                        scale=math.sqrt(used[i, i] * used[j, j]),
                    )
                    for j, g in enumerate(fields)
                )
                for i, f in enumerate(fields)
            ]
            return [
                LearnedTable(
                    "mean of each class",
                    tuple(classes),
                    tuple(zip(names, means, strict=True)),
                ),
                LearnedTable(
                    "covariance, shared by the classes",
                    names,
                    tuple(zip(names, covariance, strict=True)),
                ),
            ]
        tables = []
        for i, field in enumerate(fields):
            variances = tuple(
                _shown(float(value), self._variance(state, rows[field], c))
                for c, value in enumerate(likelihood.variances[i])
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

    def feature(self, number: int, row: Row) -> tuple[str, str]:
        """Return the column of a measurement, and its cell."""
        column = self.columns[number]
        return column, row.cells[column]

    def _mean(self, state: MomentSums, row: int, c: int) -> Fraction | None:
        n = int(state.documents[row, c])
        return Fraction(state.sums[row, c], n * 2**self.fraction_bits) if n else None

    def _variance(self, state: MomentSums, row: int, c: int) -> Fraction | None:
        n = int(state.documents[row, c])
        if not n:
            return None
        spread = n * state.squares[row, c] - state.sums[row, c] ** 2
        return Fraction(spread, n**2 * 4**self.fraction_bits)

    def _shrunk(self, state: MomentSums, likelihood: DiscriminantLikelihood) -> float:
        """Return the share that was taken from the correlations."""
        rows = state.ids.searchsorted(likelihood.ids).tolist()
        covariance = likelihood.covariance
        pairs = [
            (abs(self._pooled(state, row, column)), i, j)
            for i, row in enumerate(rows)
            for j, column in enumerate(rows[:i])
        ]
        found = [
            (float(exact) / scale, abs(float(covariance[i, j])) / scale)
            for exact, i, j in pairs
            for scale in [math.sqrt(covariance[i, i] * covariance[j, j])]
        ]
        # By the strongest correlation: of a weak one, rounding leaves nothing.
        before, after = max(found, default=(0.0, 0.0))
        return 1 - after / before if before > WEAK else 0.0

    def _pooled(self, state: MomentSums, row: int, column: int) -> Fraction:
        n_rows = int(state.messages.sum())
        scatter = Fraction(0)
        for c, n in enumerate(state.messages.tolist()):
            if n:
                crossed = state.sums[row, c] * state.sums[column, c]
                scatter += state.products[row, column, c] - Fraction(crossed, n)
        pooled: Fraction = scatter / (n_rows * 4**self.fraction_bits)
        return pooled


def _shown(value: float, exact: Fraction | None, *, scale: float = 0.0) -> Number:
    """Return a number with its fraction, if the model uses that fraction.

    A difference of 1e-12 of `scale` is a rounding error.
    """
    if exact is None:
        return Number(value, note="from all classes")
    if not math.isclose(value, exact, rel_tol=1e-9, abs_tol=1e-12 * scale):
        return Number(value, note=f"instead of {float(exact):.4g}")
    if exact.denominator > READABLE:
        return Number(value)
    return Number(value, str(exact))
