"""Linear learners of the literature: logistic regression, a relaxed SVM, and FTRL.

Compact programs written from the papers, with the settings of their authors where they
name some; each takes one step, or one pass, for a message.
"""

from __future__ import annotations

import re
from collections import Counter
from email import message_from_bytes
from math import log1p, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit
from xxhash import xxh3_64_intdigest

from app.kernels import compiled
from benchmarks.peers.libraries import text_of
from benchmarks.peers.peer import Said

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GRAM_BITS: Final = 22
# The golden ratio times 2^32 (Knuth, volume 3, section 6.4).
_MIXED: Final = np.uint32(2_654_435_761)


def four_grams(raw: bytes, most: int) -> NDArray[np.uint32]:
    """Return the places of the 4-grams of a message's first bytes, each once."""
    content = np.frombuffer(raw[:most], np.uint8).astype(np.uint32)
    grams = content[:-3] | content[1:-2] << 8 | content[2:-1] << 16 | content[3:] << 24
    return np.unique(grams * _MIXED >> np.uint32(32 - _GRAM_BITS))


class FourGramRegression:
    """Logistic regression by gradient descent, a step for each message.

    Over the 4-grams of the first 3,500 bytes; a message has unit length.

    References
    ----------
    .. [1] J. Goodman and W. Yih, "Online discriminative spam filter training", CEAS
       2006.
    .. [2] G. V. Cormack, "University of Waterloo participation in the TREC 2007 spam
       track", TREC 2007.
    """

    _BYTES: Final = 3500
    # That of the paper, 0.004, times the features of a message that is not of unit
    # length.
    RATE: Final = 10.0

    def __init__(self) -> None:
        self._weights = np.zeros(2**_GRAM_BITS)

    def score(self, raw: bytes, /) -> Said:
        """Return the log-odds."""
        return Said.by_log_odds(self._odds(four_grams(raw, self._BYTES)))

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Take a step."""
        x = four_grams(raw, self._BYTES)
        error = int(spam) - float(expit(self._odds(x)))
        self._weights[x] += self.RATE * error / sqrt(max(1, x.size))

    def close(self) -> None:
        """Do nothing."""

    def _odds(self, x: NDArray[np.uint32]) -> float:
        return float(self._weights[x].sum()) / sqrt(max(1, x.size))


class RelaxedSVM:
    """Support vector machine that is solved anew, by one pass, after each near error.

    Over the 4-grams of the first 3,000 bytes; a message has unit length.

    References
    ----------
    .. [1] D. Sculley and G. M. Wachman, "Relaxed online SVMs for spam filtering",
       SIGIR 2007.
    """

    _BYTES: Final = 3000
    _COST: Final = 100.0
    _MARGIN: Final = 0.8
    _REMEMBERED: Final = 10_000

    def __init__(self) -> None:
        self._weights = np.zeros(2**_GRAM_BITS)
        self._x = np.empty((self._REMEMBERED, self._BYTES), np.uint32)
        self._sizes = np.zeros(self._REMEMBERED, np.int64)
        self._sides = np.zeros(self._REMEMBERED)
        self._alphas = np.zeros(self._REMEMBERED)
        self._seen = 0

    def score(self, raw: bytes, /) -> Said:
        """Return the distance from the plane."""
        return Said.by_log_odds(self._distance(four_grams(raw, self._BYTES)))

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Remember a message; go through all if it is on the wrong side, or nearly."""
        x = four_grams(raw, self._BYTES)
        side = 1.0 if spam else -1.0
        near = side * self._distance(x) < self._MARGIN
        # The oldest one is forgotten, and its support stays in the weights.
        at = self._seen % self._REMEMBERED
        self._x[at, : x.size] = x
        self._sizes[at], self._sides[at], self._alphas[at] = x.size, side, 0.0
        self._seen += 1
        if near:
            known = min(self._seen, self._REMEMBERED)
            solve(
                self._weights,
                self._x,
                self._sizes[:known],
                self._sides,
                self._alphas,
                self._COST,
            )

    def close(self) -> None:
        """Do nothing."""

    def _distance(self, x: NDArray[np.uint32]) -> float:
        return float(self._weights[x].sum()) / sqrt(max(1, x.size))


