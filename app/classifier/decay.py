"""Decay: the weight of counts by their age.

Contract of this file: weights are whole numbers, so that what is learned under
them is added and taken back exactly, as without them.
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

A power of two, so that counts and pseudo-counts in parts make the same quotients
as those in messages, bit for bit (`app.classifier.specification`).  After more
than eleven half-lives a message counts as nothing.
"""


@dataclass(frozen=True, slots=True)
class Decay:
    """Weight of a message, by the month in which it was learned.

    Parameters
    ----------
    half_life : float
        After so many months a message counts as half of one.
    epoch : int or None, default None
        The month that ages are counted from, YYYYMM; None before anything was
        learned.

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
        """Refuse an invalid half-life."""
        if not (math.isfinite(self.half_life) and self.half_life > 0):
            msg = (
                "a half-life is a positive number of months, such as 6, "
                f"got {self.half_life!r}"
            )
            raise InvalidSetting(msg)

    def weight(self, epoch: int) -> int:
        """Return the weight of a message of a month.  Unit: parts.

        A month that is yet to come counts as the newest: an import may bring it
        from where a clock ran ahead.
        """
        if self.epoch is None:
            return PARTS
        age = max(0, _months(self.epoch) - _months(epoch))
        # Never half-way between two whole numbers, or exactly representable: a
        # last bit that another processor rounds otherwise changes no weight.
        return round(PARTS * math.exp2(-age / self.half_life))


def weighted(history: Mapping[int, State], decay: Decay | None) -> list[State]:
    """Return the state of each month under its weight; None weighs all months alike.

    Raises
    ------
    InvalidObservation
        If a count is too large to be weighted.
    """
    if decay is None:
        return list(history.values())
    return [state * decay.weight(month) for month, state in history.items()]


def _months(epoch: int) -> int:
    """Return the number of a month."""
    year, month = divmod(epoch, 100)
    return 12 * year + month
