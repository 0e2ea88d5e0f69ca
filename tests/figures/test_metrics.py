"""Figures of merit: what they mean, and against independent oracles."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from app.figures import Errors, macro_f1_pct, roca_pct, spam_missed_at

# Few distinct scores, so that ties are common, and all that floats can be.
scores = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=False),
)
rankings = st.lists(st.tuples(scores, st.booleans()), max_size=40)
two_sided = rankings.filter(lambda rows: len({gold for _, gold in rows}) == 2)


def arrays(rows):
    """Return the columns of a ranking."""
    return (
        np.array([score for score, _ in rows], np.float64),
        np.array([gold for _, gold in rows], np.bool_),
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1))
def test_macro_f1_is_that_of_scikit_learn(rows):
    """Over the labels that some message has or was given."""
    gold, said = np.array(rows).T

    assert 100 * f1_score(gold, said, average="macro") == pytest.approx(
        macro_f1_pct(gold, said)
    )


def test_macro_f1_needs_messages():
    """A filter that was never tried has no F1."""
    assert macro_f1_pct(np.zeros(0, np.int64), np.zeros(0, np.int64)) is None


@given(two_sided)
def test_roca_is_the_share_of_pairs_ranked_wrongly(rows):
    """1-ROCA counts the pairs of a ham and a spam one by one, ties half."""
    ham = [score for score, gold in rows if not gold]
    spam = [score for score, gold in rows if gold]
    wrong = sum(
        Fraction(1) if h > s else Fraction(1, 2) if h == s else Fraction(0)
        for h in ham
        for s in spam
    )

    assert float(100 * wrong / (len(ham) * len(spam))) == pytest.approx(
        roca_pct(*arrays(rows)), rel=1e-12, abs=0
    )


@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.booleans()), min_size=2, max_size=60
    ).filter(lambda rows: len({gold for _, gold in rows}) == 2)
)
def test_roca_agrees_with_scikit_learn(rows):
    """An independent implementation of the area gives the same figure."""
    log_odds, is_spam = arrays(rows)

    assert 100 * (1 - roc_auc_score(is_spam, log_odds)) == pytest.approx(
        roca_pct(log_odds, is_spam), abs=1e-9
    )


@given(
    st.lists(
        st.tuples(st.integers(-1000, 1000), st.booleans()), min_size=2, max_size=60
    ).filter(lambda rows: len({gold for _, gold in rows}) == 2),
    st.floats(0, 50),
)
def test_ranking_figures_ignore_monotone_transformations(rows, ham_lost_pct):
    """Only the order of the scores counts: a probability ranks like log-odds."""
    log_odds, is_spam = arrays(rows)
    transformed = np.arctan(log_odds / 100) * 7 - 3
    assume(len(set(transformed.tolist())) == len(set(log_odds.tolist())))

    assert roca_pct(log_odds, is_spam) == roca_pct(transformed, is_spam)
    assert spam_missed_at(
        log_odds, is_spam, ham_lost_pct=ham_lost_pct
    ) == spam_missed_at(transformed, is_spam, ham_lost_pct=ham_lost_pct)


@given(two_sided, st.randoms(use_true_random=False))
def test_ranking_figures_ignore_the_order_of_messages(rows, random):
    """The figures belong to the set of messages, not to their order."""
    shuffled = random.sample(rows, len(rows))

    assert roca_pct(*arrays(rows)) == roca_pct(*arrays(shuffled))
    assert spam_missed_at(*arrays(rows), ham_lost_pct=10) == spam_missed_at(
        *arrays(shuffled), ham_lost_pct=10
    )


@given(two_sided)
def test_reversing_scores_turns_roca_around(rows):
    """A filter that is always wrong is as good as one that is always right."""
    log_odds, is_spam = arrays(rows)

    assert 100 == pytest.approx(
        roca_pct(log_odds, is_spam) + roca_pct(-log_odds, is_spam)
    )


def test_a_filter_that_says_nothing_ranks_at_one_half():
    """Equal scores for all are a coin toss, 50 %."""
    assert 50 == roca_pct(np.zeros(5), np.array([True, False, True, False, False]))


@given(two_sided, st.floats(0, 99))
def test_spam_missed_is_the_least_at_that_much_ham_lost(rows, ham_lost_pct):
    """No threshold that loses at most the allowed ham misses less spam."""
    log_odds, is_spam = arrays(rows)
    ham, spam = log_odds[~is_spam], log_odds[is_spam]
    allowed = math.floor(Fraction(ham_lost_pct) * ham.size / 100 + Fraction(1, 10**9))
    missed = [
        100 * (spam <= threshold).sum() / spam.size
        for threshold in [-math.inf, *log_odds]
        if (ham > threshold).sum() <= allowed
    ]

    assert min(missed) == spam_missed_at(log_odds, is_spam, ham_lost_pct=ham_lost_pct)


def test_a_share_of_ham_is_rounded_down_exactly():
    """0.7 % of 11,000 ham are 77, though floats make it a trifle less."""
    log_odds = np.concatenate([np.arange(11_000.0), [11_000 - 77.5]])
    is_spam = np.arange(11_001) == 11_000

    assert 0 == spam_missed_at(log_odds, is_spam, ham_lost_pct=0.7)
    assert 100 == spam_missed_at(log_odds, is_spam, ham_lost_pct=0.6)


def test_fewer_than_a_thousand_ham_allow_no_loss_at_one_in_a_thousand():
    """The share is rounded down, so that it is never exceeded."""
    log_odds = np.array([0.0, 5.0, 4.0, 6.0])
    is_spam = np.array([False, False, True, True])

    assert 50 == spam_missed_at(log_odds, is_spam, ham_lost_pct=0.1)


@pytest.mark.parametrize("gold", [True, False])
def test_no_ham_or_no_spam_leaves_figures_undefined(gold):
    """A share of nothing is None, not a perfect 0."""
    log_odds, is_spam = np.array([1.0, 2.0]), np.array([gold, gold])
    errors = Errors.of(is_spam, is_spam)

    assert roca_pct(log_odds, is_spam) is None
    assert spam_missed_at(log_odds, is_spam, ham_lost_pct=0.1) is None
    assert errors.lam_pct is None
    assert (None, 0) == (
        (errors.ham_lost_pct, errors.spam_missed_pct)
        if gold
        else (errors.spam_missed_pct, errors.ham_lost_pct)
    )


def test_no_message_leaves_every_figure_undefined():
    """An empty stream has no figures, and is no error."""
    nothing, nobody = np.array([], np.float64), np.array([], np.bool_)
    errors = Errors.of(nobody, nobody)

    assert roca_pct(nothing, nobody) is None
    assert spam_missed_at(nothing, nobody, ham_lost_pct=0.1) is None
    assert (None, None, None) == (
        errors.ham_lost_pct,
        errors.spam_missed_pct,
        errors.lam_pct,
    )


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_errors_are_counted_by_gold_label(rows):
    """Ham lost and spam missed are the two kinds of disagreement."""
    is_spam = np.array([gold for gold, _ in rows], np.bool_)
    decided = np.array([decision for _, decision in rows], np.bool_)
    expected = Errors(
        ham=sum(not gold for gold, _ in rows),
        ham_lost=rows.count((False, True)),
        spam=sum(gold for gold, _ in rows),
        spam_missed=rows.count((True, False)),
    )

    assert expected == Errors.of(is_spam, decided)


@given(st.integers(1, 500), st.integers(1, 500), st.data())
def test_lam_lies_between_the_two_error_rates(ham, spam, data):
    """An average is between what it averages (away from none and all)."""
    lost = data.draw(st.integers(1, ham - 1)) if ham > 1 else None
    missed = data.draw(st.integers(1, spam - 1)) if spam > 1 else None
    assume(lost is not None and missed is not None)
    errors = Errors(ham=ham, ham_lost=lost, spam=spam, spam_missed=missed)
    low, high = sorted([errors.ham_lost_pct, errors.spam_missed_pct])

    assert low - 1e-9 <= errors.lam_pct <= high + 1e-9


@given(st.integers(1, 500), st.integers(1, 500), st.data())
def test_lam_treats_both_errors_and_their_opposites_alike(ham, spam, data):
    """Swapping the classes keeps lam; deciding the opposite turns it around."""
    lost = data.draw(st.integers(0, ham))
    missed = data.draw(st.integers(0, spam))
    errors = Errors(ham=ham, ham_lost=lost, spam=spam, spam_missed=missed)
    swapped = Errors(ham=spam, ham_lost=missed, spam=ham, spam_missed=lost)
    opposite = Errors(
        ham=ham, ham_lost=ham - lost, spam=spam, spam_missed=spam - missed
    )

    assert errors.lam_pct == pytest.approx(swapped.lam_pct)
    assert 100 == pytest.approx(errors.lam_pct + opposite.lam_pct)


def test_no_error_counts_as_half_an_error_in_lam():
    """1,000 ham and 1,000 spam without an error are better than 100 of each."""
    assert pytest.approx(0.05) == (
        Errors(ham=1000, ham_lost=0, spam=1000, spam_missed=0).lam_pct
    )
    assert pytest.approx(0.5) == (
        Errors(ham=100, ham_lost=0, spam=100, spam_missed=0).lam_pct
    )


def test_lam_of_known_rates_is_the_published_formula():
    """logit-1((logit hm + logit sm) / 2), worked out by hand for 1 % and 9 %."""
    # logit .01 = ln(1/99), logit .09 = ln(9/91); their mean is ln(3/sqrt(9009)).
    odds = 3 / math.sqrt(9009)

    assert pytest.approx(100 * odds / (1 + odds)) == (
        Errors(ham=100, ham_lost=1, spam=100, spam_missed=9).lam_pct
    )


def test_nearly_all_of_a_few_ham_leaves_a_threshold():
    """Rounding never allows more ham to be lost than there is."""
    log_odds = np.array([1.0, 2.0])

    assert 0 == spam_missed_at(
        log_odds, np.array([False, True]), ham_lost_pct=99.9999999999
    )
