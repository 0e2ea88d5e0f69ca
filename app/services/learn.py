"""Bulk learning of labelled mail, one commit for each batch."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from app.bayes.sparse import in_a_row
from app.bayes.state import State
from app.classifier.learn import Move, sum_of_moves
from app.corpora.parallel import in_order
from app.errors import UnreadableMessage, reading_one_of_many
from app.features.hashing import names_at
from app.features.observation import Observation
from app.ledger.entry import epoch_of
from app.ledger.sums import decode_sum
from app.ledger.teaching import ScoredRow, Teaching, scored_in_order
from app.services.classify import observe
from app.services.upkeep import Folding
from app.storage import profiles
from app.storage.bulk import append_encoded, encoded
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, latest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.id_key import IdKey
    from app.ledger.teaching import Outcome
    from app.services.memory.live import LiveProfile
    from app.storage.bulk import EncodedSum

    Labelled = tuple[str, bytes]

Read = TypeVar("Read")

# Messages of one commit: some 1.5 MB of ledger, which an interruption loses.
BATCH: Final = 200
PART: Final = 1_000
"""The same where they are learned as a sum.

That of twice as many takes an eighth less room a message, and what waits in memory
doubles."""


class Learn:
    """Learns labelled messages into one profile, batch by batch.

    It may be interrupted anywhere and run again: messages that are learned already are
    recognised and left as they are.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : LiveProfile
        The profile, in memory.
    clock : callable
        Returns the time now, in UTC.
    source : str
        The source of the labels in the ledger.
    store_words : bool
        Whether the text of features is kept.
    in_order : bool, default True
        Whether the messages come as they came to a mailbox: then each is scored by
        all before it, as feedback is.  Otherwise none is scored: what ham alone has
        taught to say of spam is no evidence about the filter, and the profile in
        memory stays behind until somebody follows.

    Attributes
    ----------
    revision : int
        The ledger row that was learned last.
    """

    def __init__(
        self,
        engine: Engine,
        profile: LiveProfile,
        clock: Callable[[], datetime],
        *,
        source: str,
        store_words: bool,
        in_order: bool = True,
    ) -> None:
        self._engine = engine
        self._profile = profile
        self._clock = clock
        self._source = source
        self._store_words = store_words
        self._in_order = in_order
        self.revision = profile.snapshot.revision

    def batch(
        self,
        messages: Sequence[tuple[str, bytes]],
        *,
        on_unreadable: Callable[[int, UnreadableMessage], object] | None = None,
    ) -> Counter[str]:
        """Learn some labelled messages in one transaction; see `batches`."""
        (counted,) = self.batches([messages], on_unreadable=on_unreadable)
        return counted

    def batches(
        self,
        batches: Iterable[Sequence[tuple[str, bytes]]],
        *,
        executor: Executor | None = None,
        on_unreadable: Callable[[int, UnreadableMessage], object] | None = None,
    ) -> Iterator[Counter[str]]:
        """Learn labelled messages, each batch in one transaction.

        Parameters
        ----------
        batches : iterable of sequence of (label, raw message)
            They are learned in this order.
        executor : Executor or None
            Who reads the batches that come next (`app.corpora.parallel`).
        on_unreadable : callable, optional
            Called with the place in its batch of a message that cannot be read, and
            the error; the others are learned. Without it the error is raised.

        Yields
        ------
        Counter of str
            Of a batch that is stored: how many were learned, relabelled, unchanged,
            empty, and unreadable.

        Raises
        ------
        UnreadableMessage
            If a message cannot be read and nobody is called; nothing of its batch is
            learned then.
        UnknownLabel
            If the profile lacks one of the labels; nothing of the batch is learned
            then.
        DatabaseUnavailable
            If a batch could not be stored; nothing of it is learned then.
        """
        waiting: deque[Sequence[Labelled]] = deque()

        def unread() -> Iterator[tuple[Sequence[Labelled], datetime]]:
            for messages in batches:
                for label, _ in messages:
                    self._profile.row.require_label(label)
                waiting.append(messages)
                yield messages, self._clock()

        for found in in_order(executor, self._reader(), unread()):
            read = replace(found, messages=waiting.popleft())
            counted = Counter(["empty"] * read.rows.count(None))
            teachings = []
            for place, ((label, _), row) in enumerate(
                zip(read.messages, read.rows, strict=True)
            ):
                if isinstance(row, ScoredRow):
                    teachings.append(self._teaching(label, row))
                elif row is not None:
                    if on_unreadable is None:
                        raise row
                    on_unreadable(place, row)
                    counted["unreadable"] += 1
            counted.update(self._store(teachings, read))
            yield counted

    def _reader(self) -> Callable[[tuple[Sequence[Labelled], datetime]], _Batch]:
        """Return the function that reads a batch, in another process perhaps."""
        return partial(
            _read,
            views=tuple(self._profile.specification.views),
            key=self._profile.specification.key,
            words=self._store_words,
            scored=self._in_order,
        )

    def _store(self, teachings: Sequence[Teaching], _: _Batch) -> Iterator[str]:
        """Store the teachings of a batch, and yield what became of each."""
        if self._in_order:
            digests = {teaching.digest for teaching in teachings}
            with reading(self._engine) as connection:
                latest = latest_of(connection, self._profile.row.id, digests)
            # A copy for each batch: what is not stored yet is nobody else's to see.
            with self._profile.held() as snapshot:
                ahead = snapshot.copy()
            teachings = scored_in_order(teachings, ahead, latest)
        with writing(self._engine) as connection:
            outcomes = append(connection, self._profile.row, teachings)
        return self._followed(outcomes)

    def _followed(self, outcomes: Sequence[Outcome]) -> Iterator[str]:
        """Have the profile in memory follow what is stored, and yield its kinds."""
        rows = [outcome.row for outcome in outcomes if outcome.row is not None]
        if rows:
            self.revision = rows[-1].revision
        if self._in_order and not self._profile.apply(rows):
            self._profile.follow(self._engine)
        return (str(outcome.kind) for outcome in outcomes)

    def fold(self) -> Iterator[int]:
        """Fold the ledger into the counts, yielding rows per step."""
        yield from Folding(self._engine).all(self._profile.row)

    def _teaching(self, label: str, row: ScoredRow) -> Teaching:
        return Teaching(
            digest=row.digest,
            label=label,
            evidence=row,
            source=self._source,
            time=row.time,
        )


class LearnSums(Learn):
    """Learns archives in parts: each batch is its sum, and the digests of its messages.

    The counts are those of `Learn`, and no message is counted twice.  As the ledger
    does not have the features of a message, it is relabelled and forgotten only with
    the whole part; of two labels in one archive, the first one stays.

    Parameters
    ----------
    engine, profile, clock, source, store_words
        As of `Learn`.  Source and time are what a part is undone by.
    """

    def __init__(
        self,
        engine: Engine,
        profile: LiveProfile,
        clock: Callable[[], datetime],
        *,
        source: str,
        store_words: bool,
    ) -> None:
        super().__init__(
            engine,
            profile,
            clock,
            source=source,
            store_words=store_words,
            in_order=False,
        )

    def _reader(self) -> Callable[[tuple[Sequence[Labelled], datetime]], _Batch]:
        return partial(
            _read_sum,
            views=tuple(self._profile.specification.views),
            key=self._profile.specification.key,
            words=self._store_words,
            labels=self._profile.row.labels,
        )

    def _store(self, teachings: Sequence[Teaching], read: _Batch) -> Iterator[str]:
        profile = self._profile.row
        digests = {teaching.digest for teaching in teachings}
        known: set[bytes] = set()
        # Most parts are new as a whole; if not, they are added up again, where no
        # transaction is open.
        while True:
            sums = read.sums if not known else self._without(known, read)
            with writing(self._engine) as connection:
                profiles.lock(connection, profile)
                latest = latest_of(connection, profile.id, digests)
                learned = {row.digest for row in latest.values() if row.label}
                if learned == known:
                    append_encoded(
                        connection, profile, sums, source=self._source, time=read.time
                    )
                    outcomes = append(connection, profile, teachings)
                    break
            known = learned
        return self._followed(outcomes)

    def _without(self, known: set[bytes], read: _Batch) -> list[EncodedSum]:
        """Return the sums of a batch without the messages that are learned already."""
        labels = self._profile.row.labels
        made_of = self._profile.specification
        first: dict[bytes, Labelled] = {}
        for message, row in zip(read.messages, read.rows, strict=True):
            if isinstance(row, ScoredRow):
                first.setdefault(row.digest, message)
        gone = [
            Move(
                views=observe(raw, made_of.views, made_of.key).views,
                before=labels.index(label),
                after=None,
            )
            for digest, (label, raw) in first.items()
            if digest in known
        ]
        if len(gone) == len(first):
            return []
        states = [sum_of_moves(gone, n_classes=len(labels))]
        names: dict[str, dict[int, str]] = {}
        for each in read.sums:
            states.append(decode_sum(each.vector, labels))
            for view, texts in each.names.items():
                ids = states[-1][view].ids.tolist()
                names.setdefault(view, {}).update(zip(ids, texts, strict=True))
        return encoded({epoch_of(read.time): State.sum(states)}, labels, names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What was read of a batch.

    Parameters
    ----------
    rows : list of ScoredRow, UnreadableMessage or None
        What is stored of each message, why it cannot be read, None if it is blank.
    time : datetime
        When.
    sums : list of EncodedSum
        What its messages add, each of them once; none where the rows have it.
    messages : sequence of (label, raw message)
        The batch; no process sends it back to the one that it has it from.
    """

    rows: list[ScoredRow | UnreadableMessage | None]
    time: datetime
    sums: list[EncodedSum] = field(default_factory=list)
    messages: Sequence[Labelled] = ()


