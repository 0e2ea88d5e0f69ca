"""Discrete event models: multinomial, Bernoulli, categorical and differential.

All are trained with counts by feature (`app.bayes.counts`), and differ in what a count
is: a draw from the vocabulary, a message with the feature, a message with that value of
a field, or a hit that shows how well a feature separates the classes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.counts import FeatureCounts, FeatureModel
from app.bayes.models import Contributions, Likelihood, by_level
from app.bayes.smoothing import LAPLACE, Interpolation, Smoothing
from app.bayes.sparse import Counting, SparseCounts, require_choice
from app.errors import InvalidObservation, InvalidSetting
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.bayes.counts import CountSource
    from app.kernels import Bools, Floats, Ints


def vocabulary_size(source: CountSource, declared: int | None) -> int:
    """Return the size of the vocabulary.

    Parameters
    ----------
    source : CountSource
        The training state.
    declared : int or None
        The size that was declared; None means the features that were seen.

    Raises
    ------
    InvalidObservation
        If training has seen a feature that was not declared.
    """
    if declared is None:
        return source.vocabulary
    ids = source.flatten().ids
    for number in (*ids[:1].tolist(), *ids[-1:].tolist()):
        if not 0 <= number < declared:
            raise InvalidObservation(
                f"the declared vocabulary has {declared} features, numbered from 0, "
                f"but training has seen feature {number}"
            )
    return declared


def are_declared(ids: Ints, declared: int | None) -> Bools:
    """Return which features belong to a declared vocabulary; none if there is none."""
    if declared is None:
        return np.zeros(ids.size, np.bool_)
    return (ids >= 0) & (ids < declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multinomial(FeatureModel):
    r"""Multinomial event model.

    Given its class :math:`c`, a message is a bag of independent draws from a
    categorical distribution :math:`\theta_c` over the vocabulary.

    Parameters
    ----------
    smoothing : Smoothing, default Lidstone(1.0)
        How probabilities are estimated from counts, zeros included.
    counting : {"presence", "occurrences"}, default "presence"
        Whether a feature counts once per message or each time it occurs, in
        training and in scoring alike.
    vocabulary : int or None, default None
        Number of declared features, numbered from 0; None means the features
        that training has seen.
    interpolation : Interpolation or None, default None
        How the estimates of a class with few messages are mixed with those of all
        classes; None keeps the classes apart, as in textbooks.

    Notes
    -----
    With :math:`N_{ci}` the count of feature *i* in class *c*,
    :math:`N_c = \sum_i N_{ci}`, *V* the size of the vocabulary and
    :math:`x_i` the count in the message, the log-likelihood is, up to the
    multinomial coefficient that all classes share [1]_,

    .. math:: \sum_i x_i \log \frac{N_{ci} + \alpha}{N_c + \alpha V} .

    Without a declared vocabulary, features that no class has seen are left out.
    If they were scored, each would add :math:`\log \frac{\alpha}{N_c + \alpha V}`,
    evidence for the class with less text that says nothing about the message.  A
    declared feature adds exactly that, because it is one of the *V*.

    With an `interpolation` and no declared vocabulary, the pseudo-counts follow the
    share :math:`N_i / N` of the feature in all classes together, with
    :math:`N_i = \sum_c N_{ci}` and :math:`N = \sum_i N_i`:

    .. math:: \hat\theta_{ci} = \frac{N_{ci} + \alpha}{N_c + \alpha N / N_i} .

    This is the posterior mean of a Poisson rate under a gamma prior with shape
    :math:`\alpha` and mean :math:`N_i / N` [2]_.  If a class has little text, the
    absence of a rare feature from it is then hardly evidence.  For classes with
    equally long texts, the ratio remains
    :math:`(N_{ci} + \alpha) / (N_{di} + \alpha)`.

    References
    ----------
    .. [1] A. McCallum and K. Nigam, "A comparison of event models for naive
       Bayes text classification", AAAI-98 workshop on learning for text
       categorization, 1998, section 2.2.
    .. [2] A. Gelman, J. B. Carlin, H. S. Stern, D. B. Dunson, A. Vehtari and D. B.
       Rubin, *Bayesian Data Analysis*, 3rd edition, CRC Press, 2013, section 2.6.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> model = Multinomial(smoothing=LAPLACE, counting="occurrences")
    >>> ham = model.observe(SparseCounts.of({1: 2, 2: 1}), label=0, n_classes=2)
    >>> spam = model.observe(SparseCounts.of({2: 3}), label=1, n_classes=2)
    >>> likelihood = model.estimate(ham + spam)
    >>> likelihood(SparseCounts.of({2: 1})).round(3).tolist()
    [-0.916, -0.223]
    >>> ham + spam - spam == ham
    True
    """

    smoothing: Smoothing = LAPLACE
    counting: Counting = "presence"
    vocabulary: int | None = None
    interpolation: Interpolation | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown way of counting."""
        require_choice("counting", self.counting, Counting)

    def estimate(self, source: CountSource) -> MultinomialLikelihood:
        """Return the likelihood under a training state; O(K) work.

        Raises
        ------
        InvalidObservation
            If training has seen more features than `vocabulary` has.
        """
        messages = by_level(source.messages, 2)
        return MultinomialLikelihood(
            self,
            source,
            by_level(source.totals(self.counting), 2),
            max(1, vocabulary_size(source, self.vocabulary)),
            np.ones_like(messages, np.float64)
            if self.interpolation is None
            else self.interpolation.weights(messages),
        )


