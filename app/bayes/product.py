"""What do several views of one message say together? A plain product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from app.bayes.likelihood import Contributions, Likelihood


@dataclass(frozen=True, slots=True)
class Product:
    r"""The likelihood of a message whose views are independent given the class.

    Parameters
    ----------
    n_classes : int
        Number of classes K.
    likelihoods : mapping of str to Likelihood
        A fitted event model for each view: text, facts, measurements.

    Notes
    -----
    .. math:: \log P(x \mid c) = \sum_v \log P(x_v \mid c)

    A view that the message does not have, or that has no event model, adds
    nothing.

    Examples
    --------
    >>> from app.bayes.multinomial import Multinomial
    >>> from app.bayes.sparse import SparseCounts
    >>> words = Multinomial()
    >>> x = SparseCounts.of({1: 1})
    >>> likelihood = words.estimate(words.observe(x, label=0, n_classes=2))
    >>> both = Product(2, {"words": likelihood, "headers": likelihood})
    >>> views = {"words": x, "headers": x}
    >>> bool((both(views) == 2 * likelihood(x)).all())
    True
    """

    n_classes: int
    likelihoods: Mapping[str, Likelihood[Any]]

    def __call__(self, views: Mapping[str, Any], /) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        total = np.zeros(self.n_classes)
        for name, likelihood in self.likelihoods.items():
            if name in views:
                total += likelihood(views[name])
        return total

    def batch(self, messages: Sequence[Mapping[str, Any]], /) -> NDArray[np.float64]:
        """Return the log-likelihoods of M messages, shape (M, K).

        Each row is what a call with that message alone returns, bit for bit.
        """
        total = np.zeros((len(messages), self.n_classes))
        for name, likelihood in self.likelihoods.items():
            having = [m for m, views in enumerate(messages) if name in views]
            total[having] += likelihood.batch([messages[m][name] for m in having])
        return total

    def contributions(self, views: Mapping[str, Any], /) -> dict[str, Contributions]:
        """Return the contributions of each view that the message has."""
        return {
            name: likelihood.contributions(views[name])
            for name, likelihood in self.likelihoods.items()
            if name in views
        }
