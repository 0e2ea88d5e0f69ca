"""Gaussian event models: naive Bayes, and the discriminant with its full covariance.

Gaussian naive Bayes takes measurements as independent given the class; the discriminant
has one covariance of them for all classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from app.bayes.models import Contributions, Likelihood
from app.bayes.moments import MeasurementModel
from app.bayes.sparse import FRACTION_BITS, Measurements, require_choice
from app.errors import InvalidObservation
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.moments import BigInts, MomentSums
    from app.kernels import Bools, Floats, Ints


Constant = Literal["floor", "drop"]
"""Whether a constant feature gets the floor or is left out."""


FLOOR: Final = 1e-9
"""The default of scikit-learn's `var_smoothing`, which adds it to every variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalModel(MeasurementModel):
    """What the Gaussian event models share: the treatment of small variances.

    Parameters
    ----------
    fraction_bits : int, default 16
        Position of the binary point of the measurements.
    floor : float, default 1e-9
        A variance is at least this fraction of the largest variance of any feature over
        all messages.
    added : mapping of int to float or None, default None
        Constant of each field that is added to its variance instead, as in lectures; in
        a covariance, to the diagonal.  Above 0.  Unit: that of x, squared.
    constant : {"floor", "drop"}, default "floor"
        Whether a feature that does not vary gets the floor or is left out.

    Raises
    ------
    InvalidObservation
        If `floor` is not in [0, 1], or a constant not positive and finite.

    Notes
    -----
    The floor is at least a twelfth of a squared step [1]_, the variance of the
    rounding itself, which is uniform within a step; no measurement is known more
    precisely.  It keeps every density finite.

    The largest variance comes from the sums over all messages.  scikit-learn takes
    that of the current batch, so its result depends on how the data is divided.

    References
    ----------
    .. [1] W. F. Sheppard, "On the calculation of the most probable values of
       frequency-constants, for data arranged according to equidistant division of a
       scale", Proceedings of the London Mathematical Society 29, 1898, pages 353-380.
    """

    fraction_bits: int = FRACTION_BITS
    floor: float = FLOOR
    added: Mapping[int, float] | None = None
    constant: Constant = "floor"

    def __post_init__(self) -> None:
        """Refuse an unknown choice, and variances that are none."""
        require_choice("constant", self.constant, Constant)
        if not 0 <= self.floor <= 1:
            msg = f"a variance floor must be from 0 to 1, got {self.floor!r}"
            raise InvalidObservation(msg)
        for field_id, amount in (self.added or {}).items():
            if not (math.isfinite(amount) and amount > 0):
                raise InvalidObservation(
                    f"what is added to a variance must be positive and finite, got "
                    f"{amount!r} for field {field_id}"
                )

    def raised(self, variances: Floats, whole: Floats, ids: Ints) -> Floats:
        """Return variances (D, ...) of the fields `ids`, none of them too small.

        Parameters
        ----------
        variances : ndarray of float64, shape (D, ...)
            Unit: that of x, squared.
        whole : ndarray of float64
            The variance of each feature over all messages.
        ids : ndarray of int64, shape (D,)
            The fields.
        """
        if self.added is None:
            least = self.floor * whole.max(initial=0.0)
            return np.maximum(variances, max(0.25**self.fraction_bits / 12, least))
        added = np.array([self.added[i] for i in ids.tolist()], np.float64)
        return variances + added.reshape(-1, *[1] * (variances.ndim - 1))


def mean(count: Ints, total: BigInts, *, fraction_bits: int) -> Floats:
    """Return ``total / count``, 0 without messages, in units of x."""
    # The quotient of two Python integers is rounded only once, however large they
    # are, and a power of two rounds nothing.
    means: Floats = (total / np.maximum(count, 1)).astype(np.float64)
    means *= 0.5**fraction_bits
    return means


def population_variance(
    count: Ints, total: BigInts, squares: BigInts, *, fraction_bits: int
) -> Floats:
    """Return the variance over *n* (not *n* - 1), 0 without messages.

    Notes
    -----
    ``(n S2 - S1**2) / n**2`` with exact integers: in floating point, the
    difference could lose all its digits.
    """
    safe = np.maximum(count, 1).astype(object)
    # Without messages, the sums are zero as well.
    spread = safe * squares - total * total
    variances: Floats = (spread / (safe * safe)).astype(np.float64)
    variances *= 0.25**fraction_bits
    return variances


