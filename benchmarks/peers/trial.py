"""One filter on one stream: every message is scored, then learned."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np

from app.evaluation.index import read_index
from app.evaluation.metrics import Errors, roca_pct, spam_missed_at
from benchmarks.peers.bogofilter import Bogofilter
from benchmarks.peers.libraries import River, ScikitLearn
from benchmarks.peers.ours import Postbayes
from benchmarks.peers.rspamd import Rspamd
from benchmarks.peers.spamassassin import SpamAssassin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.peers.peer import Peer, Said

PEERS: Final[dict[str, Callable[[Path], Peer]]] = {
    "Postbayes": lambda _: Postbayes(),
    "bogofilter": Bogofilter,
    "SpamAssassin Bayes": lambda folder: SpamAssassin(folder, minimum=200),
    "SpamAssassin Bayes, no minimum": lambda folder: SpamAssassin(folder, minimum=1),
    "rspamd Bayes, no minimum": Rspamd,
    "scikit-learn MultinomialNB": lambda _: ScikitLearn("MultinomialNB"),
    "scikit-learn SGD, log loss": lambda _: ScikitLearn("SGDClassifier"),
    "River MultinomialNB": lambda _: River(),
}
"""The filters, by the name that the table has."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One filter on one stream; a task for another process."""

    peer: str
    stream: Stream

    def __call__(self, tick: Callable[[], None], /) -> dict[str, object]:
        """Return the figures."""
        messages = self.stream.messages()
        said: list[Said] = []
        scoring: list[float] = []
        learning: list[float] = []
        # In memory where the system has such a place: what is compared is the
        # filters, not the disk.
        place = Path("/dev/shm")  # noqa: S108  the folder is made anew and random
        with TemporaryDirectory(dir=place if place.is_dir() else None) as folder:
            peer = PEERS[self.peer](Path(folder))
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
        digest = sha256(b"".join(raw for _, raw in messages))
        return {
            "peer": self.peer,
            "stream": self.stream.name,
            "sha256": digest.hexdigest(),
            **figures([spam for spam, _ in messages], said),
            "score_ms": 1e3 * median(scoring),
            "learn_ms": 1e3 * median(learning),
        }


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
