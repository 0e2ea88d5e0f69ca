"""Logistic regression of opinions and of rows, with a Gaussian prior or without."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import log_posterior
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from app.kernels import Floats, Ints

# If all labels are right, each of Newton's steps doubles the number of correct digits.
# Otherwise the curvature leaves out that the shares of right labels change with the
# weights, as in expectation maximisation: a step then gains about one digit.
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
"""A wider prior has no effect: the result would be maximum likelihood."""


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

    opinions: Floats
    bias: Floats


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
                raise InvalidObservation(
                    f"a deviation must be between {SMALLEST_DEVIATION:g} and "
                    f"{LARGEST_DEVIATION:g}, got {value!r}"
                )
        for weight in self.weights:
            if not math.isfinite(weight):
                raise InvalidObservation(f"a weight must be finite, got {weight!r}")


def fit(
    opinions: Floats,
    offset: Floats,
    labels: Ints,
    pull: GaussianPull,
    *,
    mislabelled: float = 0.0,
    counts: Floats | None = None,
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
    .. [3] J. Bootkrajang and A. Kabán, "Label-noise robust logistic regression and
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
    observed = design[:, labels, examples]
    counts = np.ones(n) if counts is None else counts

    def log_probabilities(weights: Floats) -> Floats:
        joint = (weights @ flat).reshape(base.shape) + base
        return log_posterior(joint.T).T

    def labelled_right(logs: Floats) -> Floats:
        return (1.0 - mislabelled) * np.exp(logs[labels, examples])

    def objective(weights: Floats, logs: Floats) -> float:
        of_labels = logs[labels, examples]
        if mislabelled:
            of_labels = np.log(labelled_right(logs) + mislabelled / n_classes)
        penalty = (precision * (weights - centre) ** 2).sum() / 2
        return float(counts @ of_labels - penalty)

    weights = centre
    logs = log_probabilities(weights)
    for _ in range(STEPS):
        share = counts
        if mislabelled:
            right = labelled_right(logs)
            share = counts * right / (right + mislabelled / n_classes)
        by_class = np.exp(logs) * design
        expected = by_class.sum(axis=1)
        residual = ((observed - expected) * share).sum(axis=1)
        gradient = residual - precision * (weights - centre)
        curvature = (
            (by_class * share).reshape(flat.shape) @ flat.T
            - (expected * share) @ expected.T
            + np.diag(precision)
        )
        step = np.linalg.solve(curvature, gradient)
        least = objective(weights, logs) - LEVEL
        for _ in range(HALVINGS):
            moved = log_probabilities(weights + step)
            if objective(weights + step, moved) >= least:
                break
            step = step / 2
        weights, logs = weights + step, moved
        if np.abs(step).max() < CONVERGED:
            break
    rounded = np.round(weights / STEP_OF_WEIGHTS) * STEP_OF_WEIGHTS
    # + 0.0: no negative zeros.
    return Weights(rounded[:n_opinions] + 0.0, rounded[n_opinions:] + 0.0)


def _require(
    opinions: Floats, offset: Floats, labels: Ints, mislabelled: float
) -> None:
    """Refuse what would make every weight not a number."""
    if not np.isfinite(opinions).all():
        msg = f"an opinion must be finite, got {opinions[~np.isfinite(opinions)][0]}"
        raise InvalidObservation(msg)
    if not (offset < math.inf).all():
        msg = f"an offset is below infinity, got {offset[~(offset < math.inf)][0]}"
        raise InvalidObservation(msg)
    _require_classes(labels, opinions.shape[2])
    if not 0 <= mislabelled < 1:
        msg = f"a share of labels is from 0 to below 1, got {mislabelled!r}"
        raise InvalidObservation(msg)


def _require_classes(labels: Ints, n_classes: int) -> None:
    """Refuse a label that is not a class."""
    outside = labels[(labels < 0) | (labels >= n_classes)]
    if outside.size:
        msg = f"label {int(outside[0])} is not in range({n_classes})"
        raise InvalidObservation(msg)


# If there is a maximum, Newton's method finds it in some ten steps.  If the classes
# can be separated, each step adds about one to the weights, without end.
DOUBTFUL: Final = 25
"""Steps after which a linear program checks whether there is a maximum."""
MOST_HALVINGS: Final = 40
NEAR: Final = 1e-9
"""Size of the last step, with columns of variance 1."""
DEPENDENT: Final = 1e-12
"""Fraction of the largest curvature below which a direction counts as flat.