Variances = Literal["class", "shared"]
"""Whether each class has its own variances or all share the pooled ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(NormalModel):
    r"""Gaussian event model with a diagonal covariance.

    A feature counts as constant if it does not vary within some class.

    Parameters
    ----------
    variances : {"class", "shared"}, default "class"
        Variances of each class, or one per feature for all classes; the log-odds
        are then linear in *x* (`app.bayes.linear`).

    Notes
    -----
    Maximum likelihood [1]_, over the :math:`n_c` messages that have the
    feature:

    .. math:: \mu_{ci} = \frac{1}{n_c} \sum x_i, \quad
        \sigma^2_{ci} = \frac{1}{n_c} \sum (x_i - \mu_{ci})^2, \quad
        \log p(x \mid c) = -\frac12 \sum_i \Bigl(\log 2 \pi \sigma^2_{ci}
        + \frac{(x_i - \mu_{ci})^2}{\sigma^2_{ci}}\Bigr) .

    A class in which no message has the feature gets the mean and variance of all
    messages, so the feature is no evidence for or against it.  Features unseen in
    every class are left out, and so are those that a message lacks.

    References
    ----------
    .. [1] A. Kishore, *AI511 Machine Learning*, IIIT Bangalore, 2021.

    Examples
    --------
    >>> model = Gaussian()
    >>> from app.bayes.moments import MomentSums
    >>> state = MomentSums.zero(2)
    >>> for value, label in ((1.0, 0), (3.0, 0), (6.0, 1), (8.0, 1)):
    ...     x = Measurements.of({1: value})
    ...     state = state + model.observe(x, label=label, n_classes=2)
    >>> likelihood = model.estimate(state)
    >>> likelihood.means.tolist(), likelihood.variances.tolist()
    ([[2.0, 7.0]], [[1.0, 1.0]])
    >>> likelihood(Measurements.of({1: 4.5})).round(3).tolist()
    [-4.044, -4.044]
    """

    variances: Variances = "class"

    def __post_init__(self) -> None:
        """Refuse unknown choices."""
        NormalModel.__post_init__(self)
        require_choice("variances", self.variances, Variances)

    def estimate(self, state: MomentSums) -> GaussianLikelihood:
        """Return the likelihood under a training state; O(D K) work."""
        bits = self.fraction_bits
        # The last column is for all classes together.
        counts, sums, squares = (
            np.concatenate((part, part.sum(axis=1, keepdims=True)), axis=1)
            for part in (state.documents, state.sums, state.squares)
        )
        centres = mean(counts, sums, fraction_bits=bits)
        spreads = population_variance(counts, sums, squares, fraction_bits=bits)
        absent = counts[:, :-1] == 0
        means = np.where(absent, centres[:, -1:], centres[:, :-1])
        variances, whole = spreads[:, :-1], spreads[:, -1:]
        if self.variances == "shared":
            # The variance within the classes, weighted by the exact counts.
            share = counts[:, :-1] / counts[:, -1:]
            pooled = (share * variances).sum(axis=1, keepdims=True)
            variances = np.broadcast_to(pooled, variances.shape)
        else:
            variances = np.where(absent, whole, variances)
        ids = state.ids
        if self.constant == "drop":
            varies = (variances > 0).all(axis=1)
            ids, means, variances = ids[varies], means[varies], variances[varies]
        raised = self.raised(variances, whole, ids)
        return GaussianLikelihood(ids, means, raised, 0.5**bits)


@dataclass(frozen=True, slots=True)
class GaussianLikelihood(Likelihood[Measurements]):
    """A fitted Gaussian event model; see `Gaussian.estimate`.

    Parameters
    ----------
    ids : ndarray of int64, shape (D,)
        The fields that take part, increasing.
    means, variances : ndarray of float64, shape (D, K)
        Parameters of each class.  Unit: that of x, and its square.
    step : float
        Size of one step of the measurements.  Unit: that of x.
    """

    ids: Ints
    means: Floats
    variances: Floats
    step: float

    def contributions(self, x: Measurements, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by field."""
        return Contributions(
            *likelihood.gaussian(
                x.ids, x.values, self.step, self.ids, self.means, self.variances
            )
        )


SMALLEST_STEP: Final = 1e-10
"""First fraction to try if a matrix has no Cholesky factor."""


