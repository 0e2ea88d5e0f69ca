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
    if (
        not np.count_nonzero(messages < 0)
        and not np.count_nonzero(documents < 0)
        and not np.count_nonzero(occurrences < documents)
        # Whatever is in a message occurs: as many cells, or one occurs in none.
        and np.count_nonzero(occurrences) == np.count_nonzero(documents)
    ):
        return
    for name, values in (
        ("messages", messages),
        ("occurrences", occurrences),
        ("documents", documents),
    ):
        if (values < 0).any():
            msg = f"a count of {name} would be negative: {int(values.min())}"
            raise InconsistentCounts(msg)
    apart = (occurrences < documents) | ((occurrences > 0) & (documents == 0))
    where = tuple(np.argwhere(apart)[0])
    msg = (
        f"a feature would occur {int(occurrences[where])} times "
        f"in {int(documents[where])} messages"
    )
    raise InconsistentCounts(msg)


def require_frequencies(
    *, messages: NDArray[np.int64], documents: NDArray[np.int64]
) -> None:
    """Raise if a feature is in more messages than its class has.

    Parameters
    ----------
    messages : ndarray of int64, shape (K,)
        Messages per class.
    documents : ndarray of int64, shape (n, K)
        Messages of each class that hold each of some features.

    Raises
    ------
    InconsistentCounts
        If there is such a feature: an estimate of its probability would
        exceed 1.
    """
    beyond = documents > messages
    if np.count_nonzero(beyond):
        row, c = np.argwhere(beyond)[0].tolist()
        msg = (
            f"a feature would be in {int(documents[row, c])} messages of class {c}, "
            f"which has {int(messages[c])}"
        )
        raise InconsistentCounts(msg)
