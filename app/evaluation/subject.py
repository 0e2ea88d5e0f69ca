"""Subject: the filter that is evaluated, and the streams that it reads.

Contract of this file: the subject decides, scores and learns with the functions of the
service (`app.ledger.teaching`), so the figures of an evaluation are those of the
service.  Only the storage differs: rows are held in memory, and never encoded.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from app.bayes.sparse import SparseCounts
from app.bayes.state import History, State
from app.classifier.explain import attribute, explain
from app.classifier.learn import confident, taught
from app.classifier.record import record
from app.classifier.snapshot import Snapshot, lessons_after, score
from app.classifier.specification import require_label, weighted
from app.corpora.parallel import chunks, in_order
from app.errors import (
    InvalidSetting,
    UnreadableMessage,
    UnreadableSource,
    reading_one_of_many,
)
from app.features.extract import FEATURE_SET, extract
from app.features.observation import Observation
from app.ledger.entry import OWN, ScoredRow, learning, sum_by_epoch
from app.ledger.teaching import Teaching, decide
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from app.classifier.explain import Explanation
    from app.classifier.fusion import Lesson
    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.corpora.parallel import Readers
    from app.kernels import Ints
    from app.ledger.entry import LedgerRow

    # Of a message: the ids of each view, and their counts.
    Features = dict[str, tuple[Ints, Ints]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The choice of messages to learn; by default, all that people label.

    Parameters
    ----------
    margin : float, default infinity
        A labelled message is learned unless its log-odds were on the right side of
        the threshold, and farther from it than this.  0 means training on error,
        with *unsure* as an error; larger values are a thick threshold [1]_.  Unit:
        nats.
    own_from : float, default infinity
        Distance of the log-odds from 0 at which the filter learns its own decision
        before anybody labels the message (`app.classifier.learn.confident`).  Unit:
        nats.

    Raises
    ------
    InvalidSetting
        If a number is negative or not a number.

    References
    ----------
    .. [1] W. S. Yerazunis, "The spam-filtering accuracy plateau at 99.9% accuracy
       and how to get past it", *MIT Spam Conference*, 2004.

    Examples
    --------
    >>> Training.parse("near:4")
    Training(margin=4.0, own_from=inf)
    """

    margin: float = math.inf
    own_from: float = math.inf

    def __post_init__(self) -> None:
        """Refuse invalid distances."""
        if not (self.margin >= 0 and self.own_from >= 0):
            raise InvalidSetting(
                "a distance from the threshold must be a number of nats, at least 0; "
                f"got {min(self.margin, self.own_from)}"
            )

    @classmethod
    def parse(cls, text: str) -> Training:
        """Return the meaning of ``everything``, ``errors``, ``near:4`` or ``auto:10``.

        Raises
        ------
        InvalidSetting
            If it is none of them.
        """
        kind, _, nats = text.partition(":")
        if text in ("everything", "errors"):
            return cls() if text == "everything" else cls(margin=0.0)
        try:
            distance = float(nats) if kind in ("near", "auto") else math.nan
        except ValueError:
            distance = math.nan
        if math.isnan(distance):
            raise InvalidSetting(
                "train must be everything, errors, near:NATS (errors, and messages "
                "within that many nats of the threshold) or auto:NATS (also the "
                f"filter's own verdicts from that log-odds on), got {text!r}"
            )
        return cls(margin=distance) if kind == "near" else cls(own_from=distance)

    def wants(self, verdict: Verdict, label: str, specification: Specification) -> bool:
        """Return whether a labelled message is learned."""
        rule = specification.verdict
        if label in specification.spam_labels:
            return verdict.log_odds - rule.spam_threshold <= self.margin
        return rule.ham_threshold - verdict.log_odds <= self.margin


EVERYTHING: Final = Training()
"""Learn all labels, and nothing else."""


