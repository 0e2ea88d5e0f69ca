"""Class priors: fitted, smoothed, uniform, fixed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.bayes.prior import (
    FadingPrior,
    FittedPrior,
    FixedPrior,
    SmoothedPrior,
    UniformPrior,
)
from app.errors import InvalidObservation

MESSAGES = np.array([6, 3, 0])


def test_the_fitted_prior_is_the_share_of_each_class():
    """A class with no message yet is impossible beside one that has some."""
    expected = [math.log(6 / 9), math.log(3 / 9), -math.inf]

    assert expected == FittedPrior().log_prior(MESSAGES).tolist()


def test_the_fitted_prior_is_uniform_before_the_first_message():
    """Nothing is known, so nothing is preferred."""
    expected = [-math.log(3)] * 3

    assert expected == FittedPrior().log_prior(np.zeros(3, np.int64)).tolist()


def test_the_smoothed_prior_gives_every_class_a_chance():
    """One imagined message each: 7, 4 and 1 twelfths."""
    prior = np.exp(SmoothedPrior().log_prior(MESSAGES))

    assert [7 / 12, 4 / 12, 1 / 12] == pytest.approx(prior.tolist(), rel=1e-15)


def test_the_uniform_prior_learns_nothing():
    """Every class has one third, whatever was learned."""
    assert [-math.log(3)] * 3 == UniformPrior().log_prior(MESSAGES).tolist()


def test_the_fixed_prior_is_what_was_stated():
    """A stated zero is impossible."""
    expected = [math.log(0.75), math.log(0.25), -math.inf]

    assert expected == FixedPrior((0.75, 0.25, 0.0)).log_prior(MESSAGES).tolist()


@pytest.mark.parametrize(
    "probabilities", [(0.5, 0.6), (1.5, -0.5), (math.nan, 1.0), ()]
)
def test_probabilities_that_are_none_are_refused(probabilities):
    """They must not be negative, and must sum to one."""
    with pytest.raises(InvalidObservation, match="must sum to 1"):
        FixedPrior(probabilities)


def test_a_fixed_prior_needs_one_probability_per_class():
    """The error has both numbers."""
    with pytest.raises(InvalidObservation, match=r"2 probabilities.* 3 classes"):
        FixedPrior((0.5, 0.5)).log_prior(MESSAGES)


def test_a_smoothed_prior_needs_a_pseudo_count():
    """A pseudo-count of zero would make it the fitted prior."""
    with pytest.raises(InvalidObservation, match="alpha must be between"):
        SmoothedPrior(0.0)


SPAM = np.array([False, True])


def odds(ham, spam, prior=None):
    """Return the prior log-odds of spam after so many messages of each that came."""
    counts = np.array([ham, spam])
    logs = (prior or FadingPrior()).log_prior(counts, counts, SPAM)
    return float(logs[1] - logs[0])


def test_the_fading_prior_is_the_rule_of_succession_in_the_beginning():
    """After n messages that were all spam, the next one is spam with n + 1 to 1."""
    for n in range(20):
        assert math.log(n + 1) == pytest.approx(odds(0, n), abs=1e-12)
        assert -math.log(n + 1) == pytest.approx(odds(n, 0), abs=1e-12)


def test_the_fading_prior_has_a_bound():
    """However unequal the counts, the prior is at most 100 to 1."""
    assert math.log(100) == pytest.approx(odds(0, 10**9), abs=1e-12)


def test_the_fading_prior_fades():
    """The prior fades with the messages of the rarer class."""
    taught = [odds(ham, 10**6) for ham in (0, 1, 3, 10, 100)]

    assert taught == sorted(taught, reverse=True)
    assert taught[2] == pytest.approx(math.log(100) / 2, abs=1e-12)
    assert 0.2 > taught[-1] > 0
    assert 0.0 == odds(40, 40)


def test_what_did_not_come_says_nothing_of_what_comes():
    """An archive of spam, or reports of spam alone, do not change the prior."""
    learned, spam = np.array([0, 1000]), SPAM
    ham, of_archive = FadingPrior().log_prior(learned, np.zeros(2), spam)
    among = FadingPrior().log_prior(learned, np.array([950.0, 1050.0]), spam)

    assert ham == of_archive == -math.log(2)
    assert math.log(1051 / 951) == pytest.approx(among[1] - among[0], abs=1e-12)


def test_the_fading_prior_is_a_distribution_over_any_number_of_classes():
    """Classes behind the best taught one of their side are less probable."""
    spam = np.array([False, True, False, False, True])
    prior = np.exp(
        FadingPrior().log_prior(np.array([50, 50, 0, 2, 0]), np.zeros(2), spam)
    )

    assert 1.0 == pytest.approx(prior.sum(), abs=1e-12)
    assert prior[1] > prior[0] > prior[3] > prior[2] > 0 < prior[4] < prior[1]


def test_labels_divide_the_probability_of_their_side():
    """Three labels of ham against one of spam: spam is as probable as with one."""
    spam, arrived = np.array([False, False, False, True]), np.array([9.0, 29.0])
    for learned in ([10**9] * 4, [9, 0, 0, 9], [3, 4, 2, 9]):
        *ham, of_spam = np.exp(
            FadingPrior().log_prior(np.array(learned), arrived, spam)
        )
        both = np.array([sum(learned[:3]), learned[3]])
        one, other = np.exp(FadingPrior().log_prior(both, arrived, SPAM))

        assert [one, other] == pytest.approx([sum(ham), of_spam], abs=1e-12)


def test_a_label_of_a_side_that_nobody_uses_gets_little_mail():
    """One in twelve, beside one that has learned nine and another unused one."""
    spam = np.array([False, False, False, True])
    prior = np.exp(
        FadingPrior().log_prior(np.array([9, 0, 0, 9]), np.array([9.0, 9.0]), spam)
    )

    assert [10, 1, 1, 12] == pytest.approx((prior * 24).tolist(), abs=1e-12)


@pytest.mark.parametrize("name", ["pseudo", "most", "messages"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_fading_prior_needs_positive_numbers(name, value):
    """The error names the number."""
    with pytest.raises(InvalidObservation, match=name):
        FadingPrior(**{name: value})


PRIORS = [FittedPrior(), SmoothedPrior(1.0)]


@pytest.mark.parametrize("prior", PRIORS)
def test_a_sum_of_messages_past_64_bits_is_refused(prior):
    """A wrapped sum would be negative, and have no logarithm."""
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        prior.log_prior(np.array([2**62, 2**61, 2**62]))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("messages", [[3, -1], [-5, 5], [math.nan, 1.0]])
def test_messages_that_are_no_count_are_refused(prior, messages):
    """A number of messages is at least zero, and not NaN."""
    with pytest.raises(InvalidObservation, match="a number of messages from 0, got"):
        prior.log_prior(np.array(messages))
