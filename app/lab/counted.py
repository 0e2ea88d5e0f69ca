"""Counted columns: categories, text and counts, under the models of counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.bayes.linear import bernoulli_form, categorical_form, multinomial_form
from app.bayes.models.discrete import (
    VALUE_BITS,
    Bernoulli,
    Categorical,
    Multinomial,
    value_id,
)
from app.bayes.smoothing import Epsilon
from app.bayes.sparse import SparseCounts
from app.errors import MalformedTable
from app.features.tokens import of_text
from app.lab.groups import (
    FACTORS,
    ColumnGroup,
    LearnedTable,
    Number,
    Share,
    rational,
    share,
    written,
)
from app.lab.table import is_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from app.bayes.counts import FeatureCounts
    from app.bayes.linear import LinearForm
    from app.bayes.models.discrete import CategoricalLikelihood
    from app.bayes.smoothing import Smoothing
    from app.bayes.sparse import Counting
    from app.kernels import Bools, Floats, Ints
    from app.lab.groups import Choices
    from app.lab.table import Row, Table

NO_WORD: Final = "(no word)"
"""The term of a row in which no word of the vocabulary occurs."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """How often each class has each of some values.

    Parameters
    ----------
    smoothing : Smoothing
        Treatment of rare and missing counts.
    counts : ndarray of int64, shape (V, K)
        The counts of each value.
    totals : ndarray of int64, shape (K,)
        The counts of all values.
    seen : ndarray of bool, shape (V,)
        Whether a value takes part: training has seen it, or it is declared.
    n_values : int
        Number of values among which the smoothing divides.
    """

    smoothing: Smoothing
    counts: Ints
    totals: Ints
    seen: Bools
    n_values: int

    def shares(self, counts: Ints) -> list[Share]:
        """Return the probability of a value with these counts in each class."""
        return [
            share(self.smoothing, count=count, total=total, n_values=self.n_values)
            for count, total in zip(counts.tolist(), self.totals.tolist(), strict=True)
        ]

    def table(
        self, title: str, names: Sequence[str], classes: Sequence[str]
    ) -> LearnedTable:
        """Return the probabilities of the values as a table."""
        values = np.exp(
            self.smoothing.log_probability(self.counts, self.totals, self.n_values)
        ).tolist()
        shares = (map(written, self.shares(counts)) for counts in self.counts)
        numbers = (tuple(map(Number, *of)) for of in zip(values, shares, strict=True))
        return LearnedTable(
            title, tuple(classes), tuple(zip(names, numbers, strict=True))
        )


@dataclass(frozen=True, slots=True)
class Categories(ColumnGroup):
    """Columns of categories, under the categorical event model.

    Parameters
    ----------
    columns : tuple of str
        Their names.
    values : tuple of tuple of str
        The values that each column can have.
    smoothing : Smoothing
        Treatment of rare and missing counts.
    declared : frozenset of str
        The columns whose values were declared; those of the others come from training.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    smoothing: Smoothing
    declared: frozenset[str]
    model: str = "categorical"

    @classmethod
    def of(cls, columns: tuple[str, ...], table: Table, choices: Choices) -> Categories:
        """Return the group with the declared values, or those of a table.

        Raises
        ------
        MalformedTable
            If the table has an undeclared value.
        """
        values = []
        for column in columns:
            found = set(table.filled(column))
            stated = choices.values.get(column, tuple(sorted(found)))
            if beyond := sorted(found.difference(stated)):
                raise MalformedTable(
                    f"column {column!r} holds {beyond[0]!r}, which is not among its "
                    f"declared values; add it to --values {column}=..."
                )
            values.append(stated)
        declared = frozenset(choices.values).intersection(columns)
        return cls(columns, tuple(values), choices.smoothing, declared)

    @property
    def _fields(self) -> Iterable[tuple[int, str, tuple[str, ...]]]:
        """Number, name and values of each column."""
        return zip(count(), self.columns, self.values, strict=False)

    @property
    def event_model(self) -> Categorical:
        """The model of `app.bayes`."""
        domains = {
            field: len(values)
            for field, column, values in self._fields
            if column in self.declared
        }
        return Categorical(smoothing=self.smoothing, domains=domains)

    def encode(self, row: Row) -> SparseCounts | None:
        """Return the values of a row; an unknown value gets a new id."""
        found = {}
        for field, column, values in self._fields:
            if column in row.cells:
                cell = row.cells[column]
                value = values.index(cell) if cell in values else len(values)
                found[value_id(field=field, value=value)] = 1
        return SparseCounts.of(found) if found else None

    def learned(
        self, state: FeatureCounts, _: object, classes: Sequence[str]
    ) -> list[LearnedTable]:
        """Return P(value | class) of each column."""
        return [
            self._counted(state, field).table(f"P({column} | class)", values, classes)
            for field, column, values in self._fields
        ]

    def _counted(self, state: FeatureCounts, field: int) -> _Counted:
        ids = value_id(field=field, value=0) + np.arange(len(self.values[field]))
        counts = state.look_up(ids, "presence")
        seen = np.logical_or(counts.any(axis=1), self.columns[field] in self.declared)
        totals, n_values = counts.sum(axis=0), int(seen.sum())
        return _Counted(self.smoothing, counts, totals, seen, n_values)

    @property
    def coordinates(self) -> dict[int, str]:
        """Each value of each column."""
        return {
            value_id(field=field, value=v): f"{column}={value}"
            for field, column, values in self._fields
            for v, value in enumerate(values)
        }

    @property
    def baseline(self) -> frozenset[int]:
        """The first value of each column, which applies if no other does."""
        return frozenset(value_id(field=f, value=0) for f in range(len(self.columns)))

    def form(
        self, state: FeatureCounts, likelihood: CategoricalLikelihood
    ) -> LinearForm:
        """Return the weight of each value."""
        ids = np.array(sorted(self.coordinates), np.int64)
        return categorical_form(likelihood, ids, np.zeros(state.n_classes))

    def notes(self, _: object, likelihood: CategoricalLikelihood) -> list[str]:
        """Return a warning if the replacement of zero is too large."""
        return _too_large(self.smoothing, self.columns, likelihood.totals)

    def feature(self, number: int, row: Row) -> tuple[str, str]:
        """Return the column of a value, and the value."""
        column = self.columns[number >> VALUE_BITS]
        return column, row.cells[column]

    def factors(self, state: FeatureCounts, x: SparseCounts) -> list[list[Fraction]]:
        """Return P(value | class) of each declared or seen value."""
        found = []
        for number in x.ids.tolist():
            field, value = divmod(number, 2**VALUE_BITS)
            known = self._counted(state, field)
            # A value that is not in the table is behind them.
            if known.seen[value : value + 1].any():
                found.append([each.value for each in known.shares(known.counts[value])])
        return found


