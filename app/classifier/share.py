"""What becomes of the weight of a view that has learned less than the others?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def raised(messages: NDArray[np.int64]) -> float:
    r"""Return what all terms are multiplied by, so that none leaves its weight unused.

    Parameters
    ----------
    messages : ndarray of int64, shape (T,)
        How many messages the view of each term has learned.

    Returns
    -------
    float
        At least 1; exactly 1 where all have learned the same messages, and where
        none has learned any.

    Notes
    -----
    .. math:: \frac{T \max_t \log (1 + n_t)}{\sum_t \log (1 + n_t)}

    The weights are fitted to views that say much the same of a message
    (`app.classifier.rule.VerdictRule`): where one of them says nothing, as after
    the counts of another program were imported, which has no such view, the
    others speak for it.  As it learns, its weight goes back to it: its first
    hundred messages teach a view more than the next.

    Examples
    --------
    >>> raised(np.array([1000, 1000, 1000])), raised(np.array([1000, 1000, 0]))
    (1.0, 1.5)
    >>> round(raised(np.array([1000, 1000, 50])), 2)
    1.17
    """
    # Experiment 0056: a bogofilter list of half of a stream misses 17 % of the
    # other half's spam instead of 28 on enron2, 5 instead of 10 on spamassassin
    # shuffled; the calibration error goes from 3.6 and 1.4 % to 1.1 and 0.4.
    most = int(messages.max(initial=0))
    if not most or bool((messages == most).all()):
        return 1.0
    taught = np.log1p(messages)
    return float(taught.size * taught.max() / taught.sum())
