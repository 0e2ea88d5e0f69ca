"""Fractions are what `app.bayes` computes, and are written as they were counted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.lab.groups import Share, posterior, prior_shares, rational, share, written

PARTS = st.integers(0, 10**6)
RULES = st.one_of(
    st.just(NoSmoothing()),
    st.floats(1e-6, 0.5).map(Epsilon),
    st.floats(1e-6, 1e6).map(Lidstone),
)
PRIORS = st.sampled_from(
    [FittedPrior(), SmoothedPrior(0.5), UniformPrior(), FixedPrior((0.25, 0.75))]
)


@given(RULES, PARTS, PARTS, st.integers(1, 1000))
def test_a_share_is_what_the_smoothing_computes(rule, count, rest, n_values):
    """The same number, with no rounding error."""
    exact = share(rule, count=count, total=count + rest, n_values=n_values)
    logs = rule.log_probability(np.array(count), np.array(count + rest), n_values)

    assert float(exact.value) == pytest.approx(math.exp(logs), rel=1e-12)


@given(PRIORS, PARTS, PARTS)
def test_a_prior_is_what_the_rule_computes(prior, first, second):
    """The same numbers; a table always has rows."""
    messages = [first + 1, second]
    exact = prior_shares(prior, messages)
    logs = prior.log_prior(np.array(messages))

    assert [float(s.value) for s in exact] == pytest.approx(
        np.exp(logs).tolist(), rel=1e-12
    )


@given(st.floats(1e-100, 1e100))
def test_a_float_is_the_fraction_that_it_was_written_as(number):
    """No digits appear that no one wrote."""
    assert number == float(rational(number))


def test_a_share_is_written_as_it_was_counted():
    """Reduced only where the counts are not whole."""
    assert "3/6" == written(Share(Fraction(3), Fraction(6)))
    assert "5/13" == written(share(Lidstone(0.5), count=2, total=5, n_values=3))
    assert "0/0" == written(share(NoSmoothing(), count=0, total=0, n_values=3))
    assert 0 == share(NoSmoothing(), count=0, total=0, n_values=3).value


def test_a_fraction_that_no_one_can_read_is_not_written():
    """Nor one that is not there."""
    assert None is written(Fraction(1, 10**40))
    assert None is written(None)


def test_a_posterior_of_nothing_is_uniform():
    """Impossible classes are tied."""
    assert (Fraction(1, 2),) * 2 == posterior([Fraction(0), Fraction(0)])
    assert (Fraction(1, 4), Fraction(3, 4)) == posterior([Fraction(1), Fraction(3)])
