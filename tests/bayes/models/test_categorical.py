"""The categorical event model against scikit-learn, and on values it never saw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import CategoricalNB

from app.bayes.counts import FeatureCounts
from app.bayes.models.discrete import Categorical, value_id
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable
from app.errors import InvalidObservation


def record(**fields):
    """Return a message with values by field name a, b, c."""
    return SparseCounts.of(
        {value_id(field="abc".index(f), value=v): 1 for f, v in fields.items()}
    )


def row(values):
    """Return a row of a table as a message."""
    return SparseCounts.of(
        {value_id(field=i, value=int(v)): 1 for i, v in enumerate(values)}
    )


def train(model, rows, labels, n_classes):
    """Return the table after learning the messages one by one."""
    table = FeatureTable(n_classes)
    for x, label in zip(rows, labels, strict=True):
        table.add(model.observe(x, label=int(label), n_classes=n_classes))
    return table


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.integers(2, 4),
    alpha=st.sampled_from([1.0, 0.1, 1e-6]),
)
def test_the_posterior_is_that_of_scikit_learn(seed, n_classes, alpha):
    """The same table gives the same log-probabilities, single and in a batch."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 12)])
    rows = rng.integers(0, 3, (labels.size, 4))
    # Each value occurs somewhere: the oracle counts up to the largest.
    rows[:3] = np.arange(3)[:, np.newaxis]
    queries = rng.integers(0, 3, (5, 4))
    table = train(
        model := Categorical(smoothing=Lidstone(alpha)),
        [row(r) for r in rows],
        labels,
        n_classes,
    )
    oracle = CategoricalNB(alpha=alpha).fit(rows, labels)
    log_joint = np.array([*map(model.estimate(table), map(row, queries))])
    log_joint = log_joint + FittedPrior().log_prior(table.messages)

    assert np.allclose(oracle.predict_joint_log_proba(queries), log_joint, rtol=1e-9)
    assert np.allclose(
        oracle.predict_log_proba(queries), log_posterior(log_joint), atol=1e-9
    )


ROWS = [record(a=1, b=1), record(a=1), record(a=2, b=1), record(a=2, b=3)]
LABELS = [0, 0, 1, 1]


def test_each_field_has_its_own_total_and_number_of_values():
    """Field b is missing once, so one message of ham has it."""
    model = Categorical(smoothing=Lidstone(1.0))
    ham, spam = np.exp(model.estimate(train(model, ROWS, LABELS, 2))(record(a=1, b=3)))

    assert 3 / 4 * 1 / 3 == pytest.approx(ham, rel=1e-14)
    assert 1 / 4 * 2 / 4 == pytest.approx(spam, rel=1e-14)


def test_values_and_fields_that_no_class_has_seen_are_ignored():
    """They change nothing, and are reported as unseen."""
    model = Categorical()
    likelihood = model.estimate(train(model, ROWS, LABELS, 2))
    parts = likelihood.contributions(record(a=1, b=77, c=1))

    assert [True, False, False] == parts.seen.tolist()
    assert not parts.features[1:].any()
    assert np.allclose(likelihood(record(a=1)), likelihood(record(a=1, b=77, c=1)))


def test_a_value_that_was_unlearned_is_unseen_again():
    """The number of values follows the data down as well as up."""
    model = Categorical()
    before = train(model, ROWS, LABELS, 2)
    delta = model.observe(record(a=9), label=0, n_classes=2)
    after = train(model, ROWS, LABELS, 2)
    after.add(delta)
    after.add(-delta)

    assert (
        model.estimate(before)(record(a=1)).tolist()
        == model.estimate(after)(record(a=1)).tolist()
    )


def test_without_smoothing_a_value_of_another_class_is_impossible():
    """The value is impossible, but epsilon keeps it possible."""
    table = train(Categorical(), ROWS, LABELS, 2)
    ham, spam = Categorical(smoothing=NoSmoothing()).estimate(table)(record(a=1))
    _, kept = Categorical(smoothing=Epsilon(1e-3)).estimate(table)(record(a=1))

    assert 0 == ham
    assert -math.inf == spam
    assert math.log(1e-3) == kept


def test_before_the_first_message_every_class_is_alike():
    """Nothing was seen, so nothing is scored."""
    likelihood = Categorical().estimate(FeatureCounts.zero(3))

    assert [0.0] * 3 == likelihood(record(a=1)).tolist()


def test_a_field_has_one_value():
    """Two values of a field in one message are refused, with its number."""
    x = SparseCounts.of({value_id(field=2, value=1): 1, value_id(field=2, value=2): 1})

    with pytest.raises(InvalidObservation, match="field 2 has more than one value"):
        Categorical().observe(x, label=0, n_classes=2)


@given(st.integers(-(2**15), 2**15 - 1), st.integers(0, 2**48 - 1))
def test_an_id_holds_field_and_value(field, value):
    """Both can be read back, for negative fields as well."""
    packed = value_id(field=field, value=value)

    assert -(2**63) <= packed < 2**63
    assert field == packed >> 48
    assert value == packed % 2**48


@pytest.mark.parametrize("field", [-(2**15) - 1, 2**15])
def test_a_field_out_of_range_is_refused(field):
    """Field numbers go up to 65,535."""
    with pytest.raises(InvalidObservation, match=f"got {field}"):
        value_id(field=field, value=0)
