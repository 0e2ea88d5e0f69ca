"""The categorical event model: one value for each of several fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.likelihood import Contributions, Likelihood
from app.bayes.smoothing import LAPLACE, Smoothing
from app.bayes.sparse import SparseCounts, first_of_each
from app.errors import InvalidObservation
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.bayes.counts import CountSource

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
        state = source.flatten()
        # In order, as the ids are.
        fields = state.ids >> VALUE_BITS
        first = first_of_each(fields).nonzero()[0]
        totals = np.zeros((first.size, state.n_classes), np.int64)
        if first.size:
            np.add.reduceat(state.documents, first, out=totals)
        n_values = np.concatenate((first[1:], [fields.size])) - first
        found = CategoricalLikelihood(
            source, self.smoothing, fields[first], totals, n_values
        )
        return found.over(self.domains, state.ids) if self.domains else found


@dataclass(frozen=True, slots=True)
class CategoricalLikelihood(Likelihood[SparseCounts]):
    """A fitted categorical event model; see `Categorical.estimate`.

    Parameters
    ----------
    source : CountSource
        Where the messages per value and class are looked up.
    smoothing : Smoothing
        How probabilities are estimated from counts, zeros included.
    fields : ndarray of int64, shape (F,)
        The fields that training has seen, increasing.
    totals : ndarray of int64, shape (F, K)
        Messages of each class that have the field.
    n_values : ndarray of int64, shape (F,)
        Values of the field that are declared, or that any class has seen.
    domains : mapping of int to int
        Number of declared values of a field.
    """

    source: CountSource
    smoothing: Smoothing
    fields: NDArray[np.int64]
    totals: NDArray[np.int64]
    n_values: NDArray[np.int64]
    domains: Mapping[int, int] = field(default_factory=dict, hash=False)

    def over(
        self, domains: Mapping[int, int], ids: NDArray[np.int64]
    ) -> CategoricalLikelihood:
        """Return the same over declared domains; `ids` are the values seen."""
        for number in ids.tolist():
            size = domains.get(number >> VALUE_BITS)
            if size is not None and not number & _VALUE < size:
                raise InvalidObservation(
                    f"field {number >> VALUE_BITS} has {size} declared values, "
                    f"but training has seen value {number & _VALUE}"
                )
        fields = np.union1d(self.fields, np.array(sorted(domains), np.int64))
        totals = np.zeros((fields.size, self.totals.shape[1]), np.int64)
        n_values = np.zeros(fields.size, np.int64)
        known = fields.searchsorted(self.fields)
        totals[known], n_values[known] = self.totals, self.n_values
        for number, size in domains.items():
            n_values[fields.searchsorted(number)] = size
        return CategoricalLikelihood(
            self.source, self.smoothing, fields, totals, n_values, domains
        )

    def contributions(self, x: SparseCounts, /) -> Contributions:
        """Return the log-likelihood of a message, taken apart by value."""
        pairs = [divmod(number, _VALUE + 1) for number in x.ids.tolist()]
        declared = [value < self.domains.get(f, 0) for f, value in pairs]
        return Contributions(
            *likelihood.categorical(
                self.source.look_up(x.ids, "presence"),
                x.ids >> VALUE_BITS,
                self.fields,
                self.totals,
                self.n_values,
                *self.smoothing.rule,
                np.array(declared, np.bool_),
            )
        )
