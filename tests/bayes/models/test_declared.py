"""What is declared and was never seen takes part; what is not declared is left out."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Bernoulli, Categorical, Multinomial, value_id
from app.bayes.smoothing import Epsilon, Interpolation, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation

# Features 0 and 1 are seen, 2 is declared, 3 is neither.
WORDS = FeatureCounts.of(SparseCounts.of({0: 2, 1: 1}), label=0, n_classes=2)
WORDS += FeatureCounts.of(SparseCounts.of({1: 4}), label=1, n_classes=2)
WORDS += FeatureCounts.of(SparseCounts.of({1: 1}), label=1, n_classes=2)
QUERY = SparseCounts.of({1: 1, 2: 2, 3: 5})
KNOWN = SparseCounts.of({1: 1})


def exactly(likelihood, x):
    """Return the probability of a message in each class."""
    return np.exp(likelihood(x)).tolist()


def test_bernoulli_has_a_declared_word_present():
    """Its factor is (0 + 1) / (n + 2), where it is absent (n + 1) / (n + 2)."""
    likelihood = Bernoulli(vocabulary=3).estimate(WORDS)
    ham = Fraction(1, 3) * Fraction(2, 3) * Fraction(1, 3)
    spam = Fraction(3, 4) * Fraction(3, 4) * Fraction(1, 4)

    assert exactly(likelihood, QUERY) == pytest.approx([float(ham), float(spam)])
    assert [True, True, False] == likelihood.contributions(QUERY).seen.tolist()


@pytest.mark.parametrize(
    ("smoothing", "ham", "spam"),
    [
        (Lidstone(1.0), Fraction(2, 6) * Fraction(1, 36), Fraction(6, 8 * 64)),
        (Epsilon(0.01), Fraction(1, 3) / 10**4, Fraction(1, 10**4)),
        (NoSmoothing(), Fraction(0), Fraction(0)),
    ],
)
def test_the_multinomial_draws_a_declared_word(smoothing, ham, spam):
    """Each occurrence is a factor of alpha / (N + alpha V)."""
    model = Multinomial(smoothing=smoothing, counting="occurrences", vocabulary=3)

    assert exactly(model.estimate(WORDS), QUERY) == pytest.approx(
        [float(ham), float(spam)]
    )


def test_presence_counts_a_declared_word_once():
    """Repeats in a message do not count, and a class backs off to all classes."""
    model = Multinomial(
        smoothing=Lidstone(1.0), vocabulary=3, interpolation=Interpolation(1.0)
    )
    ham = (Fraction(2, 5) + Fraction(4, 7)) / 2 * (Fraction(1, 5) + Fraction(1, 7)) / 2
    spam = (
        (2 * Fraction(3, 5) + Fraction(4, 7))
        / 3
        * (2 * Fraction(1, 5) + Fraction(1, 7))
        / 3
    )

    assert exactly(model.estimate(WORDS), QUERY) == pytest.approx(
        [float(ham), float(spam)]
    )


def test_without_smoothing_a_declared_word_is_impossible_everywhere():
    """Such a word ties all classes; leaving it out would decide between them."""
    for model in (
        Bernoulli(smoothing=NoSmoothing(), vocabulary=3),
        Multinomial(smoothing=NoSmoothing(), vocabulary=3),
    ):
        assert [-math.inf] * 2 == model.estimate(WORDS)(QUERY).tolist()


@pytest.mark.parametrize("model", [Bernoulli(), Multinomial()])
def test_without_a_declaration_an_unseen_word_is_left_out(model):
    """An unseen word changes no bit of the score."""
    likelihood = model.estimate(WORDS)

    assert likelihood(KNOWN).tolist() == likelihood(QUERY).tolist()


def values(**cells):
    """Return a row of the fields a and b."""
    return SparseCounts.of(
        {value_id(field="ab".index(f), value=v): 1 for f, v in cells.items()}
    )


def test_a_declared_value_has_its_smoothed_estimate():
    """Field a has 3 declared values of which 2 were seen; b has what was seen."""
    rows = [(values(a=0, b=0), 0), (values(a=1), 1), (values(a=0), 1)]
    state = FeatureCounts.sum(
        [FeatureCounts.of(x, label=c, n_classes=2) for x, c in rows], n_classes=2
    )
    likelihood = Categorical(domains={0: 3}).estimate(state)

    assert exactly(likelihood, values(a=2, b=5)) == pytest.approx([1 / 4, 1 / 5])
    assert exactly(likelihood, values(a=0)) == pytest.approx([2 / 4, 2 / 5])
    assert [1.0, 1.0] == exactly(likelihood, values(a=3, b=5))


def test_a_declared_field_that_training_never_saw_says_the_same_of_all():
    """Each of its values is as likely as the others, in each class."""
    state = FeatureCounts.of(values(b=0), label=0, n_classes=2)
    likelihood = Categorical(domains={0: 4}).estimate(state)

    assert exactly(likelihood, values(a=1)) == pytest.approx([1 / 4, 1 / 4])


def test_a_value_beyond_its_domain_is_refused():
    """The error names the field, its number of values, and the value."""
    state = FeatureCounts.of(values(a=2), label=0, n_classes=2)
    with pytest.raises(
        InvalidObservation, match=r"field 0 has 2 declared values.* seen value 2"
    ):
        Categorical(domains={0: 2}).estimate(state)
