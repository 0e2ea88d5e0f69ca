"""Column groups: columns under one event model, its parameters, and exact shares.

A group reads cells, passes them to a model of `app.bayes`, and shows the learned
numbers and the terms of a score.

Contract of this file: shares make no decisions.  Scores, posteriors and decisions come
from `app.bayes`; the code here repeats the arithmetic with rational numbers, for
display, and the tests compare the two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.smoothing import Epsilon, Lidstone
from app.lab.table import Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.bayes.linear import LinearForm
    from app.bayes.models import Contributions
    from app.bayes.models.gaussian import Constant, Variances
    from app.bayes.moments import MomentSums
    from app.bayes.prior import Prior
    from app.bayes.smoothing import Smoothing
    from app.kernels import Floats
    from app.lab.table import Kind, Row


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
    nats: Floats
    seen: bool


class ColumnGroup(ABC):
    """Columns of a table under one event model.

    Attributes
    ----------
    model : str
        Name of the event model.
    columns : tuple of str
        Names of the columns.
    closed : bool
        Whether the words were declared.
    """

    __slots__ = ()
    statistics: ClassVar[type[FeatureCounts | MomentSums]] = FeatureCounts
    model: str
    columns: tuple[str, ...]
    closed: bool = False

    @property
    @abstractmethod
    def event_model(self) -> Any:
        """The model of `app.bayes`: observe and estimate."""

    def estimate(self, state: Any) -> Any:
        """Return the likelihood under a training state."""
        return self.event_model.estimate(state)

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
        self, state: Any, likelihood: Any, /, classes: Sequence[str]
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
    def form(self, state: Any, likelihood: Any, /) -> LinearForm:
        """Return the linear form of the log-likelihood.

        Raises
        ------
        InvalidObservation
            If there is none.
        """

    def values_of(self, x: Any) -> Floats:
        """Return the values by which the weights of a row's features are multiplied."""
        return np.asarray(x.values.astype(np.float64))

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

    def dropped(self, _: Any, /) -> tuple[list[str], str]:
        """Return the columns that the model left out, and why."""
        return [], ""

    def notes(self, _state: Any, _likelihood: Any, /) -> list[str]:
        """Return sentences about what the model changed."""
        return []

    def unknown_words(self, _: Row, /) -> list[str]:
        """Return the words of a row that the table lacks, each after its column."""
        return []

    def factors(self, _state: Any, _x: Any, /) -> list[list[Fraction]] | None:
        """Return the exact factors of the likelihood, each in all classes.

        None if they are not rational, or too many.
        """
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The choices of a user.

    Parameters
    ----------
    target : str
        The column that is to be predicted.
    model : Model
        The event model of the columns.
    columns : tuple of str or None
        The columns that teach; None for all but the target.
    kinds : mapping of str to Kind
        Kinds that override the detected ones.
    smoothing : Smoothing
        Treatment of rare and missing counts.
    prior : Prior
        The class prior.
    vocabulary : str or None
        Words of the text columns; None for the words in them.
    values : mapping of str to tuple of str
        Declared values of columns of categories; other columns have the values in
        them.
    constant : {"floor", "drop"} or float
        Treatment of a measurement that does not vary: a number is added to each
        variance.
    shrinkage : float or None
        Shrinkage of the discriminant; None if it is estimated.
    variances : {"class", "shared"}
        Whether each class has its own variances.
    deviation : float or None
        Standard deviation of the prior of a weight, for logistic regression; None
        for maximum likelihood.
    """

    target: str
    model: Model = Model.AUTO
    columns: tuple[str, ...] | None = None
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    smoothing: Smoothing = Lidstone(1.0)  # noqa: RUF009  a frozen value
    prior: Prior = FittedPrior()  # noqa: RUF009  a frozen value
    vocabulary: str | None = None
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    constant: Constant | float = "floor"
    shrinkage: float | None = 0.0
    variances: Variances = "class"
    deviation: float | None = None

    @property
    def added(self) -> float | None:
        """The constant that is added to each variance, if there is one."""
        return None if isinstance(self.constant, str) else self.constant


WRITTEN_CHARS: Final = 32
"""Length of the longest fraction that is written out."""
FACTORS: Final = 500
"""Largest number of factors of an exact product; its digits grow with each."""
_SMALL: Final = 10**6
TELLS_FROM_1: Final = 5e-5
"""With four digits, numbers closer to 1 would be rounded to it."""
SMALLEST_WRITTEN_OUT: Final = 1e-9
"""Numbers closer to 1 are written as a difference from 1."""
SMALLEST_EXPONENT: Final = -700.0
"""Below this, a double loses digits.  Unit: nats."""
TELLS_FROM_1_ABOVE: Final = 5e-4


@dataclass(frozen=True, slots=True)
class Share:
    """An unreduced fraction: ``3/6`` says more than ``1/2``.

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
        """The number; 0 if nothing was counted."""
        if not self.denominator:
            return Fraction(0)
        return self.numerator / self.denominator

    def __str__(self) -> str:
        """Return the unreduced fraction, if its parts are whole numbers."""
        integers = self.numerator.denominator == self.denominator.denominator == 1
        return f"{self.numerator}/{self.denominator}" if integers else str(self.value)


def rational(number: float) -> Fraction:
    """Return the fraction with the decimal notation of a float.

    Examples
    --------
    >>> rational(1 / 3), rational(0.1), rational(1e-7)
    (Fraction(1, 3), Fraction(1, 10), Fraction(1, 10000000))
    """
    near = Fraction(number).limit_denominator(_SMALL)
    return near if float(near) == number else Fraction(repr(number))


def share(smoothing: Smoothing, *, count: int, total: int, n_values: int) -> Share:
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


def prior_shares(prior: Prior, messages: Sequence[int]) -> tuple[Share, ...]:
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
    """Return a fraction as text, None if there is none or it is too long."""
    text = str(number)
    return None if number is None or len(text) > WRITTEN_CHARS else text


def posterior(joint: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the joint divided by its sum; uniform if all of it is zero."""
    total = sum(joint)
    if not total:
        return (Fraction(1, len(joint)),) * len(joint)
    return tuple(j / total for j in joint)


def probability(exact: str | None, logs: Floats, c: int) -> str:
    """Return a probability, as a power if it and its complement are no doubles."""
    rest = float(np.logaddexp.reduce(np.delete(logs, c)))
    for log, before in ((float(logs[c]), ""), (rest, "1 - ")):
        if exact is None and -math.inf < log < SMALLEST_EXPONENT:
            return before + power(log)
    return with_decimals(exact, math.exp(logs[c]), rest=math.exp(min(rest, 0.0)))


def with_decimals(
    fraction: str | None, value: float, *, rest: float | None = None
) -> str:
    """Return a fraction with its decimals, or only one of them if that is enough."""
    decimals = four_digits(value, 1 - value if rest is None else rest)
    if fraction is None:
        return decimals
    return f"{fraction} ({decimals})" if "/" in fraction else fraction


def four_digits(value: float, rest: float) -> str:
    """Return a number with four digits, or with enough to distinguish it from 1.

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
    """Return the number with a given logarithm of any size, as text."""
    return "0" if nats == -math.inf else f"exp({nats:.4f})"
