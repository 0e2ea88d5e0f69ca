"""Bulk learning of labelled mail, one commit for each batch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from app.errors import UnreadableMessage, reading_one_of_many
from app.ledger.teaching import ScoredRow, Teaching, scored_in_order
from app.services.classify import observe
from app.services.fold import Folding
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, latest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Engine

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
        taught to say of spam is no evidence about the filter.
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

    def batch(
        self,
        messages: Sequence[tuple[str, bytes]],
        *,
        on_unreadable: Callable[[int, UnreadableMessage], object] | None = None,
    ) -> Counter[str]:
        """Learn some labelled messages in one transaction.

        Parameters
        ----------
        messages : sequence of (label, raw message)
            They are learned in this order.
        on_unreadable : callable, optional
            Called with the index of a message that cannot be read, and the
            error; the others are learned. Without it the error is raised.

        Returns
        -------
        Counter of str
            How many were learned, relabelled, unchanged, empty, and unreadable.

        Raises
        ------
        UnreadableMessage
            If a message cannot be read and nobody is called; nothing is learned
            then.
        UnknownLabel
            If the profile lacks one of the labels; nothing is learned then.
        DatabaseUnavailable
            If it could not be stored; nothing is learned then.
        """
        for label, _ in messages:
            self._profile.row.require_label(label)
        counted: Counter[str] = Counter()
        teachings = []
        for at, (label, raw) in enumerate(messages):
            if not raw.strip():
                counted["empty"] += 1
                continue
            try:
                with reading_one_of_many():
                    teachings.append(self._teaching(label, raw))
            except UnreadableMessage as error:
                if on_unreadable is None:
                    raise
                on_unreadable(at, error)
                counted["unreadable"] += 1
        if self._in_order:
            digests = {teaching.digest for teaching in teachings}
            with reading(self._engine) as connection:
                latest = latest_of(connection, self._profile.row.id, digests)
            # A copy for each batch: what is not stored yet is nobody else's to see.
            with self._profile.scoring() as snapshot:
                ahead = snapshot.copy()
            teachings = scored_in_order(teachings, ahead, latest)
        with writing(self._engine) as connection:
            outcomes = append(connection, self._profile.row, teachings)
        rows = [outcome.row for outcome in outcomes if outcome.row is not None]
        if not self._profile.apply(rows):
            self._profile.follow(self._engine)
        counted.update(str(outcome.kind) for outcome in outcomes)
        return counted

    def fold(self) -> Iterator[int]:
        """Fold the ledger into the count tables, yielding rows per step."""
        yield from Folding(self._engine).all(self._profile.row)

    def _teaching(self, label: str, raw: bytes) -> Teaching:
        made_of = self._profile.specification
        observation = observe(raw, made_of.views, made_of.key)
        time = self._clock()
        return Teaching(
            digest=observation.digest,
            label=label,
            evidence=ScoredRow.of(
                observation.stored(words=self._store_words), time=time
            ),
            source=self._source,
            time=time,
        )
