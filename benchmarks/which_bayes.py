"""Event models of naive Bayes under one protocol, on the streams of a folder.

The protocol is that of Metsis, Androutsopoulos and Paliouras ("Spam filtering
with naive Bayes - which naive Bayes?", CEAS 2006): a stream is cut into batches
of 100 messages, each batch is scored by what the batches before it have taught,
and a message is spam where its probability is above one half.  Attributes are
the strings between blanks; those in fewer than 5 messages are left out, and of
the rest those with the highest information gain are kept, chosen anew for
every batch.

    python -m benchmarks.which_bayes FOLDER [--attributes 500 1000 3000] [--roc FILE]
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Bernoulli, Multinomial
from app.bayes.models.gaussian import GaussianLikelihood
from app.bayes.posterior import log_odds
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Lidstone
from app.bayes.sparse import Measurements, SparseCounts
from app.classifier.learn import delta
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.corpora.parallel import carry_out, readers
from app.corpora.source import read_index
from app.features.extract import extract
from app.features.observation import ids_of
from app.figures import Errors, roc, roca_pct
from app.mail.parse import parse
from benchmarks.drawing import drawing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray


BATCH: Final = 100
FEWEST: Final = 5
"""An attribute is in at least so many messages that were learned."""

# A relative term frequency is far below 1: 16 bits after the point would
# leave it two digits.
FRACTION_BITS: Final = 40
SPAM: Final = np.array([False, True])

MODELS: Final[dict[str, Bernoulli | Multinomial]] = {
    "Bernoulli": Bernoulli(smoothing=Lidstone(1.0)),
    "multinomial, occurrences": Multinomial(
        smoothing=Lidstone(1.0), counting="occurrences"
    ),
    "multinomial, presence": Multinomial(smoothing=Lidstone(1.0), counting="presence"),
}
GAUSSIAN: Final = "Gaussian, relative frequency"
OURS: Final = "Postbayes as shipped"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """A message as strings between blanks, and as Postbayes sees it."""

    spam: bool
    words: SparseCounts
    views: dict[str, SparseCounts]


@dataclass(frozen=True, slots=True)
class Trial:
    """All models on one stream; a task for another process."""

    index: Path
    attributes: tuple[int, ...]

    def __call__(self, tick: Callable[[], object], /) -> list[Row]:
        """Return a row for each model and number of attributes."""
        specification = Specification()
        messages = list(_messages(self.index, specification))
        said: dict[tuple[str, int], list[float]] = defaultdict(list)
        state = FeatureCounts.zero(2)
        moments = Moments()
        ours = Snapshot.empty(specification)
        for begun in range(0, len(messages), BATCH):
            batch = messages[begun : begun + BATCH]
            if begun:
                for number in self.attributes:
                    chosen = select(state, number)
                    for name, odds in scores(chosen, moments, batch):
                        said[name, number] += odds
                said[OURS, 0] += [score(ours, each.views).log_odds for each in batch]
            for each in batch:
                state += FeatureCounts.of(each.words, label=int(each.spam), n_classes=2)
                moments.add(each)
                learned = delta(
                    each.views, before=None, after=int(each.spam), n_classes=2
                )
                ours.learn(learned, revision=ours.revision + 1)
                tick()
        gold = np.array([each.spam for each in messages[BATCH:]], np.bool_)
        return [
            {
                "stream": self.index.parent.name,
                "model": name,
                "attributes": number,
                **_figures(np.array(odds), gold),
            }
            for (name, number), odds in said.items()
        ]


class Moments:
    """Sums of the relative frequency of each word and of its square, by class."""

    def __init__(self) -> None:
        self.messages = np.zeros(2)
        self._sums: dict[int, NDArray[np.float64]] = {}

    def add(self, message: Message) -> None:
        """Add a message."""
        self.messages[int(message.spam)] += 1
        shares = frequencies(message.words)
        for word, share in zip(
            message.words.ids.tolist(), shares.tolist(), strict=True
        ):
            sums = self._sums.setdefault(word, np.zeros((2, 2)))
            sums[:, int(message.spam)] += share, share * share

    def likelihood(self, ids: NDArray[np.int64]) -> GaussianLikelihood:
        """Return the Gaussian of each class; messages without a word have it 0 times.

        Not `MomentSums`: it keeps the products of all pairs of fields, nine
        million for 3,000 words.
        """
        sums = np.array([self._sums[word] for word in ids.tolist()])
        means, squares = (sums[:, which] / self.messages for which in (0, 1))
        variances = np.maximum(squares - means**2, 0)
        floor = 1e-9 * max(float(variances.max()), 1e-12)
        return GaussianLikelihood(
            ids, means, np.maximum(variances, floor), 0.5**FRACTION_BITS
        )


def frequencies(words: SparseCounts) -> NDArray[np.float64]:
    """Return the share of each word in its message."""
    return np.asarray(words.counts / max(1, int(words.counts.sum())))


def select(state: FeatureCounts, number: int) -> FeatureCounts:
    """Return the statistics of the attributes with the highest information gain.

    The gain is of the presence of an attribute about the class, in nats.
    """
    common = state.documents.sum(axis=1) >= FEWEST
    gains = information_gain(state.documents[common], state.messages)
    kept = np.sort(np.flatnonzero(common)[np.argsort(-gains, kind="stable")[:number]])
    return FeatureCounts.of_counts(
        state.messages, state.ids[kept], state.occurrences[kept], state.documents[kept]
    )


def information_gain(
    documents: NDArray[np.int64], messages: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mutual information of each attribute's presence and the class.

    Parameters
    ----------
    documents : ndarray of int64, shape (V, K)
        Messages of each class that hold the attribute.
    messages : ndarray of int64, shape (K,)
        Messages of each class.

    Returns
    -------
    ndarray of float64, shape (V,)
        Unit: nats.

    Examples
    --------
    >>> information_gain(np.array([[4, 0], [2, 2]]), np.array([4, 4])).round(3).tolist()
    [0.693, 0.0]
    """
    total = messages.sum()
    gain = np.zeros(documents.shape[0])
    for held in (documents, messages - documents):
        joint = held / total
        expected = held.sum(axis=1, keepdims=True) / total * (messages / total)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain += np.where(held > 0, joint * np.log(joint / expected), 0.0).sum(
                axis=1
            )
    return gain


