"""Posterior: priors, the interface of likelihoods, and the log-odds of both."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np

from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import Vector, totalled
from app.errors import InvalidObservation
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


def log_posterior(log_joint: NDArray[np.float64]) -> NDArray[np.float64]:
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


def log_odds(
    log_joint: NDArray[np.float64], spam: NDArray[np.bool_]
) -> NDArray[np.float64]:
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
    return posterior_odds(log_posterior(log_joint), spam)


def posterior_odds(
    log_posterior: NDArray[np.float64], spam: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the log-odds of a log-posterior.

    Parameters and errors are those of `log_odds`.
    """
    _require_two_sides(spam)
    k = log_posterior.shape[-1]
    rows = np.ascontiguousarray(log_posterior, np.float64).reshape(-1, k)
    return likelihood.posterior_odds(rows, spam).reshape(log_posterior.shape[:-1])


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


def odds_weights(
    log_joint: NDArray[np.float64], spam: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float]:
    r"""Return weights that make the log-odds a sum over the classes.

    Parameters
    ----------
    log_joint : ndarray of float64, shape (K,)
        Log-joint of each class.  Unit: nats.
    spam : ndarray of bool, shape (K,)
        The classes on the spam side.

    Returns
    -------
    weights : ndarray of float64, shape (K,)
        They sum to 1 over the spam classes and to -1 over the others; with
        two classes they are 1 and -1.
    constant : float
        The remaining term; 0 with two classes.  Unit: nats.

    Raises
    ------
    InvalidObservation
        If all classes are on one side.

    Notes
    -----
    With :math:`q = \mathrm{softmax}(\ell)`, every :math:`\log q_c` is
    :math:`\ell_c - \log \sum_k e^{\ell_k}`; multiplying by :math:`q_c` and adding
    up gives :math:`\log \sum_c e^{\ell_c} = \sum_c q_c \ell_c + H(q)` with the
    entropy *H*.  Applied to both sides,

    .. math:: \mathrm{logodds} = \sum_c w_c \ell_c
        + H(q^{\mathrm{spam}}) - H(q^{\mathrm{rest}}) .

    Because :math:`\ell_c` is the log-prior plus a sum over the features, so are the
    log-odds: ``prior @ weights + constant`` and ``contributions.features @ weights``
    add up to them.  An impossible class has weight 0 if its side has a possible one;
    omit its column, because ``0 * -inf`` is NaN.

    Examples
    --------
    >>> l = np.log([0.5, 0.2, 0.3])
    >>> weights, constant = odds_weights(l, np.array([False, True, True]))
    >>> weights.round(6).tolist()
    [-1.0, 0.4, 0.6]
    >>> abs(float(l @ weights) + constant) < 1e-12
    True
    """
    _require_two_sides(spam)
    weights = np.empty(spam.size)
    constant = 0.0
    for side, sign in ((spam, 1.0), (~spam, -1.0)):
        # The only class of its side, whatever its posterior.
        if np.count_nonzero(side) == 1:
            weights[side] = sign
            continue
        logs = log_posterior(log_joint[side])
        q = np.exp(logs)
        weights[side] = sign * q
        possible = q > 0
        constant -= sign * math.fsum((q[possible] * logs[possible]).tolist())
    return weights, constant


def _require_two_sides(spam: NDArray[np.bool_]) -> None:
    """Refuse a question with only one answer."""
    if not 0 < (on_one := np.count_nonzero(spam)) < spam.size:
        msg = (
            "log-odds need a class on each side, "
            f"but {on_one} of {spam.size} classes are spam"
        )
        raise InvalidObservation(msg)


class Prior(Protocol):
    """A rule for the class prior."""

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log P(c)`` for each class.

        Parameters
        ----------
        messages : ndarray of int64, shape (K,)
            Training messages per class.

        Returns
        -------
        ndarray of float64, shape (K,)
            Unit: nats; ``-inf`` for a probability of zero.
        """
        ...


def _total(messages: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of all messages; refuse a negative number of a class."""
    # Not (messages < 0), which is false for NaN.
    if not (messages >= 0).all():
        msg = f"a class has a number of messages from 0, got {messages.tolist()}"
        raise InvalidObservation(msg)
    return np.asarray(totalled(messages))


