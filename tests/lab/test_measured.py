"""Measurements are taken as they are written, whatever stands beside them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.lab.design import design
from app.lab.fitted import fit
from app.lab.groups import Choices
from app.lab.table import Model, Row, read_text

LARGE = "class,x,y\na,1.71,262144\na,1.82,300000\nb,2.5,1000000\nb,2.7,999999\n"


@pytest.mark.parametrize("columns", ["x", "x,y"])
def test_a_mean_is_the_mean_of_what_is_written(learned, columns):
    """Not that of multiples of 2**-18, beside a large column."""
    tables = learned(LARGE, *("--target", "class", "--columns", columns))
    x = tables["p(x | class), normal"]

    assert "353/200" == x["mean", "a"]["fraction"]
    assert "121/40000" == x["variance", "a"]["fraction"]
    assert (1.765, 0.003025) == (
        pytest.approx(x["mean", "a"]["value"], rel=1e-15),
        pytest.approx(x["variance", "a"]["value"], rel=1e-14),
    )


def test_a_fraction_that_is_not_exact_is_not_printed(learned):
    """A cell with more digits than a step has is rounded, and so are its figures."""
    tables = learned(
        "class,x,y\na,0.33333333333333,1\na,1,3\nb,2,5\nb,5,8\n",
        *("--target", "class", "--model", "discriminant"),
    )
    means = tables["mean of each class"]
    covariance = tables["covariance, shared by the classes"]

    assert None is means["x", "a"]["fraction"]
    assert "2" == means["y", "a"]["fraction"]
    assert (None, None) == (
        covariance["x", "x"]["fraction"],
        covariance["x", "y"]["fraction"],
    )
    assert "13/8" == covariance["y", "y"]["fraction"]


def test_columns_in_any_units_stand_beside_each_other(answer):
    """A column of nanometres beside one of light years, under either model."""
    table = "class,x,y\na,1e-9,1e10\na,3e-9,3e10\nb,7e-9,2e10\nb,9e-9,5e10\n"
    plain = "class,x,y\na,1,1\na,3,3\nb,7,2\nb,9,5\n"
    for model in ("gaussian", "discriminant"):
        options = ("--target", "class", "--model", model)
        odds = []
        for of_table, asked in (
            (table, "x=4e-9,y=2.5e10"),
            (plain, "x=4,y=2.5"),
        ):
            (prediction,) = answer(of_table, *options, "--predict", asked)[
                "predictions"
            ]
            a, b = (c["log_joint"] for c in prediction["classes"])
            odds.append(b - a)

        assert odds[1] == pytest.approx(odds[0], rel=1e-9)


@example([1000, 1001], 0, Model.GAUSSIAN)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=6, unique=True),
    st.integers(0, 8),
    st.sampled_from([Model.GAUSSIAN, Model.DISCRIMINANT]),
)
def test_means_and_variances_are_exact(values, places, model):
    """For whatever decimals, the numbers are those of fractions, rounded once."""
    cells = [f"{v}e-{places}" for v in values]
    table = read_text(
        "class,x,y\n"
        + "".join(f"a,{cell},{i}\n" for i, cell in enumerate(cells))
        + "".join(f"b,{cell},{i * i}\n" for i, cell in enumerate(cells))
    )
    made = design(table, Choices(target="class", model=model, columns=("x",)))
    fitted = fit(made)
    exact = [Fraction(v, 10**places) for v in values]
    mean = sum(exact) / len(exact)
    variance = sum((v - mean) ** 2 for v in exact) / len(exact)
    (part,) = made.parts.values()
    (likelihood,) = fitted.likelihood.likelihoods.values()
    found = (
        likelihood.covariance[0, 0]
        if model is Model.DISCRIMINANT
        else likelihood.variances[0, 0]
    )

    # Of values that are large and close together, the model has the distances from one.
    assert float(mean) == pytest.approx(part.means(likelihood)[0, 0], rel=1e-14)
    assert float(variance) == pytest.approx(found, rel=1e-14)


def test_shared_variances_are_the_pooled_ones(learned):
    """One variance over all rows, each from the mean of its class."""
    tables = learned(
        "class,x\na,1\na,3\na,5\nb,10\nb,11\n",
        *("--target", "class", "--variances", "shared"),
    )["p(x | class), normal"]

    # The squares 4, 0, 4, 1/4 and 1/4 over five rows.
    assert ["17/10", "17/10"] == [tables["variance", c]["fraction"] for c in ("a", "b")]


def test_a_column_that_was_dropped_was_seen(run):
    """It is left out since it is constant, and that is said once."""
    _, out, _ = run(
        "class,x,y\na,1,2\na,1,3\nb,2,7\nb,3,8\n",
        *("--target", "class", "--constant", "drop", "--predict", "x=1,y=2"),
    )

    assert "Left out by the gaussian model: x (constant in some class).\n" in out
    assert "never seen" not in out


@pytest.mark.parametrize("cell", ["0", "1e-99999999999", "0.000"])
def test_a_number_without_a_size_is_zero(cell):
    """However it is written, and in no time."""
    table = read_text(f"class,x\na,{cell}\na,1\nb,2\nb,3\n")
    fitted = fit(design(table, Choices(target="class")))

    assert 0.5 == fitted.likelihood.likelihoods["measurements x"].means[0, 0]
    assert (0,) == fitted.predict(Row("the question", {"x": cell})).best


def test_large_whole_numbers_are_exact(learned):
    """However few of them there are between the smallest and the largest."""
    rows = "a,299999997\na,299999999\nb,300000002\nb,300000004\n"
    x = learned("class,x\n" + rows, "--target", "class")["p(x | class), normal"]

    assert ("299999998", "1") == (
        x["mean", "a"]["fraction"],
        x["variance", "a"]["fraction"],
    )


@pytest.mark.parametrize("model", ["gaussian", "discriminant"])
def test_a_value_midway_between_large_means_is_a_tie(run, learned, model):
    """Thirds have no double near a Unix time, but the likelihood does not need one."""
    start, options = 1_700_000_000, ("--target", "class", "--model", model)
    rows = ("a", 0), ("a", 1), ("a", 0), ("b", 3), ("b", 4), ("b", 4)
    table = "\n".join(["class,t", *(f"{c},{start + t}" for c, t in rows)])
    _, printed, _ = run(table, *options, "--predict", f"t={start + 2}")
    title = "p(t | class), normal" if model == "gaussian" else "mean of each class"
    means = learned(table, *options)[title]

    assert "A tie of a and b\n" in printed
    assert Fraction(3 * start + 1, 3) == Fraction(
        means["mean" if model == "gaussian" else "t", "a"]["fraction"]
    )


@pytest.mark.parametrize("model", ["gaussian", "discriminant"])
@pytest.mark.parametrize("constant", ["floor", "drop"])
def test_a_column_that_never_varies_is_left_out(answer, model, constant):
    """Not even a question with another value is a tie, and a note names the column."""
    table = "class,k,x\na,5,1\na,5,2\nb,5,3\nb,5,5\n"
    options = ("--target", "class", "--model", model, "--constant", constant)
    found, alone = (
        answer(table, *options, "--columns", columns, "--predict", question)
        for columns, question in (("k,x", "k=6,x=3"), ("x", "x=3"))
    )

    assert [f"Left out by the {model} model: k"] == [
        note.partition(" (")[0] for note in found["notes"]
    ]
    assert alone["predictions"][0]["classes"] == found["predictions"][0]["classes"]


def test_a_column_that_never_varies_takes_part_with_a_variance_of_its_own(answer):
    """The variance that --constant adds is stated, so its density is wanted."""
    found = answer(
        "class,k,x\na,5,1\na,5,2\nb,5,3\nb,5,5\n",
        *("--target", "class", "--constant", "add=0.1"),
    )

    assert [] == found["notes"]
    assert "p(k | class), normal" in [part["title"] for part in found["learned"]]
