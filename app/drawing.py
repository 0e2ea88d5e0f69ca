"""Drawing: axes, scales, lines, bars and marks in SVG, and tables in HTML pages.

Colours are classes (`drawing.css` has them for light, dark and paper), and each
series has a dash of its own, so that no line is known by its colour alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jinja2 import Template

_STEPS: Final = (1, 2, 5, 10)
_ABOUT: Final = 5
"""Approximate number of ticks on an axis."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal differences are equally long.

    Examples
    --------
    >>> Linear(0, 6000).ticks()
    ((0.0, '0'), (1000.0, '1,000'), (2000.0, '2,000'), (3000.0, '3,000'),
    (4000.0, '4,000'), (5000.0, '5,000'), (6000.0, '6,000'))
    >>> Linear(-10, 30).position(0)
    0.25
    """

    low: float
    high: float

    def position(self, value: float, /) -> float:
        """Return the share of the axis below a value, 0 or 1 beyond its ends."""
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
    >>> Logarithmic(0.01, 100).position(1)
    0.5
    >>> Logarithmic(0.01, 100, zero=True).ticks()
    ((0.01, '0'), (0.1, '0.1'), (1.0, '1'), (10.0, '10'), (100.0, '100'))
    """

    low: float
    high: float
    zero: bool = False

    def position(self, value: float, /) -> float:
        """Return the share of the axis below a value, 0 or 1 beyond its ends."""
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
        marks = [(v, written(v)) for v in values if self.low <= v <= self.high * 1.0001]
        if not self.zero:
            return tuple(marks)
        # A mark too close to the zero would be written over it.
        clear = [mark for mark in marks if self.position(mark[0]) > 0.12]  # noqa: PLR2004
        return ((self.low, "0"), *clear)


EDGE: Final = 0.05
"""The end of a `Logit`; the other is 100 less it.  Unit: per cent."""


