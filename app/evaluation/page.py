"""Evaluation page: its parts, its tables and diagrams, and their order."""

from __future__ import annotations

import math
import platform
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from markupsafe import Markup

from app import __version__
from app.bayes.posterior import probability_of
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
    template,
    with_classes,
    written,
)
from app.errors import UnreadableMessage, reading_one_of_many
from app.features.extract import extract
from app.figures import (
    error_over_time,
    in_brackets,
    interval,
    lam_replicates,
    learning_curve,
    reliability,
    roc,
    roca_interval,
    spam_missed_at,
    wilson,
)
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.classifier.explain import Summand
    from app.corpora.source import MailSource
    from app.evaluation.run import Comparison, Mistake, Run
    from app.features.observation import Observation
    from app.figures import Bin, Curve


def page(
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    *,
    command: str,
    protocol: Sequence[str],
    reasons: Mapping[str, Names],
    seed: int,
) -> str:
    """Return the page as HTML that loads nothing from elsewhere.

    Parameters
    ----------
    comparisons : sequence of Comparison
        Each configuration except the first, compared with the first.
    command : str
        The command that made it.
    protocol : sequence of str
        The treatment of every stream, in sentences.
    reasons : mapping of str to Names
        Names of the features of the worst mistakes, by stream.
    """
    streams: dict[str, list[Run]] = {}
    for run in runs:
        streams.setdefault(run.stream, []).append(run)
    return template("evaluation/page.html").render(
        title=f"Postbayes on {_and([*streams])}",
        command=command,
        protocol=protocol,
        several=len(runs) > 1,
        first=runs[0],
        figures=_summary(runs, seed),
        comparisons=_comparisons(comparisons),
        streams=[
            (
                stream,
                _diagrams(of_stream),
                of_stream[0],
                f" ({of_stream[0].configuration})" if len(of_stream) > 1 else "",
            )
            for stream, of_stream in streams.items()
        ],
        origin=_origin(streams),
        versions=(
            f"Postbayes {__version__}",
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("numpy", "scipy")),
        ),
        percent=_percent,
        share=_share,
        mistakes=_mistakes,
        probability=_probability,
        text=partial(_text, reasons),
        seen=_seen,
    )


def _summary(runs: Sequence[Run], seed: int) -> Markup:
    rows = []
    for run in runs:
        report, gold = run.report(), run.is_spam
        roca = roca_interval(run.log_odds, gold, seed=seed)
        lam = interval(lam_replicates(run.decided_spam, gold, seed=seed))
        shown = {
            "stream": run.stream,
            "configuration": run.configuration,
            "messages": number(report.messages),
            "spam": number(report.spam),
            "1-ROCA %": f"{number(report.roca_pct)}{in_brackets(roca)}",
            "ham lost %": number(report.ham_lost_pct, 2),
            "spam missed %": number(report.spam_missed_pct, 2),
            "lam %": f"{number(report.lam_pct, 2)}{in_brackets(lam, 2)}",
            "missed at 0.1 %": number(report.spam_missed_at_0_1_pct, 1),
            "calibration error %": number(report.ece_pct, 2),
            "Brier": number(report.brier, 4),
            "messages a second": number(report.messages_per_second, 0),
        }
        if runs[0].several:
            shown["macro-F1 %"] = number(report.macro_f1_pct, 2)
        rows.append(shown)
    caption = "95 % bootstrap intervals in brackets; lower errors are better."
    if len(rows) == 1:
        # One run reads better down than across.
        return table(caption, ("figure", "value"), [*rows[0].items()], text=2)
    return table(caption, [*rows[0]], [[*row.values()] for row in rows], text=2)


def _comparisons(comparisons: Sequence[Comparison]) -> Markup:
    if not comparisons:
        return Markup()
    rows = [
        (
            each.configuration,
            each.roca.written(number(None)),
            each.lam.written(number(None)),
            number(each.won),
            number(each.tied),
            number(each.lost),
        )
        for each in comparisons
    ]
    old = comparisons[0].against
    caption = (
        f"Difference to “{old}” in per cent points, with 95 % intervals of the paired "
        "bootstrap: below 0 is better, and if the interval contains 0, the difference "
        "may be chance. Won, tied, lost: folds or streams by 1-ROCA."
    )
    headings = ("configuration", "1-ROCA", "lam", "won", "tied", "lost")
    return table(caption, headings, rows)


def _diagrams(runs: Sequence[Run]) -> Markup:
    """Return the diagrams of the runs on one stream."""
    figures = [roc_figure(runs)]
    if runs[0].in_time:
        figures += [learning_figure(runs), time_figure(runs)]
    for run in runs:
        whose = f" ({run.configuration})" if len(runs) > 1 else ""
        bins = reliability(run.is_spam, run.scored["probability"])
        figures += [reliability_figure(bins, whose), histogram_figure(run, whose)]
    return Markup().join(figures)


