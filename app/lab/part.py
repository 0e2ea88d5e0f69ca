"""Parts: columns of a table that share an event model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions
    from app.lab.table import Row

State = Any
"""The training state of an event model: `FeatureCounts` or `MomentSums`."""


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
        What a reader must know; None where there is nothing.
    """

    value: float
    fraction: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """A table of learned numbers.

    Parameters
    ----------
    title : str
        What is learned: "P(cough | diagnosis)".
    header : tuple of str
        Names of the columns: mostly the classes.
    rows : tuple of (str, tuple of Number)
        Name and numbers of each row.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Number, ...]], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """What one thing in a row adds to the score of each class.

    Parameters
    ----------
    column : str
        Where it stands.
    feature : str
        What it is: a value, a word.
    nats : ndarray of float64, shape (K,)
        Unit: nats.
    seen : bool
        Whether training has seen it; if not, it adds 0.
    """

    column: str
    feature: str
    nats: NDArray[np.float64]
    seen: bool


class Part(Protocol):
    """Columns of a table under one event model."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def model(self) -> str:
        """Name of the event model."""
        ...

    @property
    def event_model(self) -> Any:
        """The model of `app.bayes`: observe and estimate."""
        ...

    def encode(self, row: Row) -> Any | None:
        """Return the part of a row as the event model takes it.

        None where nothing of it is known.

        Raises
        ------
        MalformedTable
            If a cell is not of the kind of its column.
        """
        ...

    def total(self, states: Iterable[State], *, n_classes: int) -> State:
        """Return the sum of training states."""
        ...

    def notes(self, state: State, likelihood: Any) -> list[str]:
        """Return what the model did to the columns, in sentences."""
        ...

    def learned(
        self, state: State, likelihood: Any, classes: Sequence[str]
    ) -> list[Learned]:
        """Return what was learned, as tables."""
        ...

    def terms(self, row: Row, x: Any, contributions: Contributions) -> list[Term]:
        """Return the log-likelihood of a row, taken apart by what is in it."""
        ...

    def strangers(self, row: Row) -> list[str]:
        """Return what of a row is unknown to the table as a whole."""
        ...

    def factors(
        self, state: State, x: Any, *, n_classes: int
    ) -> list[list[Fraction]] | None:
        """Return the exact factors of the likelihood in each class.

        None where they are not rational, or too many.
        """
        ...
