"""Calibration: what the figures mean, and against independent oracles."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from app.figures import brier, expected_calibration_error, reliability

# Few distinct probabilities, so that ties are common, and all that there are.
probabilities = st.one_of(st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.floats(0, 1))
forecasts = st.lists(st.tuples(st.booleans(), probabilities), max_size=60)


def arrays(rows):
    """Return the columns of a list of forecasts."""
    return (
        np.array([gold for gold, _ in rows], np.bool_),
        np.array([said for _, said in rows], np.float64),
    )


@given(
    st.integers(1, 8).flatmap(
        lambda bins: st.tuples(
            st.just(bins),
            st.integers(1, 6).flatmap(
                lambda each: st.lists(
                    st.tuples(st.booleans(), st.integers(0, 10**6)),
                    min_size=bins * each,
                    max_size=bins * each,
                    unique_by=lambda row: row[1],
                )
            ),
        )
    )
)
def test_bins_are_those_of_scikit_learn(case):
    """Where the bins can be equally large, an independent program has the same."""
    bins, rows = case
    is_spam, said = arrays(rows)
    said /= 10**6
    share, mean = calibration_curve(is_spam, said, n_bins=bins, strategy="quantile")
    ours = reliability(is_spam, said, bins=bins)

    assert share.tolist() == pytest.approx([each.share for each in ours])
    assert mean.tolist() == pytest.approx([each.mean for each in ours])


@given(forecasts.filter(lambda rows: len({gold for gold, _ in rows}) == 2))
def test_brier_is_that_of_scikit_learn(rows):
    """An independent implementation gives the same figure."""
    is_spam, said = arrays(rows)

    assert brier_score_loss(is_spam, said) == pytest.approx(brier(is_spam, said))


@given(forecasts, st.integers(1, 20))
def test_every_message_is_in_one_bin(rows, bins):
    """Bins lose nothing, do not overlap, and are never more than were asked for."""
    is_spam, said = arrays(rows)
    groups = reliability(is_spam, said, bins=bins)

    assert len(rows) == sum(each.messages for each in groups)
    assert is_spam.sum() == sum(each.spam for each in groups)
    assert bins >= len(groups)
    assert all(each.low <= each.mean <= each.high for each in groups)
    assert all(here.high < after.low for here, after in pairwise(groups))


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 1)), unique_by=lambda row: row[1]),
    st.integers(1, 20),
)
def test_bins_of_different_probabilities_are_equally_large(rows, bins):
    """Sizes differ by one message at most where no two are alike."""
    sizes = [each.messages for each in reliability(*arrays(rows), bins=bins)]

    assert not sizes or max(sizes) - min(sizes) <= 1


@given(forecasts, st.randoms(use_true_random=False))
def test_calibration_ignores_the_order_of_messages(rows, random):
    """Ties fall into one bin, so the order of the messages changes nothing."""
    shuffled = random.sample(rows, len(rows))

    assert expected_calibration_error(*arrays(rows)) == pytest.approx(
        expected_calibration_error(*arrays(shuffled))
    )


@given(forecasts.filter(bool))
def test_the_expected_calibration_error_is_a_share(rows):
    """It is 0 for exact probabilities, and never more than 1."""
    assert 0 <= expected_calibration_error(*arrays(rows)) <= 1


@given(st.lists(st.booleans(), min_size=1))
@example([True] + 15 * [False])
@example([True] + 999 * [False])
def test_certainty_has_no_error_or_every_error(gold):
    """Two probabilities never share a bin, so opposite errors do not cancel out."""
    is_spam = np.array(gold, np.bool_)
    said = is_spam.astype(np.float64)

    assert 0 == expected_calibration_error(is_spam, said)
    assert 0 == brier(is_spam, said)
    assert 1 == expected_calibration_error(is_spam, 1 - said)
    assert 1 == brier(is_spam, 1 - said)


def test_who_always_says_the_share_is_calibrated_and_knows_nothing():
    """Calibration alone is cheap: Brier's score tells who also knows."""
    is_spam = np.arange(100) < 30

    assert pytest.approx(0) == expected_calibration_error(is_spam, np.full(100, 0.3))
    assert pytest.approx(0.21) == brier(is_spam, np.full(100, 0.3))


def test_no_message_has_no_calibration():
    """Without messages, the figures are None."""
    nothing = np.array([], np.bool_), np.array([], np.float64)

    assert () == reliability(*nothing)
    assert expected_calibration_error(*nothing) is None
    assert brier(*nothing) is None
