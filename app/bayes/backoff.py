"""How far is a class taken at its word that few messages have taught?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Backoff:
    r"""Mix each class with the whole of all classes, less and less.

    Parameters
    ----------
    messages : float
        After so many messages a class is taken half at its word.

    Raises
    ------
    InvalidObservation
        If `messages` is not positive and finite.

    Notes
    -----
    With :math:`n_c` messages in class *c*, *s* = `messages` and *w* for all
    classes as one,

    .. math:: P(i \mid c) = \lambda_c \hat\theta_{ci}
        + (1 - \lambda_c) \hat\theta_{wi}, \qquad
        \lambda_c = \frac{n_c}{n_c + s} .

    This is linear interpolation with a collection model [1]_ [2]_.  A class
    without messages is the whole, so that while one class alone has been
    taught no feature speaks for either.  Nor does it take one word for proof:
    against a class of :math:`n_c` messages that has next to none of the text, a
    feature speaks no louder than :math:`\log (1 + n_c / s)`, however many
    messages of the other have it.

    References
    ----------
    .. [1] F. Jelinek and R. L. Mercer, "Interpolated estimation of Markov
       source parameters from sparse data", *Pattern Recognition in Practice*,
       North-Holland, 1980, pages 381-397.
    .. [2] C. Zhai and J. Lafferty, "A study of smoothing methods for language
       models applied to information retrieval", *ACM Transactions on
       Information Systems* 22 (2), 2004, pages 179-214, section 3.

    Examples
    --------
    >>> Backoff(3.0).trust(np.array([0, 3, 27])).tolist()
    [0.0, 0.5, 0.9]
    """

    messages: float

    def __post_init__(self) -> None:
        """Refuse a number of messages that is none."""
        if not (math.isfinite(self.messages) and self.messages > 0):
            msg = (
                "a class backs off to the whole for a positive number of messages, "
                f"got {self.messages!r}"
            )
            raise InvalidObservation(msg)

    def trust(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share of each class's own estimate, shape (K,)."""
        # Any count is far below 2**53 messages, so the division is exact enough.
        share: NDArray[np.float64] = messages / (messages + self.messages)
        return share


def log_mixture(
    own: NDArray[np.float64], whole: NDArray[np.float64], trust: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the log-probabilities of the mixture.

    Parameters
    ----------
    own : ndarray of float64, shape (K, N)
        Probability of each feature by the class's own estimate.
    whole : ndarray of float64, shape (N,)
        The same of all classes as one.
    trust : ndarray of float64, shape (K, 1)
        Share of the class's own estimate, from 0 to 1.

    Returns
    -------
    ndarray of float64, shape (K, N)
        Unit: nats; ``-inf`` for a probability of zero.

    Examples
    --------
    >>> own, trust = np.array([[0.5], [0.1]]), np.array([[0.0], [0.5]])
    >>> np.exp(log_mixture(own, np.array([0.3]), trust)).round(9).tolist()
    [[0.3], [0.2]]
    """
    share = trust * own + (1.0 - trust) * whole
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(share)
    return logs
