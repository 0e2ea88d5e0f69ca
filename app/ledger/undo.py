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
    content : bytes
        Its vector, if it is one of `tied`.
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
    """

    label: str
    chain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """The change from the present state of a message to the wanted one.

    Parameters
    ----------
    before, after : Assignment or None
        Present and wanted state; None means not learned.
    lost, gained : int or None
        Revision of a row with the vector of `before` and of `after`; None if that is
        not learned, or no row still has its vector.
    """

    before: Assignment | None
    after: Assignment | None
    lost: int | None
    gained: int | None

    @property
    def labels(self) -> tuple[str | None, str | None]:
        """The label before and after."""
        before, after = self.before, self.after
        return before.label if before else None, after.label if after else None

    @property
    def possible(self) -> bool:
        """Whether the required vectors are stored."""
        return (self.before is None or self.lost is not None) and (
            self.after is None
            or self.gained is not None
            or (self.before is not None and self.before.chain == self.after.chain)
        )


def transition(
    history: Sequence[MessageRow], taken_back: Collection[int]
) -> Transition | None:
    """Return the change that brings a message into line with its remaining rows.

    Parameters
    ----------
    history : sequence of MessageRow
        All rows of the message, oldest first, at least one.
    taken_back : collection of int
        Revisions of the rows not in force.

    Returns
    -------
    Transition or None
        None if no change is needed.

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
    last = next((step for step in reversed(history) if not step.note), None)
    before: Assignment | None = None
    if last is not None and last.label is not None:
        before = Assignment(last.label, chains[last.revision])
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
    """Return the change to the state that the words of all sites determine."""
    words = _words(history, taken_back)
    if len(words) > 1:
        learned = {step.revision: step for step in history}
        kept = vectors(history)

        def rank(word: Word) -> tuple[datetime, bool, str, int, bytes]:
            # At the same time, forgetting wins.
            if word.label is None:
                return word.time, True, "", 0, b""
            row = learned[kept.get(word.chain, word.chain)]
            return word.time, False, word.label, row.epoch, row.content

        words = [max(words, key=rank)]
    if not words or words[0].label is None:
        return None
    return Assignment(words[0].label, words[0].chain)


def tied(history: Sequence[MessageRow], taken_back: Collection[int]) -> set[int]:
    """Return the rows whose vectors may decide which word of a message is greatest."""
    words = _words(history, taken_back)
    latest = max((word.time for word in words), default=NEVER)
    chains = [word.chain for word in words if word.time == latest]
    kept = vectors(history)
    return {kept.get(chain, chain) for chain in chains if chain and len(chains) > 1}


def _words(history: Sequence[MessageRow], taken_back: Collection[int]) -> list[Word]:
    """Return the words of all sites that have one, that of this site first."""
    words = [] if (own := own_word(history, taken_back)) is None else [own]
    chains = _chains(history)
    received: dict[str, Word] = {}
    for step in history:
        if step.of_site and step.revision not in taken_back:
            chain = 0 if step.label is None else chains[step.revision]
            received[step.source] = Word(step.time, step.label, chain)
    words += (word for word in received.values() if word[:2] != (NEVER, None))
    return words


def own_word(history: Sequence[MessageRow], taken_back: Collection[int]) -> Word | None:
    """Return the word of this site on a message; None if it has none."""
    chains = _chains(history)
    own: Word | None = None
    heard = False
    for step in history:
        heard |= step.of_site
        if not step.taught or step.of_site:
            continue
        # Forgetting is final: the features cannot be restored.
        if step.label is None:
            own = Word(step.time, None, 0)
        elif step.revision not in taken_back:
            # After a teaching of another site, it stands for the features of this row.
            moved = 0 if own is None or heard else own.chain
            time = NEVER if step.source == OWN else step.time
            own = Word(time, step.label, moved or chains[step.revision])
    return own


def vectors(history: Sequence[MessageRow]) -> dict[int, int]:
    """Return the revision of a row with the vector of each chain."""
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
