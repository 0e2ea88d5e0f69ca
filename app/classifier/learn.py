"""What does one labelled message add to the training state?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.bayes.statistics import FeatureCounts
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.sparse import SparseCounts


def delta(
    views: Mapping[str, SparseCounts],
    *,
    before: int | None,
    after: int | None,
    n_classes: int,
) -> dict[str, FeatureCounts]:
    """Return what moving a message from one class to another adds.

    Parameters
    ----------
    views : mapping of str to SparseCounts
        The features of the message, view by view.
    before : int or None
        Index of the class that it was learned as; None if it was not learned.
    after : int or None
        Index of the class that it is now learned as; None to forget it.
    n_classes : int
        Number of classes K.

    Returns
    -------
    dict of str to FeatureCounts
        One group element per view: ``-delta(x, before) + delta(x, after)``.

    Raises
    ------
    InvalidObservation
        If a class index is not in ``range(n_classes)``.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = {"words": SparseCounts.of({1: 2})}
    >>> learned = delta(x, before=None, after=0, n_classes=2)["words"]
    >>> moved = delta(x, before=0, after=1, n_classes=2)["words"]
    >>> (learned + moved).occurrences.tolist()
    [[0, 2]]
    """
    return {
        view: _delta(x, before=before, after=after, n_classes=n_classes)
        for view, x in views.items()
    }


def _delta(
    x: SparseCounts, *, before: int | None, after: int | None, n_classes: int
) -> FeatureCounts:
    """Return the delta of one view in one pass, without adding two."""
    messages = np.zeros(n_classes, np.int64)
    occurrences = np.zeros((x.size, n_classes), np.int64)
    documents = np.zeros((x.size, n_classes), np.int64)
    for label, sign in ((before, -1), (after, 1)):
        if label is None:
            continue
        if not 0 <= label < n_classes:
            msg = f"label {label} is not in range({n_classes})"
            raise InvalidObservation(msg)
        messages[label] += sign
        occurrences[:, label] += sign * x.counts
        documents[:, label] += sign
    if before == after:
        return FeatureCounts.zero(n_classes)
    return FeatureCounts(messages, x.ids, occurrences, documents)
