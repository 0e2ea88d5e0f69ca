"""Bulk learning of labelled mail, one commit for each batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import tee
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from app import __version__
from app.classifier.learn import Move, bounded, sum_of_moves
from app.corpora.parallel import chunks, in_order
from app.errors import (
    ClusterUnavailable,
    MissingLabel,
    UnreadableMessage,
    UnreadableSource,
    reading_one_of_many,
)
from app.features.observation import first_names
from app.ledger.entry import ScoredRow, epoch_of
from app.ledger.sums import encode_sums
from app.ledger.teaching import Teaching, rows_of, scored_in_order
from app.services.classify import observe
from app.services.upkeep import Folding
from app.storage import profiles
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, append_sums, latest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from sqlalchemy import Engine

    from app.corpora.mailbox import CorpusMessage
    from app.corpora.parallel import Readers
    from app.features.id_key import IdKey
    from app.features.observation import Observation
    from app.ledger.sums import EncodedSum
    from app.ledger.teaching import Outcome
    from app.services.live import LiveProfile
    from app.storage.profiles import ProfileRow

    Unread = tuple[Iterable[CorpusMessage], datetime]

# Messages in one commit: some 1.5 MB of ledger, lost if interrupted.
BATCH: Final = 200
PART: Final = 1_000
"""Messages in one commit when they are learned as a sum.

