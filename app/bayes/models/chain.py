"""The chain event model: each symbol of a text given the symbols before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.counts import FeatureModel
from app.bayes.models import Contributions, Likelihood, by_level
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation, InvalidSetting
from app.kernels import likelihood

if TYPE_CHECKING:
    from app.bayes.counts import CountSource
    from app.kernels import Bytes, Ints

SYMBOLS: Final = 2**likelihood.SYMBOL_BITS
"""Size of the alphabet."""
ORDER: Final = likelihood.RUN_SYMBOLS
"""Symbols of a run: the last one is conditioned on the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Runs(SparseCounts):
    """The runs of a text, each once, and their beginnings; see `with_beginnings`."""

    @property
    def numbers(self) -> Ints:
        """The runs of `ORDER` symbols, as numbers."""
        start = np.searchsorted(self.ids, likelihood.WHOLE_RUN)
        found: Ints = self.ids[start:] - likelihood.WHOLE_RUN
        return found


def runs_of(symbols: Bytes) -> Runs:
    """Return the runs of `ORDER` symbols in a text, each once, and their beginnings.

    The text is a ring: after its last symbol comes the first.  So each run without its
    first symbol begins another, and the counts of a text are all that its probability
    depends on.

    Parameters
    ----------
    symbols : ndarray of uint8, shape (n,)
        The text, each symbol in ``range(SYMBOLS)``.

    Returns
    -------
    Runs
        See `with_beginnings`.

    Examples
    --------
    >>> runs_of(np.array([1, 2, 3, 4, 4], np.uint8)).numbers.size
    5
    """
    runs = np.empty(symbols.size if symbols.size >= ORDER else 0, np.int64)
    likelihood.ring(symbols, runs)
    runs.sort()
    return with_beginnings(runs)


def with_beginnings(runs: Ints) -> Runs:
    """Return runs together with their beginnings.

    Parameters
    ----------
    runs : ndarray of int64, shape (n,)
        Runs of `ORDER` symbols as numbers, in order; repeats are ignored.

    Returns
    -------
    Runs
        The empty run, those of one symbol and so on, and the runs.  A run counts once,
        and a beginning as often as it has runs.  The id has the length plus one above
        the bits of the symbols.

    Examples
    --------
    >>> x = with_beginnings(np.array([0, 1]))
    >>> x.counts.tolist(), x.ids[-2:].tolist() == [5 << 24, (5 << 24) + 1]
    ([2, 2, 2, 2, 1, 1], True)
    """
    ids, counts = np.empty((2, (ORDER + 1) * runs.size), np.int64)
    size = likelihood.beginnings(runs, ids, counts)
    return Runs.of_sorted(ids[:size].copy(), counts[:size].copy())


def require_runs(runs: Ints) -> Ints:
    """Return numbers that are runs in order.

    Raises
    ------
    InvalidObservation
        If one is out of range, or they are not strictly increasing.
    """
    inside = runs.size == 0 or 0 <= int(runs[0]) <= int(runs[-1]) < SYMBOLS**ORDER
    if not inside or np.count_nonzero(runs[1:] <= runs[:-1]):
        msg = f"runs of symbols must increase, from 0 and below {SYMBOLS**ORDER}"
        raise InvalidObservation(msg)
    return runs


def symbols_of(number: int) -> list[int]:
    """Return the symbols of a run, or of a beginning, by its id.

    Examples
    --------
    >>> symbols_of(int(runs_of(np.arange(1, 5, dtype=np.uint8)).ids[-1]))
    [4, 1, 2, 3]
    """
    length = (number >> likelihood.RUN_BITS) - 1
    return [
        number >> likelihood.SYMBOL_BITS * place & SYMBOLS - 1
        for place in reversed(range(length))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(FeatureModel):
    r"""Event model of a text as a chain of symbols.

    Given its class, each symbol of a message depends on the three before it, as in
    models for compression [2]_.  This replaces the assumption of naive Bayes, by which
    it depends on none.

    Parameters
    ----------
    strength : float, default 20
        Weight of the distribution after one symbol less, in runs; positive and finite.

    Raises
    ------
    InvalidSetting
        If it is not.

    Notes
    -----
    Let :math:`N_c(u)` be the number of runs of class *c* that begin with the symbols
    *u*, :math:`u_{-}` these symbols without the first, *A* the size of the alphabet and
    *s* = `strength`.  The probability that *v* comes after *u* is

    .. math:: \theta_c(v \mid u) = \frac{N_c(u v) + s \, \theta_c(v \mid u_{-})}
        {N_c(u) + s} , \qquad \theta_c(v \mid \text{no symbol}) =
        \frac{N_c(v) + s / A}{N_c(\varnothing) + s} ,

    the posterior mean of a Dirichlet distribution whose mean is the estimate for the
    context without its first symbol [1]_.  The log-likelihood of a message is
    :math:`\sum \log \theta_c(v \mid u)` over its different runs.  A class that has
    learned no text has the counts of all classes together, so a text is no evidence for
    or against it.

    The counts are sums over messages, so learning and unlearning are exact.

    References
    ----------
    .. [1] D. J. C. MacKay and L. C. Bauman Peto, "A hierarchical Dirichlet language
       model", *Natural Language Engineering* 1 (3), 1995, pages 289-308.
    .. [2] A. Bratko, G. V. Cormack, B. Filipič, T. R. Lynam and B. Zupan, "Spam
       filtering using statistical data compression models", *JMLR* 7, 2006.

    Examples
    --------
    >>> model = Chain(strength=1.0)
    >>> ham, spam = (runs_of(np.array(x, np.uint8)) for x in ([1, 2, 1, 2], range(4)))
    >>> state = model.observe(ham, label=0, n_classes=2)
    >>> state = state + model.observe(spam, label=1, n_classes=2)
    >>> odds = np.diff(model.estimate(state)(spam))
    >>> odds.round(3).tolist()
    [12.966]
    """

    strength: float = 20.0

    def __post_init__(self) -> None:
        """Refuse a strength without which a context that is new has no distribution."""
        if not (math.isfinite(self.strength) and self.strength > 0):
            msg = f"the strength must be positive and finite, got {self.strength!r}"
            raise InvalidSetting(msg)

    def estimate(self, source: CountSource) -> ChainLikelihood:
        """Return the likelihood under a training state; O(1) work."""
        return ChainLikelihood(source, self.strength)


@dataclass(frozen=True, slots=True)
class ChainLikelihood(Likelihood[SparseCounts]):
    """A fitted chain event model; see `Chain.estimate`.

    Parameters
    ----------
    source : CountSource
        Where the counts of runs are looked up.
    strength : float
        See `Chain`.
    """

    source: CountSource
    strength: float

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by run."""
        found = by_level(self.source.look_up(x.ids, "occurrences"), 3)
        return Contributions(*likelihood.chain(x.ids, found, self.strength))