def _read(
    unread: tuple[Sequence[Labelled], datetime],
    *,
    views: Collection[str],
    key: IdKey | None,
    words: bool,
    scored: bool,
) -> _Batch:
    """Read a batch message by message.

    With its features decoded only where they are scored: to another process, they cost
    as much as the rest.
    """
    messages, time = unread

    def row(raw: bytes) -> ScoredRow:
        found = ScoredRow.of(observe(raw, views, key).stored(words=words), time=time)
        return found if scored else replace(found, decoded=None)

    return _Batch(rows=_each(messages, row), time=time)


def _read_sum(
    unread: tuple[Sequence[Labelled], datetime],
    *,
    views: Collection[str],
    key: IdKey | None,
    words: bool,
    labels: Sequence[str],
) -> _Batch:
    """Read a batch, and add its messages up."""
    messages, time = unread
    seen: dict[bytes, tuple[str, Observation]] = {}
    rows: list[ScoredRow | UnreadableMessage | None] = []
    for (label, _), found in zip(
        messages,
        _each(messages, lambda raw: observe(raw, views, key).stored(words=words)),
        strict=True,
    ):
        if isinstance(found, Observation):
            seen.setdefault(found.digest, (label, found))
            row = ScoredRow.of(replace(found, views={}, names={}), time=time)
            rows.append(row)
        else:
            rows.append(found)
    moves = [
        Move(views=found.views, before=None, after=labels.index(label))
        for label, found in seen.values()
    ]
    total = sum_of_moves(moves, n_classes=len(labels))
    names = _names_of([found for _, found in seen.values()])
    sums = encoded({epoch_of(time): total}, labels, names)
    return _Batch(rows=rows, time=time, sums=sums)


def _names_of(messages: Sequence[Observation]) -> dict[str, dict[int, str]]:
    """Return the text of features, each read where it comes first."""
    names = {}
    for view in sorted({view for message in messages for view in message.names}):
        having = [message for message in messages if view in message.names]
        ids, _ = in_a_row([message.views[view] for message in having])
        begins = np.cumsum([0, *(message.views[view].size for message in having)])
        first = np.sort(np.unique(ids, return_index=True)[1])
        of_each = np.split(first, first.searchsorted(begins[1:-1]))
        texts = [
            text
            for message, begin, places in zip(having, begins, of_each, strict=False)
            for text in names_at(message.names[view], places - begin)
        ]
        names[view] = dict(zip(ids[first].tolist(), texts, strict=True))
    return names


def _each(
    messages: Sequence[Labelled], read: Callable[[bytes], Read]
) -> list[Read | UnreadableMessage | None]:
    """Return what is read of each message, why it cannot be read, None if blank."""
    found: list[Read | UnreadableMessage | None] = []
    for _, raw in messages:
        if not raw.strip():
            found.append(None)
            continue
        try:
            with reading_one_of_many():
                found.append(read(raw))
        except UnreadableMessage as error:
            found.append(error)
    return found