Twice as many take an eighth less room per message, and twice the memory."""


@dataclass(slots=True)
class Learn:
    """Learns labelled messages into one profile, batch by batch.

    It may be interrupted anywhere and run again: it recognises learned messages, and
    leaves them unchanged.

    Parameters
    ----------
    source : str
        The source of the labels in the ledger.
    in_order : bool, default True
        Whether the messages are in the order of their arrival.  If so, each is scored
        with what the ones before it taught, as feedback is.  If not, none is scored,
        because the verdict on spam after learning only ham says little about the
        filter; and the profile in memory stays behind until it follows the ledger.

    Attributes
    ----------
    revision : int
        The last ledger row learned.
    """

    engine: Engine
    profile: LiveProfile
    clock: Callable[[], datetime]
    _: KW_ONLY
    source: str
    store_words: bool
    in_order: bool = True
    revision: int = field(init=False)
    MOST: ClassVar[int] = BATCH
    """Messages of a batch."""
    SUMS: ClassVar[bool] = False
    """Whether a batch is stored as a sum."""

    def __post_init__(self) -> None:
        """Begin at the revision in memory."""
        self.revision = self.profile.snapshot.revision

    def batches(
        self,
        parts: Iterable[Iterable[CorpusMessage]],
        *,
        most: int | None = None,
        readers: Readers | None = None,
        on_unreadable: Callable[[str, UnreadableMessage], object] | None = None,
    ) -> Iterator[Counter[str]]:
        """Learn labelled messages, each batch in one transaction.

        Parameters
        ----------
        parts : iterable of iterable of CorpusMessage
            Learned in this order.  A part may be read by another process, and again by
            the caller if some of its messages are known, so it is a reference
            (`app.corpora.source.ArchivePart`) or a list.
        most : int, optional
            Most messages of a batch; `MOST` by default.  Without its last message, a
            batch has at most `CHUNK_BYTES` of mail.
        readers : Readers or None
            Processes that read the next parts (`app.corpora.parallel`).
        on_unreadable : callable, optional
            Called with the place of an unreadable message and the error; the other
            messages are learned.  Without it, the error is raised.

        Yields
        ------
        Counter of str
            For each stored batch: how many messages were learned, relabelled,
            unchanged, empty and unreadable.

        Raises
        ------
        UnreadableSource
            If a part cannot be read; nothing of it is learned.
        UnreadableMessage
            If a message cannot be read and `on_unreadable` is not given; nothing of its
            batch is learned.
        MissingLabel, UnknownLabel
            If a message has no label, or one that the profile lacks; nothing of the
            part is learned.
        DatabaseUnavailable
            If a batch could not be stored; nothing of it is learned then.
        """
        here, there = tee(parts)
        unread = ((part, self.clock()) for part in there)
        read = in_order(readers, self._reader(most).read, unread)
        # In this order, so that an error of the parts is raised.
        for found, part in zip(read, here, strict=False):
            for each in found:
                counted = Counter(empty=each.empty, unreadable=len(each.unreadable))
                for where, error in each.unreadable:
                    if on_unreadable is None:
                        raise error
                    on_unreadable(where, error)
                outcomes = self._store(each, part)
                counted.update(str(outcome.kind) for outcome in outcomes)
                if rows := rows_of(outcomes):
                    self.revision = rows[-1].revision
                yield counted

    def _reader(self, most: int | None = None) -> _PartReader:
        """Return what reads parts, perhaps in another process."""
        found = self.profile.specification
        scored = self.in_order and not self.SUMS
        return _PartReader(
            profile=self.profile.row,
            source=self.source,
            views=tuple(found.views if scored else found.unconditional),
            key=found.key,
            words=self.store_words,
            scored=scored,
            sums=self.SUMS,
            most=most or self.MOST,
        )

    def _store(self, read: _Batch, _: Iterable[CorpusMessage]) -> list[Outcome]:
        """Store the teachings of a batch."""
        profile, teachings = self.profile, [*read.teachings.values()]
        if not self.in_order:
            with writing(self.engine) as connection:
                return append(connection, profile.row, teachings)
        digests = {teaching.digest for teaching in teachings}
        with reading(self.engine) as connection:
            latest = latest_of(connection, profile.row.id, digests)
        # A copy for each batch, so unstored changes are not visible to others.
        with profile.held() as snapshot:
            begin, ahead = snapshot.revision + 1, snapshot.copy()
        teachings = scored_in_order(teachings, ahead, latest)
        with writing(self.engine) as connection:
            outcomes = append(connection, profile.row, teachings)
        rows = rows_of(outcomes)
        # They differ from the rows that the copy learned if another process wrote one
        # meanwhile.
        foreseen = [row.revision for row in rows] == [*range(begin, ahead.revision + 1)]
        if not profile.apply(rows, ahead if foreseen else None):
            profile.follow(self.engine)
        return outcomes

    def fold(self) -> Iterator[int]:
        """Fold the ledger into the counts, yielding rows per step."""
        yield from Folding(self.engine).all(self.profile.row)


@dataclass(slots=True)
class LearnSums(Learn):
    """Learns archives in parts: a batch is stored as a sum with its messages' digests.

    The counts equal those of `Learn`, and no message is counted twice.  The ledger does
    not have the features of single messages, so these are relabelled and forgotten only
    with the whole part.  If an archive has two labels for one message, the first stays.
    A part is undone by its source and time.
    """

    MOST: ClassVar[int] = PART
    SUMS: ClassVar[bool] = True

    def _store(self, read: _Batch, part: Iterable[CorpusMessage]) -> list[Outcome]:
        profile, teachings = self.profile.row, [*read.teachings.values()]
        digests = {teaching.digest for teaching in teachings}
        known: set[bytes] = set()
        # Most parts are wholly new; others are summed again, outside of any
        # transaction.
        while True:
            sums = read.sums if not known else self._without(known, read, part)
            with writing(self.engine) as connection:
                profiles.lock(connection, profile)
                latest = latest_of(connection, profile.id, digests)
                learned = {row.digest for row in latest.values() if row.label}
                if learned == known:
                    append_sums(
                        connection, profile, sums, source=self.source, time=read.time
                    )
                    return append(connection, profile, teachings)
            known = learned

    def _without(
        self, known: set[bytes], read: _Batch, part: Iterable[CorpusMessage]
    ) -> list[EncodedSum]:
        """Return the sums of a batch without messages learned before."""
        new = {
            place: teaching.digest
            for place, teaching in read.teachings.items()
            if teaching.digest not in known
        }
        if not new:
            return []
        left = ((place, each) for place, each in enumerate(part) if place in new)
        again = self._reader().batch(left, read.time)
        if new != {place: each.digest for place, each in again.teachings.items()}:
            raise UnreadableSource(
                "the mail changed while it was learned; run the same command again"
            )
        return again.sums


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The content of a batch.

    Parameters
    ----------
    time : datetime
        When.
    sums : list of EncodedSum
        The sums of its messages, each counted once; empty if the teachings have the
        features.
    teachings : dict of int to Teaching
        The teaching of each message that could be read, by its position in the part.
    unreadable : list of (str, UnreadableMessage)
        Place of each other message, and why it cannot be read.
    empty : int
        Number of blank messages.
    """

    time: datetime
    sums: list[EncodedSum] = field(default_factory=list)
    teachings: dict[int, Teaching] = field(default_factory=dict)
    unreadable: list[tuple[str, UnreadableMessage]] = field(default_factory=list)
    empty: int = 0