class Logit:
    """Equal differences of log-odds are equally long, for shares in per cent.

    Values beyond the ends lie at them.

    Examples
    --------
    >>> Logit().position(50)
    0.5
    >>> Logit().position(0), Logit().position(100)
    (0.0, 1.0)
    """

    def position(self, value: float, /) -> float:
        """Return the share of the axis below a value."""
        # The ends exactly: the rounding of the logarithms leaves a trace.
        if not EDGE < value < 100 - EDGE:
            return float(value > EDGE)
        span = math.log((100 - EDGE) / EDGE)
        return 0.5 + math.log(value / (100 - value)) / (2 * span)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return the shares that people use."""
        marks = (0.1, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9)
        return tuple((mark, written(mark)) for mark in marks)


@dataclass(frozen=True, slots=True)
class Months:
    """Months are equally long, whatever their days; they are counted from year 0.

    Parameters
    ----------
    first, last : int
        The first and the last month, each as 12 times its year and the months before
        it in that year.

    Examples
    --------
    >>> Months(24314, 24316).ticks()
    ((24314, '2026-03'), (24315, '2026-04'), (24316, '2026-05'))
    """

    first: int
    last: int

    def position(self, value: float, /) -> float:
        """Return the share of the axis below a month; a single one is in the middle."""
        # Half a month on both sides: the dots of the ends are not on the axis.
        return Linear(self.first - 0.5, self.last + 0.5).position(value)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return all months or, of many, every third, twelfth and so on."""
        step = next(
            (n for n in (1, 3, 6, 12) if (self.last - self.first) // n < _ABOUT),
            12 * max(1, (self.last - self.first) // (12 * _ABOUT)),
        )
        months = range(-(-self.first // step) * step, self.last + 1, step)
        return tuple((n, written_month(n)) for n in months)


def written_month(month: int) -> str:
    """Return a month of `Months` as text.

    Examples
    --------
    >>> written_month(24314)
    '2026-03'
    """
    return f"{month // 12:04}-{month % 12 + 1:02}"


@dataclass(frozen=True, slots=True)
class Times(Linear):
    """Moments, in seconds since 1970 and in UTC.

    Examples
    --------
    >>> Times(1767225600, 1767312000).ticks()
    ((1767225600, '00:00'), (1767247200, '06:00'), (1767268800, '12:00'),
    (1767290400, '18:00'), (1767312000, '00:00'))
    """

    low: int
    high: int

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Return full hours, or midnights of a longer time."""
        span = self.high - self.low
        step = next((n for n in _SPANS if span / n <= _ABOUT), 7 * _DAY)
        # A week begins on a Monday; 1970 began on a Thursday.
        origin = 4 * _DAY if step == 7 * _DAY else 0
        begin = self.low - (self.low - origin) % -step
        form = "%H:%M" if step < _DAY else "%d %b"
        return tuple(
            (n, datetime.fromtimestamp(n, UTC).strftime(form))
            for n in range(begin, self.high + 1, step * (1 + span // (14 * step)))
        )


_DAY: Final = 86_400
_SPANS: Final = (3_600, 10_800, 21_600, _DAY, 2 * _DAY)

Scale = Linear | Logarithmic | Logit | Months | Times
"""A scale: `position` maps its ends to 0 and 1, and `ticks` are its marks."""


def written(value: float) -> str:
    """Return a number in its shortest form.

    Examples
    --------
    >>> written(6047.0), written(0.05), written(-0.0)
    ('6,047', '0.05', '0')
    """
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.12g}"


WIDTH: Final = 560
HEIGHT: Final = 340
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its scale and its title."""

    scale: Scale
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A rectangle between two axes; its marks are macros of `drawing.html`.

    Parameters
    ----------
    x, y : Axis
        The axes.
    height : int
        Height of the picture.  Unit: pixels.
    """

    width: ClassVar = WIDTH
    left: ClassVar = 58
    right: ClassVar = WIDTH - 24
    top: ClassVar = 14
    below: ClassVar = 46

    x: Axis
    y: Axis
    height: int = HEIGHT

    @property
    def floor(self) -> int:
        """The vertical position of the x axis.  Unit: pixels."""
        return self.height - self.below

    def across(self, value: float) -> float:
        """Return the horizontal position of a value.  Unit: pixels."""
        return self.left + self.x.scale.position(value) * (self.right - self.left)

    def down(self, value: float) -> float:
        """Return the vertical position of a value.  Unit: pixels."""
        return self.floor - self.y.scale.position(value) * (self.floor - self.top)

    def line(self, points: Iterable[Point | None], *, class_: str) -> Markup:
        """Return a line through points; None lifts the pen."""
        path: list[str] = []
        last = ""
        down = False
        for point in points:
            if point is None:
                down = False
                continue
            position = f"{self.across(point[0]):.1f} {self.down(point[1]):.1f}"
            if not down or position != last:
                path.append(f"{'L' if down else 'M'}{position}")
            down, last = True, position
        return macro("line", "".join(path), class_)

    def steps(self, points: Sequence[Point], *, class_: str) -> Markup:
        """Return a line of steps: across, then up or down to the next point."""
        corners = [
            corner
            for before, point in pairwise(points)
            for corner in ((point[0], before[1]), point)
        ]
        return self.line([*points[:1], *corners], class_=class_)

    def bar(self, low: float, high: float, value: float, *, class_: str) -> Markup:
        """Return a bar from the floor of the plot up to a value."""
        left, right, top = self.across(low), self.across(high), self.down(value)
        wide, tall = max(0.5, right - left - 1), max(0.0, self.floor - top)
        return macro("rect", left + 0.5, top, wide, tall, f"bar {class_}")

    def area(self, corner: Point, other: Point, *, class_: str) -> Markup:
        """Return a rectangle from its lower left corner to its upper right one."""
        (left, low), (right, high) = (
            (self.across(x), self.down(y)) for x, y in (corner, other)
        )
        return macro("rect", left, high, right - left, low - high, f"area {class_}")

    def dot(self, x: float, y: float, *, class_: str, says: str) -> Markup:
        """Return a mark, with a text that shows when it is pointed at."""
        return macro("dot", self.across(x), self.down(y), class_, says)

    def upright(self, x: float, low: float, high: float, *, class_: str) -> Markup:
        """Return an upright line, such as an interval or a threshold."""
        at, ends = self.across(x), (self.down(low), self.down(high))
        return macro("straight", at, ends[0], at, ends[1], f"upright {class_}")

    def note(self, x: float, text: str, *, side: Literal["left", "right"]) -> Markup:
        """Return a word at the top of the plot, beside a position on the x axis."""
        at, class_ = (4, "note") if side == "right" else (-4, "note end")
        return macro("label", text, self.across(x) + at, self.top + 11, class_)

    def word(self, x: float, y: float, text: str) -> Markup:
        """Return a word with its middle at a place."""
        return macro("label", text, self.across(x), self.down(y) + 4, "word middle")

    def drawn(self, *marks: str, title: str) -> Markup:
        """Return the whole picture; the titles of its axes describe it."""
        return macro("plot", self, "".join(marks), title)

    def figure(
        self,
        heading: str,
        says: str,
        marks: Iterable[str],
        names: Sequence[tuple[str, str]],
        numbers_table: str,
        *,
        dots: bool = False,
    ) -> Markup:
        """Return a figure with this one picture (`figure`)."""
        drawing = self.drawn(*marks, title=heading)
        return figure(heading, says, drawing, names, numbers_table, dots=dots)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("app", ""),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # A tenth of a pixel is not seen, and halves the page.
    made.filters["px"] = lambda pixels: f"{pixels:.1f}".removesuffix(".0")
    made.filters["addressed"] = addressed
    return made


_ADDRESS: Final = re.compile(r"(<[^<>\s]*@[^<>\s]*>)")


def addressed(line: str) -> Markup:
    """Return a line of names and addresses, with each address from left to right.

    Behind a name in Arabic or Hebrew, a browser would put its brackets and the parts
    of its domain elsewhere.

    Examples
    --------
    >>> addressed("Ann & Bob <ann@example.org>")
    Markup('Ann &amp; Bob <bdi dir="ltr">&lt;ann@example.org&gt;</bdi>')
    """
    names = _ADDRESS.split(str(_visible(line)))
    names[1::2] = [Markup('<bdi dir="ltr">{}</bdi>').format(x) for x in names[1::2]]
    return Markup("").join(map(escape, names))


def _visible(given: object) -> object:
    """Return a text without characters that are invisible or reverse a line."""
    if not isinstance(given, str) or isinstance(given, Markup) or given.isprintable():
        return given
    return "".join(
        c
        if c.isprintable() or c == "\n"
        else " "
        if c.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for c in given
    )


def template(name: str) -> Template:
    """Return a template by its path below the package; `.html` escapes what it shows.

    It shows U+FFFD in place of control characters, which come from mail and tables.

    Examples
    --------
    >>> template("evaluation/page.html").name
    'evaluation/page.html'
    """
    return _environment().get_template(name)


def macro(name: str, *given: object) -> Markup:
    """Return what a macro of `app/drawing.html` makes; it escapes texts."""
    made: Markup = getattr(template("drawing.html").module, name)(*given)
    return made


def legend(names: Sequence[tuple[str, str]]) -> Markup:
    """Return the names of lines, given as (name, class); nothing for a single one."""
    return macro("legend", names)


def number(value: float | None, digits: int = 3) -> str:
    """Return a figure as text; a dash where it is not defined.

    Examples
    --------
    >>> number(0.09321), number(5172), number(None)
    ('0.093', '5,172', '-')
    """
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1
) -> Markup:
    """Return a table that scrolls by itself where the page is narrow.

    Parameters
    ----------
    caption : str
        Its caption.
    headings : sequence of str
        Headings of the columns.
    rows : iterable of sequence of str
        Plain text, escaped here.
    text : int
        Number of first columns that hold words; the others hold numbers.
    """
    return macro("table", caption, headings, rows, text)


SERIES: Final = 6
"""Lines that can be distinguished; the classes repeat after them."""


def series(at: int) -> str:
    """Return the class of a line by its number."""
    return f"s{at % SERIES}"


def with_classes(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the names of lines, each with the class of its number."""
    return [(name, series(at)) for at, name in enumerate(names)]


def figure(
    heading: str,
    says: str,
    drawing: str,
    names: Sequence[tuple[str, str]],
    numbers_table: str,
    *,
    dots: bool = False,
) -> Markup:
    """Return a figure.

    Parameters
    ----------
    heading, says : str
        Its subject, and how it is read.
    drawing : str
        Markup.
    names : sequence of (str, str)
        Names of its lines, with their classes.
    numbers_table : str
        The same in numbers; markup.
    dots : bool
        Whether the names are those of dots, not of lines.
    """
    return macro("figure", heading, says, drawing, names, numbers_table, dots)
