"""What `postbayes lab` prints, for people and for programs."""

from __future__ import annotations

import json
import math

import pytest

MIXED = """\
class,score,colour,text,n
A,1.5,red,buy now please,3
B,,blue,do the math,
A,2.5,red,buy this now,1
B,0.25,,math is fun,0
,4,red,hello there,2
"""
ASKED = (
    "--target",
    "class",
    "--as",
    "n=count",
    "--predict",
    "score=2,text=buy math zzz",
)
NUMBER = (int, float)
VALIDATION = {
    "folds": type(None),
    "seed": type(None),
    "rows": int,
    "right": int,
    "accuracy": NUMBER,
    "error_rate": NUMBER,
    "log_likelihood": (*NUMBER, type(None)),
    "log_joint": (*NUMBER, type(None)),
    "log_loss": (*NUMBER, type(None)),
    "impossible": int,
    "macro": dict.fromkeys(("precision", "recall", "f1"), NUMBER),
    "confusion": [
        {"class": str, "decided": dict, "tied": int}
        | dict.fromkeys(("precision", "recall", "f1"), (*NUMBER, type(None)))
    ],
}


def test_the_object_has_this_shape(answer):
    """Names and types of all there is; a program can rely on them."""
    found = answer(MIXED, *ASKED, "--folds", "2", "--seed", "1")
    shape = {
        "target": str,
        "rows": int,
        "columns": [{"column": str, "kind": str, "model": str}],
        "notes": [str],
        "classes": [
            {
                "class": str,
                "rows": int,
                "prior": NUMBER,
                "prior_fraction": (str, type(None)),
            }
        ],
        "learned": [
            {
                "title": str,
                "header": [str],
                "rows": [
                    {
                        "name": str,
                        "numbers": [
                            {
                                "value": NUMBER,
                                "fraction": (str, type(None)),
                                "note": (str, type(None)),
                            }
                        ],
                    }
                ],
            }
        ],
        "predictions": [
            {
                "row": dict,
                "actual": (str, type(None)),
                "decision": (str, type(None)),
                "tied": [str],
                "classes": [
                    {
                        "class": str,
                        "log_joint": (*NUMBER, type(None)),
                        "joint_fraction": (str, type(None)),
                        "posterior": NUMBER,
                        "posterior_fraction": (str, type(None)),
                    }
                ],
                "contributions": [
                    {
                        "column": str,
                        "feature": str,
                        "seen": bool,
                        "nats": [(*NUMBER, type(None))],
                    }
                ],
                "unseen": [str],
                "outside_vocabulary": [str],
                "likelihood": str,
                "log_coefficient": NUMBER,
                "linear": type(None),
            }
        ],
        "linear": type(None),
        "training": VALIDATION,
        "alphas": [],
        "test": type(None),
        "cross_validation": VALIDATION | {"folds": int, "seed": int},
    }

    assert_shape(shape, found)
    assert ["text zzz"] == found["predictions"][0]["unseen"]
    assert (4, 1) == (found["rows"], len(found["predictions"]))
    assert [
        "1 of the rows have no class and teach nothing.",
        "An empty cell means unknown and is left out: score (1), n (1), colour (1).",
    ] == found["notes"]


