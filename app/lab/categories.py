"""Columns of categories, under the categorical event model."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.models.categorical import VALUE_BITS, Categorical, value_id
from app.bayes.sparse import SparseCounts
from app.lab.exact import Rule, share, written
from app.lab.part import Learned, Number, Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from app.bayes.likelihood import Contributions
    from app.bayes.models.categorical import CategoricalLikelihood
    from app.lab.table import Row, Table


@dataclass(frozen=True, slots=True)
class Categories:
    """Categorical columns.

    Parameters
    ----------
    columns : tuple of str
        Their names.
    values : tuple of tuple of str
        The values that each column has in the table, sorted.
    smoothing : Rule
        What becomes of rare and missing counts.
    """

    model: ClassVar[str] = "categorical"

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    smoothing: Rule

    @classmethod
    def of(cls, columns: Sequence[str], table: Table, *, smoothing: Rule) -> Categories:
        """Return the part with the values that a table has."""
        values = tuple(tuple(sorted(set(table.known(c)))) for c in columns)
        return cls(tuple(columns), values, smoothing)

    @property
    def event_model(self) -> Categorical:
        """The model of `app.bayes`."""
        return Categorical(smoothing=self.smoothing)

    def encode(self, row: Row) -> SparseCounts | None:
        """Return the values of a row; one that the table has not gets a new id."""
        found = {}
        for field, (column, values) in enumerate(
            zip(self.columns, self.values, strict=True)
        ):
            if column in row.cells:
                cell = row.cells[column]
                value = bisect_left(values, cell)
                if values[value : value + 1] != (cell,):
                    value = len(values)
                found[value_id(field=field, value=value)] = 1
        return SparseCounts.of(found) if found else None

    def total(
        self, states: Iterable[FeatureCounts], *, n_classes: int
    ) -> FeatureCounts:
        """Return the sum of training states."""
        return FeatureCounts.sum(states, n_classes=n_classes)

    def notes(self, state: FeatureCounts, likelihood: object) -> list[str]:
        """Return nothing: counts are taken as they are."""
        del state, likelihood
        return []

    def learned(
        self,
        state: FeatureCounts,
        likelihood: CategoricalLikelihood,
        classes: Sequence[str],
    ) -> list[Learned]:
        """Return P(value | class) of each column."""
        del likelihood
        tables = []
        for field, (column, values) in enumerate(
            zip(self.columns, self.values, strict=True)
        ):
            ids = [value_id(field=field, value=v) for v in range(len(values))]
            counts = state.look_up(np.array(ids, np.int64), "presence")
            totals = counts.sum(axis=0)
            logs = self.smoothing.log_probability(counts, totals, len(values))
            rows = []
            for v, value in enumerate(values):
                numbers = [
                    Number(
                        float(np.exp(logs[v, c])),
                        written(
                            share(
                                self.smoothing,
                                count=int(counts[v, c]),
                                total=int(totals[c]),
                                n_values=len(values),
                            )
                        ),
                    )
                    for c in range(len(classes))
                ]
                rows.append((value, tuple(numbers)))
            tables.append(Learned(f"P({column} | class)", tuple(classes), tuple(rows)))
        return tables

    def terms(
        self, row: Row, x: SparseCounts, contributions: Contributions
    ) -> list[Term]:
        """Return what each value adds."""
        columns = [self.columns[i] for i in (x.ids >> VALUE_BITS).tolist()]
        return [
            Term(column, row.cells[column], nats, bool(seen))
            for column, nats, seen in zip(
                columns, contributions.features, contributions.seen, strict=True
            )
        ]

    def strangers(self, row: Row) -> list[str]:
        """Return nothing: a new value has a term of its own."""
        del row
        return []

    def factors(
        self, state: FeatureCounts, x: SparseCounts, *, n_classes: int
    ) -> list[list[Fraction]]:
        """Return P(value | class) of each value that some class has seen."""
        found: list[list[Fraction]] = [[] for _ in range(n_classes)]
        counts = state.look_up(x.ids, "presence")
        fields = state.ids >> VALUE_BITS
        for i, field in enumerate((x.ids >> VALUE_BITS).tolist()):
            if not counts[i].any():
                continue
            of_field = state.documents[fields == field]
            for c in range(n_classes):
                probability = share(
                    self.smoothing,
                    count=int(counts[i, c]),
                    total=int(of_field[:, c].sum()),
                    n_values=len(of_field),
                )
                found[c].append(probability.value)
        return found
