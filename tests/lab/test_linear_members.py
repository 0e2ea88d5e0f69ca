"""The linear members of the family: weights, bias, and logistic regression beside."""

from __future__ import annotations

import math
import re
from fractions import Fraction as F  # noqa: N817  expected values are all fractions

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidObservation, MalformedTable
from app.lab.design import design
from app.lab.fitted import COORDINATES_LIMIT
from app.lab.groups import Choices
from app.lab.report import learned
from app.lab.table import Kind, Model, Row, Table, read_text

POINTS = "class,x,y\n0,0,0\n0,2,0\n0,1,3\n1,4,4\n1,6,4\n1,5,7\n"
MAIL = """\
class,text
ham,do math today
ham,buy book
spam,buy
spam,today do math drugs
spam,buy drugs book today
"""
OVERLAP = "class,x,y\na,0,0\na,2,0\na,1,3\na,4,3\nb,4,4\nb,6,4\nb,5,7\nb,2,2\n"
TARGET = ("--target", "class")


def weights(found, name="1"):
    """Return the weights and the bias of a class against the first."""
    place = found["linear"]["header"].index(name)
    return {r["name"]: r["numbers"][place]["value"] for r in found["linear"]["rows"]}


def test_the_discriminant_has_the_weights_of_the_lecture(answer):
    """6 x + 2 y - 24, and its logistic function at a point."""
    found = answer(POINTS, *TARGET, "--model", "discriminant", "--predict", "x=3,y=2.5")
    (prediction,) = found["predictions"]

    assert {"w x": 6, "w y": 2, "b": -24} == pytest.approx(weights(found), abs=1e-9)
    assert [0, 6 * 3 + 2 * 2.5 - 24] == pytest.approx(prediction["linear"], abs=1e-9)
    assert 1 / (1 + math.e) == pytest.approx(prediction["classes"][1]["posterior"])


@pytest.mark.parametrize(
    "model", [("--variances", "shared"), ("--model", "discriminant")]
)
def test_the_linear_form_keeps_the_difference_of_large_measurements(answer, model):
    """Unix times: w . x and b are millions of nats, and cancel to what is exact.

    By hand: the means are 2 and 7, the variance 10/6, so 3 (t - 4.5), which is 1.5.
    """
    table = "class,t\na,0\na,2\na,4\nb,6\nb,7\nb,8\n"
    for start in (0, 1_700_000_000):
        moved = table
        if start:
            head, *rows = table.splitlines()
            cells = (row.split(",") for row in rows)
            moved = "\n".join([head, *(f"{c},{start + int(t)}" for c, t in cells)])
        found = answer(moved, *TARGET, *model, "--predict", f"t={start + 5}")
        (prediction,) = found["predictions"]
        ham, spam = (each["log_joint"] for each in prediction["classes"])

        assert 1.5 == pytest.approx(prediction["linear"][1], rel=1e-9)
        assert 1.5 == pytest.approx(spam - ham, rel=1e-9)


def test_logistic_regression_keeps_the_difference_of_large_measurements(answer):
    """Unix times have the probabilities and the flat gradient of small numbers."""
    options = (*TARGET, "--model", "logistic", "--predict")
    found = []
    for start in (0, 1_700_000_000):
        times = zip("aaabababbb", range(10), strict=True)
        table = "\n".join(["class,t", *(f"{c},{start + t}" for c, t in times)])
        found.append(answer(table, *options, f"t={start + 7}"))
    small, large = (each["predictions"][0]["linear"][1] for each in found)
    (maximum,) = found[1]["learned"]

    assert small == pytest.approx(large, rel=1e-9)
    assert maximum["rows"][1]["numbers"][0]["value"] < 1e-9


def test_shared_variances_make_a_logistic_function(answer, run):
    """By hand: variances 2/3 and 2, so 6 x + 2 y - 24 as well; own ones are curved."""
    options = (*TARGET, "--predict", "x=3,y=2.5")
    found = answer(POINTS, *options, "--variances", "shared")
    _, printed, _ = run(POINTS, *options, "--variances", "shared")
    own = answer(OVERLAP, *TARGET, "--predict", "x=3,y=2")

    assert {"w x": 6, "w y": 2, "b": -24} == pytest.approx(weights(found), abs=1e-9)
    assert "P(1 | row) = 1 / (1 + exp(-z)), z = w . x + b = -1.0000\n" in printed
    assert "0.2689" in printed
    assert (None, None) == (own["linear"], own["predictions"][0]["linear"])