@dataclass(frozen=True, slots=True)
class FittedPrior:
    """The plain share of each class; uniform before the first message.

    A class without messages has probability zero once another has one;
    `SmoothedPrior` makes it possible.

    Examples
    --------
    >>> np.exp(FittedPrior().log_prior(np.array([3, 1]))).tolist()
    [0.75, 0.25]
    """

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log(n_c / n)``, shape (K,)."""
        total = _total(messages)
        if total == 0:
            return UniformPrior().log_prior(messages)
        return NoSmoothing().log_probability(messages, total, messages.size)


@dataclass(frozen=True, slots=True)
class SmoothedPrior:
    """The share of each class, after `alpha` imagined messages in each.

    Parameters
    ----------
    alpha : float, default 1.0
        Pseudo-count.  Unit: messages.

    Raises
    ------
    InvalidObservation
        If `alpha` is not in [1e-100, 1e100].

    Examples
    --------
    >>> np.exp(SmoothedPrior(1.0).log_prior(np.array([2, 0]))).tolist()
    [0.75, 0.25]
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        """Refuse an invalid pseudo-count."""
        Lidstone(self.alpha)

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``log((n_c + alpha) / (n + alpha K))``, shape (K,)."""
        return Lidstone(self.alpha).log_probability(
            messages, _total(messages), messages.size
        )


@dataclass(frozen=True, slots=True)
class UniformPrior:
    """All classes alike, whatever was learned.

    Examples
    --------
    >>> np.exp(UniformPrior().log_prior(np.array([3, 1]))).tolist()
    [0.5, 0.5]
    """

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ``-log K`` for each class, shape (K,)."""
        return np.full(messages.size, -math.log(messages.size))