class Subject:
    """A filter that begins empty and learns what its training rule selects."""

    def __init__(
        self, specification: Specification, training: Training = EVERYTHING
    ) -> None:
        self._training = training
        self.snapshot = Snapshot.empty(specification)
        """Its counts."""
        self.learned = 0
        """Number of learned messages, including its own verdicts."""
        self._latest: tuple[bytes, Verdict] | None = None
        # The rows of its own decisions, by message.
        self._own: dict[bytes, LedgerRow] = {}
        # The decision that it will learn after its answer.
        self._waiting: tuple[Mapping[str, SparseCounts], Verdict] | None = None
        # The scored messages, and how many came since the last one that was taught.
        self._scored: set[bytes] = set()
        self._arrived = 0
        self._month = 0
        self._now = datetime.min.replace(tzinfo=UTC)
        # The ledger of a filter that forgets: sums by month, the rows not in them, and
        # the part of the newest rows that the fusion reads.
        self._history = History()
        self._rows: list[LedgerRow] = []
        self._lessons: list[Lesson] = []

    def enter(self, month: int, /) -> None:
        """Set the current month, YYYYMM; months never go back."""
        if month > self._month:
            # What was scored before is learned in the month in which it was.
            self._settle()
            self._month = month
            self._now = datetime(*divmod(month, 100), 1, tzinfo=UTC)

    def score(self, views: Mapping[str, SparseCounts], /) -> Verdict:
        """Return the verdict on a message without learning it."""
        self._settle()
        verdict = score(self.snapshot, views)
        self._latest = identity(views), verdict
        self._scored.add(self._latest[0])
        self._arrived += 1
        if confident(verdict, self.snapshot, own_from=self._training.own_from):
            self._waiting = views, verdict
        return verdict

    def learn(self, views: Mapping[str, SparseCounts], label: str, /) -> None:
        """Learn a labelled message after scoring it, like the service.

        Raises
        ------
        UnknownLabel
            If it is not one of the profile's labels.
        """
        specification = self.snapshot.specification
        require_known(label, specification)
        self._settle()
        digest = identity(views)
        # Usually it was scored just before, and nothing was learned since.
        if self._latest is None or self._latest[0] != digest:
            self._latest = digest, score(self.snapshot, views)
        verdict = self._latest[1]
        if self._training.wants(verdict, label, specification):
            self._teach(digest, views, verdict, label, source="corpus")

    def _settle(self) -> None:
        """Learn the last verdict of the filter, if it is to be learned."""
        if self._waiting is None:
            return
        views, verdict = self._waiting
        self._waiting = None
        label = self.snapshot.specification.labels[verdict.label]
        self._teach(identity(views), views, verdict, label, source=OWN)

    def _teach(
        self,
        digest: bytes,
        views: Mapping[str, SparseCounts],
        verdict: Verdict,
        label: str,
        *,
        source: str,
    ) -> None:
        """Write the row that the service would write, and learn it."""
        snapshot, now = self.snapshot, self._now
        arrived = None
        if source != OWN and digest in self._scored:
            arrived, self._arrived = self._arrived, 0
        specification = snapshot.specification
        place = specification.labels.index(label)
        lesson = taught(views, verdict, place, specification)
        seen = Observation(digest, FEATURE_SET, lesson)
        row = decide(
            Teaching(
                digest=digest,
                label=label,
                evidence=ScoredRow.of(seen, time=now, encoded=False),
                source=source,
                time=now,
                scores=record(verdict, specification, arrived=arrived),
            ),
            before=self._own.get(digest),
            revision=snapshot.revision + 1,
        ).row
        if row is None:
            return
        # A repeated message counts as a new one, unless the filter taught itself.
        self._own.pop(digest, None)
        if row.own:
            self._own[digest] = row
        self.learned += row.label_before is None
        self._latest = None
        learning(snapshot, [row])()
        decay = specification.decay
        if decay is None:
            return
        self._rows.append(row)
        self._lessons.append(row.lesson)
        if self._month > (decay.epoch or 0):
            self.snapshot = self._reloaded(specification.as_of(self._month), row)

    def _reloaded(self, specification: Specification, last: LedgerRow) -> Snapshot:
        """Return the snapshot of everything, under the weights of a specification."""
        self._history += sum_by_epoch(self._rows, specification.labels)
        self._rows = []
        needed = lessons_after(specification, last.revision)
        self._lessons = [each for each in self._lessons if each.revision > needed]
        return Snapshot.of(
            specification,
            State.sum(weighted(self._history, specification.decay)),
            revision=last.revision,
            lessons=self._lessons,
        )

    def explain(
        self, views: Mapping[str, SparseCounts], verdict: Verdict, *, strongest: int
    ) -> Explanation:
        """Return the reasons of the last verdict."""
        seen = Observation(digest=b"", feature_set=FEATURE_SET, views=views)
        attribution = attribute(verdict, self.snapshot)
        return explain(attribution, self.snapshot, seen, strongest=strongest)


def identity(views: Mapping[str, SparseCounts]) -> bytes:
    """Return the identity of a message, 16 bytes."""
    whole = blake2b(digest_size=16)
    for view in sorted(views):
        whole.update(views[view].ids.tobytes())
    return whole.digest()


def require_known(label: str, specification: Specification) -> None:
    """Raise `UnknownLabel` if the evaluated filter lacks a label."""
    require_label(label, specification.labels, of="the evaluation (POSTBAYES_LABELS)")


# All configurations and processes read the same arrays, from files that the system
# maps into memory once.


class Column(NamedTuple):
    """One view of all messages, one message after the other.

    Parameters
    ----------
    ids, values : ndarray of int64, shape (N,)
        The features, and their counts.
    bounds : ndarray of int64, shape (n + 1,)
        Message *m* has the features ``bounds[m]:bounds[m + 1]``.
    """

    ids: Ints
    values: Ints
    bounds: Ints