A single row off a separating plane has some exp(-25) of it after 25 steps.
"""
SEPARATED: Final = 1e-6
"""Distance to a separating plane beyond rounding error."""
NARROWEST_PRIOR: Final = 1e-100
LARGEST_NUMBER: Final = 1e100
"""The squares of such numbers, and of their quotients, fit into a double."""
FLAT: Final = 1e-6
"""Derivative at a maximum, as a fraction of the terms of the rows and the prior."""


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """Weights by maximum likelihood, or the most probable ones.

    Parameters
    ----------
    weights : ndarray of float64, shape (D, K)
        Nats per unit of each column; 0 for the first class.
    level : ndarray of float64, shape (K,)
        Score at the centre, as in `app.bayes.linear.LinearForm`; 0 for the first class.
        Unit: nats.
    centre : ndarray of float64, shape (D,)
        The mean of the rows.
    log_likelihood : float
        Sum of ``log P(class | row)`` over the rows, without the prior.  Unit: nats.
    gradient : float
        Largest magnitude of a derivative with respect to a weight or level at the
        maximum.
    unique : bool
        Whether no column is a linear function of others.  If one is, other weights
        are equally good, and these are the shortest for columns of variance 1.
    """

    weights: Floats
    level: Floats
    centre: Floats
    log_likelihood: float
    gradient: float
    unique: bool

    @property
    def bias(self) -> Floats:
        """Score at x = 0, shape (K,).  Unit: nats."""
        return np.asarray(self.level - self.centre @ self.weights)

    def scores(self, x: Floats) -> Floats:
        """Return ``w . x + b`` of rows (..., D), shape (..., K).  Unit: nats."""
        return np.asarray((x - self.centre) @ self.weights + self.level)


def regress(
    x: Floats, labels: Ints, n_classes: int, *, deviation: float | None = None
) -> LogisticRegression:
    r"""Return the logistic regression of labelled rows.

    Parameters
    ----------
    x : ndarray of float64, shape (n, D)
        The rows.
    labels : ndarray of int64, shape (n,)
        The class of each, in ``range(n_classes)``; each class has a row.
    n_classes : int
        Number of classes K.
    deviation : float or None, default None
        Standard deviation of a Gaussian prior with mean 0 of the difference between
        the weights of any two classes; the biases have no prior.  None: maximum
        likelihood.

    Raises
    ------
    InvalidObservation
        If a number is not finite, a label is not a class, a class has no row, the
        deviation is not positive, the likelihood has no maximum because the classes
        can be separated, or the maximum was not reached.

    Notes
    -----
    With :math:`p_{ic} = \mathrm{softmax}_c(w_c \cdot x_i + b_c)` and the first class
    at :math:`w = 0, b = 0`, the log-likelihood and its gradient are [1]_

    .. math:: \ell = \sum_i \log p_{i y_i}, \qquad
        \frac{\partial \ell}{\partial w_c} = \sum_i ([y_i = c] - p_{ic})\, x_i, \qquad
        \frac{\partial \ell}{\partial b_c} = \sum_i ([y_i = c] - p_{ic}),

    minus :math:`2 (w_c - \bar w) / \sigma^2` with a prior, where :math:`\bar w` is the
    mean over the classes: the prior treats all classes alike, whichever is the first.
    The log-likelihood is concave, and Newton's method climbs it (iteratively
    reweighted least squares [2]_); a step that would go down is halved.

    There is a maximum if and only if no plane separates the classes, not even one on
    which rows of both lie [3]_; a linear program finds such a plane.

    References
    ----------
    .. [1] K. Weinberger, *CS4780 Machine Learning for Intelligent Systems*,
       Cornell University, 2023, lecture on logistic regression.
    .. [2] C. M. Bishop, *Pattern Recognition and Machine Learning*, Springer,
       2006, section 4.3.
    .. [3] A. Albert and J. A. Anderson, "On the existence of maximum likelihood
       estimates in logistic regression models", *Biometrika* 71 (1), 1984,
       pages 1-10.

    Examples
    --------
    Two of three rows at 0, and one of three rows at 1, are of class 1:

    >>> x = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    >>> found = regress(x, np.array([1, 1, 0, 1, 0, 0]), 2)
    >>> round(math.exp(found.bias[1]), 9), round(math.exp(found.weights[0, 1]), 9)
    (2.0, 0.25)
    """
    _require_rows(x, labels, n_classes, deviation)
    n, d = x.shape
    centre, unit = x.mean(axis=0), _units(x, deviation)
    scaled = np.hstack([(x - centre) / unit, np.ones((n, 1))])
    unique = deviation is not None or int(np.linalg.matrix_rank(scaled)) == d + 1
    is_class = np.equal.outer(labels, np.arange(n_classes))
    strength = 0.0 if deviation is None else (deviation * unit) ** -2
    by_column = np.append(np.broadcast_to(strength, d), 0.0)
    precision = np.kron(np.diag(by_column), _of_differences(n_classes))

    def log_probabilities(theta: Floats) -> Floats:
        found = theta.reshape(d + 1, n_classes - 1)
        return log_posterior(scaled @ np.hstack([np.zeros((d + 1, 1)), found]))

    def residuals(logs: Floats) -> Floats:
        # Not 1 - p, which is 0 if p rounds to 1.
        return np.where(is_class, -np.expm1(logs), -np.exp(logs))[:, 1:]

    def objective(theta: Floats, logs: Floats) -> float:
        of_labels = math.fsum(logs[np.arange(n), labels].tolist())
        return of_labels - float(theta @ precision @ theta) / 2

    theta = np.zeros(len(precision))
    logs = log_probabilities(theta)
    for number in range(STEPS):
        gradient = (scaled.T @ residuals(logs)).reshape(-1) - precision @ theta
        curvature = _curvature(scaled, logs[:, 1:]) + precision
        # With a prior, every direction has a curvature, however small.
        share = DEPENDENT if deviation is None else None
        step = np.linalg.lstsq(curvature, gradient, share)[0]
        least = objective(theta, logs)
        for _ in range(MOST_HALVINGS):
            moved = log_probabilities(theta + step)
            if objective(theta + step, moved) >= least:
                break
            step = step / 2
        else:
            break
        theta, logs = theta + step, moved
        if np.abs(step).max(initial=0.0) < NEAR:
            break
        if number == DOUBTFUL and deviation is None:
            _require_a_maximum(scaled, labels, n_classes)
    _require_flat(scaled, residuals(logs), precision @ theta)
    by_class = np.hstack([np.zeros((d + 1, 1)), theta.reshape(d + 1, n_classes - 1)])
    weights, level = by_class[:d] / unit[:, np.newaxis], by_class[d]
    final = log_posterior((x - centre) @ weights + level)
    slopes = np.vstack(
        [(x - centre).T @ residuals(final), residuals(final).sum(axis=0)]
    )
    if deviation is not None:
        slopes[:d] -= (weights[:, 1:] @ _of_differences(n_classes)) / deviation**2
    return LogisticRegression(
        weights,
        level,
        centre,
        math.fsum(final[np.arange(n), labels].tolist()),
        float(np.abs(slopes).max(initial=0.0)),
        unique,
    )


def _units(x: Floats, deviation: float | None) -> Floats:
    """Return the divisor of each column; infinity if it does not vary."""
    spread = x.std(axis=0)
    # Rounding leaves a spread even in a constant column.
    varies = spread > DEPENDENT * np.abs(x).max(axis=0, initial=0.0)
    # With a prior, neither the curvature nor the precision may be large: in a matrix
    # with both 1e12 and 1, one of them is lost to rounding.
    unit = spread if deviation is None else np.hypot(spread, 1 / deviation)
    return np.where(varies, unit, math.inf)


def _require_flat(scaled: Floats, residuals: Floats, pull: Floats) -> None:
    """Refuse weights at which rows and prior do not cancel."""
    left = np.abs((scaled.T @ residuals).reshape(-1) - pull)
    size = (np.abs(scaled.T) @ np.abs(residuals)).reshape(-1) + np.abs(pull)
    if (left > FLAT * size + DEPENDENT * len(scaled)).any():
        raise InvalidObservation(
            "the maximum was not reached: rounding hides the way up; give the columns "
            "units in which their values are alike, or the prior another deviation"
        )


def _of_differences(k: int) -> Floats:
    """Return the precision of differences to one of K numbers, shape (K - 1, K - 1).

    The numbers are independent, each of variance 1/2: a difference has variance 1.
    """
    return np.asarray(2 * np.eye(k - 1) - 2 / k)


def _curvature(x: Floats, logs: Floats) -> Floats:
    """Return the negative second derivatives, shape (D (K - 1), D (K - 1))."""
    d, k = x.shape[1], logs.shape[1]
    p, rest = np.exp(logs), -np.expm1(logs)
    curvature = np.empty((d, k, d, k))
    # Pair by pair of classes: all at once they would take the memory of n times D K K.
    for c in range(k):
        for other in range(c, k):
            weights = p[:, c] * (rest[:, c] if c == other else -p[:, other])
            block = (x.T * weights) @ x
            curvature[:, c, :, other] = curvature[:, other, :, c] = block
    return curvature.reshape(d * k, d * k)


def _require_rows(
    x: Floats, labels: Ints, n_classes: int, deviation: float | None
) -> None:
    """Refuse rows and labels that have no logistic regression."""
    if not (np.abs(x) <= LARGEST_NUMBER).all():
        raise InvalidObservation(
            f"logistic regression takes finite numbers up to {LARGEST_NUMBER:g}, but a "
            "row has one that is not"
        )
    _require_classes(labels, n_classes)
    rows = np.bincount(labels, minlength=n_classes)
    if not rows.all():
        msg = f"logistic regression needs rows of each class, got {rows.tolist()}"
        raise InvalidObservation(msg)
    if deviation is not None and not (
        NARROWEST_PRIOR <= deviation <= LARGEST_DEVIATION
    ):
        raise InvalidObservation(
            f"the deviation of a prior is positive, from {NARROWEST_PRIOR:g} to "
            f"{LARGEST_DEVIATION:g}, got {deviation!r}; leave it out for maximum "
            "likelihood"
        )


def _require_a_maximum(scaled: Floats, labels: Ints, n_classes: int) -> None:
    """Refuse classes that a plane separates: the weights would grow without end."""
    # Imported here: scipy takes a while to import, and the service never needs it.
    from scipy.optimize import linprog  # noqa: PLC0415

    # For each row and each class that is not its own: plus for its own, minus for that.
    classes = np.eye(n_classes)
    signs = (classes[labels][:, np.newaxis] - classes)[classes[labels] == 0]
    rows = scaled.repeat(n_classes - 1, axis=0)
    margins = (rows[:, :, np.newaxis] * signs[:, np.newaxis, 1:]).reshape(len(rows), -1)
    # The sum of the margins, each from 0 to 1: above 0 if some plane has every row on
    # its own side or on the plane, and some row off it.
    found = linprog(
        -margins.sum(axis=0),
        A_ub=np.vstack([margins, -margins]),
        b_ub=np.repeat([1.0, 0.0], len(rows)),
        bounds=(None, None),
        method="highs",
    )
    if found.fun is not None and float(found.fun) < -SEPARATED:
        raise InvalidObservation(
            "a plane separates the classes, with no row on the wrong side: the "
            "likelihood has no maximum, and the weights would grow without end; give "
            "them a prior with a deviation, such as 1"
        )
