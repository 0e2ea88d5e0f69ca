"""Kernels of text beside their plain reference, and look-ups in large tables.

    python -m benchmarks.kernels --index FILE

Words, ids and pairs of each message of a stream are made both ways and compared: as the
service makes them, and by regular expressions and the library of the hash.  Then 400
features are looked up in tables of several sizes, without anything of them in the
caches of the processor; of nine times, the least counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable
from app.corpora.source import read_index
from app.features.headers import header_words
from app.features.tokens import Span, tokens_of
from app.features.words import marked_words, sequences
from app.kernels.ids import mixed
from app.mail.parse import parse
from tests.support import plain_text

Found = tuple[dict[int, int], set[int]]


def compiled(spans: list[Span]) -> Found:
    """Return how often each id occurs, and the pairs, by the kernels."""
    tokens = tokens_of(spans)
    counts, _ = tokens.distinct((0, tokens.ids.size))
    pairs, _ = tokens.pairs(0, len(spans))
    by_id = dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True))
    return by_id, set(pairs.ids.tolist())


def plain(spans: list[Span]) -> Found:
    """Return the same by the reference."""
    each = [plain_text.ids(plain_text.tokens(span)).tolist() for span in spans]
    every, counts = np.unique([i for ids in each for i in ids], return_counts=True)
    pairs = {int(mixed(left, right)) for ids in each for left, right in pairwise(ids)}
    return dict(zip(every.tolist(), counts.tolist(), strict=True)), pairs


def look_ups(features: int) -> float:
    """Return the median time of looking up 400 features.  Unit: us."""
    random = np.random.default_rng(1)
    ids = np.unique(random.integers(1, 2**62, features))
    ones = np.ones(ids.size, np.int64)
    table = FeatureTable.of(
        FeatureCounts.of(SparseCounts.of_sorted(ids, ones), label=0, n_classes=2)
    )
    asked = [np.sort(random.choice(ids, 400, replace=False)) for _ in range(100)]
    evicted, least = np.zeros(2**20), np.full(len(asked), np.inf)
    for _ in range(9):
        for place, some in enumerate(asked):
            evicted += 1.0
            begun = time.perf_counter()
            table.look_up(some, "presence")
            least[place] = min(least[place], time.perf_counter() - begun)
    return float(1e6 * np.median(least))


def main() -> None:
    """Compare all messages, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="stream")
    options = parser.parse_args()
    different, seconds = 0, {compiled: [0.0], plain: [0.0]}
    compiled([("", "compile \u00e9", 2)])
    for entry in read_index(options.index):
        message = parse(entry.raw)
        spans = [*header_words(message), *sequences(message), *marked_words(message)]
        found = []
        for way, times in seconds.items():
            begun = time.perf_counter()
            found.append(way(spans))
            times.append(time.perf_counter() - begun)
        different += found[0] != found[1]
    print(f"{len(seconds[plain]) - 1} messages, {different} read differently")
    for way, times in seconds.items():
        print(f"{way.__name__:10} median {statistics.median(times[1:]) * 1e3:.3f} ms")
    for features in (10_000, 100_000, 1_000_000, 10_000_000):
        print(f"400 of {features:,} features: {look_ups(features):.1f} us")


if __name__ == "__main__":
    main()
