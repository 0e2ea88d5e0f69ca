"""Diagrams of the evaluation page: thresholds, time and distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from app.drawing import (
    HEIGHT,
    Axis,
    Linear,
    Logarithmic,
    Logit,
    Plot,
    figure,
    number,
    series,
    table,
    written,
)
from app.figures.metrics import (
    error_over_time,
    learning_curve,
    roc,
    spam_missed_at,
    wilson,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from app.evaluation.run import Run
    from app.figures.calibration import Bin
    from app.figures.metrics import Course

_AT: Final = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Ham lost for which the spam missed is listed.  Unit: per cent."""
_WINDOW: Final = 500
"""Largest number of messages of a side over which errors are averaged."""


def roc_figure(runs: Sequence[Run]) -> str:
    """Return the errors at each threshold, on logarithmic scales."""
    curves = [(run, roc(run.log_odds, run.is_spam)) for run in runs]
    ham = max(1, min(int((~run.is_spam).sum()) for run in runs))
    spam = max(1, min(int(run.is_spam.sum()) for run in runs))
    plot = Plot(
        x=Axis(Logarithmic(50.0 / ham, 100.0, zero=True), "ham lost, per cent"),
        y=Axis(
            Logarithmic(50.0 / spam, 100.0, zero=True),
            "spam missed, per cent",
        ),
    )
    lines = []
    for at, (run, curve) in enumerate(curves):
        if curve is None:
            continue
        points = list(
            zip(
                curve.ham_lost_pct.tolist(), curve.spam_missed_pct.tolist(), strict=True
            )
        )
        report = run.report()
        lines += [
            plot.steps(points, class_=series(at)),
            plot.dot(
                report.ham_lost_pct or 0.0,
                report.spam_missed_pct or 0.0,
                class_=series(at),
                says=f"{run.configuration}: as it decides",
            ),
        ]
    rows = [
        (
            run.configuration,
            *(
                number(spam_missed_at(run.log_odds, run.is_spam, ham_lost_pct=pct), 2)
                for pct in _AT
            ),
        )
        for run in runs
    ]
    return figure(
        "What each threshold costs",
        "Down and to the left is better; the dot is the threshold of the filter.",
        plot.drawn(
            *lines,
            title="ROC curve",
            description="Spam missed against ham lost at every threshold, both on "
            "logarithmic scales.",
        ),
        _names(runs),
        table(
            "Spam missed at each share of ham lost, in per cent",
            ("configuration", *(f"{written(pct)} %" for pct in _AT)),
            rows,
            text=1,
        ),
    )


