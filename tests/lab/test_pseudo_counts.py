"""Constants added to counts, to zeros, and to variances."""

from __future__ import annotations

import math
from fractions import Fraction as F  # noqa: N817  expected values are all fractions

import pytest

PATIENTS = """\
cough,diagnosis
yes,Flu
yes,Cold
yes,Flu
no,Cold
yes,Flu
"""
TARGET = ("--target", "diagnosis")
POINTS = "class,x,y\n0,0,0\n0,2,0\n0,1,3\n1,4,4\n1,6,4\n1,5,7\n"


@pytest.mark.parametrize(
    ("epsilon", "warned"), [("1/3", True), ("0.5", True), ("0.33", False)]
)
def test_an_epsilon_of_1_over_n_is_warned_of(answer, epsilon, warned):
    """The larger class has three rows: one of them is 1/3."""
    notes = answer(PATIENTS, *TARGET, "--smoothing", f"epsilon={epsilon}")["notes"]
    words = answer(
        "class,text\na,x y z\nb,x\n",
        *(
            "--target",
            "class",
            "--as",
            "text=text",
            "--smoothing",
            f"epsilon={epsilon}",
        ),
    )["notes"]

    assert [warned] * 2 == [
        any("is not below 1/3" in n for n in x) for x in (notes, words)
    ]


def test_the_effect_of_alpha_is_a_table(answer, run):
    """By hand: P(no | Flu) is alpha / (3 + 2 alpha)."""
    options = (*TARGET, "--alphas", "1/100,1,100", "--predict", "cough=no")
    effects = answer(PATIENTS, *options, "--folds", "5")["alphas"]
    _, printed, _ = run(PATIENTS, *options)

    for effect, alpha in zip(effects, (F(1, 100), F(1), F(100)), strict=True):
        yes_flu, no_flu = (3 + alpha) / (3 + 2 * alpha), alpha / (3 + 2 * alpha)
        flu, cold = F(3, 5) * no_flu, F(2, 5) * F(1, 2)
        joint = (F(3, 5) * yes_flu) ** 3 * cold**2

        assert float(alpha) == effect["alpha"]
        assert math.log(joint) == pytest.approx(effect["log_joint"])
        assert [float(cold / (flu + cold)), float(flu / (flu + cold))] == (
            pytest.approx(effect["posteriors"][0])
        )
        assert effect["log_loss"] > 0
    assert "what the pseudo-count does\n" in printed
    assert "1: P(Cold | row)   1: P(Flu | row)" in printed
    assert "log-loss of the folds" not in printed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--model", "logistic", "--deviation", "1"), "has no pseudo-counts"),
        (("--columns", "n"), "no column is counted"),
    ],
)
def test_without_counts_there_is_no_alpha(run, options, sentence):
    """An option that would do nothing is refused."""
    table = "n,cough,diagnosis\n1,yes,Flu\n2,no,Cold\n3,no,Flu\n"
    code, _, err = run(table, *TARGET, *options, "--alphas", "1")

    assert 65 == code
    assert sentence in err


def test_a_constant_is_added_to_each_variance(learned):
    """Of each class, also where it is zero; and exactly."""
    tables = learned(
        "class,x\na,1\na,3\nb,5\nb,5\n", "--target", "class", "--constant", "add=1/4"
    )["p(x | class), normal"]

    assert ("5/4", "1/4") == tuple(tables["variance", c]["fraction"] for c in "ab")


def test_a_constant_is_added_to_the_diagonal(learned):
    """The covariances are kept, and a singular matrix needs no shrinkage."""
    table = "class,x,y\na,0,0\na,2,4\nb,4,8\nb,6,12\n"
    options = ("--target", "class", "--model", "discriminant", "--constant", "add=0.5")
    covariance = learned(table, *options)["covariance, shared by the classes"]

    assert ["3/2", "2", "2", "9/2"] == [n["fraction"] for n in covariance.values()]
    assert [1.5, 2.0, 2.0, 4.5] == pytest.approx(
        [n["value"] for n in covariance.values()], rel=1e-9
    )


def test_what_is_added_is_in_the_units_of_the_column(answer):
    """0.5 beside a variance of 2/3 and one of 2: weights of 24/7 and 8/5."""
    found = answer(
        POINTS,
        *("--target", "class", "--constant", "add=0.5", "--variances", "shared"),
    )["linear"]["rows"]
    weights = {r["name"]: r["numbers"][0]["value"] for r in found}

    assert 4 / (2 / 3 + 1 / 2) == pytest.approx(weights["w x"])
    assert 4 / (2 + 1 / 2) == pytest.approx(weights["w y"])


@pytest.mark.parametrize("rule", ["add=0", "add=-1", "add=nan", "add", "more"])
def test_nothing_cannot_be_added(run, rule):
    """Nor what is no number."""
    code, _, err = run(POINTS, "--target", "class", "--constant", rule)

    assert 65 == code
    assert (
        "added to a variance" in err or "--constant must be floor, drop or add=E" in err
    )


def test_a_compared_posterior_is_never_sure_by_rounding(run):
    """Counts of 2/3 and 1/3 at alpha 1, two thousand times: 2000 log 2 nats."""
    _, out, _ = run(
        "y,n,m\na,1,0\nb,0,1\n",
        *("--target", "y", "--model", "multinomial", "--alphas", "1"),
        *("--predict", "n=2000"),
    )

    assert f"1 - exp(-{2000 * math.log(2):.4f})" in out