@dataclass(frozen=True, slots=True)
class MultinomialLikelihood(Likelihood[SparseCounts]):
    """A fitted multinomial event model; see `Multinomial.estimate`.

    Parameters
    ----------
    model : Multinomial
        The event model.
    source : CountSource
        Where the counts of a message's features are looked up.
    totals : ndarray of int64, shape (L, K)
        Sum of the counts of each class, at each level; one unless `source` has more.
    n_values : int
        Size of the vocabulary.
    weights : ndarray of float64, shape (L, K)
        Weight of each class's own estimate (`Interpolation.weights`).
    """

    model: Multinomial
    source: CountSource
    totals: Ints
    n_values: int
    weights: Floats

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by feature."""
        # Ignoring unseen features matters most at few false positives: if they are
        # scored, 1-ROCA on the SpamAssassin public corpus rises from 0.99 % to
        # 1.57 % (occurrences, alpha 1).
        model = self.model
        return Contributions(
            *likelihood.multinomial(
                by_level(self.source.look_up(x.ids, model.counting), 3),
                x.values,
                model.counting == "occurrences",
                self.totals,
                self.n_values,
                *model.smoothing.rule,
                # The pseudo-counts follow the frequency of each feature.
                model.interpolation is not None and model.vocabulary is None,
                self.weights,
                are_declared(x.ids, model.vocabulary),
            )
        )


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
        state = source.flatten()
        state.require_frequencies()
        absent = np.empty(messages.size)
        impossible = np.zeros(messages.size, np.int64)
        for c, n in enumerate(messages):
            seen = state.documents[:, c]
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
        return BernoulliLikelihood(self, source, messages, absent, impossible)


@dataclass(frozen=True, slots=True)
class BernoulliLikelihood(Likelihood[SparseCounts]):
    """A fitted Bernoulli event model; see `Bernoulli.estimate`.

    Parameters
    ----------
    model : Bernoulli
        The event model.
    source : CountSource
        Where the document frequencies of a message's features are looked up.
    messages : ndarray of int64, shape (K,)
        Messages per class.
    absent : ndarray of float64, shape (K,)
        Log-probability that all features are absent, without the impossible
        terms.  Unit: nats.
    impossible : ndarray of int64, shape (K,)
        Number of features whose absence has probability zero.
    """

    model: Bernoulli
    source: CountSource
    messages: Ints
    absent: Floats
    impossible: Ints

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
                *self.model.smoothing.rule,
                are_declared(x.ids, self.model.vocabulary),
            )
        )


VALUE_BITS: Final = 48
"""Low bits of an id, which hold the value; the other 16 hold the field.

