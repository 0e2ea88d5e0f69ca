"""Lab page: a model of a table in tables and diagrams, in one HTML file."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from markupsafe import Markup

from app.bayes.models.gaussian import DiscriminantLikelihood
from app.drawing import (
    WIDTH,
    Axis,
    Linear,
    Logarithmic,
    Plot,
    figure,
    macro,
    number,
    series,
    table,
    template,
    with_classes,
)
from app.lab.fitted import Fitted, Regressed
from app.lab.groups import probability
from app.lab.measured import Measured
from app.lab.measured import number as measured
from app.lab.prediction import decided
from app.lab.report import (
    confusion_table,
    effects_table,
    learned_rows,
    measures_table,
    nats,
    prior_table,
)
from app.lab.table import Kind, Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.kernels import Bools, Floats
    from app.lab.groups import LearnedTable
    from app.lab.prediction import Prediction
    from app.lab.report import Effect, Study, Validation

CELLS: Final = 60
"""Places of a column at which a boundary or a density is computed."""
BARS: Final = 30
"""Largest number of weights in the diagram; the table has all of them."""
DOTS: Final = 400
"""Largest number of rows in a plane; more could not be distinguished."""
_NAME: Final = 24
"""Most characters of a name beside a bar."""
# Of the 17 pixels that letters have on a phone.  Unit: pixels.
_LETTER: Final = 10


def page(study: Study, *, command: str) -> str:
    """Return the page as HTML that loads nothing from elsewhere.

    Parameters
    ----------
    study : Study
        The model, with its predictions and figures.
    command : str
        The command that made it.
    """
    model, predictions = study.model, study.predictions
    design = model.design
    models = ", ".join(dict.fromkeys(map(design.model, design.kinds)))
    kinds = [(c, str(kind), design.model(c)) for c, kind in design.kinds.items()]
    columns = table("Columns", ("column", "kind", "model"), kinds, text=3)
    priors = table("P(class)", *prior_table(model))
    tables = [*model.learned(), *([linear] if (linear := model.linear()) else [])]
    figures = [
        *_densities(model),
        *_shares(model),
        *_boundary(model, predictions),
        *_weights(linear, design.classes[0]),
        *_alphas(study.effects, design.classes),
    ]
    return template("lab/page.html").render(
        title=f"{design.target}: {models}",
        design=design,
        notes=model.notes,
        figures=figures,
        validations=_figures(study.validations),
        confusions=[_confusion(each, design.classes) for each in study.validations],
        predictions=_predictions(predictions, design.classes) if predictions else "",
        learned=[columns, priors, *map(_learned, tables)],
        command=command,
    )


def _figures(validations: Sequence[Validation]) -> Markup:
    rows = [
        {
            "rows of": v.name,
            "number": number(v.rows),
            "right": number(v.right),
            "accuracy %": number(100 * v.accuracy, 1),
            "error rate %": number(100 * v.error_rate, 1),
            "log-likelihood of the classes": nats(v.log_likelihood),
            "of classes and rows": "-" if v.log_joint is None else nats(v.log_joint),
        }
        for v in validations
    ]
    caption = "Log-likelihoods in nats. A tie counts as wrong."
    return table(caption, [*rows[0]], [[*row.values()] for row in rows])


def _confusion(validation: Validation, classes: Sequence[str]) -> Markup:
    rows = f"{validation.name}: rows by class (down) and decision (across)"
    by_class = f"{validation.name}: by class"
    return table(rows, *confusion_table(validation, classes)) + table(
        by_class, *measures_table(validation, classes)
    )


def _predictions(predictions: Sequence[Prediction], classes: Sequence[str]) -> Markup:
    rows = [
        (
            ", ".join(f"{c}={cell}" for c, cell in p.row.cells.items()) or "nothing",
            " and ".join(classes[c] for c in p.best),
            *(probability(None, p.log_posterior, c) for c in range(len(classes))),
        )
        for p in predictions
    ]
    headings = ("row", "decision", *(f"P({name} | row)" for name in classes))
    return table("Posteriors", headings, rows, text=2)


def _learned(learned: LearnedTable) -> Markup:
    return table(learned.title, ("", *learned.header), learned_rows(learned))


def _densities(model: Fitted | Regressed) -> list[Markup]:
    """Return the densities of each measured column, class by class."""
    if not isinstance(model, Fitted):
        return []
    drawn = []
    classes = model.design.classes
    for name, part in model.design.parts.items():
        if not isinstance(part, Measured):
            continue
        likelihood: Any = model.likelihood.likelihoods[name]
        if isinstance(likelihood, DiscriminantLikelihood):
            # The marginal distribution of one column.
            shared = np.diagonal(likelihood.covariance)
            variances = np.tile(shared, (len(classes), 1)).T
        else:
            variances = likelihood.variances
        columns = [part.columns[field] for field in likelihood.ids.tolist()]
        of_each = zip(columns, part.means(likelihood), variances, strict=True)
        drawn += [_curves(column, classes, *of) for column, *of in of_each]
    return drawn


def _curves(
    column: str, classes: Sequence[str], means: Floats, variances: Floats
) -> Markup:
    spread = np.sqrt(variances)
    low, high = float((means - 3 * spread).min()), float((means + 3 * spread).max())
    # The mean of each class is included: a narrow peak may lie between two places.
    at = np.unique([*np.linspace(low, high, 3 * CELLS), *means])
    away = (at[:, np.newaxis] - means) / spread
    density = np.exp(-0.5 * away**2) / (spread * math.sqrt(2 * math.pi))
    plot = Plot(
        x=Axis(Linear(low, high), column),
        y=Axis(Linear(0.0, float(density.max())), "density"),
    )
    lines = [
        plot.line(zip(at.tolist(), of_class, strict=True), class_=series(c))
        for c, of_class in enumerate(density.T.tolist())
    ]
    rows = [
        (name, f"{means[c]:.6g}", f"{variances[c]:.6g}")
        for c, name in enumerate(classes)
    ]
    heading = f"p({column} | class)"
    says = "Density in each class: an area below a curve is a probability."
    return plot.figure(
        heading,
        says,
        lines,
        with_classes(classes),
        table("Normal distributions", ("class", "mean", "variance"), rows),
    )


def _shares(model: Fitted | Regressed) -> list[Markup]:
    """Return the probabilities of the values of each column, class by class."""
    classes = model.design.classes
    tables = model.learned() if isinstance(model, Fitted) else []
    return [
        figure(
            each.title,
            "Probability of each value in each class."
            + _shown(BARS, of=len(each.rows)),
            _bars(
                [
                    (f"{name}, {c}" if i == 0 else c, series(i), numbers[i].value)
                    for name, numbers in each.rows[:BARS]
                    for i, c in enumerate(classes)
                ],
                title=each.title,
            ),
            with_classes(classes),
            _learned(each),
        )
        for each in tables
        if each.header == classes and each.title.endswith("| class)")
    ]


def _weights(linear: LearnedTable | None, first: str) -> list[Markup]:
    """Return the weights of the log-odds of each class to the first, largest first."""
    if linear is None:
        return []
    drawn = []
    for c, name in enumerate(linear.header):
        of_class = [
            (feature.removeprefix("w "), numbers[c].value)
            for feature, numbers in linear.rows[:-1]
        ]
        of_class.sort(key=lambda pair: -abs(pair[1]))
        bars = [
            (feature, series(c + 1) if value > 0 else series(0), value)
            for feature, value in of_class[:BARS]
        ]
        heading = f"Weights of the log-odds of {name} to {first}"
        drawn.append(
            figure(
                heading,
                f"Nats per unit of each feature: to the right for {name}, to the left "
                f"for {first}." + _shown(BARS, of=len(of_class)),
                _bars(bars, title=heading),
                (),
                _learned(linear),
            )
        )
    return drawn if linear.rows[:-1] else []


def _shown(most: int, *, of: int) -> str:
    """Return a sentence about what a diagram leaves out; nothing if it has all."""
    return f" {most} of {of} are shown." if of > most else ""


def _bars(bars: Sequence[tuple[str, str, float]], *, title: str) -> Markup:
    """Return horizontal bars, given as name, class and value."""
    values = [value for _, _, value in bars]
    low, high = min([0.0, *values]), max([0.0, *values])
    # A bar to the left has its number to the left of it.
    longest = max((len(name) for name, _, _ in bars), default=0)
    names = 8 + _LETTER * min(_NAME, longest)
    before = names + 75 * (low < 0)
    scale, room = Linear(low, high or float(not low)), WIDTH - 75 - before

    def ends(value: float) -> tuple[float, float]:
        zero, at = (before + room * scale.position(each) for each in (0.0, value))
        return min(zero, at), max(zero, at)

    drawn = [(name, class_, value, *ends(value)) for name, class_, value in bars]
    return macro("bars", drawn, WIDTH, names, _NAME, title)


def _boundary(
    model: Fitted | Regressed, predictions: Sequence[Prediction]
) -> list[Markup]:
    """Return the decisions over the plane of two measured columns."""
    design = model.design
    if [*design.kinds.values()] != [Kind.MEASUREMENT] * 2:
        return []
    x, y = design.kinds
    rows = [row for row in design.rows if {x, y} <= row.cells.keys()]
    asked = [p.row for p in predictions if {x, y} <= p.row.cells.keys()]
    points = [(measured(row, x), measured(row, y)) for row in (*rows, *asked)]
    if not points:
        return []
    (left, right), (low, high) = (_ends(values) for values in zip(*points, strict=True))
    plot = Plot(
        x=Axis(Linear(left, right), x), y=Axis(Linear(low, high), y), height=420
    )
    across, up = (right - left) / CELLS, (high - low) / CELLS
    areas: list[Markup] = []
    decisions = np.full((CELLS, CELLS), -1)
    for j in range(CELLS):
        places = [
            _decision(model, {x: left + (i + 0.5) * across, y: low + (j + 0.5) * up})
            for i in range(CELLS)
        ]
        for best, run in groupby(range(CELLS), places.__getitem__):
            members = [*run]
            corner = left + members[0] * across, low + j * up
            other = left + (members[-1] + 1) * across, low + (j + 1) * up
            if best is not None:
                areas.append(plot.area(corner, other, class_=series(best)))
                decisions[j, members] = best
    names = [
        plot.word(left + (i + 0.5) * across, low + (j + 0.5) * up, name)
        for c, name in enumerate(design.classes)
        for j, i in _middles(decisions == c)
    ]
    dots = [
        plot.dot(
            *point,
            class_=series(design.classes.index(row.cells[design.target])),
            says=f"{row.where}: {row.cells[design.target]}",
        )
        for row, point in list(zip(rows, points, strict=False))[:DOTS]
    ]
    dots += [
        plot.dot(*point, class_="ideal", says=row.where)
        for row, point in zip(asked, points[len(rows) :], strict=True)
    ]
    heading = "Decision boundary"
    says = f"Decision at each {x} and {y}, with its name; the dots are the rows."
    says += _shown(DOTS, of=len(rows))
    if asked:
        says += " A grey ring is a predicted row."
    numbers = [
        (row.where, f"{a:g}", f"{b:g}")
        for row, (a, b) in zip(rows, points, strict=False)
    ]
    return [
        plot.figure(
            heading,
            says,
            [*areas, *dots, *names],
            with_classes(design.classes),
            table("Rows", ("row", x, y), numbers[:DOTS]),
            dots=True,
        )
    ]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, with room around the values."""
    low, high = min(values), max(values)
    room = 0.15 * (high - low) or max(1.0, abs(low)) * 0.15
    return low - room, high + room


