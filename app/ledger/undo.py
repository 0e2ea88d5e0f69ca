"""Undo: which undos are in force, and the state that a message has under them.

An undo takes back rows of the ledger and earlier undos.  What an undo took back is in
force again once the undo is taken back itself, unless another undo took it back too.
So the order of undos does not matter, only which are in force.

The rows of a message that people wrote are replayed in their order, without those that
are taken back; a message that somebody had forgotten stays forgotten.  The rows that
undos wrote only carry such a replay out, so they are left out.

Sites that follow each other merge by one rule.  The word of a site on a message is what
the replay of the site's own rows ends with: a time, a label or that it is forgotten,
and features in a month; without a row in force a site has no word.  A site offers its
own word alone, whole, whenever it changes, and the newest that was received replaces
the one before.  So what a site knows is a map from (site, message) to the newest word,
and two such maps are joined point by point: a semilattice, in which neither order nor
repetition matters.  A message is what its greatest word says, by time, label, month and
features: a total order, so that all sites with the same words have the same counts, bit
for bit.  What a site takes back of another's rows is no word of its own, and stays at
home.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from app.ledger.entry import OWN, SITE_PREFIX, UNDO_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of what gives way to whatever any site says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The teachings to take back: those that meet all conditions.

    Parameters
    ----------
    ids : frozenset of bytes
        Digests of messages; empty means any.
    source : str or None
        Source as the ledger has it, or ``undo:7`` for an undo; None means any.
    since, until : datetime or None
        From then on, and before then; None means any time.
    upto : int or None
        Revision of the newest row that may be taken back; None means any.
    """

    ids: frozenset[bytes] = frozenset()
    source: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    upto: int | None = None

    def matches(self, undo: UndoRow) -> bool:
        """Whether an undo is selected; a selection of messages selects none."""
        return (
            not self.ids
            and self.source in (None, undo.name)
            and (self.since is None or undo.time >= self.since)
            and (self.until is None or undo.time < self.until)
        )

    def document(self) -> dict[str, object]:
        """Return the selection as JSON takes it."""
        return {
            "ids": sorted(digest.hex() for digest in self.ids),
            "source": self.source,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRow:
    """One undo.

    Parameters
    ----------
    number : int
        Counted from 1 in each profile.
    source : str
        Who asked for it.
    time : datetime
        When.
    takes : frozenset of int
        Numbers of earlier undos that it takes back.
    """

    number: int
    source: str
    time: datetime
    takes: frozenset[int]

    @property
    def name(self) -> str:
        """The source of the rows that it writes, by which it can be undone."""
        return f"{UNDO_PREFIX}{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRecord:
    """One undo; the fields are the columns of the table, and the rows it takes back.

    Parameters
    ----------
    number : int
        Counted from 1 in each profile.
    source : str
        Who asked for it.
    time : datetime
        When.
    asked : mapping
        The selection that was asked for.
    takes : tuple of int
        Numbers of earlier undos that it takes back.
    revisions : tuple of int
        Rows of the ledger that it takes back, in their order.
    """

    number: int
    source: str
    time: datetime
    asked: Mapping[str, Any]
    takes: tuple[int, ...]
    revisions: tuple[int, ...]


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
            taken |= each.takes
    return frozenset(kept)


def to_take(undos: Sequence[UndoRow], unwanted: Collection[int]) -> frozenset[int]:
    """Return which undos a new one has to take back, so that none of some is in force.

    Not only those that are in force now: one that another of them has taken back
    would be in force again without that.

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
    found: set[int] = set()
    taken: set[int] = set()
    # As in `in_force`: whether one is taken back is known from those after it.
    for each in sorted(undos, key=lambda undo: undo.number, reverse=True):
        if each.number in taken:
            continue
        if each.number in unwanted:
            found.add(each.number)
        else:
            taken |= each.takes
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One row of a message, without its vector.

    Parameters
    ----------
    revision : int
        Revision of the row.
    label_before, label : str or None
        What the message was and what it became; None is not learned.
    epoch : int
        Month of the counts that it changed.
    taught : bool
        Whether somebody said so; False if an undo wrote it.
    kept : bool
        Whether its vector is there.
    decision : str or None
        What the filter had said of the message; None if it was not scored.
    source : str
        Who said so.
    time : datetime
        When.
    note : bool
        Whether it adds nothing, and only keeps what another site says.
    content : bytes
        Its vector, where two words of different sites have one time.
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
    content: bytes = field(default=b"", repr=False)

    @property
    def of_site(self) -> bool:
        """Whether another site taught it."""
        return self.taught and self.source.startswith(SITE_PREFIX)


class Word(NamedTuple):
    """What one site says of a message.

    Parameters
    ----------
    time : datetime
        When it was said; `NEVER` for what the filter taught itself, which gives way to
        the word of any site, and for the word of a site that has none any more.
    label : str or None
        None to forget the message.
    chain : int
        As in `Assignment`; 0 where there is no label.
    """

    time: datetime
    label: str | None
    chain: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """The label under which a message is learned, and its vector.

    Parameters
    ----------
    label : str
        Its label.
    chain : int
        Revision of the row that learned it.  A relabelling moves what was
        learned, so it has the vector and the epoch of that row.
    """

    label: str
    chain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The change from the present state of a message to the wanted one.

    Parameters
    ----------
    before, after : Assignment or None
        What it is and shall be; None is not learned.
    lost, gained : int or None
        Revision of a row that has the vector of `before`, and of `after`; None
        if it is not learned then, or no such row has its vector any more.
    """

    before: Assignment | None
    after: Assignment | None
    lost: int | None
    gained: int | None

    @property
    def possible(self) -> bool:
        """Whether the vectors that it needs are there."""
        return (self.before is None or self.lost is not None) and (
            self.after is None
            or self.gained is not None
            or (self.before is not None and self.before.chain == self.after.chain)
        )


def transition(
    history: Sequence[MessageRow], taken_back: Collection[int]
) -> Transition | None:
    """Return the change that makes a message agree with its remaining rows.

    Parameters
    ----------
    history : sequence of MessageRow
        All rows of the message, oldest first, at least one.
    taken_back : collection of int
        Revisions of those that are not in force.

    Returns
    -------
    Transition or None
        None if the message is that already.

    Examples
    --------
    Ann learned it as spam, Ben made it ham; without Ben it is spam again.

    >>> ann = MessageRow(revision=1, label_before=None, label="spam", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> ben = MessageRow(revision=2, label_before="spam", label="ham", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> transition([ann, ben], {2}).after
    Assignment(label='spam', chain=1)
    >>> transition([ann, ben], {1}) is None
    True
    >>> transition([ann, ben], {1, 2}).after is None
    True
    """
    chains = _chains(history)
    before: Assignment | None = None
    for step in history:
        if not step.note:
            before = (
                None
                if step.label is None
                else Assignment(step.label, chains[step.revision])
            )
    after = standing(history, taken_back)
    if before == after:
        return None
    found = vectors(history)
    return Transition(
        before=before,
        after=after,
        lost=None if before is None else found.get(before.chain),
        gained=None if after is None else found.get(after.chain),
    )


def standing(
    history: Sequence[MessageRow], taken_back: Collection[int]
) -> Assignment | None:
    """Return what a message is by the words of all sites; as `transition`."""
    words = [] if (own := own_word(history, taken_back)) is None else [own]
    chains = _chains(history)
    received: dict[str, Word] = {}
    for step in history:
        if step.of_site and step.revision not in taken_back:
            chain = 0 if step.label is None else chains[step.revision]
            received[step.source] = Word(step.time, step.label, chain)
    words += (word for word in received.values() if word[:2] != (NEVER, None))
    if len(words) > 1:
        learned = {step.revision: step for step in history}

        def rank(word: Word) -> tuple[datetime, bool, str, int, bytes]:
            # Forgetting wins over what was said at the same moment.
            if word.label is None:
                return word.time, True, "", 0, b""
            row = learned[vectors(history).get(word.chain, word.chain)]
            return word.time, False, word.label, row.epoch, row.content

        words = [max(words, key=rank)]
    if not words or words[0].label is None:
        return None
    return Assignment(words[0].label, words[0].chain)


def own_word(history: Sequence[MessageRow], taken_back: Collection[int]) -> Word | None:
    """Return what this site says of a message; None if it has no word."""
    chains = _chains(history)
    own: Word | None = None
    heard = False
    for step in history:
        heard |= step.of_site
        if not step.taught or step.of_site:
            continue
        # Forgetting is for good: nothing brings its features back.
        if step.label is None:
            own = Word(step.time, None, 0)
        elif step.revision not in taken_back:
            # Beside other sites, it moves what is learned there and then.
            moved = 0 if own is None or heard else own.chain
            time = NEVER if step.source == OWN else step.time
            own = Word(time, step.label, moved or chains[step.revision])
    return own


def vectors(history: Sequence[MessageRow]) -> dict[int, int]:
    """Return the revision of a row that has the vector of each chain."""
    chains = _chains(history)
    return {chains[step.revision]: step.revision for step in history if step.kept}


def _chains(history: Sequence[MessageRow]) -> dict[int, int]:
    """Return, for each row, the revision of the row that learned its vector."""
    chains = {}
    chain = 0
    for step in history:
        if step.note:
            chains[step.revision] = step.revision
            continue
        if step.label_before is None:
            chain = step.revision
        chains[step.revision] = chain
    return chains
