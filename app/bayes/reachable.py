"""Can any set of messages have these counts?

Contract of this file: a count that no messages have is refused with its value.
It is never clamped at zero: then unlearning would be no inverse, and an error
would be invisible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.errors import InconsistentCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray


def require_reachable(
    *,
    messages: NDArray[np.int64],
    occurrences: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> None:
    """Raise if no set of messages has these counts.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages per class.
    occurrences, documents : ndarray of int64, shape (n, K)
        Both counts of some features.

    Raises
    ------
    InconsistentCounts
        If a count is negative, or a feature is in more messages than it has
        occurrences, or occurs in no message.
    """
    for name, values in (
        ("messages", messages),
        ("occurrences", occurrences),
        ("documents", documents),
    ):
        if values.size and int(values.min()) < 0:
            msg = f"a count of {name} would be negative: {int(values.min())}"
            raise InconsistentCounts(msg)
    apart = (occurrences < documents) | ((occurrences > 0) & (documents == 0))
    if apart.any():
        where = np.argwhere(apart)[0]
        msg = (
            f"a feature would occur {int(occurrences[tuple(where)])} times "
            f"in {int(documents[tuple(where)])} messages"
        )
        raise InconsistentCounts(msg)


def require_frequencies(
    *, messages: NDArray[np.int64], most: NDArray[np.int64]
) -> None:
    """Raise if a feature is in more messages than its class has.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages per class.
    most : ndarray of int64, shape (K,)
        Largest document frequency in each class, 0 without features.

    Raises
    ------
    InconsistentCounts
        If there is such a feature: an estimate of its probability would
        exceed 1.
    """
    if (most > messages).any():
        c = int(np.argmax(most > messages))
        msg = (
            f"a feature would be in {int(most[c])} messages of class {c}, "
            f"which has {int(messages[c])}"
        )
        raise InconsistentCounts(msg)
