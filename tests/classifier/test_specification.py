"""What a profile may be made of."""

import math

import numpy as np
import pytest

from app.classifier.rule import Bounded, ShrunkenMean, Term, VerdictRule
from app.classifier.specification import Specification, check_name
from app.errors import InvalidSetting
from tests.support.builders import Root


def test_a_new_profile_tells_ham_from_spam():
    """The shipped labels are ham and spam, and spam is the unwanted one."""
    specification = Specification()

    assert ("ham", "spam") == specification.labels
    assert [False, True] == specification.spam_mask.tolist()
    assert [
        "words",
        "headers",
        "pairs",
        "corrections",
        "grams",
    ] == list(specification.views)


def test_a_site_may_have_more_labels_on_either_side():
    """Several labels may stand for spam, and several for wanted mail."""
    specification = Specification(
        labels=("ham", "newsletter", "spam", "phishing"),
        spam_labels=("spam", "phishing"),
    )

    assert [False, False, True, True] == specification.spam_mask.tolist()


@pytest.mark.parametrize(
    ("labels", "spam_labels", "sentence"),
    [
        (("spam",), ("spam",), "2 to 64 different labels"),
        (("ham", "spam", "ham"), ("spam",), "2 to 64 different labels"),
        (("ham", "Spam"), ("Spam",), "lower-case ASCII letters"),
        (("ham", "my spam"), ("my spam",), "lower-case ASCII letters"),
        (("ham", ""), ("",), "lower-case ASCII letters"),
        (("ham", "s" * 33), ("s" * 33,), "at most 32 characters"),
        (("ham", "spam"), ("junk",), "not among the labels"),
        (("ham", "spam"), (), "at least one label must be for spam"),
        (("ham", "spam"), ("ham", "spam"), "at least one label must be for spam"),
    ],
)
def test_labels_that_make_no_filter_are_refused(labels, spam_labels, sentence):
    """The error says which rule the labels break."""
    with pytest.raises(InvalidSetting, match=sentence):
        Specification(labels=labels, spam_labels=spam_labels)


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "ä", "x" * 129, "a\0", "a\n", ".", ".."]
)
def test_a_name_that_no_door_can_carry_is_refused(name):
    """A profile's name goes into URLs, headers and tables."""
    with pytest.raises(InvalidSetting, match="the name of a profile"):
        check_name(name)


@pytest.mark.parametrize("weight", [math.nan, math.inf])
def test_a_weight_must_be_finite(weight):
    """A weight that is no number is refused with its value."""
    with pytest.raises(InvalidSetting, match="weight"):
        Term(classifier="words", weight=weight)


@pytest.mark.parametrize("strength", [0.0, -1.0, math.nan, math.inf])
def test_a_strength_must_be_positive_and_finite(strength):
    """A mean over no features has no value."""
    with pytest.raises(InvalidSetting, match="strength"):
        ShrunkenMean(strength)


@pytest.mark.parametrize(("strength", "scale"), [(0.0, 1.0), (1.0, math.inf)])
def test_a_bound_must_be_positive_and_finite(strength, scale):
    """A message of nothing, of which nothing is said, has a factor too."""
    with pytest.raises(InvalidSetting, match="the strength and the scale"):
        Bounded(strength, scale)


def test_normalisers_are_defined_for_a_message_of_nothing():
    """A message without features has a length like any other."""
    nothing = np.zeros(2)

    assert 0.05 == ShrunkenMean(20.0).factor(0, nothing)
    assert 1.0 == Root().factor(0, nothing)
    assert 0.1 == Bounded(strength=25.0, scale=2.0).factor(0, nothing)


def test_a_verdict_without_a_term_is_refused():
    """A verdict needs at least one term."""
    with pytest.raises(InvalidSetting, match="at least one term"):
        VerdictRule(terms=())


def test_a_verdict_on_a_classifier_that_is_not_there_is_refused():
    """The error names it."""
    with pytest.raises(InvalidSetting, match="'smell'"):
        Specification(verdict=VerdictRule(terms=(Term(classifier="smell"),)))


@pytest.mark.parametrize(
    ("ham", "spam"), [(1.0, 0.0), (math.nan, 0.0), (-math.inf, 0.0), (0.0, math.inf)]
)
def test_thresholds_must_be_finite_and_in_order(ham, spam):
    """The ham threshold is not above the spam threshold."""
    with pytest.raises(InvalidSetting, match="threshold"):
        VerdictRule(ham_threshold=ham, spam_threshold=spam)
