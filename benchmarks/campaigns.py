"""Campaigns: whether the next copy of a missed spam message is found.

    python -m benchmarks.campaigns --index FILE [--train N] [--test N] [--peer NAME ...]

Each filter learns the first messages of a stream, shuffled.  Then come copies of spam
that it has not seen: plain text below the headers of another spam message, or below
those of ham, as from an account that was taken over.  A copy is found if its score is
above that of all but one in 200 of the ham that follows.  Those that are not found are
taught one by one, and after each lesson the next copies come, under other headers: the
same text, and those in which a tenth or three tenths of the words were replaced by
words of ham.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from app.corpora.source import read_index
from app.mail.parse import parse
from benchmarks.peers.entrants import ENTRANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peers.peer import Peer

REPLACED: Final = (0.0, 0.1, 0.3)
"""Shares of the words of a copy that are replaced."""
HAM_LOST: Final = 1 / 200
LESSONS: Final = 60
"""Copies at most that are taught."""
_OF_THE_BODY: Final = ("content-", "mime-")


class Copies(NamedTuple):
    """Copies of one spam message: the first, and the next ones."""

    first: bytes
    following: tuple[bytes, ...]


def text_of(raw: bytes) -> str:
    """Return the text of a message."""
    texts = parse(raw).texts
    return "\n".join(x.content for x in texts if x.place in {"plain", "html"})


def headers_of(raw: bytes) -> str:
    """Return the headers of a message, except those that tell of its body."""
    return "".join(
        f"{each.name}: {each.value}\n"
        for each in parse(raw).headers
        if not each.name.startswith(_OF_THE_BODY)
    )


def copies(
    spam: Sequence[bytes], headers: Sequence[str], words: Sequence[str]
) -> list[Copies]:
    """Return copies of spam messages under random headers, with words replaced."""
    chance = random.Random(1)  # noqa: S311

    def copy(text: str, share: float) -> bytes:
        parts = [
            chance.choice(words) if chance.random() < share else part
            for part in text.split(" ")
        ]
        kind = "Content-Type: text/plain; charset=utf-8\n\n"
        return f"{chance.choice(headers)}{kind}{' '.join(parts)}".encode()

    return [
        Copies(copy(text, 0), tuple([copy(text, share) for share in REPLACED]))
        for text in map(text_of, spam)
    ]


def found_after_a_lesson(
    peer: Peer, campaigns: Sequence[Copies], ham: Sequence[bytes]
) -> tuple[int, int, list[int]]:
    """Return how many first copies a filter misses, teaches, and finds the next of.

    Parameters
    ----------
    peer : Peer
        A filter that has learned.
    campaigns : sequence of Copies
        Copies of spam that it has not learned.
    ham : sequence of bytes
        Ham that it has not learned, for the threshold.
    """

    def score(raw: bytes) -> tuple[float, float]:
        said = peer.score(raw)
        return said.score, said.fine

    bar = sorted(map(score, ham))[-1 - int(HAM_LOST * len(ham))]
    missed = [each for each in campaigns if score(each.first) <= bar]
    found = [0] * len(REPLACED)
    taught = missed[:LESSONS]
    for each in taught:
        peer.learn(each.first, spam=True)
        for at, raw in enumerate(each.following):
            found[at] += score(raw) > bar
    return len(missed), len(taught), found


def main() -> None:
    """Print a line for each filter and each kind of headers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--test", type=int, default=400)
    parser.add_argument("--peer", choices=ENTRANTS, action="append")
    given = parser.parse_args()
    mail = [(str(each.label), each.raw) for each in read_index(given.index)]
    random.Random(1).shuffle(mail)  # noqa: S311
    train, rest = mail[: given.train], mail[given.train :]
    ham, spam = (
        [raw for label, raw in rest if label == name] for name in ("ham", "spam")
    )
    learned = [raw for label, raw in train if label == "ham"]
    words = [word for raw in learned for word in text_of(raw).split()]
    print(f"{'':34}{'headers':8}{'missed':>8}{'taught':>8}  found, words replaced:")
    print(" " * 60 + "".join(f"{share:>7.0%}" for share in REPLACED))
    for of, senders in ("spam", spam), ("ham", learned):
        headers = [headers_of(raw) for raw in senders]
        campaigns = copies(spam[: given.test], headers, words)
        for name in given.peer or ("Postbayes",):
            with tempfile.TemporaryDirectory() as folder:
                peer = ENTRANTS[name].start(Path(folder))
                for label, raw in train:
                    peer.score(raw)
                    peer.learn(raw, spam=label == "spam")
                missed, taught, found = found_after_a_lesson(
                    peer, campaigns, ham[:1000]
                )
                peer.close()
            counts = "".join(f"{count:>7}" for count in found)
            print(f"{name:34}{of:8}{missed:>8}{taught:>8}  {counts}", flush=True)


if __name__ == "__main__":
    main()
