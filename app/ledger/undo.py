"""Undo: the undos in force, and the resulting state of a message.

An undo takes back rows of the ledger and earlier undos.  These are in force again when
the undo itself is taken back, unless another undo took them back too.  So the order of
undos does not matter, only which of them are in force.

To find the state of a message, its rows from people are replayed in order, without
those taken back.  A forgotten message stays forgotten.  Rows written by undos only
carry out such a replay, so they are left out.

Sites that follow each other merge by one rule.  The word of a site on a message is the
result of replaying the site's own rows: a time, a label or "forgotten", and features in
a month.  Without a row in force, a site has no word.  A site offers only its own words,
each as a whole whenever it changes, and a newer word replaces the older one.  So a site
knows a map from (site, message) to the newest word, and such maps are joined pointwise:
they form a semilattice, in which order and repetition do not matter.  The state of a
message is its greatest word, by time, label, month and features.  This order is total,
so all sites with the same words have the same counts, bit for bit.  An undo of another
site's rows is not a word, and has only local effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.ledger.entry import OWN, SITE_PREFIX, UNDO_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of words that give way to the word of any site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Conditions on the teachings to take back; a teaching must meet all.

    Parameters
    ----------
    ids : frozenset of bytes
        Digests of messages; empty means any.
    source : str or None
        Source in the ledger, or ``undo:7`` for an undo; None means any.
    since, until : datetime or None
        At or after, and before; None means any time.
    upto : int or None
        Revision of the newest row to take back; None means any.
    """

    ids: frozenset[bytes] = frozenset()
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    upto: int | None = None

    def matches(self, undo: UndoRow) -> bool:
        """Whether an undo is selected; a selection by messages selects no undos."""
        return (
            not self.ids
            and self.source in (None, undo.name)
            and (self.since is None or undo.time >= self.since)
            and (self.until is None or undo.time < self.until)
        )

    def document(self) -> dict[str, object]:
        """Return the selection as a JSON object."""
        return {
            "ids": sorted(digest.hex() for digest in self.ids),
            "source": self.source,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRow:
    """One undo; the fields are the columns of the table, and the rows it takes back.

    Parameters
    ----------
    number : int
        Counted from 1 in each profile.
    source : str
        Who requested it.
    asked : mapping
        The requested selection.
    takes : collection of int
        Numbers of earlier undos that it takes back.
    revisions : tuple of int
        Rows of the ledger that it takes back, in their order; empty where they were
        not read.
    """

    number: int
    source: str
    time: datetime
    asked: Mapping[str, Any] = field(default_factory=dict)
    takes: Collection[int]
    revisions: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The source of its rows, by which it can be undone."""
        return f"{UNDO_PREFIX}{self.number}"


def in_force(undos: Sequence[UndoRow]) -> frozenset[int]:
    """Return the numbers of the undos that no undo in force takes back.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> def undo(number, *takes):
    ...     return UndoRow(number=number, source="ann", takes=frozenset(takes),
    ...                    time=datetime(2026, 3, 1, tzinfo=UTC))
    >>> sorted(in_force([undo(1), undo(2, 1), undo(3, 2)]))
    [1, 3]
    """
    kept: set[int] = set()
    taken: set[int] = set()
    # An undo takes back earlier ones only, so the newest is in force.
    for each in sorted(undos, key=lambda undo: undo.number, reverse=True):
        if each.number not in taken:
            kept.add(each.number)
            taken.update(each.takes)
    return frozenset(kept)


def to_take(undos: Sequence[UndoRow], unwanted: Collection[int]) -> frozenset[int]:
    """Return the undos that a new one must take back to end the force of some.

    They may include undos that are not in force now: an undo taken back by another of
    them would otherwise be in force again.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> def undo(number, *takes):
    ...     return UndoRow(number=number, source="ann", takes=frozenset(takes),
    ...                    time=datetime(2026, 3, 1, tzinfo=UTC))
    >>> both = [undo(1), undo(2, 1)]
    >>> sorted(to_take(both, {1, 2})), sorted(to_take(both, {2}))
    ([1, 2], [2])
    >>> sorted(to_take(both, {1}))
    []
    """
    # What is in force once the unwanted ones take back nothing any more.
    left = [
        replace(each, takes=()) if each.number in unwanted else each for each in undos
    ]
    return in_force(left) & frozenset(unwanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One row of a message, without its vector.

    Parameters
    ----------
    label_before, label : str or None
        Label before and after; None means not learned.
    epoch : int
        Month of the counts that it changed.
    taught : bool
        Whether it is a teaching; False if an undo wrote it.
    kept : bool
        Whether its vector is stored.
    decision : str or None
        Decision of the filter about the message; None if it was not scored.
    note : bool
        Whether it adds nothing and only stores the word of another site.
    """

    revision: int
    label_before: str | None
    label: str | None
    epoch: int
    taught: bool
    kept: bool
    decision: str | None
    source: str = ""
    time: datetime = NEVER
    note: bool = False
    digest: bytes = b""

    @property
    def of_site(self) -> bool:
        """Whether another site taught it."""
        return self.taught and self.source.startswith(SITE_PREFIX)


class Word(NamedTuple):
    """The word of one site on a message.

    Parameters
    ----------
    time : datetime
        Its time; `NEVER` for a teaching of the filter itself, which gives way to the
        word of any site, and for a site that no longer has a word.
    label : str or None
        None to forget the message.
    chain : int
        As in `Assignment`; 0 without a label.
    """

    time: datetime
    label: str | None
    chain: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The label under which a message is learned, and its vector.

    Parameters
    ----------
    chain : int
        Revision of the row that learned it.  A relabelling keeps the vector and the
        epoch of that row.
    kept : int or None
        Revision of a row that still has that vector, if any.
    """

    label: str
    chain: int
    kept: int | None = field(default=None, compare=False, repr=False)


class Transition(NamedTuple):
    """The change from the present state of a message to the wanted one.

    Parameters
    ----------
    before, after : Assignment or None
        Present and wanted state; None means not learned.
    """

    before: Assignment | None
    after: Assignment | None

    @property
    def labels(self) -> tuple[str | None, str | None]:
        """The label before and after."""
        before, after = self
        return before.label if before else None, after.label if after else None

    @property
    def possible(self) -> bool:
        """Whether the required vectors are stored."""
        return all(each is None or each.kept is not None for each in self)

    @property
    def needed(self) -> set[int]:
        """Revisions of the rows with the required vectors."""
        return {each.kept for each in self if each and each.kept is not None}


@dataclass(eq=False)
class RowHistory:
    """All rows of a message, some of them taken back.

    Parameters
    ----------
    rows : sequence of MessageRow
        Oldest first, at least one.
    gone : collection of int
        Revisions of the rows not in force.
    contents : mapping of int to bytes
        Vectors of the rows of `tied`, by revision.

    Examples
    --------
    Ann learned it as spam, Ben made it ham; without Ben it is spam again.

    >>> ann = MessageRow(revision=1, label_before=None, label="spam", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> ben = MessageRow(revision=2, label_before="spam", label="ham", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> RowHistory([ann, ben], {2}).transition().after
    Assignment(label='spam', chain=1)
    >>> RowHistory([ann, ben], {1}).transition() is None
    True
    >>> RowHistory([ann, ben], {1, 2}).transition().after is None
    True
    """

    rows: Sequence[MessageRow]
    gone: Collection[int]
    contents: Mapping[int, bytes] = field(default_factory=dict)

    def transition(self) -> Transition | None:
        """Return the change that brings the message into line with its other rows.

        Returns
        -------
        Transition or None
            None if no change is needed.
        """
        last = next((step for step in reversed(self.rows) if not step.note), None)
        before: Assignment | None = None
        if last is not None:
            before = self._assigned(last.label, self._chains[last.revision])
        after = self._standing()
        return None if before == after else Transition(before, after)

    def _assigned(self, label: str | None, chain: int) -> Assignment | None:
        if label is None:
            return None
        return Assignment(label, chain, self.vectors.get(chain))

    def _standing(self) -> Assignment | None:
        """Return the state that the words of all sites determine."""
        words = self._words
        if len(words) > 1:
            words = [max(words, key=self._rank)]
        return self._assigned(words[0].label, words[0].chain) if words else None

    def _rank(self, word: Word) -> tuple[datetime, bool, str, int, bytes]:
        # At the same time, forgetting wins.
        if word.label is None:
            return word.time, True, "", 0, b""
        at = self.vectors.get(word.chain, word.chain)
        (epoch,) = (step.epoch for step in self.rows if step.revision == at)
        return word.time, False, word.label, epoch, self.contents.get(at, b"")

    def tied(self) -> set[int]:
        """Return the rows whose vectors may decide which of the words is greatest."""
        latest = max((word.time for word in self._words), default=NEVER)
        chains = [word.chain for word in self._words if word.time == latest]
        kept = (self.vectors.get(chain, chain) for chain in chains if chain)
        return set(kept) if len(chains) > 1 else set()

    @cached_property
    def _words(self) -> list[Word]:
        """The words of all sites that have one, that of this site first."""
        received = {
            step.source: Word(
                step.time,
                step.label,
                0 if step.label is None else self._chains[step.revision],
            )
            for step in self.rows
            if step.of_site and step.revision not in self.gone
        }
        words = [word for word in received.values() if word[:2] != (NEVER, None)]
        return words if self.own_word is None else [self.own_word, *words]

    @cached_property
    def own_word(self) -> Word | None:
        """The word of this site on the message; None if it has none."""
        own: Word | None = None
        heard = False
        for step in self.rows:
            heard |= step.of_site
            if not step.taught or step.of_site:
                continue
            # Forgetting is final: the features cannot be restored.
            if step.label is None:
                own = Word(step.time, None, 0)
            elif step.revision not in self.gone:
                # After a teaching of another site, it stands for the features of this
                # row.
                moved = 0 if own is None or heard else own.chain
                time = NEVER if step.source == OWN else step.time
                own = Word(time, step.label, moved or self._chains[step.revision])
        return own

    @cached_property
    def vectors(self) -> dict[int, int]:
        """The revision of a row with the vector of each chain."""
        return {
            self._chains[step.revision]: step.revision
            for step in self.rows
            if step.kept
        }

    @cached_property
    def _chains(self) -> dict[int, int]:
        """For each row, the revision of the row that learned its vector."""
        chains = {}
        chain = 0
        for step in self.rows:
            if step.label_before is None and not step.note:
                chain = step.revision
            chains[step.revision] = step.revision if step.note else chain
        return chains
