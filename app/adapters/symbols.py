"""What made the score? Symbols, one for each view, that add up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.adapters.scale import Scale
    from app.services.classify import Classified

STRONGEST: Final = 5
"""Features of each side that the explanation behind the symbols names."""

DESCRIPTIONS: Final = {
    "BAYES_SPAM": "Postbayes decides: spam",
    "BAYES_HAM": "Postbayes decides: ham",
    "POSTBAYES_PRIOR": "The prior, and where the scale begins and bends",
    "POSTBAYES_WORDS": "Words of the text",
    "POSTBAYES_HEADERS": "Words of the headers",
    "POSTBAYES_PAIRS": "Pairs of neighbouring words",
    "POSTBAYES_GRAMS": "Pieces of four bytes",
    "POSTBAYES_STRUCTURE": "How the message is made",
    "POSTBAYES_MEASUREMENTS": "Sizes, shares and times",
}
"""What each symbol stands for."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One line of a score.

    Parameters
    ----------
    name : str
        Upper case, as rules of mail servers match it.
    score : float
        What it adds. Unit: points.
    options : tuple of str
        Details: the probability, or the strongest features of a view.
    """

    name: str
    score: float
    options: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """What it stands for."""
        return DESCRIPTIONS.get(self.name, "")


def symbols(classified: Classified, scale: Scale, score: float) -> tuple[Symbol, ...]:
    """Return the symbols of an answer; their scores sum to its score.

    Parameters
    ----------
    classified : Classified
        The answer.
    scale : Scale
        Turns log-odds into points.
    score : float
        The points of the answer.

    Returns
    -------
    tuple of Symbol
        The decision by the name that rspamd gives it, with no points of its
        own; each view with what it adds; and the prior with all that is left.
    """
    verdict = classified.verdict
    slope = scale.slope(verdict.log_odds)
    found = []
    if verdict.decision != "unsure":
        probability = f"{100 * verdict.probability:.2f}%"
        found.append(Symbol(f"BAYES_{verdict.decision.upper()}", 0.0, (probability,)))
    named: dict[str | None, list[str]] = {}
    for entry in classified.explanation:
        if entry.kind == "feature":
            named.setdefault(entry.view, []).append(printable(entry.feature))
    left = score
    for view, contributions in classified.attribution.contributions.items():
        # No minus before a zero.
        points = round(float(contributions.sum()) * slope, scale.digits) + 0.0
        left -= points
        name = f"POSTBAYES_{view.upper()}"
        found.append(Symbol(name, points, tuple(named.get(view, ()))))
    found.append(Symbol("POSTBAYES_PRIOR", round(left, scale.digits) + 0.0))
    return tuple(found)


def printable(text: str) -> str:
    """Return a feature's text as any header, log or terminal can show it.

    Examples
    --------
    >>> printable("subject:grüße"), printable("free money")
    ('subject:gr??e', 'free_money')
    """
    shown = text.replace(" ", "_")
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in shown)
