"""Points and symbols: a verdict on the scale of mail servers.

SpamAssassin and rspamd compare points with thresholds, and so does the configuration
around them.  Contract of this file: a score agrees with the decision and the action,
however it is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from app.classifier.verdict import SPAM_THRESHOLD

if TYPE_CHECKING:
    from app.classifier.specification import Specification
    from app.classifier.verdict import Action, Decision
    from app.services.classify import Classified

# Beyond it a score says nothing more, and clients print it in few columns.
MOST: Final = 999.0
# Thresholds that are closer are one: a line between them would be so steep that
# the points of a message were rounding errors. Unit: nats.
LEAST: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Points for log-odds: a straight line between thresholds, and on beyond them.

    Parameters
    ----------
    ham_to : float
        Log-odds that have 0 points. Unit: nats.
    spam_from : float
        Log-odds that have `spam` points. Unit: nats.
    reject_from : float or None
        Log-odds that have `reject` points; None where nothing is rejected, and
        the line goes on as it is. Unit: nats.
    spam : float
        Points from which a client takes a message for spam.
    reject : float
        Points from which a client rejects.
    digits : int
        Decimal places that the protocol prints.

    Examples
    --------
    >>> scale = Scale(ham_to=0.0, spam_from=2.0, reject_from=8.0, spam=6.0, digits=2)
    >>> [scale.line(log_odds) for log_odds in (-1.0, 0.0, 1.0, 2.0, 5.0, 8.0, 9.0)]
    [-3.0, 0.0, 3.0, 6.0, 10.5, 15.0, 16.5]
    """

    ham_to: float
    spam_from: float
    reject_from: float | None
    spam: float
    digits: int
    reject: float = 15.0

    @classmethod
    def of(cls, specification: Specification, *, spam: float, digits: int) -> Self:
        """Return the scale on which the thresholds of a profile have points."""
        return cls(
            ham_to=specification.verdict.ham_threshold,
            spam_from=specification.verdict.spam_threshold,
            reject_from=specification.action.reject_from,
            spam=spam,
            digits=digits,
        )

    def slope(self, log_odds: float) -> float:
        """Return the points of a nat there."""
        rejects = self.reject_from
        if rejects is not None and log_odds >= self.spam_from:
            room, points = rejects - self.spam_from, self.reject - self.spam
            if room >= LEAST:
                return points / room
        room = self.spam_from - self.ham_to
        # Where nothing is unsure, no distance gives the scale its unit.
        return self.spam / (room if room >= LEAST else SPAM_THRESHOLD)

    def line(self, log_odds: float) -> float:
        """Return the points for log-odds alone."""
        rejects = self.reject_from
        if rejects is not None and log_odds >= rejects:
            points = self.reject + (log_odds - rejects) * self.slope(log_odds)
        else:
            points = self.spam + (log_odds - self.spam_from) * self.slope(log_odds)
        return max(-MOST, min(MOST, points))

    def score(self, log_odds: float, decision: Decision, action: Action) -> float:
        """Return the points of a verdict, as they are printed.

        Notes
        -----
        They are rounded down, so that no rounding lifts a message over a
        threshold.  A profile that knows one side alone is unsure of everything,
        whatever the log-odds: then the score stays below the threshold.
        """
        step = 10.0**-self.digits
        points = math.floor(self.line(log_odds) / step + 1e-9) * step
        if decision == "spam":
            points = max(points, self.spam)
        else:
            points = min(points, self.spam - step)
        if action == "reject":
            points = max(points, self.reject)
        elif self.reject_from is not None:
            points = min(points, self.reject - step)
        # No minus before a zero.
        return round(points, self.digits) + 0.0


STRONGEST: Final = 5
"""Reasons of each side that the explanation behind the symbols names."""
DESCRIPTIONS: Final = {
    "BAYES_SPAM": "Postbayes decides: spam",
    "BAYES_HAM": "Postbayes decides: ham",
    "POSTBAYES_PRIOR": "The prior, and where the scale begins and bends",
    "POSTBAYES_WORDS": "Words of the text",
    "POSTBAYES_HEADERS": "Words of the headers",
    "POSTBAYES_PAIRS": "Pairs of neighbouring words",
    "POSTBAYES_LINKS": "Links",
    "POSTBAYES_FILES": "Attached files",
    "POSTBAYES_IMAGES": "Texts that stand for images",
    "POSTBAYES_HIDDEN": "Text that is not shown",
    "POSTBAYES_TRICKS": "Words written to be misread",
    "POSTBAYES_GRAMS": "Pieces of four bytes",
    "POSTBAYES_STRUCTURE": "How the message is made",
    "POSTBAYES_MEASUREMENTS": "Sizes, shares and times",
    "POSTBAYES_LIST": "An entry of the lists",
    "POSTBAYES_PEOPLE": "A correspondent of the recipient",
}
"""The description of each symbol."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One line of a score.

    Parameters
    ----------
    name : str
        Upper case, as rules of mail servers match it.
    score : float
        The points that it adds.
    options : tuple of str
        Details: the probability, or the strongest reasons of a family.
    """

    name: str
    score: float
    options: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        """The description of the symbol."""
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
        own; each family of features with what it adds; and the prior with all that is
        left.
    """
    verdict = classified.verdict
    slope = scale.slope(verdict.log_odds)
    found = []
    if verdict.decision != "unsure":
        probability = f"{100 * verdict.probability:.2f}%"
        found.append(Symbol(f"BAYES_{verdict.decision.upper()}", 0.0, (probability,)))
    named: dict[str | None, list[str]] = {}
    for entry in classified.explanation.reasons:
        named.setdefault(entry.family, []).append(printable(entry.title))
    left = score
    for family, nats in classified.explanation.families.items():
        if family == "prior":
            continue
        # No minus before a zero.
        points = round(nats * slope, scale.digits) + 0.0
        left -= points
        name = f"POSTBAYES_{family.upper()}"
        found.append(Symbol(name, points, tuple(named.get(family, ()))))
    found.append(Symbol("POSTBAYES_PRIOR", round(left, scale.digits) + 0.0))
    return tuple(found)


def printable(text: str) -> str:
    """Return the text of a feature as any header, log or terminal can show it.

    Examples
    --------
    >>> printable("subject:grüße"), printable("free money")
    ('subject:gr??e', 'free_money')
    """
    shown = text.replace(" ", "_")
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in shown)
