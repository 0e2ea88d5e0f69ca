"""Headers, points and symbols of a verdict, shared by the mail doors.

SpamAssassin, rspamd and the configuration around them compare points with thresholds.

Contract of this file: a header value is printable ASCII in lines of bounded length,
whatever the message contains.  A rounded score still agrees with the decision and the
action.
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from email.header import Header
from typing import TYPE_CHECKING, Final, Self

from app.classifier.verdict import SPAM_THRESHOLD
from app.doors.documents.verdict import explained_pct
from app.errors import InvalidSetting
from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.classifier.specification import Specification
    from app.classifier.verdict import Action, Decision
    from app.services.application import Application
    from app.services.classify import Classified

# With such headers, a sender could control how rules treat the mail.
FORGED: Final = ("x-postbayes", "x-spam")
"""Prefixes, in lower case, of header names that only filters may write."""
_MBOX_LINE: Final = re.compile(rb"\A>?From [^\r\n]*\r?\n")
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_EMPTY_LINE: Final = re.compile(rb"(?:\A|\n)\r?\n")


def end_of_head(raw: bytes) -> int:
    r"""Return the start of the body, after the first empty line.

    Examples
    --------
    >>> end_of_head(b"A: 1\r\n\r\nbody"), end_of_head(b"A: 1\nB: 2\n")
    (8, 10)
    """
    end = _EMPTY_LINE.search(raw)
    return len(raw) if end is None else end.end()


def with_headers(
    raw: bytes, headers: Iterable[tuple[str, str]], ours: Iterable[str] = ()
) -> bytes:
    r"""Return a message or its head with new headers on top, without forged ones.

    Parameters
    ----------
    raw : bytes
        The message as received.
    headers : iterable of (str, str)
        Name and value; ASCII, folded with LF.
    ours : iterable of str
        Names in lower case that only this filter may write, in addition to those with a
        prefix in `FORGED`.

    Examples
    --------
    >>> with_headers(b"X-Spam: no\r\n folded\r\nA: 1\r\n\r\nX-Spam: b", [("X", "c")])
    b'X: c\r\nA: 1\r\n\r\nX-Spam: b'
    """
    end = end_of_head(raw)
    # An mbox line stays first.
    mbox = _MBOX_LINE.match(raw[:end])
    start = mbox.end() if mbox else 0
    first = raw.find(b"\n")
    newline = "\r\n" if raw[max(0, first - 1) : first] == b"\r" else "\n"
    names = frozenset(ours)
    kept = [raw[:start]]
    for name, value in headers:
        lines = f"{name}: {value}\n".replace("\n", newline)
        kept.append(lines.encode("ascii", "replace"))
    drops = False
    for line in _LINE.findall(raw[start:end]):
        if not line.startswith((b" ", b"\t")):
            name = line.partition(b":")[0].strip().decode("latin-1").lower()
            drops = name in names or name.startswith(FORGED)
        if not drops:
            kept.append(line)
    return b"".join([*kept, raw[end:]])


# Reasons of each side: enough for five lines; /classify has the whole list.
EXPLAINED: Final = 3
MAX_FEATURE_CHARS: Final = 40
# RFC 5322 section 2.1.1: lines should have no more than 78 characters.
_LINE_CHARS: Final = 76
_NAMES: Final = (
    "X-Postbayes",
    "X-Postbayes-Probability",
    "X-Postbayes-Log-Odds",
    "X-Postbayes-Id",
    "X-Postbayes-Profile",
    "X-Postbayes-Explanation",
)
LABEL: Final = "X-Postbayes-Label"
Flag = tuple[str, str] | None
"""The header that marks spam, if there is one."""
_FLAG: Final = re.compile(
    r"(?P<name>[!-9;-~]{1,60}):[ \t]*(?P<value>[!-~][ -~]{0,200})"
)


def names(flag: Flag) -> frozenset[str]:
    """Return the header names that only this filter may write, as it writes them."""
    return frozenset((*_NAMES, LABEL, *(() if flag is None else flag[:1])))


def ours(flag: Flag) -> frozenset[str]:
    """Return the same names in lower case."""
    return frozenset(name.lower() for name in names(flag))


def parse_flag(text: str) -> Flag:
    """Parse the header that marks spam; None for an empty text.

    Raises
    ------
    InvalidSetting
        If it is not a header field.

    Examples
    --------
    >>> parse_flag("X-Spam-Flag: YES"), parse_flag(" ")
    (('X-Spam-Flag', 'YES'), None)
    """
    if not text.strip():
        return None
    found = _FLAG.fullmatch(text.strip())
    if found is None:
        raise InvalidSetting(
            f"POSTBAYES_SPAM_HEADER is {text!r}; give one header field, name and "
            "value in ASCII, such as X-Spam-Flag: YES"
        )
    return found["name"], found["value"]


def marks(classified: Classified, action: Action, flag: Flag) -> list[tuple[str, str]]:
    """Return the headers of a verdict, as names and folded values.

    The explanation is included if it was requested or there are statements about the
    message: an entry of a list never decides without being named.

    Parameters
    ----------
    flag : tuple of (str, str) or None
        The header that marks mail with any action.
    """
    verdict = classified.verdict
    values = [
        verdict.decision,
        f"{verdict.probability:.4f}",
        f"{verdict.log_odds:+.2f}",
        classified.observation.id,
        classified.profile,
    ]
    if classified.explanation.strongest or classified.statements:
        values.append("; ".join(_entries(classified)))
    named = [*zip(_NAMES, values, strict=False)]
    labels = classified.specification.labels
    if len(labels) > 2:  # noqa: PLR2004  of two, the decision says as much
        named.insert(1, (LABEL, labels[verdict.label]))
    found = [(name, _folded(name, value)) for name, value in named]
    return found if flag is None or action == "none" else [*found, flag]


def _entries(classified: Classified) -> Iterator[str]:
    """Yield the subtotals, the reasons, the rest, and the listed share."""
    explanation = classified.explanation
    families = explanation.families.items()
    subtotals = [f"{kin} {nats:+.2f}" for kin, nats in families if round(nats, 2)]
    if subtotals:
        yield ", ".join(subtotals)
    for entry in explanation.summands:
        # Statements are printed in full, with their source and time.
        name = entry.title[:MAX_FEATURE_CHARS] if entry.features else entry.title
        if entry.kind == "rest":
            name = f"({entry.features} others)"
        # The prior is one of the subtotals.
        if entry.kind != "prior":
            yield f"{name} {entry.log_odds:+.2f}"
    share = explained_pct(classified)
    if share is not None:
        yield f"reasons shown {share:.0f} %"


def _folded(name: str, value: str) -> str:
    """Return a folded value, with encoded words (RFC 2047) if necessary."""
    printable = "".join(c if c.isprintable() else "?" for c in value)
    charset = "us-ascii" if printable.isascii() else "utf-8"
    header = Header(printable, charset, header_name=name, maxlinelen=_LINE_CHARS)
    return header.encode(linesep="\n", splitchars="; ")


# Points from which a client rejects: those of rspamd (conf/actions.conf), here for
# POSTBAYES_REJECT_FROM.
REJECT: Final = 15.0
# A larger score has no further meaning, and clients print it in few columns.
MOST: Final = 999.0
# Closer thresholds count as one: the line between them would be so steep that points
# would be rounding errors.  Unit: nats.
LEAST: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class PointScale:
    """Points for log-odds: linear between thresholds, and extended beyond them.

    Parameters
    ----------
    ham_to : float
        Log-odds of 0 points.  Unit: nats.
    spam_from : float
        Log-odds of `spam` points.  Unit: nats.
    reject_from : float or None
        Log-odds of `REJECT` points.  None if nothing is rejected; then the line
        continues with the same slope.  Unit: nats.
    spam : float
        Points from which a client treats a message as spam.
    digits : int
        Decimal places that the protocol prints.

    Examples
    --------
    >>> limits = {"ham_to": 0.0, "spam_from": 2.0, "reject_from": 8.0}
    >>> scale = PointScale(**limits, spam=6.0, digits=2)
    >>> [scale.line(log_odds) for log_odds in (-1.0, 0.0, 1.0, 2.0, 5.0, 8.0, 9.0)]
    [-3.0, 0.0, 3.0, 6.0, 10.5, 15.0, 16.5]
    """

    ham_to: float
    spam_from: float
    reject_from: float | None
    spam: float
    digits: int

    @classmethod
    def of(cls, specification: Specification, *, spam: float, digits: int) -> Self:
        """Return the scale for the thresholds of a profile."""
        return cls(
            ham_to=specification.verdict.ham_threshold,
            spam_from=specification.verdict.spam_threshold,
            reject_from=specification.action.reject_from,
            spam=spam,
            digits=digits,
        )

    def slope(self, log_odds: float) -> float:
        """Return the points per nat at some log-odds."""
        rejects = self.reject_from
        if rejects is not None and log_odds >= self.spam_from:
            room, points = rejects - self.spam_from, REJECT - self.spam
            if room >= LEAST:
                return points / room
        room = self.spam_from - self.ham_to
        # Without an unsure range, there is no distance to define the slope.
        return self.spam / (room if room >= LEAST else SPAM_THRESHOLD)

    def line(self, log_odds: float) -> float:
        """Return the points for log-odds, without regard to the decision."""
        rejects = self.reject_from
        if rejects is not None and log_odds >= rejects:
            points = REJECT + (log_odds - rejects) * self.slope(log_odds)
        else:
            points = self.spam + (log_odds - self.spam_from) * self.slope(log_odds)
        return max(-MOST, min(MOST, points))

    def score(self, log_odds: float, decision: Decision, action: Action) -> float:
        """Return the rounded points of a verdict.

        Notes
        -----
        Points are rounded down, so that rounding never lifts a message over a
        threshold. A profile that has learned only one side is unsure of every message,
        whatever the log-odds; the score then stays below the threshold.
        """
        step = 10.0**-self.digits
        points = math.floor(self.line(log_odds) / step + 1e-9) * step
        if decision == "spam":
            points = max(points, self.spam)
        else:
            points = min(points, self.spam - step)
        if action == "reject":
            points = max(points, REJECT)
        elif self.reject_from is not None:
            points = min(points, REJECT - step)
        # Avoids a minus sign before zero.
        return round(points, self.digits) + 0.0


STRONGEST: Final = 5
"""Most reasons of each side in the explanation of the symbols."""
DESCRIPTIONS: Final = {
    "BAYES_SPAM": "Postbayes decides: spam",
    "BAYES_HAM": "Postbayes decides: ham",
    "POSTBAYES_PRIOR": "The prior, and the remainder of the conversion to points",
    "POSTBAYES_WORDS": "Words of the text",
    "POSTBAYES_HEADERS": "Words of the headers",
    "POSTBAYES_PAIRS": "Pairs of adjacent words",
    "POSTBAYES_LINKS": "Links",
    "POSTBAYES_FILES": "Attached files",
    "POSTBAYES_IMAGES": "Texts in place of images",
    "POSTBAYES_HIDDEN": "Hidden text",
    "POSTBAYES_TRICKS": "Disguised words",
    "POSTBAYES_GRAMS": "Runs of four letters",
    "POSTBAYES_STRUCTURE": "Structure of the message",
    "POSTBAYES_MEASUREMENTS": "Sizes, shares and times",
    "POSTBAYES_LIST": "An allow or deny entry",
    "POSTBAYES_PEOPLE": "A correspondent of the recipient",
}
"""The description of each symbol."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One line of a score.

    Parameters
    ----------
    name : str
        In upper case, for rules of mail servers.
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


