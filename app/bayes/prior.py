"""Class priors: the log-probability of each class before a message is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from app.bayes.smoothing import Lidstone, NoSmoothing
from app.bayes.sparse import totalled
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    """Return the number of all messages, of which a class has no less than none."""
    # Not (messages < 0), of which what is not a number is no part.
    if not (messages >= 0).all():
        msg = f"a class has a number of messages from 0, got {messages.tolist()}"
        raise InvalidObservation(msg)
    return np.asarray(totalled(messages))


@dataclass(frozen=True, slots=True)
class FittedPrior:
    """The plain share of each class; uniform before the first message.

    A class with no message yet has probability zero once another has one:
    `SmoothedPrior` gives it a chance.

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
    r"""The share of spam in the mail that came, as long as little of it was taught.

    Parameters
    ----------
    pseudo : float, default 1.0
        Imagined messages of each side, and of each class of a side.
    most : float, default 20.0
        The prior never says more than so many to one of two sides, nor of two classes
        of a side.
    messages : float, default 3.0
        After so many messages that it has learned, a side is half as improbable as
        the share says.

    Raises
    ------
    InvalidObservation
        If a number is not positive and finite, or `most` is below 1.

    Notes
    -----
    With :math:`n_s` messages that side *s* (spam, or not) has learned, :math:`v_s` of
    it that came, *a* = `pseudo` and *m* = `messages`,

    .. math:: \log P(s) = - \frac{m}{m + n_s} \, \min\Bigl(\log
        \mathrm{most}, \log \frac{\max_k v_k + a}{v_s + a}\Bigr)
        + \mathrm{const} .

    Without fading and bound this is Laplace's rule of succession [1]_: after
    nine messages came that were all spam, the next one is spam with 10 to 1.  It
    is all that can be said while one side alone has been taught, since no
    feature speaks then (`app.bayes.smoothing`).  As the rarer side gets
    messages of its own, features begin to speak and the prior goes to that of
    `UniformPrior`: what people teach is not a fair sample of their mail.
    Of the classes of a side :math:`P(c \mid s)` is the same with the messages that each
    has learned for both, so that a label that nobody uses takes no message.

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
        """Refuse numbers under which there is no such prior."""
        for name, value, least in (
            ("pseudo", self.pseudo, 0.0),
            ("most", self.most, 1.0),
            ("messages", self.messages, 0.0),
        ):
            if not (math.isfinite(value) and value > least):
                msg = f"{name} must be finite and above {least:g}, got {value!r}"
                raise InvalidObservation(msg)

    def in_parts(self, parts: int) -> Self:
        """Return the same for messages that are counted in so many parts."""
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
            Messages that came, as far as that is known: of the other side, and of the
            side of spam.
        spam : ndarray of bool, shape (K,)
            Which classes are of the side of spam; some, and not all.
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
        """Return the faded logs of shares to the largest one."""
        behind = np.log((shares.max() + self.pseudo) / (shares + self.pseudo))
        fading = self.messages / (self.messages + messages)
        return np.asarray(-fading * np.minimum(behind, math.log(self.most)))


@dataclass(frozen=True, slots=True)
class FixedPrior:
    """Probabilities that the operator states.

    Parameters
    ----------
    probabilities : tuple of float
        One per class; not negative, and their sum is 1.

    Raises
    ------
    InvalidObservation
        If they are no probabilities.

    Examples
    --------
    >>> np.exp(FixedPrior((0.25, 0.75)).log_prior(np.array([3, 1]))).tolist()
    [0.25, 0.75]
    """

    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        total = math.fsum(self.probabilities)
        # 1e-9: what thirds and sevenths written with ten digits may be off.
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
