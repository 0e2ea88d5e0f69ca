"""What is drawn of the runs on one stream? Thresholds, and the course of time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from app.evaluation.curves import error_over_time, learning_curve, roc
from app.evaluation.metrics import spam_missed_at
from app.evaluation.report_page.frame import figure, series
from app.evaluation.report_page.scales import Linear, Logarithmic, written
from app.evaluation.report_page.svg import Axis, Plot
from app.evaluation.report_page.tables import number, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.evaluation.run import Run

_AT: Final = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Ham lost for which the spam missed is listed.  Unit: per cent."""

_WINDOW: Final = 500
"""Messages of a side that errors are averaged over, where there are enough."""


def roc_figure(runs: Sequence[Run]) -> str:
    """Return what each threshold costs, on logarithmic scales."""
    curves = [(run, roc(run.log_odds, run.is_spam)) for run in runs]
    ham = max(1, min(int((~run.is_spam).sum()) for run in runs))
    spam = max(1, min(int(run.is_spam.sum()) for run in runs))
    plot = Plot(
        x=Axis(
            scale=Logarithmic(50.0 / ham, 100.0, zero=True), title="ham lost, per cent"
        ),
        y=Axis(
            scale=Logarithmic(50.0 / spam, 100.0, zero=True),
            title="spam missed, per cent",
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
        "Down and to the left is better; the dot is where the filter decides.",
        plot.drawn(
            *lines,
            title="ROC curve",
            description="Spam missed against ham lost at every threshold, both on "
            "logarithmic scales.",
        ),
        _names(runs),
        table(
            "Spam missed, in per cent, where so much ham is lost",
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
        x=Axis(scale=Linear(0, gold.size), title="messages"),
        y=Axis(scale=Linear(0, top), title="errors, per cent"),
    )
    lines = [
        plot.line(
            (
                None if value is None else (moment, value)
                for moment, value in zip(course.messages, course.values, strict=True)
            ),
            class_=class_,
        )
        for _, class_, course in sides
    ]
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
            scale=Logarithmic(moments[0], max(moments[-1], moments[0] + 1)),
            title="messages",
        ),
        y=Axis(scale=Logarithmic(low, high), title="1-ROCA so far, per cent"),
    )
    lines = [
        plot.line(
            (
                None if value is None else (moment, value)
                for moment, value in zip(course.messages, course.values, strict=True)
            ),
            class_=series(at),
        )
        for at, course in enumerate(courses)
    ]
    rows = [
        (f"{moments[at]:,}", *(number(course.values[at]) for course in courses))
        for at in _some(len(moments))
    ]
    return figure(
        "Learning curve",
        "How well all mail so far is told apart; lower is better.",
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


def _names(runs: Iterable[Run]) -> list[tuple[str, str]]:
    return [(run.configuration, series(at)) for at, run in enumerate(runs)]


def _some(length: int) -> list[int]:
    """Return about a dozen positions of a list, the last among them."""
    return sorted({round(at) for at in np.linspace(0, length - 1, min(length, 12))})
