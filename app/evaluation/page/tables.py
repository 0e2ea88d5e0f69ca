"""The worst mistakes, with their reasons."""

from __future__ import annotations

from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Final

from app.bayes.posterior import probability_of
from app.errors import UnreadableMessage, reading_one_of_many
from app.features.extract import extract
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.classifier.explain import Summand
    from app.corpora.source import MailSource
    from app.evaluation.outcome import Mistake
    from app.evaluation.run import Run
    from app.features.observation import Observation


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
        for number, entry in enumerate(source.entries()):
            if number in wanted:
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
