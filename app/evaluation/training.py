"""Which messages does a filter learn, of those that it could?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from app.classifier.score import Verdict
    from app.classifier.specification import Specification


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is learned: all that people say, as long as nothing else is given.

    Parameters
    ----------
    margin : float, default infinity
        A message that people labelled is learned unless the log-odds were on its
        side of the threshold already, and farther from it than this.  0 is to
        train on error, where *unsure* is an error; more is a thick threshold
        [1]_.  Unit: nats.
    own_from : float, default infinity
        From this distance of the log-odds from 0, what the filter decided is learned
        before anybody says what the message is
        (`app.classifier.confidence.confident`).  Unit: nats.

    Raises
    ------
    InvalidSetting
        If a number is negative or not a number.

    References
    ----------
    .. [1] W. S. Yerazunis, "The spam-filtering accuracy plateau at 99.9% accuracy
       and how to get past it", *MIT Spam Conference*, 2004.

    Examples
    --------
    >>> Training.parse("near:4")
    Training(margin=4.0, own_from=inf)
    """

    margin: float = math.inf
    own_from: float = math.inf

    def __post_init__(self) -> None:
        """Refuse distances that are none."""
        if not (self.margin >= 0 and self.own_from >= 0):
            msg = (
                "a message is so many nats from the threshold, at least 0; "
                f"got {min(self.margin, self.own_from)}"
            )
            raise InvalidSetting(msg)

    @classmethod
    def parse(cls, text: str) -> Training:
        """Return what ``everything``, ``errors``, ``near:4`` or ``auto:10`` stands for.

        Raises
        ------
        InvalidSetting
            If it is none of them.
        """
        kind, _, nats = text.partition(":")
        if text in ("everything", "errors"):
            return cls() if text == "everything" else cls(margin=0.0)
        try:
            distance = float(nats) if kind in ("near", "auto") else math.nan
        except ValueError:
            distance = math.nan
        if math.isnan(distance):
            msg = (
                "train is everything, errors, near:NATS (errors, and what is within "
                "so many nats of the threshold) or auto:NATS (the filter's own "
                f"verdicts from so many nats of log-odds as well), got {text!r}"
            )
            raise InvalidSetting(msg)
        return cls(margin=distance) if kind == "near" else cls(own_from=distance)

    def wants(self, verdict: Verdict, label: str, specification: Specification) -> bool:
        """Tell whether a message is learned that people say is of a label.

        Parameters
        ----------
        verdict : Verdict
            What was said of it before.
        label : str
            What it is.
        specification : Specification
            Whose thresholds.
        """
        rule = specification.verdict
        if label in specification.spam_labels:
            return verdict.log_odds - rule.spam_threshold <= self.margin
        return rule.ham_threshold - verdict.log_odds <= self.margin


EVERYTHING: Final = Training()
"""What people say is learned, and nothing else."""
