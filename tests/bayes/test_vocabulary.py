"""The vocabulary is what was seen, or a declared number that holds it."""

from __future__ import annotations

import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import vocabulary_size
from app.bayes.sparse import SparseCounts
from app.errors import InvalidObservation

SEEN = FeatureCounts.of(SparseCounts.of({1: 1, 2: 1}), label=0, n_classes=2)


def test_without_a_declaration_the_seen_features_count():
    """Two features were seen, so there are two."""
    assert 2 == vocabulary_size(SEEN, None)


def test_a_declared_vocabulary_may_be_larger():
    """A lecture's word list may hold a word of no message."""
    assert 10 == vocabulary_size(SEEN, 10)


def test_a_declared_vocabulary_may_not_be_smaller():
    """The error has both numbers."""
    with pytest.raises(InvalidObservation, match=r"has 1 features.* seen feature 1"):
        vocabulary_size(SEEN, 1)


@pytest.mark.parametrize("feature", [5, -1])
def test_what_was_seen_is_declared(feature):
    """Or the probabilities of the declared features would not sum to 1."""
    seen = FeatureCounts.of(SparseCounts.of({0: 1, feature: 1}), label=0, n_classes=2)
    with pytest.raises(InvalidObservation, match=f"seen feature {feature}"):
        vocabulary_size(seen, 5)
