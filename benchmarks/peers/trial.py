"""Trial: one filter on one stream, each message scored, then learned."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from app.corpora.source import read_index
from app.figures import (
    Errors,
    brier,
    expected_calibration_error,
    roca_pct,
    spam_missed_at,
)
from benchmarks.peers.entrants import ENTRANTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peers.peer import Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A stream, in its own order or shuffled.

    Parameters
    ----------
    name : str
        What the table calls it.
    index : Path
        Its TREC-style index.
    shuffle : int or None
        Seed of another order.
    limit : int or None
        Take the first messages only.
    """

    name: str
    index: Path
    shuffle: int | None = None
    limit: int | None = None

    def messages(self) -> list[tuple[bool, bytes]]:
        """Return gold labels and messages, the same bytes for every filter."""
        found = [
            (entry.label == "spam", with_header_end(entry.raw))
            for _, entry in zip(
                range(self.limit or 2**63), read_index(self.index), strict=False
            )
        ]
        if self.shuffle is None:
            return found
        order = np.random.default_rng(self.shuffle).permutation(len(found))
        return [found[at] for at in order]

    def sha256(self) -> str:
        """Return the digest of the labels and messages, in their order."""
        return _digest(self.messages())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One filter on one stream; a task for another process.

    Parameters
    ----------
    peer : str
        One of the entrants.
    program : str
        What it is, to the version.
    stream : Stream
        What it is tried on.
    """

    peer: str
    program: str
    stream: Stream

    def __call__(self, tick: Callable[[], object], /) -> dict[str, Any]:
        """Return the figures."""
        messages = self.stream.messages()
        said: list[Said] = []
        scoring: list[float] = []
        learning: list[float] = []
        # In memory where the system has such a place: what is compared is the
        # filters, not the disk.
        place = Path("/dev/shm")  # noqa: S108  the folder is made anew and random
        with TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
            peer = ENTRANTS[self.peer].start(Path(folder))
            try:
                for spam, raw in messages:
                    begun = time.perf_counter()
                    said.append(peer.score(raw))
                    between = time.perf_counter()
                    peer.learn(raw, spam=spam)
                    learning.append(time.perf_counter() - between)
                    scoring.append(between - begun)
                    tick()
            finally:
                peer.close()
        return {
            "peer": self.peer,
            "program": self.program,
            "stream": self.stream.name,
            "sha256": _digest(messages),
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            **figures([spam for spam, _ in messages], said),
            "score_ms": 1e3 * median(scoring),
            "learn_ms": 1e3 * median(learning),
        }


def _digest(messages: Sequence[tuple[bool, bytes]]) -> str:
    """Return a digest that other labels or another order would change."""
    digest = sha256()
    for spam, raw in messages:
        digest.update(b"%d %d\n" % (spam, len(raw)))
        digest.update(raw)
    return digest.hexdigest()


def figures(gold: Sequence[bool], said: Sequence[Said]) -> dict[str, object]:
    """Return the figures of merit.

    Scores that are alike are ranked by what is finer; what is alike in both
    is a tie, and counts half.
    """
    is_spam = np.array(gold, np.bool_)
    _, ranks = np.unique(
        np.array([(each.score, each.fine) for each in said]),
        axis=0,
        return_inverse=True,
    )
    ranking = ranks.reshape(-1).astype(np.float64)
    probability = np.array([each.probability for each in said])
    away = expected_calibration_error(is_spam, probability)
    errors = Errors.of(is_spam, np.array([each.spam for each in said], np.bool_))
    return {
        **{
            key: value
            for key, value in asdict(errors).items()
            if key in {"ham", "spam"}
        },
        "roca_pct": roca_pct(ranking, is_spam),
        "ham_lost_pct": errors.ham_lost_pct,
        "spam_missed_pct": errors.spam_missed_pct,
        "lam_pct": errors.lam_pct,
        "spam_missed_at_0_1_pct": spam_missed_at(ranking, is_spam, ham_lost_pct=0.1),
        "brier": brier(is_spam, probability),
        "ece_pct": None if away is None else 100 * away,
    }


def with_header_end(raw: bytes) -> bytes:
    r"""Return a message whose header ends.

    The messages of Enron-Spam are a Subject with the text right below it.  A
    strict parser takes that text for header fields and sees no body.

    Examples
    --------
    >>> with_header_end(b"Subject: lunch\nat noon")
    b'Subject: lunch\n\nat noon'
    >>> with_header_end(b"Subject: lunch\n\nat noon")
    b'Subject: lunch\n\nat noon'
    """
    first, newline, rest = raw.partition(b"\n")
    if not first.startswith(b"Subject:") or rest[:1] in {b"\n", b"\r", b""}:
        return raw
    return first + newline + newline + rest
