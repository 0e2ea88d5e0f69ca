"""Evaluation page: its parts, its tables and their order."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from app import __version__
from app.bayes.posterior import probability_of
from app.drawing.svg import html, number, table
from app.errors import UnreadableMessage, reading_one_of_many
from app.evaluation.diagrams import (
    histogram_figure,
    learning_figure,
    reliability_figure,
    roc_figure,
    time_figure,
)
from app.features.extract import extract
from app.figures.bootstrap import interval, lam_replicates, roca_interval_pct
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.classifier.explain import Summand
    from app.corpora.source import MailSource
    from app.evaluation.run import Comparison, Mistake, Run
    from app.features.observation import Observation

MEANINGS: Final = (
    ("ham lost", "Wanted mail that was decided to be spam. The error that hurts."),
    (
        "spam missed",
        "Spam that was not decided to be spam; what it was unsure of is among it.",
    ),
    (
        "1-ROCA",
        "Take one ham and one spam by chance: how often does the ham look more like "
        "spam? No threshold moves this figure.",
    ),
    (
        "lam",
        "The logistic average of ham lost and spam missed: both count alike, "
        "whatever the threshold trades of one for the other.",
    ),
    ("missed at 0.1 %", "Spam missed where 1 ham in 1,000 is lost."),
    (
        "calibration error",
        "How far the probability of spam lies from the share of spam, on average over "
        "15 groups of equally many messages.",
    ),
    ("Brier", "The mean square of probability minus truth; 0.25 for a coin."),
)
_OF_LABELS: Final = (
    "macro-F1",
    "F1 of the most probable label, the mean over the labels; more is better.",
)


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
        Each configuration but the first against the first.
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
    """Return the page: HTML that loads nothing from anywhere."""
    streams = list(dict.fromkeys(run.stream for run in document.runs))
    title = f"Postbayes on {_and(streams)}"
    several = len(document.runs) > 1
    summary = _summary(document)
    said = (*MEANINGS, _OF_LABELS) if document.runs[0].several else MEANINGS
    meanings = "".join(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in said)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="lead">{escape(" ".join(document.protocol))}</p>',
        _tiles(document.runs[0], several=several),
        summary if several else "",
        _comparisons(document),
        *(_stream(document, stream) for stream in streams),
        # The figures of one run are in the tiles above; the rest can wait.
        "" if several else summary,
        f"<h2>What the figures mean</h2><dl>{meanings}</dl>",
        _origin(document, streams),
    ]
    return html(title, "".join(parts))


def _tiles(run: Run, *, several: bool) -> str:
    report = run.report()
    errors = ((report.ham, report.ham_lost_pct), (report.spam, report.spam_missed_pct))
    lost, missed = (
        "none there" if pct is None else f"{round(pct * of / 100):,} of {of:,}"
        for of, pct in errors
    )
    tiles = (
        ("Ham lost", _pct(report.ham_lost_pct, 2), lost),
        ("Spam missed", _pct(report.spam_missed_pct, 2), missed),
        ("1-ROCA", _pct(report.roca_pct, 3), "pairs ranked wrongly"),
        ("lam", _pct(report.lam_pct, 2), "both errors, averaged"),
        ("Unsure", f"{report.unsure:,}", f"of {report.messages:,} messages"),
        ("Calibration error", _pct(report.ece_pct, 2), "of the probability"),
        *(
            (("macro-F1", _pct(report.macro_f1_pct, 2), "of the labels"),)
            if run.several
            else ()
        ),
    )
    whose = (
        f"<p><strong>{escape(f'{run.stream}, {run.configuration}')}</strong></p>"
        if several
        else ""
    )
    items = "".join(
        f'<li class="tile"><span>{name}</span><b>{value}</b><span>{more}</span></li>'
        for name, value, more in tiles
    )
    return f'{whose}<ul class="tiles">{items}</ul>'


def _summary(document: Document) -> str:
    rows = []
    of_labels = document.runs[0].several
    for run in document.runs:
        report = run.report()
        gold = run.is_spam
        roca = roca_interval_pct(run.log_odds, gold, seed=document.seed)
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
    caption = "95 % bootstrap intervals in brackets; of errors, lower is better."
    if len(rows) == 1:
        # One run reads better down than across.
        down = list(zip(headings, rows[0], strict=True))
        return f"<h2>Figures</h2>{table(caption, ('figure', 'value'), down, text=2)}"
    return f"<h2>Figures</h2>{table(caption, headings, rows, text=2)}"


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
        "bootstrap: below 0 is better, and sure where the whole interval is. Won, "
        "tied, lost: folds or streams by 1-ROCA."
    )
    headings = ("configuration", "1-ROCA", "lam", "won", "tied", "lost")
    return f"<h2>Side by side</h2>{table(caption, headings, rows, text=1)}"


def _stream(document: Document, stream: str) -> str:
    runs = [run for run in document.runs if run.stream == stream]
    figures = [roc_figure(runs)]
    if runs[0].in_time:
        figures += [learning_figure(runs), time_figure(runs)]
    for run in runs:
        whose = f" ({run.configuration})" if len(runs) > 1 else ""
        figures += [reliability_figure(run, whose), histogram_figure(run, whose)]
    return (
        f"<h2>{escape(stream)}</h2>"
        f'<div class="figures">{"".join(figures)}</div>'
        f"{mistakes(runs[0], document.reasons[stream], several=len(runs) > 1)}"
    )


def _origin(document: Document, streams: Sequence[str]) -> str:
    digests = {run.stream: run.survey for run in document.runs}
    rows = [
        (stream, number(len(digests[stream].labels)), digests[stream].digest)
        for stream in streams
    ]
    versions = ", ".join(
        (
            f"Postbayes {__version__}",
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("numpy", "scipy")),
        )
    )
    caption = "SHA-256 of all bytes of the mail, in the order of reading"
    return (
        "<h2>How this page was made</h2>"
        f"<pre><code>{escape(document.command)}</code></pre>"
        f"<p>{escape(versions)}.</p>"
        f"{table(caption, ('stream', 'messages', 'digest'), rows, text=3)}"
    )


def _pct(value: float | None, digits: int) -> str:
    return number(value, digits) + ("" if value is None else " %")


def _interval(ends: tuple[float, float] | None, digits: int = 3) -> str:
    if ends is None:
        return ""
    low, high = ends
    return f" ({low:.{digits}f} to {high:.{digits}f})"


def _and(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


Names = dict[tuple[str, str], str]
"""The text of a feature by its view and its id as `explain` writes it."""


def named(sources: Sequence[MailSource], runs: Sequence[Run]) -> Mapping[str, Names]:
    """Return the names of the features of the messages that were mistaken, by stream.

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