def time_figure(runs: Sequence[Run]) -> str:
    """Return the errors over time of the first run."""
    run = runs[0]
    gold, decided = run.is_spam, run.decided_spam
    wrong = gold != decided
    least = min(int(gold.sum()), int((~gold).sum()))
    window = max(1, min(_WINDOW, least // 4))
    sides = (
        ("ham lost", "ham", error_over_time(wrong, ~gold, window=window)),
        ("spam missed", "spam", error_over_time(wrong, gold, window=window)),
    )
    top = max((v for *_, course in sides for v in course.values if v), default=1.0)
    plot = Plot(
        x=Axis(Linear(0, gold.size), "messages"),
        y=Axis(Linear(0, top), "errors, per cent"),
    )
    lines = [_line(plot, course, class_) for _, class_, course in sides]
    shown = sides[0][2].messages
    rows = [
        (
            f"{shown[at]:,}",
            *(number(course.values[at], 2) for *_, course in sides),
        )
        for at in _some(len(shown))
    ]
    return figure(
        "Errors over time",
        f"Among the last {window:,} messages of each kind"
        + (f" ({run.configuration})." if len(runs) > 1 else "."),
        plot.drawn(
            *lines,
            title="Errors over time",
            description="The share of ham lost and of spam missed among the last "
            f"{window} ham and the last {window} spam.",
        ),
        [(name, class_) for name, class_, _ in sides],
        table(
            "Errors, in per cent", ("after", "ham lost", "spam missed"), rows, text=1
        ),
    )


def learning_figure(runs: Sequence[Run]) -> str:
    """Return 1-ROCA % of all messages so far, on logarithmic scales."""
    courses = [learning_curve(run.log_odds, run.is_spam) for run in runs]
    values = [v for course in courses for v in course.values if v]
    low = 10.0 ** math.floor(math.log10(min(values, default=1.0)))
    high = max(low * 10, 10.0 ** math.ceil(math.log10(max(values, default=1.0))))
    moments = courses[0].messages
    plot = Plot(
        x=Axis(
            Logarithmic(moments[0], max(moments[-1], moments[0] + 1)),
            "messages",
        ),
        y=Axis(Logarithmic(low, high), "1-ROCA so far, per cent"),
    )
    lines = [_line(plot, course, series(at)) for at, course in enumerate(courses)]
    rows = [
        (f"{moments[at]:,}", *(number(course.values[at]) for course in courses))
        for at in _some(len(moments))
    ]
    return figure(
        "Learning curve",
        "Wrongly ranked pairs of all mail so far; lower is better.",
        plot.drawn(
            *lines,
            title="Learning curve",
            description="1-ROCA of all messages so far against their number, both on "
            "logarithmic scales.",
        ),
        _names(runs),
        table(
            "1-ROCA of all messages so far, in per cent",
            ("after", *(run.configuration for run in runs)),
            rows,
            text=1,
        ),
    )


def _line(plot: Plot, course: Course, class_: str) -> str:
    points = zip(course.messages, course.values, strict=True)
    return plot.line(
        (None if value is None else (moment, value) for moment, value in points),
        class_=class_,
    )


def _names(runs: Iterable[Run]) -> list[tuple[str, str]]:
    return [(run.configuration, series(at)) for at, run in enumerate(runs)]


def _some(length: int) -> list[int]:
    """Return about a dozen positions of a list, including the last."""
    return sorted({round(at) for at in np.linspace(0, length - 1, min(length, 12))})


_BARS: Final = 40
_NARROWEST: Final = 1e-9


def reliability_figure(
    bins: Iterable[Bin], whose: str = "", *, height: int = HEIGHT
) -> str:
    """Return the share of spam against the predicted probability."""
    scale = Logit()
    plot = Plot(
        x=Axis(scale, "predicted probability of spam, per cent"),
        y=Axis(scale, "actual spam, per cent"),
        height=height,
    )
    marks = [plot.line([(0, 0), (100, 100)], class_="ideal")]
    rows = []
    for each in bins:
        low, high = wilson(each.spam, each.messages)
        share, mean = 100 * each.share, 100 * each.mean
        says = f"{mean:.2f} % predicted, {share:.2f} % spam of {each.messages:,}"
        marks += [
            plot.upright(mean, 100 * low, 100 * high, class_="interval"),
            plot.dot(mean, share, class_=series(0), says=says),
        ]
        rows.append(
            (
                f"{100 * each.low:.2f} to {100 * each.high:.2f}",
                number(mean, 2),
                number(share, 2),
                f"{100 * low:.2f} to {100 * high:.2f}",
                number(each.messages),
            )
        )
    return figure(
        f"Does the probability mean what it says?{whose}",
        "On the dashed line it does; the bars are 95 % intervals.",
        plot.drawn(
            *marks,
            title="Reliability diagram",
            description="The share of spam in groups of messages with similar "
            "probability, against that probability, both on log-odds scales.",
        ),
        [],
        table(
            "Groups with equal numbers of messages, in per cent",
            ("probability", "mean", "spam", "95 % interval", "messages"),
            rows,
            text=1,
        ),
    )


def histogram_figure(run: Run, whose: str) -> str:
    """Return the distribution of the scores of ham and of spam."""
    scores, gold = run.log_odds, run.is_spam
    finite = scores[np.isfinite(scores)]
    edge = float(np.ceil(np.quantile(np.abs(finite), 0.999))) if finite.size else 1.0
    edges = np.linspace(-max(edge, 1.0), max(edge, 1.0), _BARS + 1)
    ham, spam = (_counts(scores[side], edges) for side in (~gold, gold))
    top = max(10.0, float(max(ham.max(), spam.max())))
    rule = run.specification.verdict
    panels = []
    for name, class_, counts in (("ham", "ham", ham), ("spam", "spam", spam)):
        plot = Plot(
            x=Axis(
                Linear(edges[0], edges[-1]),
                "log-odds of spam, nats" if class_ == "spam" else "",
            ),
            y=Axis(Logarithmic(0.5, top, zero=True), name),
            height=200,
        )
        panels.append(
            plot.drawn(
                *(
                    plot.bar(low, high, count, class_=class_)
                    for low, high, count in zip(
                        edges.tolist(),
                        edges[1:].tolist(),
                        counts.tolist(),
                        strict=False,
                    )
                    if count
                ),
                *(
                    plot.upright(at, 0, top, class_="threshold")
                    for at in (rule.ham_threshold, rule.spam_threshold)
                ),
                *(
                    (
                        plot.note(rule.ham_threshold, "ham", side="left"),
                        plot.note(rule.spam_threshold, "spam", side="right"),
                    )
                    if class_ == "ham"
                    else ()
                ),
                title=f"Scores of the {name}",
                description=f"Distribution of the log-odds of {name}, with numbers on "
                "a logarithmic scale.",
            )
        )
    rows = [
        (f"{low:+.1f} to {high:+.1f}", f"{h:,}", f"{s:,}")
        for low, high, h, s in zip(
            edges.tolist(),
            edges[1:].tolist(),
            ham.tolist(),
            spam.tolist(),
            strict=False,
        )
        if h or s
    ]
    return figure(
        f"Scores{whose}",
        "The thresholds of ham and spam are marked; between them the filter is unsure.",
        "".join(panels),
        [],
        table("Messages by score", ("log-odds", "ham", "spam"), rows, text=1),
    )


def _counts(
    scores: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return the messages in each bar; the outer bars include those beyond the ends."""
    inside = np.clip(scores, edges[0], edges[-1] - _NARROWEST)
    return np.histogram(inside, edges)[0].astype(np.int64)
