"""Text or counts, under the Bernoulli or the multinomial event model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.models.bernoulli import Bernoulli
from app.bayes.models.multinomial import Multinomial
from app.bayes.sparse import SparseCounts
from app.errors import MalformedTable
from app.features.tokens import of_text
from app.lab.exact import FACTORS, Rule, Share, share, written
from app.lab.kinds import is_count
from app.lab.part import Learned, Number, Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions, Likelihood
    from app.bayes.sparse import Counting
    from app.lab.table import Row, Table

NO_WORD: Final = "(no word)"
"""The term of a row in which no word of the vocabulary occurs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """Words of a text, or columns that say how often a word occurs.

    Parameters
    ----------
    model : {"bernoulli", "multinomial"}
        The event model.
    columns : tuple of str
        One column of text, or columns of counts.
    text : bool
        Whether it is text.
    ids : mapping of str to int
        The vocabulary, numbered in its order; of counts, the columns.
    declared : bool
        Whether the vocabulary was stated.  If not, it is what training saw.
    smoothing : Rule
        What becomes of rare and missing counts.
    """

    model: Literal["bernoulli", "multinomial"]
    columns: tuple[str, ...]
    text: bool
    ids: Mapping[str, int]
    declared: bool
    smoothing: Rule

    @classmethod
    def of_text(
        cls,
        column: str,
        table: Table,
        *,
        model: Literal["bernoulli", "multinomial"],
        vocabulary: tuple[str, ...] | None,
        smoothing: Rule,
    ) -> Bag:
        """Return the part of a column of text."""
        words = vocabulary or tuple(
            sorted({word for cell in table.known(column) for word in of_text(cell)})
        )
        return cls(
            model=model,
            columns=(column,),
            text=True,
            ids=_numbered(words),
            declared=vocabulary is not None,
            smoothing=smoothing,
        )

    @classmethod
    def of_counts(
        cls,
        columns: Sequence[str],
        *,
        model: Literal["bernoulli", "multinomial"],
        smoothing: Rule,
    ) -> Bag:
        """Return the part of columns of counts."""
        return cls(
            model=model,
            columns=tuple(columns),
            text=False,
            ids=_numbered(columns),
            declared=True,
            smoothing=smoothing,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The vocabulary, in its order."""
        return tuple(self.ids)

    @property
    def event_model(self) -> Bernoulli | Multinomial:
        """The model of `app.bayes`; the multinomial one counts occurrences."""
        vocabulary = len(self.ids) if self.declared else None
        if self.model == "bernoulli":
            return Bernoulli(smoothing=self.smoothing, vocabulary=vocabulary)
        return Multinomial(
            smoothing=self.smoothing, counting="occurrences", vocabulary=vocabulary
        )

    def encode(self, row: Row) -> SparseCounts | None:
        """Return the words of a row."""
        if not any(column in row.cells for column in self.columns):
            return None
        found = self._found(row)
        return SparseCounts.of(
            {self.ids[word]: n for word, n in found.items() if n and word in self.ids}
        )

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
        likelihood: Likelihood[SparseCounts],
        classes: Sequence[str],
    ) -> list[Learned]:
        """Return P(word | class)."""
        del likelihood
        counts, totals, n_values = self._counts(state)
        logs = self.smoothing.log_probability(counts, totals, n_values)
        rows = [
            (
                word,
                tuple(
                    Number(
                        float(np.exp(logs[i, c])),
                        written(
                            share(
                                self.smoothing,
                                count=int(counts[i, c]),
                                total=int(totals[c]),
                                n_values=n_values,
                            )
                        ),
                    )
                    for c in range(len(classes))
                ),
            )
            for i, word in enumerate(self.words)
        ]
        what = "P(word is there | class)"
        if self.model == "multinomial":
            what = "P(a word is this one | class)"
        title = f"{', '.join(self.columns)}: {what}" if self.text else what
        return [Learned(title, tuple(classes), tuple(rows))]

    def terms(
        self, row: Row, x: SparseCounts, contributions: Contributions
    ) -> list[Term]:
        """Return what each word adds, and what the absence of all would."""
        terms = []
        if self.model == "bernoulli":
            column = self.columns[0]
            terms.append(Term(column, NO_WORD, contributions.constant, seen=True))
        words = self.words
        for i, nats, seen in zip(
            x.ids.tolist(), contributions.features, contributions.seen, strict=True
        ):
            word = words[i]
            column = self.columns[0] if self.text else word
            feature = word if self.text else row.cells[word]
            terms.append(Term(column, feature, nats, bool(seen)))
        return terms

    def strangers(self, row: Row) -> list[str]:
        """Return the words that are not in the vocabulary."""
        if not self.text:
            return []
        return sorted(set(self._found(row)) - self.ids.keys())

    def factors(
        self, state: FeatureCounts, x: SparseCounts, *, n_classes: int
    ) -> list[list[Fraction]] | None:
        """Return the factor of each word; of absent ones too under Bernoulli."""
        counts, totals, n_values = self._counts(state)
        times = dict(zip(x.ids.tolist(), x.counts.tolist(), strict=True))
        if self.model == "multinomial":
            if sum(times.values()) > FACTORS:
                return None
            return [
                [
                    share(
                        self.smoothing,
                        count=int(counts[i, c]),
                        total=int(totals[c]),
                        n_values=n_values,
                    ).value
                    for i, n in times.items()
                    for _ in range(n * bool(counts[i].any()))
                ]
                for c in range(n_classes)
            ]
        if len(self.ids) > FACTORS:
            return None
        return [
            [
                self._present(
                    int(counts[i, c]),
                    int(totals[c]),
                    there=i in times and bool(counts[i].any()),
                ).value
                for i in range(len(self.ids))
                if self.declared or counts[i].any()
            ]
            for c in range(n_classes)
        ]

    def _present(self, count: int, total: int, *, there: bool) -> Share:
        chosen = count if there else total - count
        return share(self.smoothing, count=chosen, total=total, n_values=2)

    def _counts(
        self, state: FeatureCounts
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return counts (V, K), totals (K,) and the number of values."""
        ids = np.arange(len(self.ids))
        counting: Counting = "presence"
        if self.model == "bernoulli":
            return state.look_up(ids, counting), state.messages, 2
        counting = "occurrences"
        n_values = len(self.ids) if self.declared else max(1, state.vocabulary)
        return state.look_up(ids, counting), state.totals(counting), n_values

    def _found(self, row: Row) -> Counter[str]:
        if self.text:
            return Counter(of_text(row.cells.get(self.columns[0], "")))
        found: Counter[str] = Counter()
        for column in self.columns:
            if column in row.cells:
                cell = row.cells[column]
                if not is_count(cell):
                    msg = (
                        f"{row.where}: column {column!r} holds {cell!r}, but is taken "
                        "for a count, a whole number below 1000000000"
                    )
                    raise MalformedTable(msg)
                found[column] = int(cell)
        return found


def _numbered(words: Sequence[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(words)}