@dataclass(frozen=True, slots=True)
class FadingPrior:
    r"""The share of spam in the mail that arrived; it fades as messages are learned.

    Parameters
    ----------
    pseudo : float, default 1.0
        Imagined messages of each side, and of each class of a side.
    most : float, default 20.0
        Largest odds that the prior gives one side against the other, or one class of
        a side against another.
    messages : float, default 3.0
        Learned messages after which the log-odds of a side are halved.

    Raises
    ------
    InvalidObservation
        If a number is not positive and finite, or `most` is below 1.

    Notes
    -----
    With :math:`n_s` learned and :math:`v_s` arrived messages of side *s* (spam, or
    not), *a* = `pseudo` and *m* = `messages`,

    .. math:: \log P(s) = - \frac{m}{m + n_s} \, \min\Bigl(\log
        \mathrm{most}, \log \frac{\max_k v_k + a}{v_s + a}\Bigr)
        + \mathrm{const} .

    Without fading and bound, this is Laplace's rule of succession [1]_: after nine
    messages that were all spam, the odds that the next one is spam are 10 to 1.
    Nothing else is known while only one side has been taught, because no feature
    is evidence then (`app.bayes.smoothing`).  As the rarer side learns messages,
    features become evidence and the prior approaches `UniformPrior`, because
    people do not teach a fair sample of their mail.
    The classes of a side share its probability by the same formula, with the learned
    messages in place of the arrived ones, so a label that nobody uses gets no mail.

    References
    ----------
    .. [1] P. S. Laplace, *Essai philosophique sur les probabilités*, 1814;
       in E. T. Jaynes, *Probability Theory*, Cambridge University Press, 2003,
       section 6.11.

    Examples
    --------
    >>> spam = np.array([False, True])
    >>> odds = [
    ...     FadingPrior().log_prior(np.array([ham, 9]), np.array([ham, 9]), spam)
    ...     for ham in (0, 3, 9, 1000)
    ... ]
    >>> [round(float(spam - ham), 3) for ham, spam in odds]
    [2.303, 0.458, 0.0, -0.749]
    """

    pseudo: float = 1.0
    most: float = 20.0
    messages: float = 3.0

    def __post_init__(self) -> None:
        """Refuse numbers for which the prior is undefined."""
        for name, value, least in (
            ("pseudo", self.pseudo, 0.0),
            ("most", self.most, 1.0),
            ("messages", self.messages, 0.0),
        ):
            if not (math.isfinite(value) and value > least):
                msg = f"{name} must be finite and above {least:g}, got {value!r}"
                raise InvalidObservation(msg)

    def in_parts(self, parts: int) -> Self:
        """Return the same prior for messages that each count as many parts."""
        return replace(self, pseudo=self.pseudo * parts, messages=self.messages * parts)

    def log_prior(
        self,
        messages: NDArray[np.int64],
        arrived: NDArray[np.float64],
        spam: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return the faded logs of the shares, shape (K,).

        Parameters
        ----------
        messages : ndarray of int64, shape (K,)
            Messages that each class has learned.
        arrived : ndarray of float64, shape (2,)
            Known arrivals, of the other side and of the side of spam.
        spam : ndarray of bool, shape (K,)
            The classes on the side of spam; at least one, and not all.
        """
        _total(messages)
        logs = np.empty(messages.size)
        sides = ~spam, spam
        learned = np.array([messages[side].sum() for side in sides])
        of_sides = self._faded(learned, arrived)
        for side, log in zip(sides, of_sides, strict=True):
            logs[side] = log + self._faded(messages[side], messages[side])
        normalised: NDArray[np.float64] = logs - np.logaddexp.reduce(logs)
        return normalised

    def _faded(
        self, messages: NDArray[np.int64], shares: NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return the faded logs of the shares, relative to the largest one."""
        behind = np.log((shares.max() + self.pseudo) / (shares + self.pseudo))
        fading = self.messages / (self.messages + messages)
        return np.asarray(-fading * np.minimum(behind, math.log(self.most)))


@dataclass(frozen=True, slots=True)
class FixedPrior:
    """Probabilities that the operator sets.

    Parameters
    ----------
    probabilities : tuple of float
        One per class; not negative, and their sum is 1.

    Raises
    ------
    InvalidObservation
        If they are not probabilities.

    Examples
    --------
    >>> np.exp(FixedPrior((0.25, 0.75)).log_prior(np.array([3, 1]))).tolist()
    [0.25, 0.75]
    """

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse numbers that are not a distribution."""
        total = math.fsum(self.probabilities)
        # 1e-9: the error of thirds and sevenths written with ten digits.
        if not (
            all(p >= 0 for p in self.probabilities)
            and math.isclose(total, 1.0, abs_tol=1e-9)
        ):
            msg = (
                "prior probabilities must not be negative and must sum to 1, "
                f"got {self.probabilities!r}"
            )
            raise InvalidObservation(msg)

    def log_prior(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the logs of the stated probabilities, shape (K,).

        Raises
        ------
        InvalidObservation
            If there are more or fewer classes than probabilities.
        """
        if messages.size != len(self.probabilities):
            msg = (
                f"the prior has {len(self.probabilities)} probabilities, "
                f"but there are {messages.size} classes"
            )
            raise InvalidObservation(msg)
        logs = np.full(messages.size, -np.inf)
        stated = np.array(self.probabilities)
        np.log(stated, where=stated > 0, out=logs)
        return logs


X = TypeVar("X", bound=Vector)
"""The form of a message that an event model reads: sparse counts, measurements, ..."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The log-likelihood of a message, taken apart.

    Parameters
    ----------
    constant : ndarray of float64, shape (K,)
        Term of each class that does not depend on the features.  Unit: nats.
    terms : ndarray of float64, shape (K, n)
        Term of each feature; 0 if it was never seen.  Unit: nats.
    seen : ndarray of bool, shape (n,)
        Whether the feature takes part: training saw it, in any class, or it is
        declared.
    totals : ndarray of float64, shape (L, K)
        Their sum: the log-likelihood ``log P(x | c)``.  Where the counts are those of
        several levels (`app.bayes.table.PartialSums`), all else is of the first of
        them, and the other rows are the sums of the others.  Unit: nats.
    """

    constant: NDArray[np.float64]
    terms: NDArray[np.float64]
    seen: NDArray[np.bool_]
    totals: NDArray[np.float64]

    @property
    def features(self) -> NDArray[np.float64]:
        """Term of each feature for each class, shape (n, K).  Unit: nats."""
        return self.terms.T

    @property
    def known(self) -> int:
        """Number of the features that training has seen."""
        return int(np.count_nonzero(self.seen))

    def with_declared(
        self, declared: NDArray[np.bool_], nats: NDArray[np.float64]
    ) -> Contributions:
        """Return the same with the terms of declared features that training never saw.

        Parameters
        ----------
        declared : ndarray of bool, shape (n,)
            Which features are declared.
        nats : ndarray of float64, shape (K, n)
            Term of each if no class has seen it.  Unit: nats.
        """
        unseen = declared & ~self.seen
        if not unseen.any():
            return self
        terms = np.where(unseen, nats, self.terms)
        total = [math.fsum((self.constant[c], *terms[c])) for c in range(len(terms))]
        totals = np.array([total])
        return Contributions(self.constant, terms, self.seen | unseen, totals)


class Likelihood(ABC, Generic[X]):
    """A fitted event model: the log-likelihood of a message in each class."""

    __slots__ = ()

    @abstractmethod
    def contributions(self, x: X, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by feature."""

    def __call__(self, x: X, /) -> NDArray[np.float64]:
        """Return ``log P(x | c)`` for each class, shape (K,).  Unit: nats."""
        found: NDArray[np.float64] = self.contributions(x).totals[0]
        return found


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
    >>> from app.bayes.models.multinomial import Multinomial
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
        for name, model in self.likelihoods.items():
            if name in views:
                total += model(views[name])
        return total

    def contributions(self, views: Mapping[str, Any], /) -> dict[str, Contributions]:
        """Return the contributions of each view that the message has."""
        return {
            name: model.contributions(views[name])
            for name, model in self.likelihoods.items()
            if name in views
        }
