"""Decay: the weight of counts by their age.

Contract of this file: weights are integers, so weighted counts can be added and
subtracted exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.state import State

PARTS: Final = 1024
"""Weight of a message of the newest month.

A power of two, so that quotients of counts and pseudo-counts in parts equal those in
messages bit for bit (`app.classifier.specification`).  After more than eleven
half-lives a message counts 0.
"""


@dataclass(frozen=True, slots=True)
class Decay:
    """Weight of a message, by the month in which it was learned.

    Parameters
    ----------
    half_life : float
        Months after which a message counts half.
    epoch : int or None, default None
        The month from which ages count, YYYYMM; None before anything was learned.

    Raises
    ------
    InvalidSetting
        If the half-life is not positive and finite.

    Examples
    --------
    >>> decay = Decay(6.0, 202603)
    >>> [decay.weight(epoch) for epoch in (202603, 202602, 202509, 202503, 201503)]
    [1024, 912, 512, 256, 0]
    """

    half_life: float
    epoch: int | None = None

    def __post_init__(self) -> None:
        """Check the half-life."""
        if not (math.isfinite(self.half_life) and self.half_life > 0):
            msg = (
                "a half-life is a positive number of months, such as 6, "
                f"got {self.half_life!r}"
            )
            raise InvalidSetting(msg)

    def weight(self, epoch: int) -> int:
        """Return the weight of a message of a month.  Unit: parts.

        A future month counts as the newest: it may come from an import from a machine
        with a fast clock.
        """
        if self.epoch is None:
            return PARTS
        age = max(0, _months(self.epoch) - _months(epoch))
        # The value is never half-way between two integers unless exactly representable,
        # so a last bit that differs between processors does not change a weight.
        return round(PARTS * math.exp2(-age / self.half_life))


def weighted(history: Mapping[int, State], decay: Decay | None) -> list[State]:
    """Return the weighted state of each month; without decay, all weigh the same.

    Raises
    ------
    InvalidObservation
        If a count is too large to be weighted.
    """
    if decay is None:
        return list(history.values())
    return [state * decay.weight(month) for month, state in history.items()]


def _months(epoch: int) -> int:
    """Return the ordinal number of a month."""
    year, month = divmod(epoch, 100)
    return 12 * year + month
