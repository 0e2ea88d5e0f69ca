"""Curves: each point is the figure it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from app.figures import error_over_time, learning_curve, roc, roca_pct

rankings = st.lists(
    st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=40
).filter(lambda rows: len({gold for _, gold in rows}) == 2)


def arrays(rows):
    """Return the columns of a ranking."""
    return (
        np.array([score for score, _ in rows], np.float64),
        np.array([gold for _, gold in rows], np.bool_),
    )


@given(rankings)
def test_the_curve_is_that_of_scikit_learn(rows):
    """An independent implementation goes through the same points."""
    log_odds, is_spam = arrays(rows)
    lost, caught, _ = roc_curve(is_spam, log_odds, drop_intermediate=False)
    curve = roc(log_odds, is_spam)

    assert (100 * lost).tolist() == pytest.approx(curve.ham_lost_pct.tolist())
    assert (100 - 100 * caught).tolist() == pytest.approx(
        curve.spam_missed_pct.tolist()
    )


@given(rankings)
def test_the_area_under_the_curve_is_roca(rows):
    """Trapezoids count a tie half, as 1-ROCA does."""
    log_odds, is_spam = arrays(rows)
    curve = roc(log_odds, is_spam)
    heights = (curve.spam_missed_pct[1:] + curve.spam_missed_pct[:-1]) / 2
    area = (np.diff(curve.ham_lost_pct) * heights).sum() / 100

    assert roca_pct(log_odds, is_spam) == pytest.approx(area)


@pytest.mark.parametrize("gold", [True, False])
def test_one_side_alone_has_no_curve(gold):
    """Nothing is ranked against nothing."""
    assert roc(np.arange(3.0), np.full(3, gold)) is None


@given(rankings)
def test_the_learning_curve_ends_at_the_figure_of_the_stream(rows):
    """Each point is 1-ROCA of the messages so far."""
    log_odds, is_spam = arrays(rows)
    course = learning_curve(log_odds, is_spam)

    assert len(rows) == course.messages[-1]
    assert roca_pct(log_odds, is_spam) == course.values[-1]
    assert sorted(set(course.messages)) == list(course.messages)


@given(
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60),
    st.integers(1, 5),
)
def test_errors_are_those_of_the_last_messages_of_a_side(rows, window):
    """Counted one by one."""
    wrong = np.array([row[0] for row in rows])
    counted = np.array([row[1] for row in rows])
    course = error_over_time(wrong, counted, window=window)
    for moment, value in zip(course.messages, course.values, strict=True):
        side = [bad for bad, of_side in rows[:moment] if of_side]
        newest = side[-window:]
        expected = 100 * sum(newest) / len(newest) if newest else None

        assert expected == (None if value is None else pytest.approx(value))


def test_a_long_course_has_few_points():
    """More are not seen, and make the page heavy."""
    course = error_over_time(np.ones(10_000, bool), np.ones(10_000, bool), window=500)

    assert len(course.messages) <= 240
    assert 10_000 == course.messages[-1]
