"""Verdict: a decision with its numbers, the requested action, and its history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from app.bayes.models import Contributions
    from app.kernels import Floats

SPAM_THRESHOLD: Final = math.log(9)
"""Default threshold: a lost ham costs as much as nine missed spam, the ratio of
TREC-era cost models (Androutsopoulos et al., 2000, lambda = 9).  The expected cost is
least if spam begins where it is nine times as probable as ham.  Unit: nats."""
Decision = Literal["spam", "ham", "unsure"]
# Tolerance at thresholds, so that last bits do not decide: after eight spam and no ham,
# the log-odds of any message are ln 9.  Unit: nats.
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewScore:
    """The result of one naive Bayes classifier.

    Parameters
    ----------
    log_posterior : ndarray of float64, shape (K,)
        Log-posterior of each class. Unit: nats.
    log_odds : float
        Log-odds of the spam labels against the others. Unit: nats.
    features : int
        Number of the message's features seen before.
    """

    event_model: str
    log_posterior: Floats
    log_odds: float
    features: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on one message, with its numbers.

    Parameters
    ----------
    label : int
        Index of the most probable class; the first one in a tie.
    probability : float
        Probability that the message is spam.
    log_odds : float
        Log-odds of the spam labels against the others. Unit: nats.
    known : bool
        Whether a feature was seen before, by a view that learns every message.
    log_posterior : ndarray of float64, shape (K,)
        Log-posterior of each class, under the verdict's rule. Unit: nats.
    views : mapping of str to ViewScore
        Result of each classifier in use by itself.
    evidence : ndarray of float64, shape (T, 2)
        Value of each term of the rule for each side
        (`app.classifier.specification.Specification.sides`), normalised and before its
        weight.  Unit: nats.
    log_prior : ndarray of float64, shape (2,)
        The prior of each side. Unit: nats.
    parts : mapping of str to Contributions
        Contribution of each feature to each classifier, for each side.
    factors : sequence of float, length T
        Factor of each term's normaliser.
    above : sequence of float
        The log-odds without the most personal level, without the next one as well, and
        so on; none where there is one level (`app.classifier.levels`).  Unit: nats.
    """

    decision: Decision
    label: int
    probability: float
    log_odds: float
    known: bool
    log_posterior: Floats
    views: Mapping[str, ViewScore]
    evidence: Floats
    log_prior: Floats
    parts: Mapping[str, Contributions] = field(repr=False)
    factors: Sequence[float] = field(repr=False)
    above: Sequence[float] = field(default=(), repr=False)


Action = Literal["none", "add header", "quarantine", "reject"]
"""The actions of a mail server, the mildest first."""
_SEVERITY: Final[dict[Action, int]] = {
    action: place for place, action in enumerate(get_args(Action))
}


MAX_NATS: Final = 1000.0
"""Largest threshold; a larger one must be a mistake.

Precedent: a score of a mail door has at most 999 points (`app.doors.mta`).
"""


