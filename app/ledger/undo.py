"""Undo: the state that a message has without some of its rows.

Contract of this file: no SQL.  The rows of a message that people wrote are
replayed as what they said, in their order, without those that are taken back.
The rows that undos wrote only carry such a replay out, so they are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row of a message, without its vector.

    Parameters
    ----------
    revision : int
        Of the row.
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
    """

    revision: int
    label_before: str | None
    label: str | None
    epoch: int
    taught: bool
    kept: bool
    decision: str | None


@dataclass(frozen=True, slots=True)
class Learned:
    """What a message is learned as, and with which vector.

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
    """How a message gets from what it is to what it shall be.

    Parameters
    ----------
    before, after : Learned or None
        What it is and shall be; None is not learned.
    lost, gained : int or None
        Revision of a row that has the vector of `before`, and of `after`; None
        if it is not learned then, or no such row has its vector any more.
    """

    before: Learned | None
    after: Learned | None
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
    history: Sequence[Step], taken_back: Collection[int]
) -> Transition | None:
    """Return what makes a message what the rest of its rows say.

    Parameters
    ----------
    history : sequence of Step
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

    >>> ann = Step(revision=1, label_before=None, label="spam", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> ben = Step(revision=2, label_before="spam", label="ham", epoch=202603,
    ...            taught=True, kept=True, decision=None)
    >>> transition([ann, ben], {2}).after
    Learned(label='spam', chain=1)
    >>> transition([ann, ben], {1}) is None
    True
    >>> transition([ann, ben], {1, 2}).after is None
    True
    """
    chains = _chains(history)
    last = history[-1]
    before = None if last.label is None else Learned(last.label, chains[last.revision])
    after: Learned | None = None
    for step in history:
        if not step.taught or step.revision in taken_back:
            continue
        if step.label is None:
            after = None
        else:
            chain = chains[step.revision] if after is None else after.chain
            after = Learned(step.label, chain)
    if before == after:
        return None
    with_vector = {
        chains[step.revision]: step.revision for step in history if step.kept
    }
    return Transition(
        before=before,
        after=after,
        lost=None if before is None else with_vector.get(before.chain),
        gained=None if after is None else with_vector.get(after.chain),
    )


def _chains(history: Sequence[Step]) -> dict[int, int]:
    """Return, for each row, the revision of the row that learned its vector."""
    chains = {}
    chain = 0
    for step in history:
        if step.label_before is None:
            chain = step.revision
        chains[step.revision] = chain
    return chains
