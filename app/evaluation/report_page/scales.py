"""Where on an axis does a value lie, and which values are written beside it?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

_STEPS: Final = (1, 2, 5, 10)
_ABOUT: Final = 5
"""Ticks that an axis has, more or less."""


class Scale(Protocol):
    """An axis."""

    def place(self, value: float, /) -> float:
        """Return where a value lies: 0 at the low end, 1 at the high end."""
        ...

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the values that are marked, and how they are written."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal differences are equally long.

    Examples
    --------
    >>> Linear(0, 6000).ticks()
    ((0.0, '0'), (1000.0, '1,000'), (2000.0, '2,000'), (3000.0, '3,000'),
    (4000.0, '4,000'), (5000.0, '5,000'), (6000.0, '6,000'))
    >>> Linear(-10, 30).place(0)
    0.25
    """

    low: float
    high: float

    def place(self, value: float, /) -> float:
        """Return the share of the axis below a value, 0 or 1 for what is beyond."""
        if self.high <= self.low:
            return 0.5
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return multiples of 1, 2 or 5 times a power of ten."""
        span = self.high - self.low
        if span <= 0:
            return ((self.low, written(self.low)),)
        decade = 10.0 ** math.floor(math.log10(span / _ABOUT))
        step = next(
            (decade * n for n in _STEPS if span / (decade * n) <= _ABOUT * 1.5),
            decade * _STEPS[-1],
        )
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        # Multiples, not sums: 0.1 added ten times is not 1.
        values = [round(n * step, 12) for n in range(first, last + 1)]
        return tuple((value, written(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios are equally long; 0 lies at the low end.

    Parameters
    ----------
    low, high : float
        Ends of the axis, above 0.
    zero : bool, default False
        Whether the low end stands for 0 and is marked so.

    Examples
    --------
    >>> Logarithmic(0.01, 100).place(1)
    0.5
    >>> Logarithmic(0.01, 100, zero=True).ticks()
    ((0.01, '0'), (0.1, '0.1'), (1.0, '1'), (10.0, '10'), (100.0, '100'))
    """

    low: float
    high: float
    zero: bool = False

    def place(self, value: float, /) -> float:
        """Return the share of the axis below a value, 0 or 1 for what is beyond."""
        if value <= self.low or self.high <= self.low:
            return 0.0
        return min(1.0, math.log(value / self.low) / math.log(self.high / self.low))

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return powers of ten; where there are few, 2 and 5 times them as well."""
        first = math.floor(math.log10(self.low))
        last = math.ceil(math.log10(self.high))
        factors = (1.0,) if last - first > 2 else (1.0, 2.0, 5.0)  # noqa: PLR2004
        values = [
            round(factor * 10.0**n, 12)
            for n in range(first, last + 1)
            for factor in factors
        ]
        inside = [v for v in values if self.low * 1.0001 < v <= self.high * 1.0001]
        if not self.zero:
            return tuple(
                (v, written(v)) for v in values if self.low <= v <= self.high * 1.0001
            )
        # A mark too close to the zero would be written over it.
        clear = [v for v in inside if self.place(v) > 0.12]  # noqa: PLR2004
        return ((self.low, "0"), *((value, written(value)) for value in clear))


@dataclass(frozen=True, slots=True)
class Logit:
    """Equal differences of log-odds are equally long, for shares in per cent.

    Parameters
    ----------
    edge : float, default 0.05
        The axis goes from here to 100 less it; what is beyond lies at its end.
        Unit: per cent.

    Examples
    --------
    >>> Logit().place(50)
    0.5
    >>> Logit().place(0), Logit().place(100)
    (0.0, 1.0)
    """

    edge: float = 0.05

    def place(self, value: float, /) -> float:
        """Return the share of the axis below a value."""
        kept = min(100 - self.edge, max(self.edge, value))
        span = math.log((100 - self.edge) / self.edge)
        # The ends exactly: the rounding of the logarithms leaves a trace.
        if kept in {self.edge, 100 - self.edge}:
            return float(kept > 50)  # noqa: PLR2004
        return 0.5 + math.log(kept / (100 - kept)) / (2 * span)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the shares that people speak of."""
        marks = (0.1, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9)
        return tuple(
            (mark, written(mark))
            for mark in marks
            if self.edge <= mark <= 100 - self.edge
        )


def written(value: float) -> str:
    """Return a number as short as it can be written.

    Examples
    --------
    >>> written(6047.0), written(0.05), written(-0.0)
    ('6,047', '0.05', '0')
    """
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.10g}"