@dataclass(frozen=True, kw_only=True)
class Bag(ColumnGroup):
    """A column of text, or columns of counts, under a model of words.

    Parameters
    ----------
    model : {"bernoulli", "multinomial"}
        The event model.
    columns : tuple of str
        One column of text, or columns that each count a word.
    text : bool
        Whether it is text.
    words : tuple of str
        The vocabulary; for counts, the columns.
    closed : bool
        Whether the vocabulary was declared; otherwise it comes from training.
    smoothing : Smoothing
        Treatment of rare and missing counts.
    """

    model: Literal["bernoulli", "multinomial"]
    columns: tuple[str, ...]
    text: bool
    words: tuple[str, ...]
    closed: bool
    smoothing: Smoothing

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The id of each word."""
        return {word: i for i, word in enumerate(self.words)}

    @property
    def event_model(self) -> Bernoulli | Multinomial:
        """The model of `app.bayes`; the multinomial one counts occurrences."""
        vocabulary = len(self.words) if self.closed else None
        if self.model == "bernoulli":
            return Bernoulli(smoothing=self.smoothing, vocabulary=vocabulary)
        return Multinomial(
            smoothing=self.smoothing, counting="occurrences", vocabulary=vocabulary
        )

    @property
    def constant_term(self) -> tuple[str, str] | None:
        """The term for the absence of all words, under Bernoulli."""
        return (self.columns[0], NO_WORD) if self.model == "bernoulli" else None

    def encode(self, row: Row) -> SparseCounts | None:
        """Return the words of a row."""
        if not any(column in row.cells for column in self.columns):
            return None
        found = self._found(row)
        return SparseCounts.of(
            {self.ids[word]: n for word, n in found.items() if n and word in self.ids}
        )

    def learned(
        self, state: FeatureCounts, _: object, classes: Sequence[str]
    ) -> list[LearnedTable]:
        """Return P(word | class)."""
        what = "P(word is present | class)"
        if self.model == "multinomial":
            what = "P(a word is this one | class)"
        title = f"{', '.join(self.columns)}: {what}" if self.text else what
        return [self._counted(state).table(title, self.words, classes)]

    @property
    def coordinates(self) -> dict[int, str]:
        """Each word of the vocabulary."""
        before = f"{self.columns[0]} " if self.text else ""
        return {i: before + word for i, word in enumerate(self.words)}

    def form(self, state: FeatureCounts, _: object) -> LinearForm:
        """Return the weight of each word."""
        model, nothing = self.event_model, np.zeros(state.n_classes)
        if isinstance(model, Multinomial):
            return multinomial_form(model, state, nothing)
        return bernoulli_form(model, state, nothing)

    def values_of(self, x: SparseCounts) -> Floats:
        """Return the counts of words, or ones for presence."""
        if self.model == "bernoulli":
            return np.ones(x.size)
        return x.counts.astype(np.float64)

    def notes(self, state: FeatureCounts, _: object) -> list[str]:
        """Return a warning if the replacement of zero is too large."""
        return _too_large(self.smoothing, self.columns, self._counted(state).totals)

    def feature(self, number: int, row: Row) -> tuple[str, str]:
        """Return the column of a word, and the word or its count."""
        word = self.words[number]
        return (self.columns[0], word) if self.text else (word, row.cells[word])

    def unknown_words(self, row: Row) -> list[str]:
        """Return the words that are not in the vocabulary, each after its column."""
        unknown = self._found(row).keys() - self.ids.keys() if self.text else ()
        return [f"{self.columns[0]} {word}" for word in sorted(unknown)]

    def factors(
        self, state: FeatureCounts, x: SparseCounts
    ) -> list[list[Fraction]] | None:
        """Return the factor of each word; of absent ones too under Bernoulli."""
        known = self._counted(state)
        times = np.zeros(len(self.words), np.int64)
        times[x.ids] = x.counts
        if self.model == "multinomial":
            if times.sum() > FACTORS:
                return None
            used = known.counts.repeat(times * known.seen, axis=0)
        else:
            if times.size > FACTORS:
                return None
            present = times[:, np.newaxis] > 0
            used = np.where(present, known.counts, known.totals - known.counts)
            used = used[known.seen]
        return [[each.value for each in known.shares(counts)] for counts in used]

    def _counted(self, state: FeatureCounts) -> _Counted:
        counting: Counting = "presence" if self.model == "bernoulli" else "occurrences"
        counts = state.look_up(np.arange(len(self.words)), counting)
        seen = np.logical_or(counts.any(axis=1), self.closed)
        if self.model == "bernoulli":
            return _Counted(self.smoothing, counts, state.messages, seen, 2)
        totals, n_values = state.totals(counting), max(1, int(seen.sum()))
        return _Counted(self.smoothing, counts, totals, seen, n_values)

    def _found(self, row: Row) -> Counter[str]:
        if self.text:
            return Counter(of_text(row.cells.get(self.columns[0], "")))
        found: Counter[str] = Counter()
        for column in self.columns:
            if column in row.cells:
                cell = row.cells[column]
                if not is_count(cell):
                    raise MalformedTable(
                        f"{row.where}: column {column!r} holds {cell!r}, but the "
                        "column is taken for a count, a whole number below 1000000000"
                    )
                found[column] = int(cell)
        return found


def _too_large(smoothing: Smoothing, columns: Sequence[str], totals: Ints) -> list[str]:
    """Return a warning if unseen values are as probable as seen ones."""
    most = int(totals.max(initial=1))
    if not isinstance(smoothing, Epsilon) or rational(smoothing.epsilon) * most < 1:
        return []
    return [
        f"Epsilon {smoothing.epsilon:g} is not below 1/{most}, the probability of what "
        f"was seen once: in {', '.join(columns)} a value that a class never had can be "
        "as probable as one that it had."
    ]