class _PartReader(NamedTuple):
    """Reads parts in batches; the result does not depend on the process or the time."""

    profile: ProfileRow
    source: str
    views: Collection[str]
    key: IdKey | None
    words: bool
    scored: bool
    sums: bool
    most: int
    version: str = __version__

    def read(self, unread: Unread) -> list[_Batch]:
        """Read a part."""
        if self.version != __version__:
            raise ClusterUnavailable(
                f"a worker has Postbayes {__version__}, and this command is of "
                f"{self.version}; install one version on all machines"
            )
        part, time = unread
        some = chunks(enumerate(part), lambda x: len(x[1].raw), most=self.most)
        return [self.batch(messages, time) for messages in some]

    def batch(
        self, messages: Iterable[tuple[int, CorpusMessage]], time: datetime
    ) -> _Batch:
        """Read messages with their positions in the part."""
        found = _Batch(time=time)
        # Each message counts once.
        seen: dict[bytes, tuple[str, Observation]] = {}
        for at, (label, raw, where) in messages:
            if label is None:
                msg = f"{where} has no label; add --label spam or --label ham"
                raise MissingLabel(msg)
            self.profile.require_label(label)
            if not raw.strip():
                found.empty += 1
                continue
            try:
                with reading_one_of_many():
                    observation = observe(raw, self.views, self.key)
                    observation = observation.stored(words=self.words)
                    row = self._row(observation, time)
            except UnreadableMessage as error:
                found.unreadable.append((where, error))
                continue
            seen.setdefault(row.digest, (label, observation))
            found.teachings[at] = Teaching(
                digest=row.digest,
                label=label,
                evidence=row,
                source=self.source,
                time=time,
            )
        if self.sums:
            found.sums = self._sums(seen.values(), time)
        return found

    def _row(self, observation: Observation, time: datetime) -> ScoredRow:
        """Return the evidence of a teaching; without features if they are summed.

        Features are decoded only if they are scored, because passing them to another
        process costs as much as everything else.
        """
        if self.sums:
            observation = replace(observation, views={}, names={})
        row = ScoredRow.of(observation, time=time)
        if self.scored:
            return row
        return replace(row.teaching(bounded(row.views)), decoded=None)

    def _sums(
        self, seen: Collection[tuple[str, Observation]], time: datetime
    ) -> list[EncodedSum]:
        labels = self.profile.labels
        moves = [
            Move(views=bounded(found.views), before=None, after=labels.index(label))
            for label, found in seen
        ]
        total = sum_of_moves(moves, n_classes=len(labels))
        names = first_names(
            ({view: x.ids for view, x in found.views.items()}, found.names)
            for _, found in seen
        )
        return encode_sums({epoch_of(time): total}, labels, names)