@compiled
def solve(
    weights: NDArray[np.float64],
    x: NDArray[np.uint32],
    sizes: NDArray[np.int64],
    sides: NDArray[np.float64],
    alphas: NDArray[np.float64],
    cost: float,
) -> None:
    """Move the multiplier of each message once to where the others want it, in place.

    A message of unit length has its margin moved by as much as its multiplier.
    """
    for row in range(sizes.size):
        length = sqrt(max(1, sizes[row]))
        distance = 0.0
        for column in range(sizes[row]):
            distance += weights[x[row, column]]
        wanted = alphas[row] + 1.0 - sides[row] * distance / length
        new = min(max(wanted, 0.0), cost)
        step = (new - alphas[row]) * sides[row] / length
        if step != 0.0:
            alphas[row] = new
            for column in range(sizes[row]):
                weights[x[row, column]] += step


_WORD: Final = re.compile(r"\w{2,}")
_HOST: Final = re.compile(r"https?://([\w.-]+)", re.IGNORECASE)
_FIELDS: Final = ("from", "reply-to", "received", "message-id", "content-type")
_VALUE: Final = re.compile(r"[\w.@-]{2,}")


def tokens_of(raw: bytes) -> Counter[str]:
    """Return words, hosts of links, and addresses and hosts of the header, counted."""
    message = message_from_bytes(raw)
    text = text_of(raw)
    found = Counter(word.lower()[:16] for word in _WORD.findall(text))
    found.update(f"host:{host.lower()}" for host in _HOST.findall(text))
    for name in _FIELDS:
        for value in message.get_all(name, []):
            found.update(
                f"{name}:{each.lower()}" for each in _VALUE.findall(str(value))
            )
    return found


class FollowTheLeader:
    """Logistic regression by FTRL-Proximal over hashed tokens, a step for each message.

    With the settings that Stalwart documents: 2^20 signed places, the logarithm of one
    more than the count, unit length.  Stalwart itself learns in batches, twice a day.

    References
    ----------
    .. [1] H. B. McMahan et al., "Ad click prediction: a view from the trenches", KDD
       2013, algorithm 1.
    """

    _BITS: Final = 20
    _ALPHA, _BETA, _L1, _L2 = 2.0, 1.0, 0.001, 0.0001

    def __init__(self) -> None:
        self.z = np.zeros(2**self._BITS)
        self.n = np.zeros(2**self._BITS)

    def score(self, raw: bytes, /) -> Said:
        """Return the log-odds."""
        at, x = self._hashed(tokens_of(raw))
        return Said.by_log_odds(float(self._weights(at) @ x))

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Take a step."""
        at, x = self._hashed(tokens_of(raw))
        weights = self._weights(at)
        slope = (float(expit(weights @ x)) - int(spam)) * x
        grown = self.n[at] + slope**2
        sigma = (np.sqrt(grown) - np.sqrt(self.n[at])) / self._ALPHA
        self.z[at] += slope - sigma * weights
        self.n[at] = grown

    def close(self) -> None:
        """Do nothing."""

    def _weights(self, at: NDArray[np.int64]) -> NDArray[np.float64]:
        z = self.z[at]
        scale = (self._BETA + np.sqrt(self.n[at])) / self._ALPHA + self._L2
        return np.where(np.abs(z) > self._L1, (np.sign(z) * self._L1 - z) / scale, 0.0)

    def _hashed(
        self, tokens: Counter[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        sums: dict[int, float] = {}
        for token, count in tokens.items():
            digest = xxh3_64_intdigest(token.encode())
            at = digest & 2**self._BITS - 1
            sums[at] = sums.get(at, 0.0) + log1p(count) * (1 if digest >> 63 else -1)
        x = np.fromiter(sums.values(), np.float64, len(sums))
        return np.fromiter(sums, np.int64, len(sums)), x / (np.linalg.norm(x) or 1.0)