def _middles(inside: Bools) -> Iterator[tuple[int, int]]:
    """Yield the cell of each region that is farthest from its edge.

    Small regions are left out, because they have no room for a name.
    """
    # Imported here: it takes as long as a table without a page.
    from scipy import ndimage  # noqa: PLC0415

    regions, count = ndimage.label(inside)
    for region in range(1, count + 1):
        # Outside of the plane is outside of the region.
        away = ndimage.distance_transform_edt(np.pad(regions == region, 1))
        if np.count_nonzero(away) >= CELLS:
            j, i = np.unravel_index(away.argmax(), away.shape)
            yield int(j) - 1, int(i) - 1


def _decision(model: Fitted | Regressed, cells: dict[str, float]) -> int | None:
    """Return the class at a place; None if classes are tied."""
    row = Row("a place", {column: f"{value:.17g}" for column, value in cells.items()})
    best = decided(model.log_joint(model.encode(row)), lambda: None)
    return best[0] if len(best) == 1 else None


def _alphas(effects: Sequence[Effect], classes: Sequence[str]) -> list[Markup]:
    """Return the posterior of each predicted row by the pseudo-count."""
    effects = sorted(effects, key=lambda e: e.alpha)
    if not effects:
        return []
    alphas = [e.alpha for e in effects]
    asked = range(len(effects[0].posteriors))
    shown = effects_table(effects, classes)
    numbers = table("By pseudo-count, in nats", *shown)
    if len(alphas) == 1 or not asked:
        return [Markup("<figure><h3>The pseudo-count</h3>{}</figure>").format(numbers)]
    drawings = []
    for i in asked:
        plot = Plot(
            x=Axis(Logarithmic(alphas[0], alphas[-1]), "pseudo-count"),
            y=Axis(Linear(0.0, 1.0), f"P(class | row {i + 1})"),
        )
        lines = [
            plot.line(
                [(e.alpha, e.posteriors[i][c]) for e in effects], class_=series(c)
            )
            for c in range(len(classes))
        ]
        drawings.append(plot.drawn(*lines, title=f"Row {i + 1} by the pseudo-count"))
    return [
        figure(
            "The pseudo-count",
            "The posterior of each predicted row: to the right, the counts matter "
            "less.",
            "".join(drawings),
            with_classes(classes),
            numbers,
        )
    ]
