"""How are many sparse messages scored with one look-up?

Contract of this file: a sum over a message's features is taken in the same
order and by the same routine whether the message came alone or with others,
so that a batch answers bit for bit what its messages answer one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Joined:
    """The features of M messages, one message after the other.

    Parameters
    ----------
    ids, values : ndarray of int64, shape (N,)
        The features of all messages, and their counts or measured values.
    bounds : list of int, length M + 1
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.
    """

    ids: NDArray[np.int64]
    values: NDArray[np.int64]
    bounds: list[int]


def join(
    ids: Sequence[NDArray[np.int64]], values: Sequence[NDArray[np.int64]]
) -> Joined:
    """Return the features of several messages, one after the other.

    Parameters
    ----------
    ids, values : sequence of M ndarrays of int64
        The features of each message, and their counts or measured values.

    Examples
    --------
    >>> a, b = np.array([1, 2]), np.array([2])
    >>> joined = join([a, b], [a, b])
    >>> joined.ids.tolist(), joined.bounds
    ([1, 2, 2], [0, 2, 3])
    """
    if len(ids) == 1:
        return Joined(ids[0], values[0], [0, int(ids[0].size)])
    bounds = [0]
    for part in ids:
        bounds.append(bounds[-1] + int(part.size))
    empty = np.empty(0, np.int64)
    return Joined(
        np.concatenate([empty, *ids]), np.concatenate([empty, *values]), bounds
    )
