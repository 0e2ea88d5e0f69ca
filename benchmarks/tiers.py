"""Tiers of the feature table: learning against look-ups, by their size.

Prints, for each ratio, what a message costs to learn and to look up in a table
that grows to a million features.  Unit: µs of CPU time.

    python benchmarks/tiers.py 2 4 8 16 32
"""

from __future__ import annotations

import sys
import time

import numpy as np

import app.bayes.table
from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts

MESSAGES = 60_000
WORDS = 200_000
NEW_WORDS = 15
EXPONENT = 1.05


def stream(seed: int) -> list[FeatureCounts]:
    """Return deltas of messages: words of a Zipf law, and some never seen."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(-(2**63), 2**63 - 1, WORDS)
    share = np.cumsum(np.arange(1, WORDS + 1) ** -EXPONENT)
    deltas = []
    for _ in range(MESSAGES):
        length = int(np.clip(rng.lognormal(5.0, 0.8), 10, 3000))
        known = ids[np.searchsorted(share, rng.random(length) * share[-1])]
        new = rng.integers(-(2**63), 2**63 - 1, rng.poisson(NEW_WORDS))
        x = SparseCounts.from_occurrences(np.concatenate([known, new]))
        deltas.append(FeatureCounts.of(x, label=int(rng.integers(2)), n_classes=2))
    return deltas


def measure(deltas: list[FeatureCounts], ratio: int) -> str:
    """Return one line of the table: the second half of the stream."""
    app.bayes.table.TIER_RATIO = ratio  # type: ignore[misc]
    table = app.bayes.table.FeatureTable.empty(2)
    learn, look_up, tiers = [], [], []
    for i, delta in enumerate(deltas):
        start = time.thread_time()
        table = table.add(delta)
        learn.append(time.thread_time() - start)
        ids = deltas[(i * 7919) % len(deltas)].ids
        start = time.thread_time()
        table.look_up(ids, "presence")
        look_up.append(time.thread_time() - start)
        tiers.append(len(table.tiers))
    half = len(deltas) // 2
    return (
        f"{ratio:5d}  {np.mean(learn[half:]) * 1e6:7.1f}  "
        f"{np.mean(look_up[half:]) * 1e6:7.1f}  {np.mean(tiers[half:]):5.1f}  "
        f"{max(learn) * 1e3:6.1f}  {table.vocabulary:9d}"
    )


def main() -> None:
    """Print the table."""
    deltas = stream(3)
    print("ratio    learn  look up  tiers  max ms   features")
    for ratio in map(int, sys.argv[1:]):
        print(measure(deltas, ratio), flush=True)


if __name__ == "__main__":
    main()
