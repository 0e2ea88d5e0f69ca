"""Labels that are wrong now and then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.specification import Specification
from app.errors import InvalidObservation
from app.evaluation.experiment import noisy_labels

KNOWN = ("ham", "spam", "phishing")


def said(labels, noise, seed=1):
    """Return what is learned."""
    known = Specification(labels=KNOWN, spam_labels=("spam", "phishing"))
    return noisy_labels(labels, known, noise=noise, seed=seed)


@given(st.lists(st.sampled_from(KNOWN)))
def test_without_noise_the_gold_labels_are_learned(labels):
    """Nobody is wrong."""
    assert tuple(labels) == said(labels, 0.0)


@given(st.lists(st.sampled_from(KNOWN)))
def test_who_is_always_wrong_takes_the_first_label_of_the_other_side(labels):
    """Ham becomes spam, and every kind of spam becomes ham."""
    expected = ["spam" if label == "ham" else "ham" for label in labels]

    assert tuple(expected) == said(labels, 1.0)


def test_about_that_share_is_wrong():
    """Of ten thousand labels, five in a hundred are turned, give or take."""
    labels = ["ham", "spam"] * 5000
    wrong = sum(a != b for a, b in zip(labels, said(labels, 0.05), strict=True))

    assert 400 < wrong < 600


def test_the_same_seed_is_wrong_about_the_same_messages():
    """Configurations that are compared hear the same lies."""
    labels = ["ham", "spam"] * 50

    assert said(labels, 0.5, seed=3) == said(labels, 0.5, seed=3)
    assert said(labels, 0.5, seed=3) != said(labels, 0.5, seed=4)


@pytest.mark.parametrize("noise", [-0.1, 1.1])
def test_noise_is_a_share(noise):
    """Percentages are refused."""
    with pytest.raises(InvalidObservation, match="from 0 to 1"):
        said(["ham"], noise)
