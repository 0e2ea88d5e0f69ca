"""Sums of deltas: of one kind, or an error."""

from __future__ import annotations

import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.bayes.statistics import sum_by_view, total
from app.errors import InconsistentCounts
from tests.support.builders import measured, sparse

COUNTS = FeatureCounts.of(sparse({"a": 1}), label=0, n_classes=2)
SUMS = MomentSums.of(measured({"x": 3}), label=1, n_classes=2)


@pytest.mark.parametrize("part", [COUNTS, SUMS])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_total_is_of_the_kind_of_its_parts(part, n):
    """However many there are."""
    found = total([part] * n, n_classes=2)

    assert type(part) is type(found)
    assert n == found.messages.sum()
    assert part == found + -total([part] * n, n_classes=2) + part


def test_features_and_measurements_have_no_sum():
    """A view that would hold both is refused, and the sentence counts the parts."""
    with pytest.raises(InconsistentCounts, match=r"features in 2 parts and .* in 1,"):
        total([COUNTS, SUMS, COUNTS], n_classes=2)


def test_views_of_either_kind_are_summed_apart():
    """Each view has its own total."""
    epochs = [{"words": COUNTS, "sizes": SUMS}, {"sizes": SUMS}]

    assert {"words": COUNTS, "sizes": SUMS + SUMS} == sum_by_view(epochs, n_classes=2)
