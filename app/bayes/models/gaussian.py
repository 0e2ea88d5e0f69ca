"""Gaussian naive Bayes: normal measurements, independent given the class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.bayes.likelihood import Contributions, Likelihood
from app.bayes.moments import MeasurementModel
from app.bayes.sparse import FRACTION_BITS, Measurements, require_choice
from app.errors import InvalidObservation
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.bayes.moments import Integers, MomentSums

Constant = Literal["floor", "drop"]
"""Whether a constant feature gets the floor or is left out."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A variance is at least a fraction of the largest variance.

    Parameters
    ----------
    fraction : float, default 1e-9
        Fraction of the largest variance of any feature over all messages.

    Raises
    ------
    InvalidObservation
        If `fraction` is not in [0, 1].

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
       frequency-constants", Proceedings of the London Mathematical Society
       29, 1898, pages 353-380.
    """

    fraction: float = 1e-9

    def __post_init__(self) -> None:
        """Refuse values outside [0, 1]."""
        if not 0 <= self.fraction <= 1:
            msg = f"a variance floor must be from 0 to 1, got {self.fraction!r}"
            raise InvalidObservation(msg)

    def level(self, whole: NDArray[np.float64], *, fraction_bits: int) -> float:
        """Return the smallest allowed variance.  Unit: that of x squared.

        Parameters
        ----------
        whole : ndarray of float64
            The variance of each feature over all messages.
        fraction_bits : int
            Bits of the fixed point (`app.bayes.sparse`).
        """
        rounding = 0.25**fraction_bits / 12
        return max(rounding, self.fraction * float(whole.max(initial=0.0)))

    def raised(
        self,
        variances: NDArray[np.float64],
        whole: NDArray[np.float64],
        ids: NDArray[np.int64],  # noqa: ARG002
        *,
        fraction_bits: int,
    ) -> NDArray[np.float64]:
        """Return variances (D, ...) of the fields `ids`, none below the floor."""
        return np.maximum(variances, self.level(whole, fraction_bits=fraction_bits))


@dataclass(frozen=True, slots=True)
class Added:
    """Add a constant to every variance, as in lectures.

    Parameters
    ----------
    amounts : mapping of int to float
        Constant of each field, above 0.  Unit: that of x, squared.

    Notes
    -----
    In a covariance it is added to the diagonal.
    """

    amounts: Mapping[int, float]

    def __post_init__(self) -> None:
        """Refuse amounts that are not positive and finite."""
        for field_id, amount in self.amounts.items():
            if not (math.isfinite(amount) and amount > 0):
                raise InvalidObservation(
                    f"what is added to a variance must be positive and finite, got "
                    f"{amount!r} for field {field_id}"
                )

    def raised(
        self,
        variances: NDArray[np.float64],
        whole: NDArray[np.float64],  # noqa: ARG002
        ids: NDArray[np.int64],
        *,
        fraction_bits: int,  # noqa: ARG002
    ) -> NDArray[np.float64]:
        """Return variances (D, ...) of the fields `ids`, each with its constant."""
        added = np.array([self.amounts[i] for i in ids.tolist()], np.float64)
        return variances + added.reshape(-1, *[1] * (variances.ndim - 1))


def mean(
    count: NDArray[np.int64], total: Integers, *, fraction_bits: int
) -> NDArray[np.float64]:
    """Return ``total / count``, 0 without messages, in units of x."""
    # The quotient of two Python integers is rounded only once, however large they
    # are, and a power of two rounds nothing.
    means: NDArray[np.float64] = (total / np.maximum(count, 1)).astype(np.float64)
    means *= 0.5**fraction_bits
    return means


def population_variance(
    count: NDArray[np.int64], total: Integers, squares: Integers, *, fraction_bits: int
) -> NDArray[np.float64]:
    """Return the variance over *n* (not *n* - 1), 0 without messages.

    Notes
    -----
    ``(n S2 - S1**2) / n**2`` with exact integers: in floating point, the
    difference could lose all its digits.
    """
    safe = np.maximum(count, 1).astype(object)
    # Without messages, the sums are zero as well.
    spread = safe * squares - total * total
    variances: NDArray[np.float64] = (spread / (safe * safe)).astype(np.float64)
    variances *= 0.25**fraction_bits
    return variances


Variances = Literal["class", "shared"]
"""Whether each class has its own variances or all share the pooled ones."""
FLOOR = Floor()
"""The default of scikit-learn's `var_smoothing`, which adds it to every variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian(MeasurementModel):
    r"""Gaussian event model with a diagonal covariance.

    Parameters
    ----------
    fraction_bits : int, default 16
        Position of the binary point of the measurements.
    floor : Floor or Added, default Floor(1e-9)
        A smallest variance, or a constant to add to each.
    constant : {"floor", "drop"}, default "floor"
        Whether a feature that does not vary within some class gets the floor or
        is left out.
    variances : {"class", "shared"}, default "class"
        Variances of each class, or one per feature for all classes; the log-odds
        are then linear in *x* (`app.bayes.linear`).

    Notes
    -----
    Maximum likelihood [1]_, over the :math:`n_c` messages that have the
    feature:

    .. math:: \mu_{ci} = \frac{1}{n_c} \sum x_i, \quad
        \sigma^2_{ci} = \frac{1}{n_c} \sum (x_i - \mu_{ci})^2, \quad
        \log P(x \mid c) = -\frac12 \sum_i \Bigl(\log 2 \pi \sigma^2_{ci}
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

    fraction_bits: int = FRACTION_BITS
    floor: Floor | Added = FLOOR
    constant: Constant = "floor"
    variances: Variances = "class"

    def __post_init__(self) -> None:
        """Refuse unknown choices."""
        require_choice("constant", self.constant, Constant)
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
        raised = self.floor.raised(variances, whole, ids, fraction_bits=bits)
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

    ids: NDArray[np.int64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    step: float

    def contributions(self, x: Measurements, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by field."""
        return Contributions(
            *likelihood.gaussian(
                x.ids, x.values, self.step, self.ids, self.means, self.variances
            )
        )
