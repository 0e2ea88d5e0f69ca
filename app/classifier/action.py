"""What should be done with a message? An action, by the log-odds of its verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from app.classifier.rule import SPAM_THRESHOLD
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.classifier.score import Verdict

Action = Literal["none", "add header", "quarantine", "reject"]
"""What a mail server is asked to do, from the mildest on."""

_SEVERITY: Final[dict[Action, int]] = {
    action: place for place, action in enumerate(get_args(Action))
}


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
    app.errors.InvalidSetting: reject_from is 0.5, below the spam threshold of 2.197;
    what is not even spam cannot be rejected
    """

    spam_from: float = SPAM_THRESHOLD
    quarantine_from: float | None = None
    reject_from: float | None = None

    def __post_init__(self) -> None:
        """Refuse thresholds that contradict each other."""
        for name, word, value in (
            ("quarantine_from", "quarantined", self.quarantine_from),
            ("reject_from", "rejected", self.reject_from),
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
                f"reject_from is {high:.4g}, below quarantine_from of {low:.4g}; then "
                "nothing would ever be quarantined"
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


def agreed(shared: Action, others: Iterable[Action]) -> Action:
    """Return what is done with a message that several recipients share.

    Parameters
    ----------
    shared : Action
        That of the profile that they have in common.
    others : iterable of Action
        Those of the profiles of their own.

    Notes
    -----
    A protocol with one answer for all has to choose.  What the recipients have in
    common decides whether a message is marked; it is held or refused only where
    the profile of each of them says so: nobody's mail is lost for what another
    one chose.

    Examples
    --------
    >>> agreed("reject", ["reject", "quarantine"]), agreed("reject", ["none"])
    ('quarantine', 'add header')
    """
    if _SEVERITY[shared] <= _SEVERITY["add header"]:
        return shared
    mildest = min((shared, *others), key=_SEVERITY.__getitem__)
    return max(mildest, "add header", key=_SEVERITY.__getitem__)