def scores(
    chosen: FeatureCounts, moments: Moments, batch: Sequence[Message]
) -> Iterator[tuple[str, list[float]]]:
    """Yield the log-odds of a batch under each model."""
    prior = FittedPrior().log_prior(chosen.messages)
    words = [each.words for each in batch]
    for name, model in MODELS.items():
        joint = prior + np.array([*map(model.estimate(chosen), words)])
        yield name, log_odds(joint, SPAM).tolist()
    if not chosen.messages.all():
        # Nothing is known of one class: the other has all the probability.
        yield GAUSSIAN, [np.inf if chosen.messages[1] else -np.inf] * len(batch)
        return
    # A word that a message does not have is a frequency of 0, and says so.
    dense = [_dense(chosen.ids, each.words) for each in batch]
    yield (
        GAUSSIAN,
        log_odds(
            prior + np.array([*map(moments.likelihood(chosen.ids), dense)]), SPAM
        ).tolist(),
    )


def _dense(ids: NDArray[np.int64], words: SparseCounts) -> Measurements:
    values = np.zeros(ids.size, np.int64)
    steps = np.rint(np.ldexp(frequencies(words), FRACTION_BITS)).astype(np.int64)
    row = ids.searchsorted(words.ids)
    seen = ids.take(row, mode="clip") == words.ids
    values[row[seen]] = steps[seen]
    return Measurements(ids, values)


def _messages(index: Path, specification: Specification) -> Iterator[Message]:
    for entry in read_index(index):
        text = entry.raw.decode("utf-8", "replace").lower().split()
        yield Message(
            entry.label == "spam",
            SparseCounts(*np.unique(ids_of(text), return_counts=True)),
            dict(extract(parse(entry.raw), specification.views).views),
        )


def _figures(odds: NDArray[np.float64], gold: NDArray[np.bool_]) -> Row:
    errors = Errors.of(gold, odds > 0)
    return {
        "roc": roc(odds, gold),
        "spam_recall": 100 - (errors.spam_missed_pct or 0.0),
        "ham_recall": 100 - (errors.ham_lost_pct or 0.0),
        "roca_pct": roca_pct(odds, gold),
    }


def _print(rows: Sequence[Row]) -> None:
    """Print three tables: each model down, each stream across."""
    streams = sorted({row["stream"] for row in rows})
    kinds = list(dict.fromkeys((row["model"], row["attributes"]) for row in rows))
    kinds.sort(key=lambda kind: (kind[0] == OURS, kind[1], kind[0]))
    for figure in ("spam_recall", "ham_recall", "roca_pct"):
        heads = "".join(f"{stream:>9}" for stream in (*streams, "mean"))
        print(f"\n{figure:28} {'attr.':>5}{heads}")
        for name, number in kinds:
            values = [
                row[figure]
                for stream in streams
                for row in rows
                if (row["stream"], row["model"], row["attributes"])
                == (stream, name, number)
            ]
            digits = 3 if figure == "roca_pct" else 2
            shown = (*values, mean(values))
            cells = "".join(f"{value:9.{digits}f}" for value in shown)
            print(f"{name:28} {number or 'all':>5}{cells}")


def _draw(path: Path, rows: Sequence[Row], attributes: int) -> None:
    """Write the curves of the models with so many attributes, and ours."""
    curves: dict[str, dict[str, Any]] = defaultdict(dict)
    # Ours first: the solid line.
    for row in sorted(
        rows, key=lambda row: (row["stream"], row["model"] != OURS, row["model"])
    ):
        if row["attributes"] in {attributes, 0}:
            curves[row["stream"]][row["model"]] = row["roc"]
    path.write_text(drawing(curves), encoding="utf-8")


def main() -> None:
    """Run all streams and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a folder per stream, with `index`")
    parser.add_argument("--attributes", type=int, nargs="+", default=[500, 1000, 3000])
    parser.add_argument("--roc", type=Path, help="draw the curves of the most")
    options = parser.parse_args()
    indexes = sorted(options.folder.glob("*/index"))
    if not indexes:
        parser.error(f"no */index in {options.folder}")
    trials = [Trial(index, tuple(options.attributes)) for index in indexes]
    rows: list[Row] = []
    with readers(os.cpu_count() or 1) as crew:
        for of_stream in carry_out(trials, crew, advance=lambda _: None):
            rows += of_stream
    _print(rows)
    if options.roc is not None:
        _draw(options.roc, rows, max(options.attributes))


if __name__ == "__main__":
    main()
