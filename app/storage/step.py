"""What does a batch of ledger rows add to the count tables, and which part is next?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.classifier.snapshot import Statistics
    from app.storage.mark import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A batch of ledger rows, summed and ready to be written.

    Parameters
    ----------
    rows : int
        How many.
    after : int
        The mark that they follow: they are of use only while it stands there, or at
        what is left of them.
    upto : int
        Revision of the newest, where the mark moves to.
    epochs : mapping of int to mapping of str to FeatureCounts or MomentSums
        What they add to each epoch, view by view.
    texts : mapping of str to mapping of int to str
        The text of features that had none noted, view by view, by feature.
    lost : mapping of str to list of int
        Features that may have lost their last message, view by view.
    features : ndarray of int64
        All of them in order; one that is in several views, months or labels is there
        as often.
    done : int
        How many of them are written.
    written : bool
        Whether all of it is.
    """

    rows: int
    after: int
    upto: int
    epochs: Mapping[int, Mapping[str, Statistics]]
    texts: Mapping[str, Mapping[int, str]]
    lost: Mapping[str, list[int]]
    features: NDArray[np.int64]
    done: int = 0
    written: bool = False

    def stands_at(self, here: Mark) -> bool:
        """Whether this is what has to be written next."""
        if here.rest is None:
            return here.upto == self.after
        return here.rest[:2] == (self.after, self.upto)

    def place(self, feature: int) -> int:
        """Return how many of the features are smaller than one."""
        return int(np.searchsorted(self.features, feature))

    def end_after(self, first: int | None, size: int) -> int | None:
        """Return where a part of some size that begins with a feature ends.

        Parameters
        ----------
        first : int or None
            Its smallest feature; None: it is the first part.
        size : int
            Features at most, but for the last one's other views, months and labels.

        Returns
        -------
        int or None
            The smallest feature of the next part; None: nothing is left.
        """
        last = (0 if first is None else self.place(first)) + max(size, 1) - 1
        if last >= self.features.size:
            return None
        end = int(np.searchsorted(self.features, self.features[last], side="right"))
        return int(self.features[end]) if end < self.features.size else None