A field of a thousand distinct values hashed to 48 bits has two that collide
with probability 2e-9 (birthday bound n^2 / 2^49).
"""
_VALUE: Final = 2**VALUE_BITS - 1


def value_id(*, field: int, value: int) -> int:
    """Return the feature id of a value of a field.

    Parameters
    ----------
    field : int
        Number of the field, from -32768 to 32767.
    value : int
        Number or hash of the value; its low 48 bits count.

    Raises
    ------
    InvalidObservation
        If `field` is out of range.

    Examples
    --------
    >>> value_id(field=2, value=5) == 2 * 2**48 + 5
    True
    """
    if not -(2**15) <= field < 2**15:
        raise InvalidObservation(f"field must be between -32768 and 32767, got {field}")
    return (field << VALUE_BITS) | (value & _VALUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical:
    r"""Categorical event model.

    A message has at most one value for each field.  Given the class, fields
    are independent, and each has its own distribution of values.

    Parameters
    ----------
    smoothing : Smoothing, default Lidstone(1.0)
        How probabilities are estimated from counts, zeros included.
    domains : mapping of int to int
        Number of declared values of a field, numbered from 0.  Other fields have the
        values that training has seen.

    Notes
    -----
    With :math:`N_{cfv}` messages of class *c* that have value *v* in field
    *f*, :math:`n_{cf} = \sum_v N_{cfv}` and :math:`V_f` the number of values
    of the field that are declared, or that training has seen in any class [1]_,

    .. math:: \log P(x \mid c) = \sum_f
        \log \frac{N_{cf x_f} + \alpha}{n_{cf} + \alpha V_f} .

    An undeclared value that no class has seen is left out, and so is a field that
    the message lacks.

    The training state is that of the text models: a value of a field is a
    feature whose id has the field in its high bits (`value_id`).

    References
    ----------
    .. [1] L. Rashidi and L. Frermann, *COMP90049 Introduction to Machine
       Learning*, University of Melbourne, 2022, lecture 6.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> html, plain = value_id(field=1, value=7), value_id(field=1, value=8)
    >>> model = Categorical(smoothing=LAPLACE)
    >>> ham = model.observe(SparseCounts.of({plain: 1}), label=0, n_classes=2)
    >>> spam = model.observe(SparseCounts.of({html: 1}), label=1, n_classes=2)
    >>> likelihood = model.estimate(ham + spam)
    >>> np.exp(likelihood(SparseCounts.of({html: 1}))).round(3).tolist()
    [0.333, 0.667]
    """

    smoothing: Smoothing = LAPLACE
    domains: Mapping[int, int] = field(default_factory=dict, hash=False)

    def observe(self, x: SparseCounts, *, label: int, n_classes: int) -> FeatureCounts:
        """Return what one labelled message adds, as `FeatureModel.observe`.

        Raises
        ------
        InvalidObservation
            If `label` is out of range, or a field has two values.
        """
        fields = x.ids >> VALUE_BITS
        repeated = fields[1:][fields[1:] == fields[:-1]]
        if repeated.size:
            msg = f"field {int(repeated[0])} has more than one value in a message"
            raise InvalidObservation(msg)
        return FeatureCounts.of(x, label=label, n_classes=n_classes)

    def estimate(self, source: CountSource) -> CategoricalLikelihood:
        """Return the likelihood under a training state; O(values) work.

        Raises
        ------
        InvalidObservation
            If training has seen a value of a field that is beyond its domain.
        """
        state, domains = source.flatten(), self.domains
        for number in state.ids.tolist() if domains else ():
            size = domains.get(number >> VALUE_BITS)
            if size is not None and not number & _VALUE < size:
                raise InvalidObservation(
                    f"field {number >> VALUE_BITS} has {size} declared values, "
                    f"but training has seen value {number & _VALUE}"
                )
        of_each = state.ids >> VALUE_BITS
        fields = np.union1d(of_each, np.array(sorted(domains), np.int64))
        row = fields.searchsorted(of_each)
        totals = np.zeros((fields.size, state.n_classes), np.int64)
        np.add.at(totals, row, state.documents)
        n_values = np.bincount(row, minlength=fields.size)
        for number, size in domains.items():
            n_values[fields.searchsorted(number)] = size
        return CategoricalLikelihood(self, source, fields, totals, n_values)


@dataclass(frozen=True, slots=True)
class CategoricalLikelihood(Likelihood[SparseCounts]):
    """A fitted categorical event model; see `Categorical.estimate`.

    Parameters
    ----------
    model : Categorical
        The event model.
    source : CountSource
        Where the messages per value and class are looked up.
    fields : ndarray of int64, shape (F,)
        The fields that are declared, or that training has seen, increasing.
    totals : ndarray of int64, shape (F, K)
        Messages of each class that have the field.
    n_values : ndarray of int64, shape (F,)
        Values of the field that are declared, or that any class has seen.
    """

    model: Categorical
    source: CountSource
    fields: Ints
    totals: Ints
    n_values: Ints

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by value."""
        pairs = [divmod(number, _VALUE + 1) for number in x.ids.tolist()]
        declared = [value < self.model.domains.get(f, 0) for f, value in pairs]
        return Contributions(
            *likelihood.categorical(
                self.source.look_up(x.ids, "presence"),
                x.ids >> VALUE_BITS,
                self.fields,
                self.totals,
                self.n_values,
                *self.model.smoothing.rule,
                np.array(declared, np.bool_),
            )
        )


