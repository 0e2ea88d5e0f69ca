"""The Bernoulli event model: the presence and absence of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.counts import FeatureModel, require_frequencies
from app.bayes.likelihood import Contributions, Likelihood
from app.bayes.smoothing import LAPLACE, Smoothing, are_declared, vocabulary_size
from app.bayes.sparse import SparseCounts
from app.kernels import likelihood

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.bayes.counts import CountSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Bernoulli(FeatureModel):
    r"""Multivariate Bernoulli event model.

    Given its class, a message contains each feature of the vocabulary or not,
    independently of the others; absence is evidence too.

    Parameters
    ----------
    smoothing : Smoothing, default Lidstone(1.0)
        How probabilities are estimated from counts, zeros included.
    vocabulary : int or None, default None
        Number of declared features, numbered from 0; None means those that
        training has seen.

    Notes
    -----
    With :math:`n_c` messages in class *c*, :math:`m_{ci}` of them with feature
    *i*, and :math:`\theta_{ci} = (m_{ci} + \alpha) / (n_c + 2 \alpha)` [1]_,

    .. math:: \log P(x \mid c) = \sum_i \log (1 - \theta_{ci})
        + \sum_{i \in x} \log \frac{\theta_{ci}}{1 - \theta_{ci}} .

    The first sum runs over the whole vocabulary, but its terms depend only on
    :math:`m_{ci}`: it is computed when the model is fitted, from the number of
    features with each document frequency, so scoring looks up only the features of
    the message.

    Without a declared vocabulary, features that no class has seen are left out.
    A declared one has :math:`m_{ci} = 0`, and takes part like any other.

    References
    ----------
    .. [1] A. McCallum and K. Nigam, "A comparison of event models for naive
       Bayes text classification", AAAI-98 workshop on learning for text
       categorization, 1998, section 2.1.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> model = Bernoulli(smoothing=LAPLACE)
    >>> ham = model.observe(SparseCounts.of({1: 2, 2: 1}), label=0, n_classes=2)
    >>> spam = model.observe(SparseCounts.of({2: 3}), label=1, n_classes=2)
    >>> likelihood = model.estimate(ham + spam)
    >>> np.exp(likelihood(SparseCounts.of({2: 1}))).round(3).tolist()
    [0.222, 0.444]
    """

    smoothing: Smoothing = LAPLACE
    vocabulary: int | None = None

    def estimate(self, source: CountSource) -> BernoulliLikelihood:
        """Return the likelihood under a training state.

        The work grows with the vocabulary; that of a message does not.

        Raises
        ------
        InconsistentCounts
            If a feature is in more messages than its class has.
        InvalidObservation
            If training has seen more features than `vocabulary` has.
        """
        messages = source.messages
        n_features = vocabulary_size(source, self.vocabulary)
        documents = source.flatten().documents
        require_frequencies(messages=messages, documents=documents)
        absent = np.empty(messages.size)
        impossible = np.zeros(messages.size, np.int64)
        for c, n in enumerate(messages):
            seen = documents[:, c]
            frequencies, features = np.unique(seen[seen > 0], return_counts=True)
            # The features of the vocabulary that this class has never seen.
            frequencies = np.append(frequencies, 0)
            features = np.append(features, n_features - features.sum())
            logs = self.smoothing.log_probability(n - frequencies, n, 2)
            # Without smoothing, a feature in every message of a class has
            # log(1 - theta) = -inf.  A message with all of these features would
            # subtract these terms again, and inf - inf is NaN, so they are counted
            # instead of summed.
            finite = np.isfinite(logs)
            if np.count_nonzero(finite) < finite.size:
                impossible[c] = features[~finite].sum()
                features, logs = features[finite], logs[finite]
            absent[c] = np.add.reduce(features * logs)
        return BernoulliLikelihood(
            source, self.smoothing, messages, absent, impossible, self.vocabulary
        )


@dataclass(frozen=True, slots=True)
class BernoulliLikelihood(Likelihood[SparseCounts]):
    """A fitted Bernoulli event model; see `Bernoulli.estimate`.

    Parameters
    ----------
    source : CountSource
        Where the document frequencies of a message's features are looked up.
    smoothing : Smoothing
        How probabilities are estimated from counts, zeros included.
    messages : ndarray of int64, shape (K,)
        Messages per class.
    absent : ndarray of float64, shape (K,)
        Log-probability that all features are absent, without the impossible
        terms.  Unit: nats.
    impossible : ndarray of int64, shape (K,)
        Number of features whose absence has probability zero.
    declared : int or None
        Number of declared features.
    """

    source: CountSource
    smoothing: Smoothing
    messages: NDArray[np.int64]
    absent: NDArray[np.float64]
    impossible: NDArray[np.int64]
    declared: int | None = None

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by feature.

        A feature's contribution is ``log(theta / (1 - theta))``; where its
        absence is impossible, ``log(theta)``.
        """
        return Contributions(
            *likelihood.bernoulli(
                self.source.look_up(x.ids, "presence"),
                self.messages,
                self.absent,
                self.impossible,
                *self.smoothing.rule,
                are_declared(x.ids, self.declared),
            )
        )
