"""Numbers at the edge are refused with a sentence, and never wrapped or guessed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Multinomial
from app.bayes.models.logistic import GaussianPull, fit
from app.bayes.posterior import log_odds, log_posterior
from app.bayes.smoothing import Interpolation
from app.bayes.sparse import Measurements, SparseCounts
from app.bayes.table import FeatureTable
from app.errors import InvalidObservation

HALF = 2**62


def counted(occurrences, *, messages=1, feature=1):
    """Return counts of one feature in the messages of one class."""
    documents = min(occurrences, messages)
    return FeatureCounts.of_counts(
        np.array([messages, 0]),
        np.array([feature]),
        np.array([[occurrences, 0]]),
        np.array([[documents, 0]]),
    )


def test_a_sum_that_64_bits_hold_is_kept():
    """What is just below 2**63 is kept, and taken back."""
    both = counted(HALF) + counted(HALF - 1024)

    assert [2**63 - 1024, 0] == both.occurrences[0].tolist()
    assert [2**63 - 1024, 0] == both.totals("occurrences").tolist()
    assert counted(HALF) == both - counted(HALF - 1024)
    assert counted(HALF) == FeatureCounts.sum(
        [both, -counted(HALF - 1024), counted(1), -counted(1)], n_classes=2
    )


def test_the_counts_of_all_classes_may_have_more_than_64_bits():
    """Each class has a count that fits; together they back off to a share of 1."""
    state = FeatureCounts.of_counts(
        np.array([1, 1]), np.array([1]), np.array([[HALF, HALF]]), np.array([[1, 1]])
    )
    model = Multinomial(counting="occurrences", interpolation=Interpolation(3.0))
    found = model.estimate(state)(SparseCounts.of({1: 1}))

    assert [0.0, 0.0] == pytest.approx(found.tolist(), abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_a_sum_beyond_64_bits_is_refused(n):
    """Two and more summands are checked: four times 2**62 would wrap to 0."""
    parts = [counted(HALF)] * n
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        FeatureCounts.sum(parts, n_classes=2)
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        parts[0] + parts[1]


def test_messages_beyond_64_bits_are_refused():
    """The number of messages is checked like a count."""
    many = counted(1, messages=HALF)
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        many + many
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        FeatureCounts.sum([many, many], n_classes=2)


def test_totals_beyond_64_bits_are_refused():
    """Each count fits, but their total does not."""
    both = counted(HALF) + counted(HALF, feature=2)
    with pytest.raises(InvalidObservation, match=r"9\.223e\+18"):
        both.totals("occurrences")


@pytest.mark.parametrize(
    "delta",
    [counted(HALF), counted(HALF, feature=2), counted(1, messages=2**63 - 1)],
)
def test_a_table_refuses_and_is_as_it_was(delta):
    """A refused count, total or number of messages leaves the table unchanged."""
    table = FeatureTable.of(counted(HALF))
    with pytest.raises(InvalidObservation, match="64 bits do not hold"):
        table.add(delta)

    assert counted(HALF) == table.flatten()
    assert [HALF, 0] == table.totals("occurrences").tolist()


@pytest.mark.parametrize("count", [1.5, math.nan, 2**63, -(2**63) - 1, "2"])
def test_what_is_no_whole_number_is_no_count(count):
    """The same holds for ids: 1.5 is not read as 1."""
    with pytest.raises(
        InvalidObservation, match="a count is a whole number of 64 bits"
    ):
        SparseCounts.of({1: 1, 2: count})
    with pytest.raises(InvalidObservation, match="an id is a whole number of 64 bits"):
        SparseCounts.of({count: 1})


def test_arrays_of_floats_are_refused():
    """Floats would be truncated elsewhere."""
    ids, floats = np.array([1]), np.array([1.5])
    with pytest.raises(
        InvalidObservation, match="whole numbers, got int64 and float64"
    ):
        SparseCounts(ids, floats)
    with pytest.raises(
        InvalidObservation, match="whole numbers, got float64 and int64"
    ):
        SparseCounts(floats, ids)
    with pytest.raises(
        InvalidObservation, match="whole numbers, got int64 and float64"
    ):
        Measurements(ids, floats)


@pytest.mark.parametrize(
    ("joint", "named"),
    [([math.nan, 0], "nan"), ([0, math.nan], "nan"), ([0, math.inf], "inf")],
)
def test_a_posterior_of_no_number_is_refused(joint, named):
    """NaN is refused, and is not a tie."""
    with pytest.raises(InvalidObservation, match=f"below infinity, got {named}"):
        log_posterior(np.array(joint, float))
    with pytest.raises(InvalidObservation, match=f"below infinity, got {named}"):
        log_odds(np.array(joint, float), np.array([False, True]))


PULL = GaussianPull(weights=(1.0,), weight_deviation=1.0, bias_deviation=1.0)


@pytest.mark.parametrize(
    ("opinion", "offset", "label", "mislabelled", "sentence"),
    [
        (math.nan, 0, 0, 0, "an opinion must be finite, got nan"),
        (-math.inf, 0, 0, 0, "an opinion must be finite, got -inf"),
        (1, math.nan, 0, 0, "an offset is below infinity, got nan"),
        (1, math.inf, 0, 0, "an offset is below infinity, got inf"),
        (1, 0, 2, 0, r"label 2 is not in range\(2\)"),
        (1, 0, -1, 0, r"label -1 is not in range\(2\)"),
        (1, 0, 0, math.nan, "from 0 to below 1, got nan"),
        (1, 0, 0, 1.0, "from 0 to below 1, got 1.0"),
    ],
)
def test_fusion_takes_numbers_and_labels(opinion, offset, label, mislabelled, sentence):
    """One of another kind would make every weight not a number."""
    opinions, offsets = np.zeros((2, 1, 2)), np.zeros((2, 2))
    opinions[0, 0, 1], offsets[1, 0] = opinion, offset
    with pytest.raises(InvalidObservation, match=sentence):
        fit(opinions, offsets, np.array([0, label]), PULL, mislabelled=mislabelled)


@pytest.mark.parametrize("deviation", [1e8, 1e-8, 1e-200, math.inf, math.nan])
def test_a_deviation_has_an_inverse_square(deviation):
    """A deviation too small or too large for its inverse square is refused."""
    with pytest.raises(InvalidObservation, match="a deviation must be between"):
        GaussianPull(weights=(), weight_deviation=deviation, bias_deviation=1.0)
    with pytest.raises(InvalidObservation, match="a weight must be finite"):
        GaussianPull(weights=(math.inf,), weight_deviation=1.0, bias_deviation=1.0)