def estimated_shrinkage(correlation: Floats, *, degrees: int) -> float:
    r"""Return the fraction with the least expected squared error; 1 with few messages.

    Parameters
    ----------
    correlation : ndarray of float64, shape (D, D)
        Pooled correlation matrix.
    degrees : int
        Degrees of freedom: messages minus classes with messages.

    Notes
    -----
    Ledoit and Wolf's estimator [1]_ needs the fourth moments of the data.
    This is its Rao-Blackwell form [2]_ (equation 17): the expectation of
    their estimator given the sample covariance *S* of normal data.  It is a
    function of the sums in the training state, so it can be unlearned.  For the
    covariance of normal data, its error is never larger [2]_; here it is applied
    to the correlations:

    .. math:: \rho = \min\Bigl(1,
        \frac{\frac{n - 2}{n} \mathrm{tr}\,S^2 + \mathrm{tr}^2 S}
        {(n + 2) (\mathrm{tr}\,S^2 - \mathrm{tr}^2 S / D)}\Bigr) .

    References
    ----------
    .. [1] O. Ledoit and M. Wolf, "A well-conditioned estimator for
       large-dimensional covariance matrices", Journal of Multivariate
       Analysis 88(2), 2004, pages 365-411.
    .. [2] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, "Shrinkage
       algorithms for MMSE covariance estimation", IEEE Transactions on Signal
       Processing 58(10), 2010, pages 5016-5029.
    """
    # With one degree, the formula gives 0.  But that covariance has rank one, and
    # trusting it alone is the worst choice.
    if degrees < 2:  # noqa: PLR2004
        return 1.0
    of_square = float((correlation**2).sum())
    squared = float(np.trace(correlation)) ** 2
    scatter = of_square - squared / max(1, correlation.shape[0])
    error = (degrees - 2) / degrees * of_square + squared
    if error >= (degrees + 2) * scatter:
        return 1.0
    return float(error / ((degrees + 2) * scatter))