@dataclass(frozen=True, slots=True)
class Corpus:
    """The features of all messages of a stream.

    Parameters
    ----------
    seconds : float
        Duration of reading and parsing.
    unreadable : mapping of int to str
        The reasons why messages cannot be read, by number. Such a message has no
        features; the filter only knows that it arrived.
    """

    columns: Mapping[str, Column]
    seconds: float
    unreadable: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        raws: Iterable[bytes],
        views: Collection[str],
        *,
        advance: Callable[[int], object],
        clock: Callable[[], float],
        readers: Readers | None = None,
    ) -> Self:
        """Read and parse messages.

        Parameters
        ----------
        views : collection of str
            The views to read.
        advance : callable
            Gets, at intervals, the number of messages read since the last call.
        readers : Readers or None
            Processes that parse them (`app.corpora.parallel`).
        """
        begun = clock()
        messages: list[Features] = []
        unreadable: dict[int, str] = {}
        seen = partial(_seen, views=tuple(views))
        for chunk in in_order(readers, seen, chunks(raws, len)):
            for found in chunk:
                if isinstance(found, str):
                    unreadable[len(messages)] = found
                messages.append({} if isinstance(found, str) else found)
            advance(len(chunk))
        nothing = (np.empty(0, np.int64),) * 2
        columns = {}
        for view in views:
            of_each = (message.get(view, nothing) for message in messages)
            ids, values = zip(nothing, *of_each, strict=True)
            bounds = np.cumsum([part.size for part in ids], dtype=np.int64)
            columns[view] = Column(np.concatenate(ids), np.concatenate(values), bounds)
        return cls(columns, clock() - begun, unreadable)

    def __getitem__(self, message: int) -> dict[str, SparseCounts]:
        """Return the views of a message."""
        found: dict[str, SparseCounts] = {}
        for view, column in self.columns.items():
            low, high = column.bounds[message : message + 2].tolist()
            # Without checks: checking each again takes 4 % of a run.
            found[view] = SparseCounts.of_sorted(
                column.ids[low:high], column.values[low:high]
            )
        return found

    def save(self, folder: Path) -> None:
        """Write the arrays into an empty folder."""
        for view, column in self.columns.items():
            for part, array in column._asdict().items():
                np.save(folder / f"{view}.{part}.npy", array)
        about = {"views": list(self.columns), "seconds": self.seconds}
        (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Map the arrays of a folder into memory."""
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))

        def mapped(view: str, part: str) -> Ints:
            # Plain arrays over the map: slices of np.memmap are memmaps again,
            # and every one of them costs a few µs more.
            # Not "r": kernels would be compiled again for arrays that are read-only.
            return np.asarray(np.load(folder / f"{view}.{part}.npy", mmap_mode="c"))

        columns = {
            view: Column(*(mapped(view, part) for part in Column._fields))
            for view in about["views"]
        }
        return cls(columns, about["seconds"])


def _seen(raws: Sequence[bytes], *, views: Collection[str]) -> list[Features | str]:
    """Return the features of each message, or the reason why it cannot be read."""
    found: list[Features | str] = []
    for raw in raws:
        try:
            with reading_one_of_many():
                seen = extract(parse(raw), views).views
                found.append({view: (x.ids, x.values) for view, x in seen.items()})
        except UnreadableMessage as error:
            found.append(str(error))
    return found


AROUND: Final = 50
"""Messages before and after one whose dates decide its month."""
_FIRST_YEAR: Final = 2001


def months_by_dates(moments: Sequence[int | None], name: str) -> tuple[int, ...]:
    """Return the month of each message, by the dates of the messages around it.

    Parameters
    ----------
    moments : sequence of int or None
        Arrival of each message by its own header, in the order of the stream.
        Unit: seconds since 1970; None if there is no date.

    Returns
    -------
    tuple of int
        YYYYMM, never falling: the median of the dates around it, because some
        clocks are years off, but at least the latest month so far, because the
        clock of a server does not go back.

    Raises
    ------
    UnreadableSource
        If no message has a date.

    Examples
    --------
    >>> february, march = 1_140_000_000, 1_142_000_000
    >>> found = months_by_dates(
    ...     [february] * 80 + [0, None, 9 * march] + [march] * 80, "mail"
    ... )
    >>> found[0], found[80], found[-1], len(set(found))
    (200602, 200602, 200603, 2)
    """
    moment = np.array([np.nan if each is None else each for each in moments])
    if np.isnan(moment).all():
        raise UnreadableSource(
            f"no message of {name} has a date, but a half-life needs months; give the "
            "duration of the stream with --months"
        )
    # A message without a date counts as arriving with the one before it.
    dated = np.flatnonzero(~np.isnan(moment))
    at = np.maximum(np.searchsorted(dated, np.arange(moment.size), side="right") - 1, 0)
    moment = moment[dated[at]]
    around = [
        np.median(moment[max(0, here - AROUND) : here + AROUND + 1])
        for here in range(moment.size)
    ]
    latest = np.maximum.accumulate(np.array(around))
    dates = [datetime.fromtimestamp(float(each), UTC) for each in latest]
    return tuple(100 * date.year + date.month for date in dates)


def months_evenly(messages: int, months: int) -> tuple[int, ...]:
    """Return the month of each message, with the same number in each month.

    Examples
    --------
    >>> months_evenly(5, 2)
    (200101, 200101, 200101, 200102, 200102)
    """
    numbers = [here * months // messages for here in range(messages)]
    return tuple(100 * (_FIRST_YEAR + n // 12) + n % 12 + 1 for n in numbers)
