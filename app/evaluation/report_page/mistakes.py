"""Which mail was decided most wrongly, and which features did it?"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from app.bayes.posterior import probability_of

if TYPE_CHECKING:
    from app.evaluation.outcome import Mistake, Reason
    from app.evaluation.report_page.reasons import Names
    from app.evaluation.run import Run

SHOWN: Final = 10
"""Mistakes of each kind."""

_CERTAIN: Final = 0.001


def mistakes(run: Run, names: Names, *, several: bool) -> str:
    """Return the worst ham lost and the worst spam missed, each with its reasons.

    No text of the mail is shown but the features that spoke; whoever made the
    page has the mail.
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
    """Return it in per cent; 100.0 would say that it was certain."""
    if probability < _CERTAIN:
        return f"less than {100 * _CERTAIN:g} %"
    if probability > 1 - _CERTAIN:
        return f"more than {100 * (1 - _CERTAIN):g} %"
    return f"{100 * probability:.1f} %"


def _reason(reason: Reason, names: Names) -> str:
    text = names.get((reason.view or "", reason.feature), reason.feature)
    if reason.view is None and reason.features:
        text = f"({reason.features:,} other features)"
    view = f" <small>{escape(reason.view)}</small>" if reason.view else ""
    counts = ", ".join(f"{count:,} {label}" for label, count in reason.messages.items())
    seen = f" <small>in {escape(counts)}</small>" if counts else ""
    side = "for-spam" if reason.log_odds > 0 else "for-ham"
    said = f"<b>{reason.log_odds:+.2f}</b> {escape(text)}{view}{seen}"
    return f'<li class="{side}">{said}</li>'
