"""Class priors: the log-probability of each class before a message is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import totalled
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.kernels import Bools, Floats, Ints


def _total(messages: Ints) -> Ints:
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

    def log_prior(self, messages: Ints) -> Floats:
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

    def log_prior(self, messages: Ints) -> Floats:
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

    def log_prior(self, messages: Ints) -> Floats:
        """Return ``-log K`` for each class, shape (K,)."""
        return np.full(messages.size, -math.log(messages.size))


@dataclass(frozen=True, slots=True)
class FadingPrior:
    r"""The share of spam in the mail that arrived; it fades as messages are learned.

    Parameters
    ----------
    pseudo : float, default 1.0
        Imagined messages of each side, and of each class of a side.
    most : float, default 100.0
        Largest odds that the prior gives one side against the other, or one class of
        a side against another.
    messages : float, default 3.0
        Learned messages after which the log of a side, or of a class, is halved.

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
    features become evidence and the sides become equally probable, because
    people do not teach a fair sample of their mail.
    The classes of a side share its probability by the same formula, with the learned
    messages in place of the arrived ones, so a label that nobody uses gets little mail.

    References
    ----------
    .. [1] P. S. Laplace, *Essai philosophique sur les probabilités*, 1814;
       in E. T. Jaynes, *Probability Theory*, Cambridge University Press, 2003,
       chapter 18.

    Examples
    --------
    >>> spam = np.array([False, True])
    >>> odds = [
    ...     FadingPrior().log_prior(np.array([ham, 9]), np.array([ham, 9]), spam)
    ...     for ham in (0, 3, 9, 1000)
    ... ]
    >>> [round(float(spam - ham), 3) for ham, spam in odds]
    [2.303, 0.458, 0.0, -1.151]
    """

    pseudo: float = 1.0
    most: float = 100.0
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

    def log_prior(self, messages: Ints, arrived: Floats, spam: Bools) -> Floats:
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
        learned = np.array([messages @ side for side in sides])
        of_sides = self._faded(learned, arrived)
        for side, log in zip(sides, of_sides, strict=True):
            # Divided: a label that only divides the ham must not make ham more probable
            # (experiment 0111).
            within = self._faded(messages[side], messages[side])
            logs[side] = log + within - np.logaddexp.reduce(within)
        normalised: Floats = logs - np.logaddexp.reduce(logs)
        return normalised

    def _faded(self, messages: Ints, shares: NDArray[Any]) -> Floats:
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
            raise InvalidObservation(
                "prior probabilities must not be negative and must sum to 1, "
                f"got {self.probabilities!r}"
            )

    def log_prior(self, messages: Ints) -> Floats:
        """Return the logs of the stated probabilities, shape (K,).

        Raises
        ------
        InvalidObservation
            If there are more or fewer classes than probabilities.
        """
        if messages.size != len(self.probabilities):
            raise InvalidObservation(
                f"the prior has {len(self.probabilities)} probabilities, "
                f"but there are {messages.size} classes"
            )
        with np.errstate(divide="ignore"):
            return np.log(self.probabilities)


Prior = FittedPrior | SmoothedPrior | UniformPrior | FixedPrior
"""A rule for the class prior by the training messages of each class alone.

Its `log_prior` is in nats, ``-inf`` for a probability of zero."""