@dataclass(frozen=True, slots=True)
class PointsAnswer:
    """An answer in points."""

    classified: Classified
    action: Action
    scale: PointScale

    @property
    def score(self) -> float:
        """The points of the answer."""
        verdict = self.classified.verdict
        return self.scale.score(verdict.log_odds, verdict.decision, self.action)

    @property
    def spam(self) -> bool:
        """Whether the decision is spam."""
        return self.classified.verdict.decision == "spam"

    def symbols(self) -> Iterator[Symbol]:
        """Yield the symbols of the answer; their scores sum to its score.

        The symbols are the decision under its name in rspamd, with 0 points; each
        family of features with its points; and the prior with the rest.
        """
        verdict, explanation = self.classified.verdict, self.classified.explanation
        slope = self.scale.slope(verdict.log_odds)
        if verdict.decision != "unsure":
            probability = f"{100 * verdict.probability:.2f}%"
            yield Symbol(f"BAYES_{verdict.decision.upper()}", 0.0, (probability,))
        named: dict[str | None, list[str]] = {}
        for entry in explanation.reasons:
            named.setdefault(entry.family, []).append(printable(entry.title))
        left = self.score
        for family, nats in explanation.families.items():
            if family == "prior":
                continue
            # Avoids a minus sign before zero.
            points = round(nats * slope, self.scale.digits) + 0.0
            left -= points
            name = f"POSTBAYES_{family.upper()}"
            yield Symbol(name, points, tuple(named.get(family, ())))
        yield Symbol("POSTBAYES_PRIOR", round(left, self.scale.digits) + 0.0)


def printable(text: str) -> str:
    r"""Return the text of a feature as one word, safe for logs and terminals.

    Examples
    --------
    >>> printable("subject:grüße"), printable("free money"), printable("a\r\n\x1b")
    ('subject:grüße', 'free_money', 'a???')
    """
    shown = text.replace(" ", "_")
    return "".join(c if c.isprintable() else "?" for c in shown)


class MailDoor:
    """A door of mail servers, over an application.

    Parameters
    ----------
    strongest : int
        Most reasons of each side in its answers.

    Raises
    ------
    InvalidSetting
        If the header that marks spam is invalid.
    """

    def __init__(self, application: Application, strongest: int = STRONGEST) -> None:
        self._application = application
        self._log = SparingLog(logging.getLogger(type(self).__module__))
        self._flag = parse_flag(application.settings.spam_header)
        self._strongest = strongest if application.settings.explain_mail else 0
