"""What does a profile know now? A snapshot, and the rows that are still to be added.

Messages that are added together take less time than one by one, so the rows of a
busy hour wait for each other, and are added by whoever needs their sum.

Contract of this file: the sum is computed without a lock.  Two threads that need it
at the same moment both compute it, and come to the same, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.classifier.decay import weighted
from app.storage.deltas import sum_by_epoch, sum_by_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.classifier.snapshot import Snapshot
    from app.storage.entry import LedgerRow

# Of so many rows one may wait, and at most so many, so that what feedback is scored by
# in a quick series is 2 % behind at most, and nothing in a young profile.
# Learning a message takes, of 512 real ones after 2,000, on a slow machine
#
#     together    1     2     4     8    16    32    64
#     each     1066   851   652   516   340   262   217  µs
#     all       1.1   1.7   2.6   4.1   5.4   8.4  13.9  ms
#
# and whoever scores the next message has to wait for all of it.  What a series of
# thousands is scored by gets worse the more of them wait (experiment 0072); the
# verdicts on other mail do not.
SHARE_WAITING: Final = 64
MOST_WAITING: Final = 8


@dataclass(slots=True, eq=False)
class Latest:
    """A snapshot, and ledger rows that are not added to it yet.

    Parameters
    ----------
    settled : Snapshot
        What was added up when the first of them came.
    waiting : tuple of LedgerRow
        The rows after it, without a gap.
    """

    settled: Snapshot
    waiting: tuple[LedgerRow, ...] = ()
    _sum: Snapshot | None = field(default=None, init=False, repr=False)

    @property
    def revision(self) -> int:
        """The ledger row that was learned last."""
        return self.waiting[-1].revision if self.waiting else self.settled.revision

    @property
    def full(self) -> bool:
        """Whether so much is waiting that it is better added now."""
        most = min(MOST_WAITING, self.settled.revision // SHARE_WAITING)
        return self._sum is None and len(self.waiting) > most

    @property
    def at_hand(self) -> Snapshot:
        """What is added up already: some of the newest rows may be missing."""
        return self._sum or self.settled

    def snapshot(self) -> Snapshot:
        """Return the sum of all.

        Raises
        ------
        InconsistentCounts
            If a count would become negative.
        """
        if self._sum is None:
            self._sum = _learned(self.settled, self.waiting)
        return self._sum

    def then(self, rows: Sequence[LedgerRow]) -> Latest:
        """Return what is known after more rows; what was added up stays so."""
        # Looked at once: it may get ready at any moment.
        added = self._sum
        if added is None:
            return Latest(self.settled, (*self.waiting, *rows))
        return Latest(added, tuple(rows))


def _learned(snapshot: Snapshot, rows: Sequence[LedgerRow]) -> Snapshot:
    """Return a snapshot after more rows: one addition, deltas are a group."""
    if not rows:
        return snapshot
    labels, decay = snapshot.specification.labels, snapshot.specification.decay
    epochs = sum_by_epoch(rows, labels)
    return snapshot.learn(
        sum_by_view(weighted(epochs, decay), n_classes=len(labels)),
        revision=rows[-1].revision,
        lessons=[row.lesson for row in rows],
        takes_back=any(row.takes_back for row in rows),
    )
