"""Drawing: ROC curves of several streams, and growth, each in one picture."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from app.drawing import HEIGHT, WIDTH, Axis, Linear, Logarithmic, Plot, macro, series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.drawing import Point
    from app.figures import Roc

LOWEST: Final = 0.02
"""Where the axes begin, as none.  Unit: per cent."""

_ACROSS: Final = 2
_LEGEND: Final = 26
_APART: Final = 2.0
"""A point nearer than this to the last one is left out.  Unit: pixels."""


def drawing(curves: Mapping[str, Mapping[str, Roc]]) -> str:
    """Return an SVG file: a panel for each stream, a line for each filter.

    Parameters
    ----------
    curves : mapping of str to mapping of str to Roc
        The curve of each filter on each stream; the same filters on all.
    """
    names = list(next(iter(curves.values())))
    rows = -(-len(curves) // _ACROSS)
    across, down = _ACROSS * WIDTH, rows * HEIGHT + _LEGEND
    panels = [
        _moved(
            at % _ACROSS * WIDTH,
            _LEGEND + at // _ACROSS * HEIGHT,
            _panel(stream, of_stream, names),
        )
        for at, (stream, of_stream) in enumerate(curves.items())
    ]
    return _picture("ROC curves", across, down, *_legend(names, across), *panels)


def growth(
    sizes: Sequence[int],
    lines: Sequence[tuple[str, list[float]]],
    *,
    across: str,
    up: str,
) -> str:
    """Return an SVG file: what some things cost, by size.

    Parameters
    ----------
    sizes : sequence of int
        The sizes.
    lines : sequence of (str, list of float)
        The name of each line, and its value at each size.
    across, up : str
        What the sizes are, and the unit of the values.
    """
    most = max(max(values) for _, values in lines)
    plot = Plot(
        x=Axis(Logarithmic(sizes[0], sizes[-1]), across),
        y=Axis(Linear(0.0, most), up),
    )
    drawn = [
        plot.line(zip(sizes, values, strict=True), class_=series(at))
        for at, (_, values) in enumerate(lines)
    ]
    panel = _moved(0, _LEGEND, Markup().join([macro("axes", plot), *drawn]))
    names = [name for name, _ in lines]
    return _picture("Growth", WIDTH, HEIGHT + _LEGEND, *_legend(names, WIDTH), panel)


def _moved(right: int, down: int, content: Markup) -> Markup:
    return Markup('<g transform="translate({} {})">{}</g>').format(right, down, content)


def _picture(title: str, across: int, down: int, *content: Markup) -> str:
    style = files("app").joinpath("drawing.css").read_text("utf-8")
    return (
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across} {down}" '
            'font-family="system-ui, sans-serif"><title>{title}</title>'
            '<style>{style}</style><rect width="{across}" height="{down}" '
            'fill="var(--card)"/>{content}</svg>\n'
        )
    ).format(
        across=across,
        down=down,
        title=title,
        style=style,
        content=Markup().join(content),
    )


def _panel(stream: str, curves: Mapping[str, Roc], names: Sequence[str]) -> Markup:
    scale = Logarithmic(LOWEST, 100.0, zero=True)
    plot = Plot(
        x=Axis(scale, "ham lost (1 - ham recall), per cent"),
        y=Axis(scale, "spam missed (1 - spam recall), per cent"),
    )
    lines = [
        plot.steps(list(_thinned(plot, curves[name])), class_=series(at))
        for at, name in enumerate(names)
    ]
    return Markup().join(
        [macro("axes", plot), *lines, plot.note(100.0, stream, side="left")]
    )


def _thinned(plot: Plot, curve: Roc) -> Iterator[Point]:
    """Yield the points that can be told apart, and the last."""
    points = list(
        zip(curve.ham_lost_pct.tolist(), curve.spam_missed_pct.tolist(), strict=True)
    )
    last = None
    for x, y in points:
        place = plot.across(x), plot.down(y)
        far = (
            last is None
            or max(abs(place[0] - last[0]), abs(place[1] - last[1])) > _APART
        )
        if far or (x, y) == points[-1]:
            last = place
            yield x, y


def _legend(names: Sequence[str], across: int) -> Iterator[Markup]:
    each = across / len(names)
    for at, name in enumerate(names):
        left = at * each + 14
        yield macro("line", f"M{left:.0f} 16h28", series(at))
        yield macro("label", name, left + 34, 20, "")
