"""What should be done with a message? An action, by the log-odds of its verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.classifier.rule import SPAM_THRESHOLD
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from app.classifier.score import Verdict

Action = Literal["none", "add header", "quarantine", "reject"]
"""What a mail server is asked to do, from the mildest on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRule:
    """From which log-odds on is more done than a header?

    Parameters
    ----------
    spam_from : float
        The spam threshold of the verdict, below which neither of the others
        may lie. Unit: nats.
    quarantine_from : float or None
        Quarantine spam from here up; None never does. Unit: nats.
    reject_from : float or None
        Reject spam from here up; None never does. Unit: nats.

    Raises
    ------
    InvalidSetting
        If a threshold is not finite, or they are not in this order.

    Examples
    --------
    >>> ActionRule(reject_from=0.5)
    Traceback (most recent call last):
    ...
    app.errors.InvalidSetting: POSTBAYES_REJECT_FROM is 0.5, below the spam threshold
    of 2.197; what is not even spam cannot be rejected
    """

    spam_from: float = SPAM_THRESHOLD
    quarantine_from: float | None = None
    reject_from: float | None = None

    def __post_init__(self) -> None:
        """Refuse thresholds that contradict each other."""
        for name, word, value in (
            ("POSTBAYES_QUARANTINE_FROM", "quarantined", self.quarantine_from),
            ("POSTBAYES_REJECT_FROM", "rejected", self.reject_from),
        ):
            if value is None:
                continue
            if not math.isfinite(value):
                msg = f"{name} must be a finite number of nats, got {value!r}"
                raise InvalidSetting(msg)
            if value < self.spam_from:
                msg = (
                    f"{name} is {value:.4g}, below the spam threshold of "
                    f"{self.spam_from:.4g}; what is not even spam cannot be {word}"
                )
                raise InvalidSetting(msg)
        low, high = self.quarantine_from, self.reject_from
        if low is not None and high is not None and high < low:
            msg = (
                f"POSTBAYES_REJECT_FROM is {high:.4g}, below "
                f"POSTBAYES_QUARANTINE_FROM of {low:.4g}; then nothing would ever "
                "be quarantined"
            )
            raise InvalidSetting(msg)

    def __call__(self, verdict: Verdict) -> Action:
        """Return the action on a message with this verdict.

        What is not spam is let through, whatever its log-odds: a profile that
        knows one side alone is unsure of everything.
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
