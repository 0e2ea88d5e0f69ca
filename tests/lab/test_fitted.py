"""Predictions are consistent, and agree with exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.prior import SmoothedPrior
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.errors import MalformedTable
from app.lab.design import design
from app.lab.fitted import CHUNK, fit, sums
from app.lab.groups import FACTORS, Choices
from app.lab.report import cross_validate
from app.lab.table import Kind, Model, Row, Table, read_text

WORDS = st.lists(st.sampled_from("abcd"), max_size=5).map(" ".join)
CELLS = st.fixed_dictionaries(
    {},
    optional={
        "colour": st.sampled_from(["red", "blue", "green"]),
        "text": WORDS.filter(bool),
        "n": st.integers(0, 3).map(str),
        "m": st.integers(0, 3).map(str),
        "size": st.integers(-5, 5).map(str),
        "weight": st.integers(-5, 5).map(str),
    },
)
COLUMNS = ("colour", "text", "n", "m", "size", "weight")
KINDS = {
    "colour": Kind.CATEGORY,
    "text": Kind.TEXT,
    "n": Kind.COUNT,
    "m": Kind.COUNT,
    "size": Kind.MEASUREMENT,
    "weight": Kind.MEASUREMENT,
}
OF = {
    Model.MIXED: COLUMNS,
    Model.CATEGORICAL: ("colour",),
    Model.BERNOULLI: ("text", "n", "m"),
    Model.MULTINOMIAL: ("text", "n", "m"),
    Model.GAUSSIAN: ("size", "weight"),
    Model.DISCRIMINANT: ("size", "weight"),
}
RULES = st.sampled_from([NoSmoothing(), Epsilon(1e-3), Lidstone(1.0), Lidstone(0.25)])


@st.composite
def fitted(draw):
    """A model of a table with every kind of column and cells missing."""
    model = draw(st.sampled_from(list(OF)))
    rows = draw(st.lists(CELLS, min_size=3, max_size=8))
    labelled = tuple(
        Row(f"row {i}", {**cells, "class": "abc"[i % 3]})
        for i, cells in enumerate(rows, start=1)
    )
    with_text = "text" in OF[model] and any("text" in cells for cells in rows)
    choices = Choices(
        target="class",
        model=model,
        columns=OF[model],
        kinds={c: KINDS[c] for c in OF[model]},
        smoothing=draw(RULES),
        prior=SmoothedPrior(1.0),
        vocabulary=draw(st.sampled_from([None, "a b x"])) if with_text else None,
        constant=draw(st.sampled_from(["floor", "drop"])),
    )
    return fit(design(Table(("class", *COLUMNS), labelled), choices))


@given(fitted(), CELLS)
def test_the_terms_add_up_to_the_score(model, cells):
    """The prior and what each column adds, in every class."""
    prediction = model.predict(Row("the question", cells))
    total = np.sum([t.nats for t in prediction.terms], axis=0)

    assert prediction.log_joint.tolist() == pytest.approx(
        total.tolist(), rel=1e-12, abs=1e-9
    )
    assert 1.0 == pytest.approx(np.exp(prediction.log_posterior).sum(), abs=1e-12)


@given(fitted(), CELLS)
def test_fractions_are_the_scores(model, cells):
    """Joint and posterior as fractions are those of `app.bayes`, unrounded."""
    prediction = model.predict(Row("the question", cells))
    likelihoods = model.likelihood.likelihoods
    known = {
        name
        for name, part in model.design.parts.items()
        if part.encode(prediction.row)
        and len(part.dropped(likelihoods[name])[0]) < len(part.columns)
    }
    assert (prediction.joint is None) == any("measurements" in n for n in known)
    if prediction.joint is not None:
        joint = [math.exp(log) for log in prediction.log_joint]

        assert joint == pytest.approx([float(j) for j in prediction.joint], rel=1e-9)
        assert np.exp(prediction.log_posterior).tolist() == pytest.approx(
            [float(p) for p in prediction.posterior], rel=1e-9
        )


@given(fitted(), st.integers(0, 3))
def test_any_table_can_be_cross_validated(model, seed):
    """With a class or a column missing from a fold, each row still gets its score."""
    n = len(model.design.rows)
    for folds in (2, n):
        found = cross_validate(model.design, folds=folds, seed=seed)

        assert n == found.rows
        assert found.log_loss >= 0
        assert 0 == found.impossible or model.design.parts


@given(fitted())
def test_learned_probabilities_are_the_fractions_beside_them(model):
    """Each decimal is what `app.bayes` computes, and its fraction the same."""
    for table in model.learned():
        for name, numbers in table.rows:
            assert name
            assert len(numbers) == len(table.header)
            for number in numbers:
                if number.fraction is not None and not number.fraction.endswith("/0"):
                    over, _, under = number.fraction.partition("/")
                    assert number.value == pytest.approx(
                        int(over) / int(under or 1), rel=1e-8, abs=1e-12
                    )


def test_tied_classes_are_tied_exactly():
    """The same factors in another order are one number, whatever the rounding."""
    table = read_text("class,x,y\n" + "a,0,0\na,0,1\na,1,0\nb,0,0\nb,1,0\nb,0,1\n")
    prediction = fit(
        design(table, Choices(target="class", model=Model.CATEGORICAL))
    ).predict(Row("the question", {"x": "0", "y": "1"}))

    assert (0, 1) == prediction.best


def test_many_rows_are_summed_in_chunks():
    """The sums are those of the rows, and can be taken back to nothing."""
    n = 3 * CHUNK
    plan = design(
        read_text("class,x,c\n" + "a,1,u\nb,2,v\n" * n),
        Choices(target="class"),
    )
    whole = sums(plan, plan.examples)
    nothing = whole - whole

    assert [n, n] == whole.messages.tolist()
    assert [n, n] == whole.states["categories"].messages.tolist()
    assert [n, 2 * n] == [
        s / 10 ** plan.parts["measurements x"].scales[0].places
        for s in whole.states["measurements x"].sums[0]
    ]
    assert [0, 0] == nothing.messages.tolist()
    assert sums(plan, []).states == nothing.states


@pytest.mark.parametrize("model", [Model.BERNOULLI, Model.MULTINOMIAL])
def test_a_product_of_too_many_factors_is_not_written_out(model):
    """It would have thousands of digits; the logarithm says it."""
    words = " ".join(f"w{n}" for n in range(FACTORS + 1))
    table = read_text(f"class,text\na,{words}\nb,w1\n")
    choices = Choices(target="class", model=model, kinds={"text": Kind.TEXT})
    prediction = fit(design(table, choices)).predict(
        Row("the question", {"text": words})
    )

    assert None is prediction.joint
    assert None is prediction.posterior
    assert (0,) == prediction.best


def test_several_columns_together_may_have_too_many_factors():
    """The limit is on the whole product."""
    words = " ".join(f"w{n}" for n in range(FACTORS // 2 + 1))
    table = read_text(f"class,t,u\na,{words},{words}\nb,w1,w2\n")
    choices = Choices(
        target="class",
        model=Model.BERNOULLI,
        kinds={"t": Kind.TEXT, "u": Kind.TEXT},
    )
    model = fit(design(table, choices))

    assert None is model.predict(Row("", {"t": "w1", "u": "w1"})).joint
    assert None is not model.predict(Row("", {"t": "w1"})).joint


def test_a_cell_of_another_kind_is_refused():
    """The sentence says where it stands."""
    plan = design(
        read_text("class,n\na,1\nb,2\n"),
        Choices(target="class", model=Model.MULTINOMIAL),
    )
    with pytest.raises(MalformedTable, match="row 7: column 'n' holds 'x'"):
        fit(plan).predict(Row("row 7", {"n": "x"}))


def test_what_the_discriminant_leaves_out_is_said():
    """It takes columns that every row has."""
    plan = design(
        read_text("class,x,y\na,1,\nb,2,3\nb,3,1\n"),
        Choices(target="class", model=Model.DISCRIMINANT),
    )

    assert (
        "Left out by the discriminant model: y "
        "(not every row has it, or it never varies)."
    ) == fit(plan).notes[-1]


def test_a_class_without_a_measurement_has_those_of_all():
    """It neither wins nor loses by the column, and the table says so."""
    plan = design(read_text("class,x,c\na,1,u\na,3,u\nb,,u\n"), Choices(target="class"))
    (table,) = (t for t in fit(plan).learned() if t.header and "normal" in t.title)
    (_, (_, b)), _ = table.rows

    assert (2.0, None, "from all classes") == (b.value, b.fraction, b.note)
