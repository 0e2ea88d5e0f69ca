"""Column groups: columns of a table under one event model, and its parameters.

A group reads cells, passes them to a model of `app.bayes`, and shows the learned
numbers and the terms of a score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from app.bayes.counts import FeatureCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions
    from app.bayes.linear import LinearForm
    from app.bayes.moments import MomentSums
    from app.lab.table import Row


@dataclass(frozen=True, slots=True)
class Number:
    """A learned number.

    Parameters
    ----------
    value : float
        As `app.bayes` computes it.
    fraction : str or None
        The exact fraction, if it is short.
    note : str or None
        A remark for the reader, if there is one.
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
        Whether it takes part, because training has seen it or it is declared;
        otherwise it adds 0.
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
        """Whether the words were declared."""
        return False

    @property
    def constant_term(self) -> tuple[str, str] | None:
        """Column and feature of the summand of every row; None if there is none."""
        return None

    @abstractmethod
    def encode(self, row: Row) -> Any | None:
        """Return the cells of a row as the event model takes them.

        None if none of them is known.

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
        """The features that may have a weight in a linear form, by id."""

    @property
    def baseline(self) -> frozenset[int]:
        """The features that follow from the others of their column."""
        return frozenset()

    @abstractmethod
    def form(self, state: Any, likelihood: Any) -> LinearForm | None:
        """Return the linear form of the log-likelihood, None if there is none."""

    def values_of(self, x: Any) -> NDArray[np.float64]:
        """Return the values by which the weights of a row's features are multiplied."""
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

        None if they are not rational, or too many.
        """
        return None