def _origin(runs: Mapping[str, Sequence[Run]]) -> Markup:
    rows = [
        (stream, number(len(run.survey.labels)), run.survey.digest)
        for stream, (run, *_) in runs.items()
    ]
    caption = "SHA-256 of all bytes of the mail, in reading order"
    return table(caption, ("stream", "messages", "digest"), rows, text=3)


def _percent(value: float | None, digits: int) -> str:
    return number(value, digits) + ("" if value is None else " %")


def _share(pct: float | None, of: int) -> str:
    return "none there" if pct is None else f"{round(pct * of / 100):,} of {of:,}"


def _and(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


Names = dict[tuple[str, str], str]
"""The text of a feature by its view and its id in the notation of `explain`."""


def named(sources: Sequence[MailSource], runs: Sequence[Run]) -> Mapping[str, Names]:
    """Return the names of the features of misjudged messages, by stream.

    An evaluation keeps ids only; for these few messages the stream is read
    once more.
    """
    found: dict[str, Names] = {}
    for source in sources:
        of_source = [run for run in runs if run.stream == source.name]
        wanted = {m.message for run in of_source for m in run.mistakes}
        names = found.setdefault(source.name, {})
        views = {view for run in of_source for view in run.specification.views}
        for place, entry in enumerate(source.entries()):
            if place in wanted:
                with suppress(UnreadableMessage), reading_one_of_many():
                    names |= _names(extract(parse(entry.raw), views))
    return found


def _names(seen: Observation) -> Names:
    """Return the names of the features of one message."""
    return {
        (view, f"#{feature % 2**64:016x}"): text
        for view, texts in seen.names.items()
        for feature, text in zip(seen.views[view].ids.tolist(), texts, strict=True)
    }


SHOWN: Final = 10
"""Mistakes of each kind."""
_CERTAIN: Final = 0.001


def _mistakes(run: Run) -> list[tuple[str, list[Mistake]]]:
    """Return the worst ham lost and the worst spam missed.

    The only text of the mail is that of the deciding features; the author of the page
    has the mail.
    """
    spam, labels = run.specification.spam_labels, run.survey.labels
    return [
        (name, [m for m in run.mistakes if (labels[m.message] in spam) is side][:SHOWN])
        for name, side in (("Ham lost", False), ("Spam missed", True))
    ]


def _probability(log_odds: float) -> str:
    """Return a probability in per cent; never 100.0, which would mean certainty."""
    probability = probability_of(log_odds)
    if probability < _CERTAIN:
        return f"less than {100 * _CERTAIN:g} %"
    if probability > 1 - _CERTAIN:
        return f"more than {100 * (1 - _CERTAIN):g} %"
    return f"{100 * probability:.1f} %"


def _text(reasons: Mapping[str, Names], stream: str, reason: Summand) -> str:
    # The features have no text here, so that each is a reason of its own, and its view
    # is its family.
    if reason.kind == "rest":
        return f"({reason.features:,} other features)"
    return reasons[stream].get((reason.family or "", reason.text), reason.text)


def _seen(reason: Summand) -> str:
    messages = reason.parts[0]["messages"] if reason.parts else reason.messages
    return ", ".join(f"{count:,} {label}" for label, count in messages.items())


_AT: Final = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Ham lost for which the spam missed is listed.  Unit: per cent."""
_WINDOW: Final = 500
"""Largest number of messages of a side over which errors are averaged."""


def roc_figure(runs: Sequence[Run]) -> Markup:
    """Return the errors at each threshold, on logarithmic scales."""
    curves = [(run, roc(run.log_odds, run.is_spam)) for run in runs]
    ham = max(1, min(int((~run.is_spam).sum()) for run in runs))
    spam = max(1, min(int(run.is_spam.sum()) for run in runs))
    plot = Plot(
        x=Axis(Logarithmic(50.0 / ham, 100.0, zero=True), "ham lost, per cent"),
        y=Axis(Logarithmic(50.0 / spam, 100.0, zero=True), "spam missed, per cent"),
    )
    lines = []
    for at, (run, curve) in enumerate(curves):
        if curve is None:
            continue
        lost, missed = curve.ham_lost_pct.tolist(), curve.spam_missed_pct.tolist()
        points = [*zip(lost, missed, strict=True)]
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
    rows = []
    for run in runs:
        missed_at = partial(spam_missed_at, run.log_odds, run.is_spam)
        of_run = (number(missed_at(ham_lost_pct=pct), 2) for pct in _AT)
        rows.append((run.configuration, *of_run))
    return plot.figure(
        "What each threshold costs",
        "Down and to the left is better; the dot is the threshold of the filter.",
        lines,
        with_classes(run.configuration for run in runs),
        table(
            "Spam missed at each share of ham lost, in per cent",
            ("configuration", *(f"{written(pct)} %" for pct in _AT)),
            rows,
        ),
    )


def time_figure(runs: Sequence[Run]) -> Markup:
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
    top = max((v for *_, curve in sides for v in curve.values if v), default=1.0)
    plot = Plot(
        x=Axis(Linear(0, gold.size), "messages"),
        y=Axis(Linear(0, top), "errors, per cent"),
    )
    lines = [_line(plot, curve, class_) for _, class_, curve in sides]
    rows = _course([curve for *_, curve in sides], digits=2)
    return plot.figure(
        "Errors over time",
        f"Among the last {window:,} messages of each kind"
        + (f" ({run.configuration})." if len(runs) > 1 else "."),
        lines,
        [(name, class_) for name, class_, _ in sides],
        table("Errors, in per cent", ("after", "ham lost", "spam missed"), rows),
    )


def learning_figure(runs: Sequence[Run]) -> Markup:
    """Return 1-ROCA % of all messages so far, on logarithmic scales."""
    curves = [learning_curve(run.log_odds, run.is_spam) for run in runs]
    values = [v for curve in curves for v in curve.values if v]
    low = 10.0 ** math.floor(math.log10(min(values, default=1.0)))
    high = max(low * 10, 10.0 ** math.ceil(math.log10(max(values, default=1.0))))
    moments = curves[0].messages
    plot = Plot(
        x=Axis(Logarithmic(moments[0], max(moments[-1], moments[0] + 1)), "messages"),
        y=Axis(Logarithmic(low, high), "1-ROCA so far, per cent"),
    )
    lines = [_line(plot, curve, series(at)) for at, curve in enumerate(curves)]
    rows = _course(curves, digits=3)
    return plot.figure(
        "Learning curve",
        "Wrongly ranked pairs of all mail so far; lower is better.",
        lines,
        with_classes(run.configuration for run in runs),
        table(
            "1-ROCA of all messages so far, in per cent",
            ("after", *(run.configuration for run in runs)),
            rows,
        ),
    )


def _line(plot: Plot, curve: Curve, class_: str) -> str:
    points = zip(curve.messages, curve.values, strict=True)
    return plot.line(
        (None if value is None else (moment, value) for moment, value in points),
        class_=class_,
    )


def _course(curves: Sequence[Curve], *, digits: int) -> list[tuple[str, ...]]:
    """Return about a dozen moments with the values of curves, including the last."""
    moments = curves[0].messages
    places = np.linspace(0, len(moments) - 1, min(len(moments), 12)).round()
    return [
        (f"{moments[at]:,}", *(number(curve.values[at], digits) for curve in curves))
        for at in dict.fromkeys(places.astype(int).tolist())
    ]


_BARS: Final = 40
_NARROWEST: Final = 1e-9


def reliability_figure(
    bins: Iterable[Bin], whose: str = "", *, height: int = HEIGHT
) -> Markup:
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
    return plot.figure(
        f"Does the probability mean what it says?{whose}",
        "On the dashed line it does; the bars are 95 % intervals.",
        marks,
        [],
        table(
            "Groups with equal numbers of messages, in per cent",
            ("probability", "mean", "spam", "95 % interval", "messages"),
            rows,
        ),
    )


def histogram_figure(run: Run, whose: str) -> Markup:
    """Return the distribution of the scores of ham and of spam."""
    scores, gold = run.log_odds, run.is_spam
    finite = scores[np.isfinite(scores)]
    edge = float(np.ceil(np.quantile(np.abs(finite), 0.999))) if finite.size else 1.0
    edges = np.linspace(-max(edge, 1.0), max(edge, 1.0), _BARS + 1)
    # The outer bars include the messages beyond the ends.
    inside = np.clip(scores, edges[0], edges[-1] - _NARROWEST)
    ham, spam = (np.histogram(inside[side], edges)[0] for side in (~gold, gold))
    bars = [*pairwise(edges.tolist())]
    top = max(10.0, float(max(ham.max(), spam.max())))
    rule = run.specification.verdict
    panels = []
    thresholds = (rule.ham_threshold, rule.spam_threshold)
    # The lower panel has the title of the axis, and the upper one those of the marks.
    for name, below, counts in (
        ("ham", "", ham),
        ("spam", "log-odds of spam, nats", spam),
    ):
        plot = Plot(
            x=Axis(Linear(edges[0], edges[-1]), below),
            y=Axis(Logarithmic(0.5, top, zero=True), name),
            height=200,
        )
        marks = [
            plot.bar(low, high, count, class_=name)
            for (low, high), count in zip(bars, counts.tolist(), strict=True)
            if count
        ]
        marks += [plot.upright(at, 0, top, class_="threshold") for at in thresholds]
        if name == "ham":
            marks.append(plot.note(rule.ham_threshold, "ham", side="left"))
            marks.append(plot.note(rule.spam_threshold, "spam", side="right"))
        panels.append(plot.drawn(*marks, title=f"Scores of the {name}"))
    rows = [
        (f"{low:+.1f} to {high:+.1f}", f"{h:,}", f"{s:,}")
        for (low, high), h, s in zip(bars, ham.tolist(), spam.tolist(), strict=True)
        if h or s
    ]
    return figure(
        f"Scores{whose}",
        "The thresholds of ham and spam are marked; between them the filter is unsure.",
        "".join(panels),
        [],
        table("Messages by score", ("log-odds", "ham", "spam"), rows),
    )