def test_the_weights_of_words(answer):
    """Weinberger: log theta+ - log theta-, and twice the word is twice the weight."""
    found = answer(
        MAIL,
        *(*TARGET, "--model", "multinomial"),
        *("--predict", "text=drugs", "--predict", "text=drugs drugs"),
    )
    once, twice = (p["linear"][1] for p in found["predictions"])
    of_word = weights(found, "spam")
    # 5 words of ham and 9 of spam, 6 in the vocabulary; drugs 0 and 2 times.
    drugs = math.log(F(3, 15) / F(1, 11))

    assert drugs == pytest.approx(of_word["w text drugs"])
    assert math.log(F(3, 2)) == pytest.approx(of_word["b"])
    assert drugs == pytest.approx(twice - once)


def test_bernoulli_has_absences_in_its_bias(answer):
    """Without a word the score is the bias; without smoothing there is none."""
    found = answer(MAIL, *TARGET, "--model", "bernoulli", "--predict", "text=x")
    plain = answer(MAIL, *TARGET, "--model", "bernoulli", "--smoothing", "none")
    ham = F(2, 4) ** 5 * F(3, 4)
    # book, do and math in 1 of 3 spam messages; buy, drugs and today in 2.
    spam = F(3, 5) ** 3 * F(2, 5) ** 3

    assert math.log(F(3, 2) * spam / ham) == pytest.approx(weights(found, "spam")["b"])
    assert math.log(F(3, 2) * spam / ham) == pytest.approx(
        found["predictions"][0]["linear"][1]
    )
    assert None is plain["linear"]


CELLS = st.fixed_dictionaries(
    {
        "colour": st.sampled_from(["red", "blue", "green"]),
        "text": st.lists(st.sampled_from("abcd"), min_size=1, max_size=5).map(" ".join),
        "n": st.integers(0, 3).map(str),
        "size": st.integers(-5, 5).map(str),
    }
)
KINDS = {
    "colour": Kind.CATEGORY,
    "text": Kind.TEXT,
    "n": Kind.COUNT,
    "size": Kind.MEASUREMENT,
}
OF = {
    Model.MIXED: tuple(KINDS),
    Model.CATEGORICAL: ("colour",),
    Model.BERNOULLI: ("text", "n"),
    Model.MULTINOMIAL: ("text", "n"),
    Model.GAUSSIAN: ("size",),
    Model.DISCRIMINANT: ("size",),
    Model.LOGISTIC: tuple(KINDS),
}


@given(
    st.sampled_from(list(OF)), st.lists(CELLS, min_size=6, max_size=10), st.booleans()
)
def test_the_linear_form_is_the_score(model, rows, declared):
    """Of every linear member, for every class, with columns of each kind."""
    labelled = tuple(
        Row(f"row {i}", {**cells, "class": "abc"[i % 3]})
        for i, cells in enumerate(rows)
    )
    with_text = declared and "text" in OF[model]
    choices = Choices(
        target="class",
        model=model,
        columns=OF[model],
        kinds={c: KINDS[c] for c in OF[model]},
        variances="shared" if model in {Model.GAUSSIAN, Model.MIXED} else "class",
        vocabulary="a b c d e" if with_text else None,
        deviation=2.0 if model is Model.LOGISTIC else None,
    )
    fitted = learned(design(Table(("class", *KINDS), labelled), choices))
    for row in labelled:
        prediction = fitted.predict(row)
        scores = prediction.linear
        joint = prediction.log_joint

        assert (joint - joint[0]).tolist() == pytest.approx(
            (scores - scores[0]).tolist(), rel=1e-7, abs=1e-7
        )
        assert prediction.log_joint.tolist() == pytest.approx(
            np.sum([t.nats for t in prediction.terms], axis=0).tolist(), abs=1e-7
        )


def test_logistic_regression_of_a_category_by_hand(answer):
    """Log-odds of the counts of each value: the maximum of the likelihood."""
    table = "class,c\n" + "a,u\n" * 2 + "b,u\n" + "a,v\n" + "b,v\n" * 3
    found = answer(table, *TARGET, "--model", "logistic", "--predict", "c=v")
    height = (
        2 * math.log(2 / 3) + math.log(1 / 3) + math.log(1 / 4) + 3 * math.log(3 / 4)
    )
    numbers = {r["name"]: r["numbers"][0]["value"] for r in found["learned"][0]["rows"]}

    assert {"w c=v": math.log(3) - math.log(1 / 2), "b": math.log(1 / 2)} == (
        pytest.approx(weights(found, "b"))
    )
    assert 3 / 4 == pytest.approx(found["predictions"][0]["classes"][1]["posterior"])
    assert "score" == found["predictions"][0]["likelihood"]
    assert height == pytest.approx(numbers["log-likelihood"])
    assert height == pytest.approx(found["training"]["log_likelihood"])
    assert None is found["training"]["log_joint"]
    assert 1e-8 > numbers["largest entry of the gradient"]


