"""Laws that every event model keeps, whatever it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.models.chain import SYMBOLS, Chain, runs_of, with_beginnings
from app.bayes.models.discrete import (
    Bernoulli,
    Categorical,
    Differential,
    Multinomial,
    value_id,
)
from app.bayes.models.gaussian import Discriminant, Gaussian
from app.bayes.moments import MomentSums
from app.bayes.posterior import log_posterior
from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.smoothing import Epsilon, Interpolation, Lidstone, NoSmoothing
from app.bayes.sparse import Measurements, SparseCounts
from app.bayes.table import FeatureTable

texts = st.dictionaries(st.integers(-3, 6), st.integers(1, 9), max_size=7).map(
    SparseCounts.of
)


records = st.dictionaries(st.integers(0, 3), st.integers(0, 2)).map(
    lambda values: SparseCounts.of(
        {value_id(field=f, value=v): 1 for f, v in values.items()}
    )
)
chains = st.lists(st.integers(0, 3), max_size=9).map(
    lambda symbols: runs_of(np.array(symbols, np.uint8))
)
numbers = st.floats(-9, 9)
measured = st.fixed_dictionaries(
    {0: numbers, 1: numbers}, optional={2: numbers, 3: numbers}
).map(Measurements.of)


def renamed_words(x, names):
    """Return the message with its features renamed."""
    return SparseCounts.of(
        {names[i]: n for i, n in zip(x.ids.tolist(), x.counts.tolist(), strict=True)}
    )


def renamed_fields(x, names):
    """Return the record with its fields renamed."""
    return SparseCounts.of(
        {value_id(field=names[i >> 48], value=i): 1 for i in x.ids.tolist()}
    )


def renamed_symbols(x, names):
    """Return the runs with their symbols renamed."""
    runs = x.numbers
    renamed = np.zeros_like(runs)
    for place in range(4):
        symbol = runs // SYMBOLS**place % SYMBOLS
        new = [names[i] for i in symbol.tolist()]
        renamed += np.array(new, np.int64) * SYMBOLS**place
    return with_beginnings(np.sort(renamed))


def renamed_measurements(x, names):
    """Return the measurements with their fields renamed."""
    values = {
        names[i]: v for i, v in zip(x.ids.tolist(), x.values.tolist(), strict=True)
    }
    return Measurements.of(values, fraction_bits=0)


@dataclass(frozen=True)
class Case:
    """An event model with what the laws need to know of it."""

    name: str
    model: Any
    messages: Any
    zero: Any
    ids: range
    rename: Any
    infinite: bool = False


SMOOTHINGS = (Lidstone(0.1), Epsilon(1e-6), NoSmoothing())
CASES = [
    Case(
        f"{type(model).__name__} {getattr(model, 'counting', '')} {model.smoothing}"
        f" {getattr(model, 'interpolation', None) or ''}",
        model,
        texts,
        FeatureCounts.zero,
        range(-3, 7),
        renamed_words,
        infinite=model.smoothing == NoSmoothing(),
    )
    for smoothing in SMOOTHINGS
    for model in (
        Multinomial(smoothing=smoothing, counting="occurrences"),
        Multinomial(smoothing=smoothing, counting="presence"),
        Multinomial(smoothing=smoothing, interpolation=Interpolation(2.0)),
        Bernoulli(smoothing=smoothing),
    )
]
CASES += [
    Case(
        f"Categorical {smoothing}",
        Categorical(smoothing=smoothing),
        records,
        FeatureCounts.zero,
        range(4),
        renamed_fields,
        infinite=smoothing == NoSmoothing(),
    )
    for smoothing in SMOOTHINGS
]
CASES.append(
    Case(
        "Differential",
        Differential(),
        texts,
        FeatureCounts.zero,
        range(-3, 7),
        renamed_words,
    )
)
CASES.append(
    Case("Chain", Chain(), chains, FeatureCounts.zero, range(4), renamed_symbols)
)
CASES += [
    Case(name, model, measured, MomentSums.zero, range(4), renamed_measurements)
    for name, model in {
        "Gaussian": Gaussian(floor=1e-2),
        "Gaussian drop": Gaussian(floor=1e-2, constant="drop"),
        "Gaussian shared": Gaussian(floor=1e-2, variances="shared"),
        "Discriminant": Discriminant(floor=1e-2),
        "Discriminant drop": Discriminant(floor=1e-2, shrinkage=0.2, constant="drop"),
    }.items()
]
every_model = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# 22 models share the examples of a law.
quick = settings(max_examples=settings.default.max_examples // 3)


@st.composite
def trainings(draw, case):
    """Return a number of classes and labelled messages, with a query or two."""
    n_classes = draw(st.integers(2, 4))
    history = draw(
        st.lists(st.tuples(case.messages, st.integers(0, n_classes - 1)), max_size=8)
    )
    return n_classes, history, draw(st.lists(case.messages, min_size=1, max_size=4))


def train(case, history, n_classes):
    """Return the state after learning the messages one by one."""
    state = case.zero(n_classes)
    for x, label in history:
        state = state + case.model.observe(x, label=label, n_classes=n_classes)
    return state


@every_model
@quick
@given(data=st.data())
def test_unlearning_is_the_exact_inverse_of_learning(case, data):
    """State and scores come back bit for bit."""
    n_classes, history, (x, *_) = data.draw(trainings(case))
    state = train(case, history, n_classes)
    delta = case.model.observe(x, label=n_classes - 1, n_classes=n_classes)
    back = state + delta - delta

    assert state == back
    assert (
        case.model.estimate(state)(x).tobytes()
        == case.model.estimate(back)(x).tobytes()
    )


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.zero == FeatureCounts.zero],
    ids=lambda case: case.name,
)
@quick
@given(data=st.data())
def test_a_table_that_learns_one_by_one_scores_as_a_sum_does(case, data):
    """Histograms and totals kept up to date change no bit of a score."""
    n_classes, history, queries = data.draw(trainings(case))
    table = FeatureTable(n_classes)
    for x, label in history:
        table.add(case.model.observe(x, label=label, n_classes=n_classes))
    flat = train(case, history, n_classes)

    assert b"".join(map(bytes, map(case.model.estimate(flat), queries))) == b"".join(
        map(bytes, map(case.model.estimate(table), queries))
    )


@every_model
@quick
@given(data=st.data())
def test_permuting_classes_permutes_the_answer(case, data):
    """No class is special."""
    n_classes, history, (x, *_) = data.draw(trainings(case))
    order = data.draw(st.permutations(range(n_classes)))
    moved = [(message, order[label]) for message, label in history]
    answer = case.model.estimate(train(case, history, n_classes))(x)
    permuted = case.model.estimate(train(case, moved, n_classes))(x)

    assert np.allclose(answer, permuted[order], rtol=1e-12, atol=1e-12)


@every_model
@quick
@given(data=st.data())
def test_renaming_features_changes_nothing(case, data):
    """A feature's id carries no evidence."""
    n_classes, history, (x, *_) = data.draw(trainings(case))
    order = data.draw(st.permutations(case.ids))
    names = dict(zip(case.ids, order, strict=True))
    renamed = [(case.rename(message, names), label) for message, label in history]
    answer = case.model.estimate(train(case, history, n_classes))(x)
    other = case.model.estimate(train(case, renamed, n_classes))(case.rename(x, names))

    assert np.allclose(answer, other, rtol=1e-9, atol=1e-9)


