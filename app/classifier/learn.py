"""What does one labelled message add to the training state?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.bayes.measurements import Measurements
from app.bayes.moments import MomentSums
from app.bayes.statistics import FeatureCounts
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.sparse import SparseCounts
    from app.classifier.snapshot import Statistics
    from app.features.observation import Payload


def delta(
    views: Mapping[str, Payload],
    *,
    before: int | None,
    after: int | None,
    n_classes: int,
) -> dict[str, Statistics]:
    """Return what moving a message from one class to another adds.

    Parameters
    ----------
    views : mapping of str to SparseCounts or Measurements
        The message, view by view.
    before : int or None
        Index of the class that it was learned as; None if it was not learned.
    after : int or None
        Index of the class that it is now learned as; None to forget it.
    n_classes : int
        Number of classes K.

    Returns
    -------
    dict of str to FeatureCounts or MomentSums
        One group element per view: ``-delta(x, before) + delta(x, after)``.
        Features are counted, measurements are summed.

    Raises
    ------
    InvalidObservation
        If a class index is not in ``range(n_classes)``.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = {"words": SparseCounts.of({1: 2}), "sizes": Measurements.of({1: 0.5})}
    >>> learned = delta(x, before=None, after=0, n_classes=2)
    >>> moved = delta(x, before=0, after=1, n_classes=2)
    >>> (learned["words"] + moved["words"]).occurrences.tolist()
    [[0, 2]]
    >>> (learned["sizes"] + moved["sizes"]).sums.tolist()
    [[0, 32768]]
    """
    signs = np.zeros(n_classes, np.int64)
    for label, sign in ((before, -1), (after, 1)):
        if label is None:
            continue
        if not 0 <= label < n_classes:
            msg = f"label {label} is not in range({n_classes})"
            raise InvalidObservation(msg)
        signs[label] += sign
    return {
        view: _moments(x, signs) if isinstance(x, Measurements) else _counts(x, signs)
        for view, x in views.items()
    }


def _counts(x: SparseCounts, signs: np.ndarray) -> FeatureCounts:
    """Return the message times +1, -1 or 0 for each class, in one pass."""
    if not signs.any():
        return FeatureCounts.zero(signs.size)
    documents = np.zeros((x.size, signs.size), np.int64)
    documents[:] = signs
    return FeatureCounts(signs.copy(), x.ids, np.outer(x.counts, signs), documents)


def _moments(x: Measurements, signs: np.ndarray) -> MomentSums:
    """Return the message times +1, -1 or 0 for each class, in one pass."""
    if not signs.any():
        return MomentSums.zero(signs.size)
    values = x.values.astype(object)
    # Python integers on both sides, or a product beyond 63 bits would wrap.
    exact = signs.astype(object)
    pairs = np.zeros((x.size, x.size, signs.size), np.int64)
    pairs[:] = signs
    return MomentSums(
        signs.copy(),
        x.ids,
        np.multiply.outer(values, exact),
        pairs,
        np.multiply.outer(np.multiply.outer(values, values), exact),
    )