def shrunk_factor(correlation: Floats, fraction: float) -> Floats:
    """Return the lower Cholesky factor of a shrunk correlation matrix.

    Parameters
    ----------
    correlation : ndarray of float64, shape (D, D)
        Symmetric, with ones on the diagonal.
    fraction : float
        Fraction of the identity.  While the result is singular, the fraction is
        raised tenfold.

    Returns
    -------
    ndarray of float64, shape (D, D)
        *L* with ``L @ L.T == (1 - fraction) * correlation + fraction * I``.
    """
    identity: Floats = np.eye(correlation.shape[0])
    # A pivot below the rounding error of its computation is meaningless: the
    # factorisation of a singular matrix then succeeds or fails by chance.
    smallest = correlation.shape[0] * np.finfo(np.float64).eps
    while fraction < 1:
        shrunk = (1 - fraction) * correlation + fraction * identity
        try:
            factor = np.asarray(np.linalg.cholesky(shrunk), np.float64)
        except np.linalg.LinAlgError:
            pass
        else:
            if (np.diagonal(factor) ** 2).min(initial=1.0) > smallest:
                return factor
        fraction = max(SMALLEST_STEP, 10 * fraction)
    return identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Discriminant(NormalModel):
    r"""Gaussian event model with one full covariance for all classes.

    A feature counts as constant if it varies in no class.

    Parameters
    ----------
    shrinkage : float or None, default None
        Fraction of the identity in the correlation matrix, from 0, which trusts the
        data alone, to 1; None: estimated (`estimated_shrinkage`).

    Notes
    -----
    Maximum likelihood [1]_ (proposition 3.14), with :math:`y` the class of a
    message and *n* the number of messages of all classes:

    .. math:: \mu_c = \frac{1}{n_c} \sum_{y = c} x, \quad
        \Sigma = \frac1n \sum (x - \mu_y)(x - \mu_y)^T
        = \frac1n \Bigl(\sum x x^T - \sum_c n_c \mu_c \mu_c^T\Bigr),

    .. math:: \log p(x \mid c) = -\frac12 \bigl(D \log 2\pi + \log|\Sigma|
        + (x - \mu_c)^T \Sigma^{-1} (x - \mu_c)\bigr) .

    The scatter is computed in exact integers.  The correlations are shrunk
    towards zero and the variances are kept, so units do not matter; if the
    matrix is still singular, the shrinkage is raised until it is not.

    A field takes part if all training messages have it.  A message that lacks
    some of them is scored by the marginal distribution of the others, which
    is exact.  A class without messages gets the mean of all messages.

    References
    ----------
    .. [1] H. Bachmann, *Mathematics for Machine Learning*, Nagoya University,
       2022, lecture 7.

    Examples
    --------
    >>> model = Discriminant(shrinkage=0.0)
    >>> from app.bayes.moments import MomentSums
    >>> state = MomentSums.zero(2)
    >>> points = ((0, 0), (2, 0), (1, 3)), ((4, 4), (6, 4), (5, 7))
    >>> for label, members in enumerate(points):
    ...     for x, y in members:
    ...         message = Measurements.of({1: x, 2: y})
    ...         state = state + model.observe(message, label=label, n_classes=2)
    >>> likelihood = model.estimate(state)
    >>> likelihood.covariance.round(12).tolist()
    [[0.666666666667, 0.0], [0.0, 2.0]]
    >>> ham, spam = likelihood(Measurements.of({1: 3, 2: 2}))
    >>> round(float(spam - ham), 9)
    -2.0
    """

    shrinkage: float | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown choice, and a fraction that is none."""
        NormalModel.__post_init__(self)
        if self.shrinkage is not None and not 0 <= self.shrinkage <= 1:
            msg = f"a shrinkage must be from 0 to 1, got {self.shrinkage!r}"
            raise InvalidObservation(msg)

    def estimate(self, state: MomentSums) -> DiscriminantLikelihood:
        """Return the likelihood under a training state; O(D^3) work."""
        bits = self.fraction_bits
        n, trained = int(state.messages.sum()), state.messages > 0
        complete = (state.documents == state.messages).all(axis=1)
        scatter = _scatter(state, complete, fraction_bits=bits)
        variances = np.diagonal(scatter)
        if self.constant == "drop":
            varies = variances > 0
            complete[complete] = varies
            scatter = scatter[np.ix_(varies, varies)]
            variances = variances[varies]
        ids, sums = state.ids[complete], state.sums[complete]
        means = np.where(
            trained,
            mean(state.messages, sums, fraction_bits=bits),
            mean(np.array([n]), sums.sum(axis=1, keepdims=True), fraction_bits=bits),
        )
        whole = population_variance(
            state.documents.sum(axis=1),
            state.sums.sum(axis=1),
            state.squares.sum(axis=1),
            fraction_bits=bits,
        )
        scale = np.sqrt(self.raised(variances, whole, ids))
        correlation = scatter / np.multiply.outer(scale, scale)
        np.fill_diagonal(correlation, 1.0)
        fraction = self.shrinkage
        if fraction is None:
            degrees = n - int(trained.sum())
            fraction = estimated_shrinkage(correlation, degrees=degrees)
        factor = shrunk_factor(correlation, fraction)
        factor *= scale[:, np.newaxis]
        return DiscriminantLikelihood(ids, means, factor, 0.5**bits)


@dataclass(frozen=True, slots=True)
class DiscriminantLikelihood(Likelihood[Measurements]):
    """A fitted Gaussian discriminant; see `Discriminant.estimate`.

    Parameters
    ----------
    ids : ndarray of int64, shape (D,)
        The fields that take part, increasing.
    means : ndarray of float64, shape (D, K)
        Mean of each class.  Unit: that of x.
    factor : ndarray of float64, shape (D, D)
        Lower Cholesky factor of the shared covariance.  Unit: that of x.
    step : float or ndarray of float64, shape (D,)
        Size of one step of the measurements, or of those of each field.  Unit:
        that of x.
    """

    ids: Ints
    means: Floats
    factor: Floats
    step: float | Floats

    @property
    def covariance(self) -> Floats:
        """The shared covariance, shape (D, D).  Unit: that of x, squared."""
        return np.asarray(self.factor @ self.factor.T)

    def contributions(self, x: Measurements, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by field.

        The quadratic form is a sum over the fields of
        ``-d_i (covariance^-1 d)_i / 2`` with ``d = x - mean``.
        """
        # Imported here: importing scipy takes a quarter of a second, and the service
        # never uses this event model.
        from scipy.linalg import cho_solve  # noqa: PLC0415

        terms = np.zeros((self.means.shape[1], x.size))
        if not self.ids.size:
            nothing = np.zeros(terms.shape[0])
            seen = np.zeros(x.size, np.bool_)
            return Contributions(nothing, terms, seen, nothing[np.newaxis])
        row = self.ids.searchsorted(x.ids)
        seen = self.ids.take(row, mode="clip") == x.ids
        row = row[seen]
        factor = self.factor
        if row.size < self.ids.size:
            # The covariance of some of the fields is a block of the whole;
            # its factor comes from a QR decomposition of the rows, which
            # never fails, where squaring them and factoring again could.
            factor = np.asarray(np.linalg.qr(factor[row].T, mode="r")).T
        step = np.broadcast_to(self.step, self.ids.shape)[row]
        away = (x.values[seen] * step)[:, np.newaxis] - self.means[row]
        terms[:, seen] = (-0.5 * away * cho_solve((factor, True), away)).T
        constant = -0.5 * row.size * math.log(2 * math.pi) - float(
            np.log(np.abs(np.diagonal(factor))).sum()
        )
        constants = np.full(terms.shape[0], constant)
        totals = constants[np.newaxis] + terms.sum(axis=1)
        return Contributions(constants, terms, seen, totals)


def _scatter(state: MomentSums, complete: Bools, *, fraction_bits: int) -> Floats:
    """Return the pooled covariance over *n*, shape (D, D).  Unit: that of x squared."""
    size = int(complete.sum())
    scatter = np.zeros((size, size))
    n = int(state.messages.sum())
    for c, messages in enumerate(state.messages.tolist()):
        if messages:
            sums = state.sums[complete, c]
            products = state.products[np.ix_(complete, complete)][:, :, c]
            # Exact until the one division.
            spread = messages * products - np.multiply.outer(sums, sums)
            scatter += (spread / (messages * n * 4**fraction_bits)).astype(np.float64)
    return scatter
