"""Stages from bytes to views, and the time that each takes.

    python benchmarks/speed/stages.py --index PATH/TO/INDEX

One process, one core.  Each stage reads all messages in a row, as a service
does, and the stages take turns three times; of each message's three times the
least counts, so that other work of the machine is left out.

The yardstick is the standard library's default policy, in two readings.  It reads
lazily: `message_from_bytes` alone finds the parts and decodes nothing, so it has
not done yet the work that is compared with it.  Reading the headers and the text
parts as well yields the material of the views, less the words of HTML.
"""

from __future__ import annotations

import argparse
import statistics
import time
from contextlib import suppress
from email import message_from_bytes, policy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.classifier.rule import SHIPPED_VIEWS
from app.features.extract import extract
from app.features.grams import grams
from app.features.headers import header_words
from app.features.observation import digest
from app.features.tokens import tokens_of
from app.features.words import marked_words, sequences
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from email.message import EmailMessage

PASSES: Final = 3
SHARES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
SHARE_NAMES: Final = ("median", "p90", "p99", "p99.9", "worst")

# The yardsticks, and what is measured with them.
TREE: Final = "standard library, default policy: tree"
DECODED: Final = "  and headers read, texts decoded"
YIELDS: Final = ("bytes to shipped views", "bytes to all views")

# Those that take bytes, then those that take what `parse` returns.
OF_BYTES: Final[dict[str, Callable[[bytes], object]]] = {}
OF_MESSAGE: Final[dict[str, Callable[[Any], object]]] = {
    "  extract: digest": digest,
    "  extract: words of texts and links": lambda m: tokens_of(
        [*sequences(m), *marked_words(m)]
    ),
    "  extract: words of headers": lambda m: tokens_of(header_words(m)),
    "  extract: grams": grams,
    "extract, the views as shipped": lambda m: extract(m, SHIPPED_VIEWS),
    "extract, all views": extract,
}


def of_bytes(name: str) -> Callable[[Any], Any]:
    """Note a stage under its name."""

    def note(stage: Callable[[bytes], object]) -> Callable[[bytes], object]:
        OF_BYTES[name] = stage
        return stage

    return note


@of_bytes(TREE)
def stdlib(raw: bytes) -> EmailMessage:
    """Build the tree; headers and bodies are not decoded."""
    return message_from_bytes(raw, policy=policy.default)


@of_bytes(DECODED)
def stdlib_decoded(raw: bytes) -> int:
    """Decode what the views are made of; HTML stays HTML."""
    message = stdlib(raw)
    length = 0
    for part in message.walk():
        # The library fails on some of the headers and charsets of real mail.
        with suppress(LookupError, ValueError, AttributeError, TypeError):
            length += sum(len(value) for value in part.values())
        with suppress(LookupError, ValueError, AttributeError, TypeError):
            if part.get_content_maintype() == "text":
                length += len(part.get_content())
    return length


@of_bytes("parse: bytes to Message")
def _parse(raw: bytes) -> object:
    return parse(raw)


@of_bytes(YIELDS[0])
def _shipped(raw: bytes) -> object:
    return extract(parse(raw), SHIPPED_VIEWS)


@of_bytes(YIELDS[1])
def _all(raw: bytes) -> object:
    return extract(parse(raw))


def messages(index: Path) -> Iterator[bytes]:
    """Yield the messages of an index, in order."""
    for line in index.read_text().splitlines():
        yield (index.parent / line.split(maxsplit=1)[1]).read_bytes()


def measure(raws: list[bytes]) -> dict[str, list[float]]:
    """Return the least seconds of `PASSES` that each stage took per message."""
    read = [parse(raw) for raw in raws]
    seconds: dict[str, list[float]] = {}
    for name in (*OF_BYTES, *OF_MESSAGE) * PASSES:
        if name in OF_BYTES:
            times = timed(OF_BYTES[name], raws)
        else:
            times = timed(OF_MESSAGE[name], read)
        best = seconds.setdefault(name, times)
        seconds[name] = list(map(min, best, times))
    return seconds


def timed(stage: Callable[[Any], object], given: Sequence[object]) -> list[float]:
    """Return the seconds that a stage takes for each of the messages."""
    clock = time.perf_counter
    times = []
    for one in given:
        begun = clock()
        stage(one)
        times.append(clock() - begun)
    return times


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="take each n-th message")
    given = parser.parse_args()
    raws = list(messages(given.index))[:: given.every]
    seconds = measure(raws)
    print(
        f"{len(raws)} messages, {sum(map(len, raws)) / len(raws):,.0f} bytes on average"
    )
    print(f"{'ms':44}{'median':>9}{'mean':>9}{'p99':>9}{'worst':>9}{'a second':>10}")
    for name, times in seconds.items():
        mean = statistics.mean(times)
        median, p99, worst = (at_share(times, share) for share in (0.5, 0.99, 1.0))
        print(
            f"{name:44}{median * 1e3:9.3f}{mean * 1e3:9.3f}{p99 * 1e3:9.3f}"
            f"{worst * 1e3:9.2f}{1 / mean:10,.0f}"
        )
    print("\nTimes over those of the standard library")
    print(f"{'':44}" + "".join(f"{name:>9}" for name in SHARE_NAMES))
    for yardstick in (TREE, DECODED):
        for name in YIELDS:
            print(f"{name} / {yardstick.strip()}")
            for how, ratios in ratios_of(seconds[name], seconds[yardstick]).items():
                print(f"{how:44}" + "".join(f"{ratio:9.2f}" for ratio in ratios))


def ratios_of(times: list[float], yardstick: list[float]) -> dict[str, list[float]]:
    """Return the ratios at each of `SHARES`, in two ways."""
    each = [ours / theirs for ours, theirs in zip(times, yardstick, strict=True)]
    return {
        "  the one's time over the other's": [
            at_share(times, share) / at_share(yardstick, share) for share in SHARES
        ],
        "  of one and the same message": [at_share(each, share) for share in SHARES],
    }


def at_share(values: list[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    main()
