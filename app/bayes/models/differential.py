"""The differential event model: features weighted by how well they separate classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.bayes.counts import FeatureModel
from app.bayes.likelihood import Contributions, Likelihood
from app.bayes.sparse import SparseCounts
from app.errors import InvalidSetting
from app.kernels import likelihood

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.bayes.counts import CountSource

# The confidence would otherwise be rounded to 1, and a class without the feature would
# be impossible: x + 1e-6 is another double than x up to 10**9 messages.
SMALLEST_KAPPA: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Differential(FeatureModel):
    r"""Event model that weighs each feature by how well it separates the classes.

    Parameters
    ----------
    kappa : float, default 1/400
        Pseudo-count that lowers the confidence of features in few messages; finite, and
        at least `SMALLEST_KAPPA`.  Unit: messages.

    Raises
    ------
    InvalidSetting
        If it is not.

    Notes
    -----
    Of the :math:`N_c` messages of class *c*, :math:`n_{ci}` have feature *i*; scaled
    as if all classes had equally many messages, these are
    :math:`h_c = n_{ci} \max_k N_k / N_c` hits.  The confidence of the feature is [1]_

    .. math:: q_i = \frac{(h_{\max} - h_{\min})^2 - h_{\max} h_{\min} / 4}
        {(\sum_c h_c)^2} \cdot \frac{\sum_c h_c}{\sum_c h_c + \kappa}

    or 0 if this is negative, when the classes have the feature about equally often.
    The feature adds to class *c* the logarithm of a mixture of its share of the class
    and the uniform distribution, relative to the latter,

    .. math:: \log \left( 1 - q_i + q_i K \frac{n_{ci}}{N_c} \right) .

    This is not the likelihood of a message, and the sum is much too confident: use a
    normaliser that bounds it.  The model is meant for counts of only those messages
    that a classifier got wrong or nearly wrong [2]_.

    References
    ----------
    .. [1] F. Assis, "OSBF-Lua: a text classification module for Lua; the importance
       of the training method", TREC 2006, section 2 (EDDC).
    .. [2] C. Siefkes, F. Assis, S. Chhabra and W. S. Yerazunis, "Combining Winnow and
       orthogonal sparse bigrams for incremental spam filtering", PKDD 2004.

    Examples
    --------
    >>> model = Differential()
    >>> ham = model.observe(SparseCounts.of({1: 1, 2: 1}), label=0, n_classes=2)
    >>> spam = model.observe(SparseCounts.of({2: 1, 3: 1}), label=1, n_classes=2)
    >>> likelihood = model.estimate(ham + spam)
    >>> likelihood(SparseCounts.of({2: 1})).tolist()
    [0.0, 0.0]
    >>> likelihood(SparseCounts.of({3: 1})).round(3).tolist()
    [-5.994, 0.692]
    """

    kappa: float = 1 / 400

    def __post_init__(self) -> None:
        """Refuse a pseudo-count for which the confidence is undefined."""
        if not (math.isfinite(self.kappa) and self.kappa >= SMALLEST_KAPPA):
            msg = f"kappa must be at least {SMALLEST_KAPPA:g}, got {self.kappa!r}"
            raise InvalidSetting(msg)

    def estimate(self, source: CountSource) -> DifferentialLikelihood:
        """Return the likelihood under a training state; O(1) work."""
        messages = source.messages
        return DifferentialLikelihood(
            source, messages.reshape(-1, messages.shape[-1]), self.kappa
        )


@dataclass(frozen=True, slots=True)
class DifferentialLikelihood(Likelihood[SparseCounts]):
    """A fitted differential event model; see `Differential.estimate`.

    Parameters
    ----------
    source : CountSource
        Where the counts of a message's features are looked up.
    messages : ndarray of int64, shape (L, K)
        Messages of each class, at each level; one unless `source` has more.
    kappa : float
        See `Differential`.
    """

    source: CountSource
    messages: NDArray[np.int64]
    kappa: float

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the terms of a message for each class, taken apart by feature."""
        levels, k = self.messages.shape
        found = self.source.look_up(x.ids, "presence").reshape(levels, x.size, k)
        return Contributions(*likelihood.differential(found, self.messages, self.kappa))