def assert_shape(shape, found, where="$"):
    """Compare names and types, all the way down."""
    if isinstance(shape, dict):
        assert shape.keys() == found.keys(), where
        for name, inner in shape.items():
            assert_shape(inner, found[name], f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(found, list), where
        for i, inner in enumerate(found):
            assert_shape(shape[0], inner, f"{where}[{i}]")
    else:
        assert isinstance(found, shape), where


def test_what_is_impossible_is_null_in_json(run):
    """No -Infinity, which is no JSON; an infinite loss is null as well."""
    code, out, _ = run(
        "class,x\na,u\na,u\nb,v\n",
        *("--target", "class", "--smoothing", "none", "--predict", "x=v"),
        *("--folds", "3", "--json"),
    )
    found = json.loads(out, parse_constant=pytest.fail)

    assert 0 == code
    assert None is found["predictions"][0]["classes"][0]["log_joint"]
    assert None is found["cross_validation"]["log_loss"]
    assert 1 == found["cross_validation"]["impossible"]


def test_without_questions_only_the_model_is_told(answer):
    """No predictions, no cross-validation, and that is said as such."""
    found = answer(MIXED, "--target", "class")

    assert ([], None) == (found["predictions"], found["cross_validation"])
    assert {"score": "measurement", "n": "measurement"}.items() <= {
        c["column"]: c["kind"] for c in found["columns"]
    }.items()


def test_contributions_add_up_by_column(answer):
    """Their sum is the log of the joint, in every class."""
    (prediction,) = answer(MIXED, *ASKED)["predictions"]
    for c, entry in enumerate(prediction["classes"]):
        total = math.fsum(term["nats"][c] for term in prediction["contributions"])

        assert entry["log_joint"] == pytest.approx(total, rel=1e-12)


def test_a_board_is_printed(run):
    """Priors and tables as fractions, the product, the decision, the terms."""
    _, out, _ = run(
        "a,b,class\nx,1,yes\ny,0,no\nx,0,yes\n",
        *("--target", "class", "--predict", "a=x,b=1"),
    )

    assert [
        "3 rows with a class",
        "",
        "column   kind       model",
        "───────────────────────────────",
        "a        category   categorical",
        "b        category   categorical",
        "",
        "P(class)",
        "class   rows   prior",
        "───────────────────────────",
        "no      1      1/3 (0.3333)",
        "yes     2      2/3 (0.6667)",
        "",
        "P(a | class)",
        "    no             yes",
        "─────────────────────────────",
        "x   1/3 (0.3333)   3/4 (0.75)",
        "y   2/3 (0.6667)   1/4 (0.25)",
    ] == [line.rstrip() for line in out.splitlines()][:18]
    assert "yes     2/3 * 3/4 * 1/2 = 1/4 (0.25)" in out
    assert "Decision: yes\n" in out
    assert "Question: a=x, b=1\n" in out


def test_rows_of_a_file_are_predicted_and_compared(run, tmp_path):
    """Each with the class that it had; empty cells are not known."""
    (tmp_path / "more.csv").write_text("x;class\nu;a\n;b\nw;\n")
    _, out, _ = run(
        "class,x\na,u\na,u\nb,v\nb,v\n",
        *("--target", "class", "--predict-csv", "more.csv"),
    )

    assert "Row 1: x=u\n" in out
    assert "Decision: a, and it was a\n" in out
    assert "Row 2: nothing is known\n" in out
    assert "A tie of a and b, and it was b\n" in out
    assert "Omitted, because never seen: x w\n" in out


def test_a_long_product_is_not_written_out(run):
    """Its value is; the table has the factors."""
    words = " ".join(f"w{n}" for n in range(60))
    _, out, _ = run(
        f"class,text\na,{words}\nb,w1 w2\n",
        *("--target", "class", "--model", "bernoulli", "--predict", "text=w1"),
    )

    assert "and 20 more; --json has all of them\n" in out
    assert " * " not in out
    assert "Decision: b\n" in out


def test_wide_tables_are_not_cut(run):
    """A cell that is cut would say something else."""
    value = "v" * 150
    _, out, _ = run(f"class,x\na,{value}\nb,u\n", "--target", "class")

    assert value in out
    assert "…" not in out


def test_a_cell_cannot_steer_the_terminal(run):
    """Control characters are shown as such, and brackets are no markup."""
    _, out, _ = run(
        "class,x\na,\x1b[31mred\nb,[bold]u[/bold]\n",
        *("--target", "class", "--predict", "x=\x1b[31mred"),
    )

    assert "\x1b" not in out
    assert "\ufffd[31mred" in out
    assert "[bold]u[/bold]" in out


@pytest.mark.parametrize(
    ("prior", "loss"),
    [
        ("fitted", "log-loss infinite (rows whose own class was impossible: 1)"),
        ("uniform", "log-loss 0."),
        ("fixed=1/4,3/4", "log-loss 0."),
    ],
)
def test_the_figures_of_a_cross_validation_are_printed(run, prior, loss):
    """Accuracy as a fraction, the loss, and who was taken for whom."""
    _, out, _ = run(
        "class,x\na,u\na,u\nb,v\n",
        *("--target", "class", "--folds", "3", "--seed", "7", "--prior", prior),
    )

    assert "3 stratified folds, seed 7\n" in out
    assert "/3 (" in out
    assert loss in out
    assert "rows by class (down) and decision (across)\n" in out


def test_a_loss_of_zero_has_no_sign(run):
    """With the smallest variances, other values of x have a probability of 0."""
    _, out, _ = run(
        "class,x\na,1\na,1\nb,2\nb,2\n", *("--target", "class", "--folds", "2")
    )

    assert "log-loss 0.0000 nats\n" in out


def test_measurements_are_shown_as_logarithms(run):
    """A density is no fraction; the mean of 0.1 and 0.2 is."""
    _, out, _ = run(
        "class,x\na,0.1\na,0.2\nb,5\nb,6\n",
        *("--target", "class", "--predict", "x=0.1"),
    )

    assert "exp(" in out
    assert "mean       3/20 (0.15)" in out


def test_columns_are_named_with_commas_in_quotes(answer):
    """As in a CSV file."""
    found = answer(
        'class,"x, y",z\na,u,1\nb,v,2\n',
        *("--target", "class", "--columns", '"x, y"', "--predict", '"x, y=u"'),
    )

    assert ["x, y"] == [c["column"] for c in found["columns"]]
    assert {"x, y": "u"} == found["predictions"][0]["row"]


def test_an_estimated_shrinkage_is_said(learned):
    """The matrix is the one in use; what it stands for is beside it."""
    tables = learned(
        "class,x,y\na,0,0\na,2,1\na,1,3\nb,4,4\nb,6,5\nb,5,7\n",
        *("--target", "class", "--model", "discriminant", "--shrinkage", "estimated"),
    )["covariance, shared by the classes"]

    assert "2/3" == tables["x", "x"]["fraction"]
    assert (None, "instead of 0.3333") == (
        tables["x", "y"]["fraction"],
        tables["x", "y"]["note"],
    )
    assert 0 <= tables["x", "y"]["value"] < 1 / 3


@pytest.mark.parametrize(
    ("points", "shrinkage", "note"),
    [
        (
            "a,0,0\na,2,4\nb,4,8\nb,6,12\n",
            "0",
            ["The correlations are shrunk by 1e-10, because the matrix is singular."],
        ),
        (
            "a,0,0\na,2,4\nb,4,8\nb,6,13\n",
            "1/4",
            ["The correlations are shrunk by 0.25."],
        ),
        ("a,0,0\na,2,4\nb,4,8\nb,6,13\n", "0", []),
        ("a,0,0\na,2,0\nb,4,8\nb,6,8\n", "0", []),
        ("a,0.1,0.3\na,0.2,0.3\na,0.3,0.3\nb,0.7,1.1\nb,0.7,1.2\n", "0", []),
    ],
)
def test_shrunk_correlations_are_said(answer, points, shrinkage, note):
    """Where it was asked for, and where the matrix needs it."""
    found = answer(
        "class,x,y\n" + points,
        *("--target", "class", "--model", "discriminant", "--shrinkage", shrinkage),
    )

    assert note == found["notes"]


def test_classes_that_are_numbers_are_in_their_order(answer):
    """Not 1, 10, 2."""
    found = answer("y,x\n10,a\n2,b\n1,a\n", "--target", "y")

    assert ["1", "2", "10"] == [c["class"] for c in found["classes"]]


def test_what_is_left_out_is_printed(run):
    """With nothing known of any column, the prior decides."""
    _, out, _ = run(
        "class,x,y\na,,\na,,\nb,,\n,1,\n",
        *("--target", "class", "--predict", "x=1,,"),
    )

    assert "1 of the rows have no class and teach nothing.\n" in out
    assert "Without any known value: x, y.\n" in out
    assert "No column teaches anything, so the prior decides.\n" in out
    assert "a       2/3 (0.6667)" in out
    assert "Decision: a\n" in out


def test_a_note_stands_beside_its_number(run):
    """A variance that is the floor says what it stands for."""
    _, out, _ = run("class,x\na,1\na,2\nb,5\nb,5\n", "--target", "class")

    assert "[instead of 0]" in out


def test_a_floor_is_said_in_any_unit(learned):
    """A variance of zero is no rounding error of a tiny one."""
    for unit in ("", "e-9", "e8"):
        table = "class,x\n" + "".join(
            f"{row}{unit}\n" for row in ("a,1", "a,2", "b,5", "b,5")
        )
        variance = learned(table, "--target", "class")["p(x | class), normal"]

        assert "instead of 0" == variance["variance", "b"]["note"]
        assert 0 < variance["variance", "b"]["value"]
        assert None is variance["variance", "a"]["note"]


def test_a_density_is_not_called_a_probability(run):
    """A small letter where the row has a measurement, a capital one where not."""
    table = "class,x,c\na,0.1,u\na,0.2,u\nb,5,v\nb,6,v\n"
    _, with_measurement, _ = run(table, "--target", "class", "--predict", "x=1,c=u")
    _, without, _ = run(table, "--target", "class", "--predict", "c=u")

    assert "P(class) p(row | class)" in with_measurement
    assert "P(class) P(row | class)" not in with_measurement
    assert "P(class) P(row | class)" in without


@pytest.mark.parametrize(
    ("rows", "printed"),
    [
        (24999, "24999/25000 (0.99996)"),
        (4999, "4999/5000 (0.9998)"),
        (999999, "999999/1000000 (0.999999)"),
    ],
)
def test_what_is_nearly_1_is_not_1(run, rows, printed):
    """As many digits as it takes: four would make it sure."""
    prior = f"fixed=1/{rows + 1},{rows}/{rows + 1}"
    _, out, _ = run("class\na\nb\n", *("--target", "class", "--prior", prior))

    assert printed in out


def test_a_posterior_of_nearly_1_says_what_is_missing(run):
    """Where nobody would count the nines."""
    _, out, _ = run(
        "class,x\na,0\na,2\nb,20\nb,22\n",
        *("--target", "class", "--predict", "x=1", "--predict", "x=11"),
    )

    # The log-odds are (20² - 0²) / 2 = 200, and 0 in the middle.
    assert "1 - 1.4e-87" in out
    assert "A tie of a and b\n" in out


@pytest.mark.parametrize(
    ("asked", "printed"),
    [
        ("n=2,m=1", "coefficient, 3\n"),
        ("n=400000,m=2", "coefficient, 80000600001\n"),
        # By Stirling's formula: 2000 log 2 - log(1000 pi) / 2 - 1/8000.
        ("n=1000,m=1000", "coefficient, exp(1382.27)\n"),
    ],
)
def test_the_multinomial_coefficient_is_exact_or_a_power(run, asked, printed):
    """No digit that rounding made, and no number that overflows."""
    table = "y,n,m\na,1,0\na,2,1\nb,3,1\nb,1,5\n"
    options = ("--target", "y", "--model", "multinomial", "--predict", asked)
    code, out, _ = run(table, *options)

    assert 0 == code
    assert printed in out


def test_a_long_text_has_a_coefficient(run):
    """Of 180 words, all different: 180! orders."""
    words = " ".join(f"w{n}" for n in range(180))
    code, out, _ = run(
        f"y,text\na,{words}\nb,w1 w2\n",
        *("--target", "y", "--model", "multinomial", "--predict", f"text={words}"),
    )

    assert 0 == code
    assert f"coefficient, exp({math.lgamma(181):.6g})\n" in out


def test_a_posterior_that_is_no_double_is_a_power(run):
    """Neither 1 nor 0: the log-odds are 2001000 * log 2, the counts a half each."""
    table = "y,n,m\na,1,1\na,1,1\nb,1,3\nb,1,3\n"
    options = (
        "--model",
        "multinomial",
        "--smoothing",
        "none",
        "--predict",
        "n=2001000",
    )
    _, out, _ = run(table, "--target", "y", *options)
    power = f"exp(-{2001000 * math.log(2):.4f})"

    assert f"1 - {power}\n" in out
    assert 2 == out.count(power)


def test_a_posterior_of_zero_is_zero(run):
    """Where a class is impossible."""
    _, out, _ = run(
        "class,x\na,u\na,u\nb,v\n",
        *("--target", "class", "--smoothing", "none", "--predict", "x=v"),
    )

    assert "exp(" not in out


def test_a_number_just_above_1_is_not_1(run):
    """A mean of 2001/2000."""
    _, out, _ = run("class,x\na,1\na,1.001\nb,3\nb,4\n", "--target", "class")

    assert "2001/2000 (1.0005)" in out


def test_an_impossible_row_of_a_test_table_has_its_log_likelihood(run, tmp_path):
    """It is minus infinity, and printed as such."""
    (tmp_path / "gold.csv").write_text("class,x\na,v\n")
    _, out, _ = run(
        "class,x\na,u\nb,v\n",
        *("--target", "class", "--smoothing", "none", "--test", "gold.csv"),
    )

    assert "of the classes: -inf nats; of classes and rows: -inf nats\n" in out


def test_a_word_outside_the_vocabulary_may_have_been_seen(run):
    """So it is not called unseen."""
    _, out, _ = run(
        "class,text\na,x y z\nb,y z z\n",
        *("--target", "class", "--model", "bernoulli", "--vocabulary", "x,y"),
        *("--predict", "text=x z"),
    )

    assert "Omitted, because outside the vocabulary: text z\n" in out
    assert "never seen" not in out


def test_declared_values_of_an_empty_column_are_used(run):
    """Each has its smoothed estimate, and one that is not declared is named."""
    table = "class,x,c\na,u,\nb,v,\n"
    options = ("--target", "class", "--values", "c=r,s")
    _, out, _ = run(table, *options, "--predict", "x=u,c=r", "--predict", "c=t")

    assert "P(c | class)" in out
    assert "1/2 * 2/3 * 1/2 = 1/6" in out
    assert "Omitted, because never seen: c t\n" in out


def test_a_value_of_a_column_without_known_values_is_named(run):
    """It is left out like any other that training has not seen."""
    table = "class,x,c\na,u,\nb,v,\n"
    _, out, _ = run(table, "--target", "class", "--predict", "x=u,c=r")

    assert "Without any known value: c.\n" in out
    assert "Omitted, because never seen: c r\n" in out


@pytest.mark.parametrize("model", ["auto", "discriminant"])
def test_what_is_left_without_measurements_is_a_probability(run, model):
    """With exact fractions and a linear form: the one measured column was dropped."""
    columns = "x,c" if model == "auto" else "x"
    rows = ("1,u", "1,u", "1,v", "1,v")
    table = f"class,{columns}\n" + "".join(
        f"{c},{row if model == 'auto' else row[:1]}\n"
        for c, row in zip("aaab", rows, strict=True)
    )
    asked = "x=1,c=u" if model == "auto" else "x=1"
    _, out, _ = run(
        table,
        *("--target", "class", "--model", model, "--constant", "drop"),
        *("--predict", asked),
    )

    assert "P(class) P(row | class)" in out
    assert "linear form" in out
    assert "P(b | row) = 1 / (1 + exp(-z))" in out
    assert ("27/32" if model == "auto" else "3/4 (0.75)") in out


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("", "'.' is not the name of a file to write"),
        ("-", "'-' is not the name of a file to write"),
        ("table.csv/page", "table.csv/page cannot be written: Not a directory"),
        ("table.csv", "--report would overwrite the table table.csv"),
        ("./other/../table.csv", "--report would overwrite the table table.csv"),
        ("link.csv", "--report would overwrite the table table.csv"),
        ("gold.csv", "--report would overwrite the table gold.csv"),
    ],
)
def test_a_page_does_not_take_the_place_of_a_table(run, tmp_path, page, sentence):
    """Nor is it written to nowhere."""
    (tmp_path / "other").mkdir()
    (tmp_path / "link.csv").symlink_to("table.csv")
    (tmp_path / "gold.csv").write_text("class,x\na,u\n")
    table = "class,x\na,u\nb,v\n"
    options = ("--target", "class", "--test", "gold.csv", "--report", page)
    code, _, err = run(table, *options)

    assert 0 < code
    assert sentence in err
    assert "Traceback" not in err
    assert table == (tmp_path / "table.csv").read_text()
