"""Logistic regression: weights by maximum likelihood, with a Gaussian prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import log_posterior
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Each of Newton's steps doubles the number of correct digits: from the shipped
# weights, six were enough on every window of every corpus of experiment 0051.
# The limit is for unusual windows: of 30,000 random sets of examples of up to
# 1,000 nats, one took 358.
STEPS: Final = 1000
HALVINGS: Final = 30
CONVERGED: Final = 1e-10
# At the maximum, the posterior changes by less than its rounding error.
LEVEL: Final = 1e-9
# The last bits of exp and of sums differ between processors.  Weights that converged
# to 1e-10 and are rounded to 1e-6 are the same on all of them, except for one window
# in ten thousand that lies between two steps.
STEP_OF_WEIGHTS: Final = 2.0**-20
SMALLEST_DEVIATION: Final = 1e-6
LARGEST_DEVIATION: Final = 1e6


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the opinions, and a bias for each class.

    Parameters
    ----------
    opinions : ndarray of float64, shape (T,)
        Weight of each opinion.
    bias : ndarray of float64, shape (K,)
        Bias of each class.  Unit: nats.
    """

    opinions: NDArray[np.float64]
    bias: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianPull:
    r"""Gaussian prior of the weights and biases.

    Parameters
    ----------
    weights : tuple of float, length T
        Prior mean of each weight.
    weight_deviation, bias_deviation : float
        Prior standard deviations of each weight, and of each bias, whose mean is 0.

    Raises
    ------
    InvalidObservation
        If a weight is not finite, or a deviation not between 1e-6 and 1e6: their
        inverse squares are added to sums of the examples.
    """

    weights: tuple[float, ...]
    weight_deviation: float
    bias_deviation: float

    def __post_init__(self) -> None:
        """Refuse values that are not a Gaussian."""
        for value in (self.weight_deviation, self.bias_deviation):
            if not SMALLEST_DEVIATION <= value <= LARGEST_DEVIATION:
                msg = (
                    f"a deviation must be between {SMALLEST_DEVIATION:g} and "
                    f"{LARGEST_DEVIATION:g}, got {value!r}"
                )
                raise InvalidObservation(msg)
        for weight in self.weights:
            if not math.isfinite(weight):
                raise InvalidObservation(f"a weight must be finite, got {weight!r}")


