"""Stages from bytes to a verdict with its reasons, and the time that each takes.

    python -m benchmarks.stages --index FILE [--learn N] [--messages N]

Learns the first messages of the index, and measures those that follow; one process,
one core.  Each stage takes all messages in a row, again and again; of each message's
times the least counts, so that other work of the machine is left out.  A service whose
caches are cold takes up to twice as long.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.corpora.source import read_index
from app.features.extract import extract
from app.features.grams import grams
from app.features.headers import header_words
from app.features.observation import digest
from app.features.tokens import tokens_of
from app.features.words import marked_words, sequences
from app.mail.parse import parse
from app.services.classify import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from app.features.observation import Observation

PASSES: Final = 9


def taught(snapshot: Snapshot, raws: Iterable[tuple[bytes, int]]) -> None:
    """Learn messages with their labels."""
    for raw, label in raws:
        learn(snapshot, extract(parse(raw), snapshot.specification.views), label)


def learn(snapshot: Snapshot, seen: Observation, label: int | None) -> None:
    """Learn a message, or take one back that was learned as the first label."""
    before = 0 if label is None else None
    change = delta(seen.views, before=before, after=label, n_classes=2)
    snapshot.learn(change, revision=snapshot.revision + 1)


def stages(
    snapshot: Snapshot, raws: Sequence[bytes]
) -> Mapping[str, tuple[Callable[[Any], object], Sequence[Any]]]:
    """Return each stage, and what it takes of each message."""
    views = snapshot.specification.views
    read = [parse(raw) for raw in raws]
    seen = [extract(message, views) for message in read]
    verdicts = [score(snapshot, each.views) for each in seen]
    added = [attribute(verdict, snapshot) for verdict in verdicts]
    both = [*zip(added, seen, strict=True)]

    def explained(strongest: int) -> Callable[[Any], object]:
        return lambda of: explain(of[0], snapshot, of[1], strongest=strongest)

    def whole(raw: bytes) -> object:
        each = extract(parse(raw), views)
        return explained(10)((attribute(score(snapshot, each.views), snapshot), each))

    def learn_and_forget(each: Observation) -> None:
        learn(snapshot, each, 0)
        learn(snapshot, each, None)

    return {
        "parse": (parse, raws),
        "features": (lambda message: extract(message, views), read),
        "  digest": (digest, read),
        "  words of texts and links": (
            lambda message: tokens_of([*sequences(message), *marked_words(message)]),
            read,
        ),
        "  words of headers": (lambda message: tokens_of(header_words(message)), read),
        "  grams": (grams, read),
        "score": (lambda each: score(snapshot, each.views), seen),
        "the contribution of each feature": (
            lambda verdict: attribute(verdict, snapshot),
            verdicts,
        ),
        "ten reasons for each side": (explained(10), both),
        "the same without reasons, explain=0": (explained(0), both),
        "bytes to verdict with ten reasons": (whole, raws),
        "learn and unlearn": (learn_and_forget, seen),
    }


def timed(stage: Callable[[Any], object], given: Sequence[Any]) -> list[float]:
    """Return the least time that a stage takes for each message.  Unit: ms."""
    clock = time.perf_counter
    least = np.full(len(given), np.inf)
    for _ in range(PASSES):
        for place, one in enumerate(given):
            begun = clock()
            stage(one)
            least[place] = min(least[place], clock() - begun)
    found: list[float] = (1e3 * least).tolist()
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=1000, help="messages to learn")
    parser.add_argument("--messages", type=int, default=150, help="messages to measure")
    given = parser.parse_args()
    stream = iter(read_index(given.index))
    warm_up()
    snapshot = Snapshot.empty(Specification())
    known = islice(stream, given.learn)
    taught(snapshot, ((each.raw, int(each.label == "spam")) for each in known))
    raws = [each.raw for each in islice(stream, given.messages)]
    if not raws:
        parser.error(f"{given.index} is too short to learn {given.learn} and measure")
    size = statistics.mean(map(len, raws))
    print(f"{len(raws)} messages of {size:,.0f} bytes, after {given.learn}")
    print(f"{'ms':38}{'median':>9}{'mean':>9}{'p99':>9}{'worst':>9}")
    for name, (stage, of) in stages(snapshot, raws).items():
        times = timed(stage, of)
        median, p99, worst = np.quantile(times, (0.5, 0.99, 1.0)).tolist()
        print(
            f"{name:38}{median:9.3f}{statistics.mean(times):9.3f}{p99:9.3f}{worst:9.2f}"
        )


if __name__ == "__main__":
    main()
