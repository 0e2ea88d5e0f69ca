"""What a profile may be made of."""

import math

import numpy as np
import pytest

from app.classifier.rule import Bounded, ShrunkenMean, VerdictRule
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


def test_normalisers_are_defined_for_a_message_of_nothing():
    """A message without features has a length like any other."""
    nothing = np.zeros(2)

    assert 0.05 == ShrunkenMean(20.0).factor(0, nothing)
    assert 1.0 == Root().factor(0, nothing)
    assert 0.1 == Bounded(strength=25.0, scale=2.0).factor(0, nothing)


@pytest.mark.parametrize(
    ("ham", "spam"), [(1.0, 0.0), (math.nan, 0.0), (-math.inf, 0.0), (0.0, math.inf)]
)
def test_thresholds_must_be_finite_and_in_order(ham, spam):
    """The ham threshold is not above the spam threshold."""
    with pytest.raises(InvalidSetting, match="threshold"):
        VerdictRule(ham_threshold=ham, spam_threshold=spam)
