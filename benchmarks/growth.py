"""Growth: the time of a score and the memory of a feature, from small to large.

    python -m benchmarks.growth [--most N] [--picture FILE]

Learns synthetic mail, the same at each run, until a profile knows 10,000 features, then
ten times as many, and so on.  The words of a message are drawn by Zipf's law from a
vocabulary without an end, half of them from one that its label has for itself: so new
words and new pairs keep coming, as in real mail.  At each size fresh messages are read
and scored, and the times are the CPU time of one thread; to read a message takes as
long at each size, so compare the multiples of it.
"""

from __future__ import annotations

import argparse
import time
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.classifier.explain import attribute, explain
from app.classifier.learn import Move, sum_of_moves
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.classifier.specification import Specification
from app.features.extract import extract
from app.mail.parse import parse
from app.services.classify import warm_up
from benchmarks.drawing import growth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SMALLEST: Final = 10_000
TOGETHER: Final = 20
"""Messages that are learned as one sum."""
FRESH: Final = 200
WORDS: Final = 300
"""Words of a message, as its text is drawn."""
# A share of r**-0.3 of all words has a rank above r, as with Zipf's exponent 1.3.
TAIL: Final = 0.3


class Size(NamedTuple):
    """What is measured at one size; times are medians.  Unit: seconds and bytes."""

    features: int
    messages: int
    read: float
    score: float
    verdict: float
    bytes_each: float


def mail(seed: int) -> Iterator[tuple[bytes, int]]:
    """Yield messages without an end, each with its label."""
    random = np.random.default_rng(seed)
    for number in count():
        label = number % 2
        ranks = (random.random(WORDS) ** (-1 / TAIL)).clip(max=2.0**62).astype(np.int64)
        own = random.random(WORDS) < 0.5
        words = [
            f"{'hs'[label] if alone else 'w'}{rank:x}"
            for rank, alone in zip(ranks.tolist(), own.tolist(), strict=True)
        ]
        head = f"From: {words[0]}@{words[1]}.example\nSubject: {' '.join(words[2:8])}"
        yield f"{head}\n\n{' '.join(words[8:])}\n".encode(), label


def measured(snapshot: Snapshot, fresh: Sequence[bytes], messages: int) -> Size:
    """Return what fresh messages take, and how large the tables are."""
    made_of = snapshot.specification
    seconds = []
    for raw in fresh:
        begun = time.thread_time()
        seen = extract(parse(raw), made_of.views)
        read = time.thread_time()
        found = score(snapshot, seen.views)
        scored = time.thread_time()
        explain(attribute(found, snapshot), snapshot, seen, strongest=10)
        seconds.append((read - begun, scored - read, time.thread_time() - begun))
    tables = snapshot.feature_tables.values()
    features = sum(table.vocabulary for table in tables)
    read, scored, verdict = np.median(seconds, axis=0).tolist()
    memory = sum(table.nbytes for table in tables)
    return Size(features, messages, read, scored, verdict, memory / features)


def sizes(most: int) -> Iterator[Size]:
    """Learn, and yield what is measured at each power of ten."""
    made_of = Specification()
    snapshot = Snapshot.empty(made_of)
    learned, fresh = mail(1), mail(2)
    wanted, messages = SMALLEST, 0
    while wanted <= most:
        moves = [
            Move(
                views=extract(parse(raw), made_of.views).views, before=None, after=label
            )
            for raw, label in islice(learned, TOGETHER)
        ]
        messages += len(moves)
        snapshot.learn(sum_of_moves(moves, n_classes=2), revision=messages)
        known = sum(t.vocabulary for t in snapshot.feature_tables.values())
        if known >= wanted:
            some = [raw for raw, _ in islice(fresh, FRESH)]
            yield measured(snapshot, some, messages)
            wanted *= 10


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=10**7, help="features")
    parser.add_argument("--picture", type=Path, help="an SVG file to write")
    asked = parser.parse_args()
    warm_up()
    print(f"{'features':>12} {'messages':>9} {'read':>7} {'score':>7} {'verdict':>8}")
    print(f"{'':12} {'':9} {'us':>7} {'x read':>7} {'x read':>8} {'bytes each':>11}")
    found = []
    for size in sizes(asked.most):
        found.append(size)
        print(
            f"{size.features:12,} {size.messages:9,} {1e6 * size.read:7.0f} "
            f"{size.score / size.read:7.2f} {size.verdict / size.read:8.2f} "
            f"{size.bytes_each:11.1f}",
            flush=True,
        )
    if asked.picture:
        asked.picture.write_text(
            growth(
                [size.features for size in found],
                [("score", [size.score / size.read for size in found]),
                 ("bytes to verdict", [size.verdict / size.read for size in found])],
            ),
            "utf-8",
        )  # fmt: skip


if __name__ == "__main__":
    main()
