"""Bulk learning of labelled mail, one commit for each batch."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from app.corpora.parallel import in_order
from app.errors import UnreadableMessage, reading_one_of_many
from app.ledger.teaching import ScoredRow, Teaching, scored_in_order
from app.services.classify import observe
from app.services.fold import Folding
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, latest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.id_key import IdKey
    from app.services.memory.live import LiveProfile

# Messages of one commit: some 1.5 MB of ledger, which an interruption loses.
BATCH: Final = 200


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
        waiting: deque[list[str]] = deque()

        def unread() -> Iterator[tuple[list[bytes], datetime]]:
            for messages in batches:
                labels = [label for label, _ in messages]
                for label in labels:
                    self._profile.row.require_label(label)
                waiting.append(labels)
                yield [raw for _, raw in messages], self._clock()

        read = partial(
            _read,
            views=tuple(self._profile.specification.views),
            key=self._profile.specification.key,
            words=self._store_words,
            scored=self._in_order,
        )
        for rows in in_order(executor, read, unread()):
            labels = waiting.popleft()
            counted: Counter[str] = Counter()
            teachings = []
            for place, (label, row) in enumerate(zip(labels, rows, strict=True)):
                if isinstance(row, ScoredRow):
                    teachings.append(self._teaching(label, row))
                elif row is None:
                    counted["empty"] += 1
                else:
                    if on_unreadable is None:
                        raise row
                    on_unreadable(place, row)
                    counted["unreadable"] += 1
            counted.update(self._store(teachings))
            yield counted

    def _store(self, teachings: Sequence[Teaching]) -> Iterator[str]:
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


def _read(
    unread: tuple[Sequence[bytes], datetime],
    *,
    views: Collection[str],
    key: IdKey | None,
    words: bool,
    scored: bool,
) -> list[ScoredRow | UnreadableMessage | None]:
    """Return what is stored of each message, why it cannot be read, None if blank.

    With its features decoded only where they are scored: to another process, they cost
    as much as the rest.
    """
    found: list[ScoredRow | UnreadableMessage | None] = []
    raws, time = unread
    for raw in raws:
        if not raw.strip():
            found.append(None)
            continue
        try:
            with reading_one_of_many():
                stored = observe(raw, views, key).stored(words=words)
                row = ScoredRow.of(stored, time=time)
        except UnreadableMessage as error:
            found.append(error)
        else:
            found.append(row if scored else replace(row, decoded=None))
    return found
