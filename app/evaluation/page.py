"""Evaluation page: its parts, its tables and their order."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from app import __version__
from app.bayes.posterior import probability_of
from app.drawing import html, number, table, template
from app.errors import UnreadableMessage, reading_one_of_many
from app.evaluation.diagrams import (
    histogram_figure,
    learning_figure,
    reliability_figure,
    roc_figure,
    time_figure,
)
from app.features.extract import extract
from app.figures.bootstrap import interval, lam_replicates, roca_replicates
from app.figures.calibration import reliability
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.classifier.reasons import Summand
    from app.corpora.source import MailSource
    from app.evaluation.run import Comparison, Mistake, Run
    from app.features.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The contents of the page.

    Parameters
    ----------
    command : str
        The command that made it.
    protocol : tuple of str
        The protocol, in sentences.
    runs : tuple of Run
        The runs, stream by stream.
    comparisons : tuple of Comparison
        Each configuration except the first, compared with the first.
    reasons : mapping of str to Names
        Names of the features of the worst mistakes, by stream.
    seed : int
        Seed of the intervals.
    """

    command: str
    protocol: tuple[str, ...]
    runs: tuple[Run, ...]
    comparisons: tuple[Comparison, ...]
    reasons: Mapping[str, Names]
    seed: int


def page(document: Document) -> str:
    """Return the page as HTML that loads nothing from elsewhere."""
    runs: dict[str, list[Run]] = {}
    for run in document.runs:
        runs.setdefault(run.stream, []).append(run)
    title = f"Postbayes on {_and([*runs])}"
    main = template("evaluation/page.html").render(
        title=title,
        document=document,
        several=len(document.runs) > 1,
        figures=Markup(_summary(document)),  # noqa: S704  escaped by `table`
        comparisons=Markup(_comparisons(document)),  # noqa: S704
        streams=[
            (
                stream,
                Markup(_diagrams(of_stream)),  # noqa: S704  escaped by `figure`
                of_stream[0],
                f" ({of_stream[0].configuration})" if len(of_stream) > 1 else "",
            )
            for stream, of_stream in runs.items()
        ],
        origin=Markup(_origin(runs)),  # noqa: S704
        versions=(
            f"Postbayes {__version__}",
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("numpy", "scipy")),
        ),
        percent=_percent,
        share=_share,
        mistakes=_mistakes,
        probability=_probability,
        text=partial(_text, document.reasons),
        seen=_seen,
    )
    return html(title, main)


def _summary(document: Document) -> str:
    rows = []
    of_labels = document.runs[0].several
    for run in document.runs:
        report = run.report()
        gold = run.is_spam
        roca = interval(roca_replicates(run.log_odds, gold, seed=document.seed))
        lam = interval(lam_replicates(run.decided_spam, gold, seed=document.seed))
        rows.append(
            (
                run.stream,
                run.configuration,
                number(report.messages),
                number(report.spam),
                f"{number(report.roca_pct)}{_interval(roca)}",
                number(report.ham_lost_pct, 2),
                number(report.spam_missed_pct, 2),
                f"{number(report.lam_pct, 2)}{_interval(lam, 2)}",
                number(report.spam_missed_at_0_1_pct, 1),
                number(report.ece_pct, 2),
                number(report.brier, 4),
                number(report.messages_per_second, 0),
                *((number(report.macro_f1_pct, 2),) if of_labels else ()),
            )
        )
    headings = (
        *("stream", "configuration", "messages", "spam", "1-ROCA %"),
        *("ham lost %", "spam missed %", "lam %", "missed at 0.1 %"),
        *("calibration error %", "Brier", "messages a second"),
        *(("macro-F1 %",) if of_labels else ()),
    )
    caption = "95 % bootstrap intervals in brackets; lower errors are better."
    if len(rows) == 1:
        # One run reads better down than across.
        down = list(zip(headings, rows[0], strict=True))
        return table(caption, ("figure", "value"), down, text=2)
    return table(caption, headings, rows, text=2)


def _comparisons(document: Document) -> str:
    if not document.comparisons:
        return ""
    rows = [
        (
            each.configuration,
            each.roca.written(number(None)),
            each.lam.written(number(None)),
            number(each.won),
            number(each.tied),
            number(each.lost),
        )
        for each in document.comparisons
    ]
    old = document.comparisons[0].against
    caption = (
        f"Difference to “{old}” in per cent points, with 95 % intervals of the paired "
        "bootstrap: below 0 is better, and certain if the whole interval is. Won, "
        "tied, lost: folds or streams by 1-ROCA."
    )
    headings = ("configuration", "1-ROCA", "lam", "won", "tied", "lost")
    return table(caption, headings, rows, text=1)


def _diagrams(runs: Sequence[Run]) -> str:
    """Return the diagrams of the runs on one stream."""
    figures = [roc_figure(runs)]
    if runs[0].in_time:
        figures += [learning_figure(runs), time_figure(runs)]
    for run in runs:
        whose = f" ({run.configuration})" if len(runs) > 1 else ""
        bins = reliability(run.is_spam, run.scored["probability"])
        figures += [reliability_figure(bins, whose), histogram_figure(run, whose)]
    return "".join(figures)


def _origin(runs: Mapping[str, Sequence[Run]]) -> str:
    rows = [
        (stream, number(len(survey.labels)), survey.digest)
        for stream, (run, *_) in runs.items()
        for survey in [run.survey]
    ]
    caption = "SHA-256 of all bytes of the mail, in reading order"
    return table(caption, ("stream", "messages", "digest"), rows, text=3)


def _percent(value: float | None, digits: int) -> str:
    return number(value, digits) + ("" if value is None else " %")


def _share(pct: float | None, of: int) -> str:
    return "none there" if pct is None else f"{round(pct * of / 100):,} of {of:,}"


def _interval(ends: tuple[float, float] | None, digits: int = 3) -> str:
    if ends is None:
        return ""
    low, high = ends
    return f" ({low:.{digits}f} to {high:.{digits}f})"


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
    for at, source in enumerate(sources):
        each = len(runs) // len(sources)
        of_source = runs[at * each : (at + 1) * each]
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
    spam = run.specification.spam_labels
    sides: dict[bool, list[Mistake]] = {False: [], True: []}
    for mistake in run.mistakes:
        sides[run.survey.labels[mistake.message] in spam].append(mistake)
    return [("Ham lost", sides[False][:SHOWN]), ("Spam missed", sides[True][:SHOWN])]


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