def require_threshold(name: str, value: float) -> None:
    """Raise unless a threshold is a possible number of nats.

    Raises
    ------
    InvalidSetting
        If it is not.
    """
    if not abs(value) <= MAX_NATS:
        raise InvalidSetting(
            f"{name} must be a number of nats from {-MAX_NATS:g} to {MAX_NATS:g}, got "
            f"{value!r}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRule:
    """Log-odds from which a stronger action than a header is requested.

    Parameters
    ----------
    spam_from : float
        The spam threshold of the verdict; the others must not be below it.  Unit: nats.
    quarantine_from : float or None
        Least log-odds to quarantine spam; None means never.  Unit: nats.
    reject_from : float or None
        Least log-odds to reject spam; None means never.  Unit: nats.

    Raises
    ------
    InvalidSetting
        If a threshold is not finite, or they are not in this order.

    Examples
    --------
    >>> ActionRule(reject_from=0.5)
    Traceback (most recent call last):
    ...
    app.errors.InvalidSetting: reject_from is 0.5 nats, below the spam threshold of
    2.197 nats; mail that is not spam cannot be rejected
    """

    spam_from: float = SPAM_THRESHOLD
    quarantine_from: float | None = None
    reject_from: float | None = None

    def __post_init__(self) -> None:
        """Check the thresholds."""
        for name, word, value in (
            ("quarantine_from", "quarantined", self.quarantine_from),
            ("reject_from", "rejected", self.reject_from),
        ):
            if value is None:
                continue
            require_threshold(name, value)
            if value < self.spam_from:
                raise InvalidSetting(
                    f"{name} is {value:.4g} nats, below the spam threshold of "
                    f"{self.spam_from:.4g} nats; mail that is not spam cannot be {word}"
                )
        low, high = self.quarantine_from, self.reject_from
        if low is not None and high is not None and high < low:
            raise InvalidSetting(
                f"reject_from is {high:.4g} nats, below quarantine_from of {low:.4g}; "
                "then nothing would ever be quarantined"
            )

    def __call__(self, verdict: Verdict) -> Action:
        """Return the action on a message with this verdict.

        A message that is not decided as spam passes, whatever its log-odds: a profile
        that has learned only one side is unsure of every message.
        """
        if verdict.decision != "spam":
            return "none"
        if self.reject_from is not None and verdict.log_odds >= self.reject_from:
            return "reject"
        if self.quarantine_from is not None and (
            verdict.log_odds >= self.quarantine_from
        ):
            return "quarantine"
        return "add header"


def agreed(shared: Action, others: Iterable[Action]) -> Action:
    """Return the action for a message that several recipients share.

    Parameters
    ----------
    shared : Action
        The action of the profile that they share.
    others : iterable of Action
        The actions of their own profiles.

    Notes
    -----
    A protocol with one answer for all recipients has to choose.  The shared profile
    decides whether a message is marked.  It is held or refused only if the profile of
    every recipient agrees, so no one loses mail because of another's choice.

    Examples
    --------
    >>> agreed("reject", ["reject", "quarantine"]), agreed("reject", ["none"])
    ('quarantine', 'add header')
    """
    if _SEVERITY[shared] <= _SEVERITY["add header"]:
        return shared
    mildest = min((shared, *others), key=_SEVERITY.__getitem__)
    return max(mildest, "add header", key=_SEVERITY.__getitem__)


Place: TypeAlias = "tuple[datetime, bytes]"
"""Time and digest of a line: its place in the history of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One verdict on one message.

    Parameters
    ----------
    digest : bytes
        Identity of the message, 16 bytes.
    door : str
        The door that asked: `http`, `milter`, `spamd` or `rspamd`.
    log_odds : float or None
        The log-odds then; None if not finite.  Unit: nats.
    size : int
        Size of the message.  Unit: bytes.
    features, unseen : int
        Number of features of the message, and of those new to the profile.
    sender, subject : str or None
        Its headers From and Subject; None if words are not stored.
    recipients : str or None
        Recipients with this profile, from the mail server or else from the header To.
    envelope : str or None
        Sender of the SMTP envelope, if known.
    reasons : sequence of (str, float) pairs, or None
        The strongest reasons with their log-odds; None if not computed.  Unit: nats.
    """

    digest: bytes
    time: datetime
    door: str
    decision: str
    log_odds: float | None
    size: int
    features: int
    unseen: int
    sender: str | None = None
    subject: str | None = None
    recipients: str | None = None
    envelope: str | None = None
    reasons: Sequence[tuple[str, float]] | None = None

    @property
    def place(self) -> Place:
        """Its place in the history."""
        return self.time, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Conditions on lines; a line must meet all that are given.

    Parameters
    ----------
    search : str
        Substring of sender, subject, recipients or envelope, in any of their forms
        (`app.features.tokens.sought`).
    decision, door : str or None
        Decision and door of the line.
    taught : bool or None
        Whether the message is learned now.
    since, until : datetime or None
        Scored at or after, and before.
    """

    search: str = ""
    decision: str | None = None
    door: str | None = None
    taught: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def looks(self) -> bool:
        """Whether there are conditions other than on the time."""
        return bool(self.search or self.decision or self.door) or (
            self.taught is not None
        )


class Candidate(NamedTuple):
    """The fields of a line that determine the worth of teaching it."""

    time: datetime
    digest: bytes
    decision: str
    log_odds: float | None
    features: int
    unseen: int


class Count(NamedTuple):
    """The number of lines in a period, for one decision and door.

    Parameters
    ----------
    begin : int
        Start of the period.  Unit: seconds since 1970 in UTC.
    """

    begin: int
    decision: str
    door: str
    lines: int