def mistakes(run: Run, names: Names, *, several: bool) -> str:
    """Return the worst ham lost and the worst spam missed, each with its reasons.

    No text of the mail is shown but the features that decided; whoever made the page
    has the mail.
    """
    spam = run.specification.spam_labels
    sides: dict[bool, list[Mistake]] = {False: [], True: []}
    for mistake in run.mistakes:
        sides[run.survey.labels[mistake.message] in spam].append(mistake)
    parts = []
    for side, heading in ((False, "Ham lost"), (True, "Spam missed")):
        worst = sides[side][:SHOWN]
        if not worst:
            said = "<p>None.</p>"
        else:
            items = "".join(_item(run, each, names) for each in worst)
            said = f'<ol class="mistakes">{items}</ol>'
        parts.append(f"<h3>{heading}, the surest first</h3>{said}")
    whose = f" ({escape(run.configuration)})" if several else ""
    return f"<h2>The worst mistakes{whose}</h2>{''.join(parts)}"


def _item(run: Run, mistake: Mistake, names: Names) -> str:
    reasons = "".join(_reason(each, names) for each in mistake.reasons)
    return (
        f"<li><strong>{mistake.log_odds:+.2f} nats</strong>, "
        f"{_probability(probability_of(mistake.log_odds))} spam "
        f'<span class="where">message {mistake.message + 1:,}: '
        f"{escape(run.survey.where[mistake.message])}</span>"
        f'<ul class="reasons">{reasons}</ul></li>'
    )


def _probability(probability: float) -> str:
    """Return a probability in per cent; 100.0 would mean that it was certain."""
    if probability < _CERTAIN:
        return f"less than {100 * _CERTAIN:g} %"
    if probability > 1 - _CERTAIN:
        return f"more than {100 * (1 - _CERTAIN):g} %"
    return f"{100 * probability:.1f} %"


def _reason(reason: Summand, names: Names) -> str:
    # The features have no text here, so that each is a reason of its own, and its view
    # is its family.
    text = names.get((reason.family or "", reason.text), reason.text)
    if reason.kind == "rest":
        text = f"({reason.features:,} other features)"
    view = f" <small>{escape(reason.family)}</small>" if reason.family else ""
    messages = reason.parts[0].messages if reason.parts else reason.messages
    counts = ", ".join(f"{count:,} {label}" for label, count in messages.items())
    seen = f" <small>in {escape(counts)}</small>" if counts else ""
    side = "for-spam" if reason.log_odds > 0 else "for-ham"
    said = f"<b>{reason.log_odds:+.2f}</b> {escape(text)}{view}{seen}"
    return f'<li class="{side}">{said}</li>'
