"""Dynamic Markov compression: what compresses best with spam is spam."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import compiled
from benchmarks.peers.peer import Said

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIRST: Final = 0.2
"""Count of each bit in a state that nobody has visited."""
_VISITS: Final = 2.0
"""A state is split if one way in has more visits than this, and the others too."""


@compiled
def nats(
    content: NDArray[np.uint8], ways: NDArray[np.int32], counts: NDArray[np.float32]
) -> float:
    """Return the length of a text under a model, which learns nothing. Unit: nats."""
    state, length = 0, 0.0
    for byte in content:
        for place in range(7, -1, -1):
            bit = byte >> place & 1
            length -= log(counts[state, bit] / (counts[state, 0] + counts[state, 1]))
            state = ways[state, bit]
    return length


@compiled
def add(
    content: NDArray[np.uint8],
    ways: NDArray[np.int32],
    counts: NDArray[np.float32],
    used: int,
) -> int:
    """Add a text to a model, in place, and return how many states there are now."""
    state = 0
    for byte in content:
        for place in range(7, -1, -1):
            bit = byte >> place & 1
            after, seen = ways[state, bit], counts[state, bit]
            all_seen = counts[after, 0] + counts[after, 1]
            if seen > _VISITS and all_seen - seen > _VISITS and used < len(ways):
                share = np.float32(seen / all_seen)
                ways[used] = ways[after]
                counts[used] = counts[after] * share
                counts[after] -= counts[used]
                ways[state, bit] = after = used
                used += 1
            counts[state, bit] += np.float32(1)
            state = after
    return used


class Markov:
    """A model of bits for each class, whose states are split as they are visited.

    The score is the difference of the lengths of the first 3,500 bytes under both
    models, for each byte.

    References
    ----------
    .. [1] G. V. Cormack and R. N. S. Horspool, "Data compression using dynamic Markov
       modelling", The Computer Journal 30(6), 1987.
    .. [2] A. Bratko et al., "Spam filtering using statistical data compression models",
       JMLR 7, 2006, sections 3 and 4.
    """

    BYTES: Final = 3500
    STATES: Final = 2**23

    def __init__(self) -> None:
        # In the beginning a state for each byte before and each prefix of this one: the
        # prefixes are a tree in an array, whose last way leads to the next byte's tree.
        self._models = []
        for _ in range(2):
            ways = np.empty((self.STATES, 2), np.int32)
            counts = np.empty((self.STATES, 2), np.float32)
            tree = np.arange(255, dtype=np.int32)
            inner, leaf = tree[:127], tree[127:]
            first = ways[: 256 * 255].reshape(256, 255, 2)
            first[:, inner] = 2 * inner[:, None] + (1, 2)
            first[:, inner] += 255 * np.arange(256, dtype=np.int32)[:, None, None]
            first[:, leaf] = 255 * (2 * (leaf - 127)[:, None] + (0, 1))
            counts[: 256 * 255] = _FIRST
            self._models.append((ways, counts))
        self._used = [256 * 255, 256 * 255]

    def score(self, raw: bytes, /) -> Said:
        """Return how much shorter each byte is as spam. Unit: nats."""
        content = np.frombuffer(raw[: self.BYTES], np.uint8)
        ham, spam = (nats(content, *model) for model in self._models)
        return Said.by_log_odds((ham - spam) / max(1, content.size))

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Add the message to the model of its class."""
        content = np.frombuffer(raw[: self.BYTES], np.uint8)
        self._used[spam] = add(content, *self._models[spam], self._used[spam])

    def close(self) -> None:
        """Do nothing."""