def fit(
    opinions: NDArray[np.float64],
    offset: NDArray[np.float64],
    labels: NDArray[np.int64],
    pull: GaussianPull,
    *,
    mislabelled: float = 0.0,
    counts: NDArray[np.float64] | None = None,
) -> Weights:
    r"""Return the most probable weights, given examples and a Gaussian prior.

    Parameters
    ----------
    opinions : ndarray of float64, shape (n, T, K)
        Log-likelihood of each class in each opinion and example.  Unit: nats.
    offset : ndarray of float64, shape (n, K)
        Terms with weight 1, such as the log-prior.  Unit: nats.
    labels : ndarray of int64, shape (n,)
        The class of each example.
    pull : GaussianPull
        The prior.
    mislabelled : float, default 0
        Fraction of labels that are random, below 1.
    counts : ndarray of float64, shape (n,), optional
        Weight of each example; 1 by default.

    Returns
    -------
    Weights
        In multiples of 2**-20.  Without examples, the prior means.

    Raises
    ------
    InvalidObservation
        If an opinion is not finite, an offset is NaN or plus infinity, a label is not
        a class, or `mislabelled` is not in [0, 1).

    Notes
    -----
    Conditional logistic regression [1]_: with the weights :math:`w_t` shared by
    all classes and a bias :math:`b_c` for each,

    .. math:: P(c \mid x) = \mathrm{softmax}_c \Bigl(o_c + b_c
        + \sum_t w_t x_{tc}\Bigr),

    which is ordinary logistic regression of the differences
    :math:`x_{t1} - x_{t0}` for two classes.  The logarithm of the posterior,

    .. math:: \sum_i \log P(y_i \mid x_i)
        - \sum_t \frac{(w_t - \mu_t)^2}{2 \sigma_w^2}
        - \sum_c \frac{b_c^2}{2 \sigma_b^2},

    is strictly concave, so it has one maximum.  Newton's method (iteratively
    reweighted least squares [2]_) finds it from the prior means; a step that would
    lower the posterior is halved.

    Examples with large opinions and a wrong label are very improbable, and a few of
    them would shrink all weights.  So if a fraction :math:`\varepsilon` of the labels
    is random, an example has the probability

    .. math:: (1 - \varepsilon) P(y_i \mid x_i) + \varepsilon / K,

    and its weight in each step is the share of the first term in this sum [3]_.  There
    may then be several maxima; the result is the one reached from the prior means.

    References
    ----------
    .. [1] D. McFadden, "Conditional logit analysis of qualitative choice
       behavior", *Frontiers in Econometrics*, Academic Press, 1974,
       pages 105-142.
    .. [2] C. M. Bishop, *Pattern Recognition and Machine Learning*, Springer,
       2006, section 4.3.
    .. [3] J. Bootkrajang and A. Kaban, "Label-noise robust logistic regression and
       its applications", *ECML PKDD*, 2012, pages 143-158.

    Examples
    --------
    >>> says = np.array([[[0.0, 1.0]], [[0.0, -1.0]], [[0.0, 2.0]], [[0.0, 1.0]]])
    >>> pull = GaussianPull(weights=(1.0,), weight_deviation=9.0, bias_deviation=1e-3)
    >>> weights = fit(says, np.zeros((4, 2)), np.array([1, 0, 1, 0]), pull)
    >>> weights.opinions.round(2).tolist()
    [1.05]
    """
    n, n_opinions, n_classes = opinions.shape
    _require(opinions, offset, labels, mislabelled)
    examples, classes = np.arange(n), np.arange(n_classes)
    # One design of T + K rows: the bias of a class is an opinion about this class
    # alone.  The examples are the last axis, because there are many: with them first,
    # and sums over two classes or five weights, 2,000 take 3.6 ms instead of 1.4.
    design = np.zeros((n_opinions + n_classes, n_classes, n))
    design[:n_opinions] = opinions.transpose(1, 2, 0)
    design[n_opinions + classes, classes] = 1.0
    flat = design.reshape(len(design), -1)
    base = offset.T.copy()
    centre = np.array(pull.weights + (0.0,) * n_classes)
    precision = np.array(
        [pull.weight_deviation**-2] * n_opinions + [pull.bias_deviation**-2] * n_classes
    )
    picked = design[:, labels, examples]
    counts = np.ones(n) if counts is None else counts

    def logs(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        joint = (weights @ flat).reshape(base.shape) + base
        return log_posterior(joint.T).T

    def honest(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        return (1.0 - mislabelled) * np.exp(logs[labels, examples])

    def height(weights: NDArray[np.float64], logs: NDArray[np.float64]) -> float:
        away = weights - centre
        chances = logs[labels, examples]
        if mislabelled:
            chances = np.log(honest(logs) + mislabelled / n_classes)
        return float(counts @ chances - (precision * away**2).sum() / 2)

    weights = centre
    now = logs(weights)
    for _ in range(STEPS):
        share = counts
        if mislabelled:
            right = honest(now)
            share = counts * right / (right + mislabelled / n_classes)
        says = np.exp(now) * design
        mean = says.sum(axis=1)
        away = ((picked - mean) * share).sum(axis=1)
        gradient = away - precision * (weights - centre)
        curvature = (
            (says * share).reshape(flat.shape) @ flat.T
            - (mean * share) @ mean.T
            + np.diag(precision)
        )
        step = np.linalg.solve(curvature, gradient)
        here = height(weights, now)
        for _ in range(HALVINGS):
            then = logs(weights + step)
            if height(weights + step, then) >= here - LEVEL:
                break
            step = step / 2
        weights, now = weights + step, then
        if np.abs(step).max() < CONVERGED:
            break
    rounded = np.round(weights / STEP_OF_WEIGHTS) * STEP_OF_WEIGHTS
    # + 0.0: no negative zeros.
    return Weights(rounded[:n_opinions] + 0.0, rounded[n_opinions:] + 0.0)


def _require(
    opinions: NDArray[np.float64],
    offset: NDArray[np.float64],
    labels: NDArray[np.int64],
    mislabelled: float,
) -> None:
    """Refuse what would make every weight not a number."""
    if not np.isfinite(opinions).all():
        msg = f"an opinion must be finite, got {opinions[~np.isfinite(opinions)][0]}"
        raise InvalidObservation(msg)
    if not (offset < math.inf).all():
        msg = f"an offset is below infinity, got {offset[~(offset < math.inf)][0]}"
        raise InvalidObservation(msg)
    n_classes = opinions.shape[2]
    outside = labels[(labels < 0) | (labels >= n_classes)]
    if outside.size:
        msg = f"label {int(outside[0])} is not in range({n_classes})"
        raise InvalidObservation(msg)
    if not 0 <= mislabelled < 1:
        msg = f"a share of labels is from 0 to below 1, got {mislabelled!r}"
        raise InvalidObservation(msg)
