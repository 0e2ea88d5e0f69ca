"""Posterior: probabilities and log-odds from prior and likelihood."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from app.errors import InvalidObservation
from app.kernels import likelihood

if TYPE_CHECKING:
    from app.kernels import Bools, Floats


def log_posterior(log_joint: Floats) -> Floats:
    r"""Return the log-posterior of each class.

    Parameters
    ----------
    log_joint : ndarray of float64, shape (..., K)
        ``log P(c) + log P(x | c)``.  Unit: nats; ``-inf`` for impossible.

    Returns
    -------
    ndarray of float64, shape (..., K)
        ``log P(c | x)``.  Unit: nats.  If every class is impossible, all are
        tied, and each gets ``-log K``.

    Raises
    ------
    InvalidObservation
        If a value is NaN or plus infinity, or there is no class.

    Notes
    -----
    .. math:: \log P(c \mid x) = \ell_c - \log \sum_k e^{\ell_k}

    Examples
    --------
    >>> np.exp(log_posterior(np.log([0.1, 0.3]))).round(12).tolist()
    [0.25, 0.75]
    >>> np.exp(log_posterior(np.array([-np.inf, -np.inf]))).tolist()
    [0.5, 0.5]
    """
    if not (log_joint.ndim and (k := log_joint.shape[-1])):
        msg = f"a log-joint has a number for each class, got shape {log_joint.shape}"
        raise InvalidObservation(msg)
    rows = np.ascontiguousarray(log_joint, np.float64).reshape(-1, k)
    # The kernel would take NaN for impossible.
    if np.count_nonzero(rows < math.inf) < rows.size:
        wrong = float(rows[~(rows < math.inf)][0])
        raise InvalidObservation(f"a log-joint is a number below infinity, got {wrong}")
    return likelihood.log_posteriors(rows).reshape(log_joint.shape)


def log_odds(log_joint: Floats, spam: Bools) -> Floats:
    """Return the log-odds that a message is in one of the `spam` classes.

    Parameters
    ----------
    log_joint : ndarray of float64, shape (..., K)
        Log-joint or log-posterior of each class.  Unit: nats.
    spam : ndarray of bool, shape (K,)
        The classes on the side of spam; all others are on the other side.

    Returns
    -------
    ndarray of float64, shape (...)
        ``log P(spam classes | x) - log P(other classes | x)``.  Unit: nats.
        If every class is impossible, the log-odds of the uniform distribution
        over the classes.

    Raises
    ------
    InvalidObservation
        If all classes are on one side.

    Examples
    --------
    >>> spam = np.array([False, True, True])
    >>> round(float(log_odds(np.log([0.25, 0.25, 0.5]), spam)), 12)
    1.098612288668
    """
    posterior = log_posterior(log_joint)
    if not 0 < (on_one := np.count_nonzero(spam)) < spam.size:
        raise InvalidObservation(
            "log-odds need a class on each side, "
            f"but {on_one} of {spam.size} classes are spam"
        )
    rows = posterior.reshape(-1, posterior.shape[-1])
    return likelihood.posterior_odds(rows, spam).reshape(posterior.shape[:-1])


def probability_of(log_odds: float) -> float:
    """Return the probability that has these log-odds.

    Parameters
    ----------
    log_odds : float
        Unit: nats; of any size.

    Examples
    --------
    >>> probability_of(math.log(3.0))
    0.75
    >>> probability_of(-2000.0), probability_of(2000.0)
    (0.0, 1.0)
    """
    # Not scipy.special.expit: importing scipy takes a quarter of a second, and the
    # service needs it for nothing else.  The exponential of a negative number cannot
    # overflow.
    if log_odds >= 0:
        return 1.0 / (1.0 + math.exp(-log_odds))
    odds = math.exp(log_odds)
    return odds / (1.0 + odds)


def finite(value: float) -> float | None:
    """Return a number; None if it is not finite, which JSON cannot express.

    An unsmoothed model returns ``-inf`` for a message with an unseen feature.
    """
    return value if math.isfinite(value) else None