def test_logistic_regression_gains_on_naive_bayes(answer):
    """It maximises what naive Bayes with shared variances has as well: P(class | row)."""
    heights = [
        answer(OVERLAP, *TARGET, *options)["training"]["log_likelihood"]
        for options in (
            ("--variances", "shared"),
            ("--model", "discriminant"),
            ("--model", "logistic", "--deviation", "0.5"),
            ("--model", "logistic"),
        )
    ]

    assert heights[3] == max(heights)


@pytest.mark.parametrize(
    ("model", "heading"), [("gaussian", "prior"), ("logistic", "share")]
)
def test_logistic_regression_has_no_prior(run, model, heading):
    """The bias has taken its place; the share of a class is none."""
    _, out, _ = run(OVERLAP, *TARGET, "--model", model)

    assert re.search(rf"^class +rows +{heading} *$", out, re.MULTILINE)


def test_separable_classes_are_a_sentence(run):
    """Not weights of a thousand nats; a prior has weights, and folds are said."""
    code, out, err = run(POINTS, *TARGET, "--model", "logistic")
    _, with_prior, _ = run(POINTS, *TARGET, "--model", "logistic", "--deviation", "1")
    _, _, of_fold = run(OVERLAP, *TARGET, "--model", "logistic", "--folds", "4")

    assert (65, "") == (code, out)
    assert "a plane separates the classes" in err
    assert "w x" in with_prior
    assert "log-likelihood of the most probable weights" in with_prior
    assert "without the rows of fold 1 of 4: a plane separates" in of_fold


def test_a_regression_takes_whole_rows(run, answer):
    """Others teach nothing, and cannot be predicted."""
    table = OVERLAP + "a,1,\nb,,\n"
    found = answer(table, *TARGET, "--model", "logistic")
    code, _, err = run(table, *TARGET, "--model", "logistic", "--predict", "x=1")

    assert [
        "Logistic regression needs complete rows: 2 of 10 have an empty cell and teach "
        "nothing."
    ] == found["notes"]
    assert 65 == code
    assert (
        "has no value in column 'y', and logistic regression needs complete rows" in err
    )


def test_dependent_columns_are_said(answer):
    """Twice the same column has many maxima."""
    table = "\n".join(f"{row},{row.split(',')[1]}" for row in OVERLAP.split()).replace(
        ",x,y,x", ",x,y,z"
    )
    found = answer(table, *TARGET, "--model", "logistic")

    assert found["notes"][0].startswith("A column follows from others")
    assert weights(found, "b")["w x"] == pytest.approx(weights(found, "b")["w z"])


TEXTS = "class,c,text\na,u,x y\nb,u,y y z\na,v,z z\nb,v,x z y\n"
PENALISED = (*TARGET, "--model", "logistic", "--deviation", "1", "--as", "text=text")


def test_unseen_words_are_left_out_of_a_regression(answer):
    """And said, as of the other models."""
    asked = ("--predict", "c=u,text=y q")
    found = answer(TEXTS, *PENALISED, *asked)["predictions"][0]
    stated = answer(TEXTS, *PENALISED, *asked, "--vocabulary", "x,y z")["predictions"]

    assert (["text q"], []) == (found["unseen"], found["outside_vocabulary"])
    assert ["text q"] == stated[0]["outside_vocabulary"]


@pytest.mark.parametrize("values", [(), ("--values", "c=w,u,v")])
def test_a_value_without_a_row_has_no_weight(run, values):
    """It would be scored as the first value of its column, whichever that is."""
    code, out, err = run(TEXTS, *PENALISED, *values, "--predict", "c=w,text=y")

    assert (65, "") == (code, out)
    assert "has 'w' in column 'c', a value that no teaching row has" in err


def test_a_value_that_only_one_fold_has_is_refused(run):
    """The rows of the other folds say nothing of it."""
    table = (
        OVERLAP.replace("x,y", "x,y,c").replace("\n", ",u\n").replace("y,c,u", "y,c")
    )
    table = table.replace("2,2,u", "2,2,v")
    code, _, err = run(
        table, *(*TARGET, "--model", "logistic", "--deviation", "1", "--folds", "8")
    )

    assert 65 == code
    assert "of 8: row 8 has 'v' in column 'c', a value that no teaching row" in err