@every_model
@quick
@given(data=st.data())
def test_a_likelihood_is_a_number_or_minus_infinity(case, data):
    """No nan and no certainty beyond one; minus infinity only unsmoothed."""
    n_classes, history, queries = data.draw(trainings(case))
    likelihood = case.model.estimate(train(case, history, n_classes))
    log_likelihood = np.array([likelihood(x) for x in queries])

    assert not np.isnan(log_likelihood).any()
    assert not np.isposinf(log_likelihood).any()
    assert case.infinite or np.isfinite(log_likelihood).all()


@every_model
@quick
@given(data=st.data())
def test_the_posterior_sums_to_one_under_every_prior(case, data):
    """Also when every class is impossible."""
    n_classes, history, queries = data.draw(trainings(case))
    state = train(case, history, n_classes)
    stated = FixedPrior(tuple(1 / n_classes for _ in range(n_classes)))
    for prior in (FittedPrior(), SmoothedPrior(1.0), UniformPrior(), stated):
        joint = np.array([*map(case.model.estimate(state), queries)]) + prior.log_prior(
            state.messages
        )
        total = np.exp(log_posterior(joint)).sum(axis=1)

        assert np.allclose(1, total, rtol=1e-12)


@every_model
@quick
@given(data=st.data())
def test_contributions_sum_to_the_score(case, data):
    """Constant and features are the log-likelihood; unseen features add nothing."""
    n_classes, history, queries = data.draw(trainings(case))
    likelihood = case.model.estimate(train(case, history, n_classes))
    for x in queries:
        parts = likelihood.contributions(x)

        assert np.allclose(
            likelihood(x), parts.constant + parts.features.sum(axis=0), atol=1e-9
        )
        assert not parts.features[~parts.seen].any()