# The confidence would otherwise be rounded to 1, and a class without the feature would
# be impossible: x + 1e-6 is another double than x up to 10**9 messages.
SMALLEST_KAPPA: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Differential(FeatureModel):
    r"""Event model that weighs each feature by how well it separates the classes.

    Parameters
    ----------
    kappa : float, default 1/400
        Pseudo-count that lowers the confidence of features in few messages; finite, and
        at least `SMALLEST_KAPPA`.  Unit: messages.

    Raises
    ------
    InvalidSetting
        If it is not.

    Notes
    -----
    Of the :math:`N_c` messages of class *c*, :math:`n_{ci}` have feature *i*; scaled
    as if all classes had equally many messages, these are
    :math:`h_c = n_{ci} \max_k N_k / N_c` hits.  The confidence of the feature is [1]_

    .. math:: q_i = \frac{(h_{\max} - h_{\min})^2 - h_{\max} h_{\min} / 4}
        {(\sum_c h_c)^2} \cdot \frac{\sum_c h_c}{\sum_c h_c + \kappa}

    or 0 if this is negative, when the classes have the feature about equally often.
    The feature adds to class *c* the logarithm of a mixture of its share of the class
    and the uniform distribution, relative to the latter,

    .. math:: \log \left( 1 - q_i + q_i K \frac{n_{ci}}{N_c} \right) .

    This is not the likelihood of a message, and the sum is much too confident: use a
    normaliser that bounds it.  The model is meant for counts of only those messages
    that a classifier got wrong or nearly wrong [2]_.

    References
    ----------
    .. [1] F. Assis, "OSBF-Lua: a text classification module for Lua; the importance
       of the training method", TREC 2006.
    .. [2] C. Siefkes, F. Assis, S. Chhabra and W. S. Yerazunis, "Combining Winnow and
       orthogonal sparse bigrams for incremental spam filtering", PKDD 2004.

    Examples
    --------
    >>> model = Differential()
    >>> ham = model.observe(SparseCounts.of({1: 1, 2: 1}), label=0, n_classes=2)
    >>> spam = model.observe(SparseCounts.of({2: 1, 3: 1}), label=1, n_classes=2)
    >>> likelihood = model.estimate(ham + spam)
    >>> likelihood(SparseCounts.of({2: 1})).tolist()
    [0.0, 0.0]
    >>> likelihood(SparseCounts.of({3: 1})).round(3).tolist()
    [-5.994, 0.692]
    """

    kappa: float = 1 / 400

    def __post_init__(self) -> None:
        """Refuse a pseudo-count for which the confidence is undefined."""
        if not (math.isfinite(self.kappa) and self.kappa >= SMALLEST_KAPPA):
            msg = f"kappa must be at least {SMALLEST_KAPPA:g}, got {self.kappa!r}"
            raise InvalidSetting(msg)

    def estimate(self, source: CountSource) -> DifferentialLikelihood:
        """Return the likelihood under a training state; O(1) work."""
        return DifferentialLikelihood(source, by_level(source.messages, 2), self.kappa)


@dataclass(frozen=True, slots=True)
class DifferentialLikelihood(Likelihood[SparseCounts]):
    """A fitted differential event model; see `Differential.estimate`.

    Parameters
    ----------
    source : CountSource
        Where the counts of a message's features are looked up.
    messages : ndarray of int64, shape (L, K)
        Messages of each class, at each level; one unless `source` has more.
    kappa : float
        See `Differential`.
    """

    source: CountSource
    messages: Ints
    kappa: float

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the terms of a message for each class, taken apart by feature."""
        found = by_level(self.source.look_up(x.ids, "presence"), 3)
        return Contributions(*likelihood.differential(found, self.messages, self.kappa))