def test_too_many_words_are_refused():
    """A step of the fit would take the cube of their number."""
    words = " ".join(f"w{i}" for i in range(COORDINATES_LIMIT + 1))
    plan = design(
        read_text(f"class,text\na,{words}\nb,w1 w2\n"),
        Choices(target="class", model=Model.LOGISTIC, kinds={"text": Kind.TEXT}),
    )
    with pytest.raises(MalformedTable, match="the limit of logistic regression is 400"):
        learned(plan)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--model logistic --prior uniform", "no class prior; leave out --prior"),
        ("--model logistic --smoothing none", "leave out --smoothing"),
        ("--model logistic --variances shared", "leave out --variances"),
        ("--model logistic --constant drop", "leave out --constant"),
        ("--model logistic --constant add=1", "leave out --constant"),
        ("--deviation 1", "--deviation is for --model logistic, not auto"),
        ("--model discriminant --variances shared", "is for --model gaussian, not"),
        ("--shrinkage 0.1", "--shrinkage is for --model discriminant, not auto"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(run, options, sentence):
    """Who states it expects something of it."""
    code, _, err = run(OVERLAP, *TARGET, *options.split())

    assert 65 == code
    assert sentence in err


def test_a_deviation_beyond_measure_is_refused():
    """It says nothing, and its square has no digits left beside the curvature."""
    plan = design(
        read_text(OVERLAP), Choices(target="class", model=Model.LOGISTIC, deviation=1e8)
    )
    with pytest.raises(InvalidObservation, match=r"to 1e\+06, got"):
        learned(plan)


def test_a_test_table_has_its_own_figures(run, answer, tmp_path):
    """By hand: accuracy, error rate, confusion, measures, and log-likelihoods."""
    (tmp_path / "gold.csv").write_text("class,x\na,u\nb,u\nb,v\n")
    table = "class,x\na,u\na,u\nb,v\n"
    options = (*TARGET, "--test", "gold.csv")
    found = answer(table, *options)["test"]
    _, printed, _ = run(table, *options)
    # P(u | a) = 3/4 and P(u | b) = 1/3, with 2/3 and 1/3 before.
    u, v = (
        (F(2, 3) * F(3, 4), F(1, 3) * F(1, 3)),
        (F(2, 3) * F(1, 4), F(1, 3) * F(2, 3)),
    )
    joint = math.log(u[0]) + math.log(u[1]) + math.log(v[1])
    own = joint - 2 * math.log(sum(u)) - math.log(sum(v))

    assert (3, 2, F(1, 3)) == (
        found["rows"],
        found["right"],
        F(found["error_rate"]).limit_denominator(9),
    )
    assert [{"a": 1, "b": 0}, {"a": 1, "b": 1}] == [
        line["decided"] for line in found["confusion"]
    ]
    assert (own, joint) == (
        pytest.approx(found["log_likelihood"]),
        pytest.approx(found["log_joint"]),
    )
    # Of 2 rows decided for a, 1 is of a; of b, 1 of 2 rows was found.
    assert [(0.5, 1.0, F(2, 3)), (1.0, 0.5, F(2, 3))] == [
        (line["precision"], line["recall"], F(line["f1"]).limit_denominator(9))
        for line in found["confusion"]
    ]
    assert {"precision": 0.75, "recall": 0.75, "f1": pytest.approx(2 / 3)} == (
        found["macro"]
    )
    assert "\nb        1/1 (1)     1/2 (0.5)   2/3 (0.6667)\n" in re.sub(
        " +\n", "\n", printed
    )
    assert "Test: gold.csv\n" in printed
    assert "accuracy 2/3 (0.6667), error rate 0.3333\n" in printed
    assert (
        f"log-likelihood of the classes: {own:.4f} nats; of classes and rows: "
        f"{joint:.4f} nats\n"
    ) in printed


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("x\nu\n", "has no class"),
        ("class,x\na,u\nc,u\n", "row 2 of the test table has"),
    ],
)
def test_a_test_table_needs_the_classes(run, tmp_path, rows, sentence):
    """Of each row, and only those that were taught."""
    (tmp_path / "gold.csv").write_text(rows)
    code, _, err = run("class,x\na,u\nb,v\n", *TARGET, "--test", "gold.csv")

    assert 65 == code
    assert sentence in err
    assert "the classes are a, b" in err


def test_the_log_likelihood_of_a_table_has_the_multinomial_coefficient(run, answer):
    """The messages as bags: 3!/(2! 1!) orders of the first, 2 of the second."""
    table = "class,text\na,x x y\nb,y z\n"
    options = (*TARGET, "--model", "multinomial", "--predict", "text=z y x q")
    found = answer(table, *options)
    _, printed, _ = run(table, *options)
    a = F(1, 2) * F(3, 6) ** 2 * F(2, 6) * 3
    b = F(1, 2) * F(2, 5) ** 2 * 2

    assert math.log(a * b) == pytest.approx(found["training"]["log_joint"])
    assert math.log(6) == pytest.approx(found["predictions"][0]["log_coefficient"])
    assert f"log-likelihood of the table: {math.log(a * b):.4f} nats\n" in printed
    assert "same in each class: the multinomial coefficient, 6\n" in printed
