"""Which features hardly move a verdict, however many messages had them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from app.classifier.snapshot import Snapshot


def insignificant(
    snapshot: Snapshot, views: Collection[str], *, max_log_odds: float
) -> dict[str, NDArray[np.int64]]:
    r"""Return the features that tell no two labels apart by more than a bound.

    Parameters
    ----------
    snapshot : Snapshot
        What is known.
    views : collection of str
        Views of text, each with the classifier of its name.
    max_log_odds : float
        Bound on what one feature adds to the log-odds of one label against
        another, before weights and normalisers.  Unit: nats.

    Returns
    -------
    dict of str to ndarray of int64
        Ids of features, sorted, view by view.

    Notes
    -----
    With :math:`f_{ic}` the contribution of feature *i* to the log-likelihood of
    class *c*, a feature is one of them if
    :math:`\max_c f_{ic} - \min_c f_{ic} \le b`.  The log-odds of any set of
    classes against the rest is a difference of two averages of
    :math:`f_{ic}` over classes, so without the feature it is another one by no
    more than *b*.  A term of the verdict takes a mean over the *n* features of
    the message, :math:`\sum_i f_{ic} / (n + 20)`, so without all of them it
    moves by less than *b*, and the verdict by less than *b* times the sum of the
    weights: a bound that no message exceeds.  That the totals of the labels
    shrink as well is not in it (experiment 0071 has how much that is).

    Examples
    --------
    >>> from app.bayes.statistics import FeatureCounts
    >>> from app.classifier.snapshot import Snapshot
    >>> from app.classifier.specification import Specification
    >>> both, one = SparseCounts.of({1: 1}), SparseCounts.of({1: 1, 2: 1})
    >>> words = FeatureCounts.sum(
    ...     [FeatureCounts.of(both, label=0, n_classes=2),
    ...      FeatureCounts.of(one, label=1, n_classes=2)] * 40, n_classes=2)
    >>> snapshot = Snapshot.of(Specification(), {"words": words}, revision=80)
    >>> insignificant(snapshot, {"words"}, max_log_odds=0.8)["words"].tolist()
    [1]
    """
    found = {}
    for view in sorted(set(views) & snapshot.tables.keys()):
        table = snapshot.tables[view]
        if not isinstance(table, FeatureTable) or view not in snapshot.likelihoods:
            continue
        ids = table.flatten().ids
        every = SparseCounts(ids, np.ones_like(ids))
        added = snapshot.likelihoods[view].contributions(every).features
        # No labels have no largest, and no feature is no row.
        spread = np.ptp(added, axis=1) if ids.size else np.empty(0)
        found[view] = ids[spread <= max_log_odds]
    return found
