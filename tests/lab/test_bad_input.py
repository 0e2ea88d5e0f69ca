"""What cannot be used is refused in one clear sentence, with code 65."""

from __future__ import annotations

import pytest

from app.doors.cli.main import main
from app.lab.table import BYTES_LIMIT, COLUMNS_LIMIT, ROWS_LIMIT

TABLE = "class,colour,size\na,red,1\nb,blue,2\na,red,3.5\n"
NAMES = "class,name\n" + "".join(f"{'ab'[n % 2]},x{n}\n" for n in range(21))
TEXT = "class,text\na,buy book\nb,do math\n"


@pytest.mark.parametrize(
    ("table", "arguments", "sentence"),
    [
        # The table.
        ("", "", "the table is empty"),
        ("\n\n", "", "the table is empty"),
        ("class,colour\n", "", "no rows below its header"),
        ("class,\na,1\n", "", "column 2 has no name"),
        ("class,x,x\na,1,2\n", "", "two columns have the name 'x'"),
        (
            "class,x\na,1\nb\n",
            "",
            "ends in line 3 has 1 cells, but there are 2 columns",
        ),
        ("class,x\na,1,2\n", "", "has 3 cells, but there are 2"),
        ('class,x\na,"1\n', "", "the table is not well-formed CSV"),
        (",".join(f"c{n}" for n in range(COLUMNS_LIMIT + 1)), "", "has 65 columns"),
        ("class\n" + "a\n" * (ROWS_LIMIT + 1), "", "more than 20000 rows"),
        # The target.
        ("x\n1\n", "", "no column 'class'; there are 'x'"),
        ("class,x\na,1\na,2\n", "", "one class only, 'a'"),
        ("class,x\n,1\n", "", "has no value in any row"),
        (
            "class,x\n" + "".join(f"{n},1\n" for n in range(21)),
            "",
            "has 21 different values",
        ),
        # The columns.
        (TABLE, "--columns colour,shape", "no column 'shape'"),
        (TABLE, "--columns class,size", "'class' is the target"),
        (TABLE, "--as shape=text", "no column 'shape'"),
        (TABLE, "--columns size --as colour=text", "not among the columns that teach"),
        (TABLE, "--as colour=number", "--as takes COLUMN=KIND"),
        (TABLE, "--as category", "--as takes COLUMN=KIND"),
        (
            TABLE,
            "--model gaussian --as colour=category",
            "the gaussian model takes measurement",
        ),
        (
            TABLE,
            "--model gaussian",
            "row 1: column 'colour' holds 'red', which is not a number",
        ),
        (
            "class,x\na,1\nb,2\nb,n/a\n",
            "",
            "column 'x' is neither numbers nor categories: 2 of its 3 values are "
            "numbers, but 'n/a' is not",
        ),
        (NAMES, "", "neither numbers nor categories: its 21 values are all different"),
        (NAMES, "--model categorical", 'use --as "name=category"'),
        (TEXT, "--model categorical", "column 'text' holds text, not categories"),
        (TABLE, "--model bernoulli", "column 'size' holds '3.5', but the bernoulli"),
        (
            TABLE,
            "--as size=count",
            "row 3: column 'size' holds '3.5', but the column is taken",
        ),
        (TABLE, "--vocabulary now", "columns of text, and the table has none"),
        (TABLE, "--values colour=red", "holds 'blue', which is not among its declared"),
        (TABLE, "--values colour", "--values takes COLUMN=VALUE,VALUE..."),
        (TABLE, "--values shape=a,b", "no column 'shape'"),
        (TABLE, "--columns size --values colour=red", "--values names 'colour', which"),
        (TABLE, "--as colour=text --values colour=red", "is for a category, but"),
        (TEXT, "--vocabulary=", "has no word"),
        (
            "class,x\na,1e400\nb,1\n",
            "",
            "row 1: column 'x' holds '1e400', which is too large",
        ),
        (
            "class,x\na,1\nb,-2e11\n",
            "",
            "row 2: column 'x' holds '-2e11', which is too large",
        ),
        (
            "class;x\na;2\nb;1,5\n",
            "",
            "row 2: column 'x' holds '1,5', a number with a decimal comma; write it "
            'with a point, as 1.5; for values without an order, use --as "x=category"',
        ),
        ("class;x\na;no\nb;1,5\nb;-,5e3\n", "", "write it with a point, as 1.5"),
        ("class;x\na;2\nb;1,5\n", "--model gaussian", "with a point, as 1.5"),
        ("class;x\na;2\nb;1,5\n", "--model bernoulli", "holds '1,5', but the"),
        ("class;x\na;no\nb;yes\nb;1,5\n", "", None),
        ("class;x\na;2\nb;1,5\n", "--as x=category", None),
        (
            "class,x\na,1e10\nb,10000000000.001\n",
            "",
            "column 'x' varies only by 0.000999451, with values up to 1e+10",
        ),
        # The rules.
        (TABLE, "--smoothing much", "smoothing must be none, laplace"),
        (TABLE, "--smoothing lidstone", "smoothing must be none, laplace"),
        (TABLE, "--smoothing lidstone=x", "'x' in 'lidstone=x' is not a number"),
        (TABLE, "--smoothing lidstone=1/0", "'1/0' in 'lidstone=1/0' is not a number"),
        (TABLE, "--smoothing lidstone=nan", "alpha must be between"),
        (TABLE, "--smoothing lidstone=0", "is no smoothing; use --smoothing none"),
        (TABLE, "--smoothing epsilon=2", "strictly between 0 and 1"),
        (TABLE, "--prior mine", "the prior must be fitted, uniform"),
        (TABLE, "--prior fixed=1/3,1/3,1/3", "3 probabilities, but there are 2"),
        (TABLE, "--prior fixed=1/2,1/3", "must sum to 1"),
        (TABLE, "--prior smoothed=0", "alpha must be between"),
        (
            TABLE,
            "--columns size --model discriminant --shrinkage 2",
            "must be from 0 to 1",
        ),
        # The questions.
        (
            TABLE,
            "--predict shape=round",
            "column 'shape' to predict from; there are 'colour', 'size'",
        ),
        (
            TABLE,
            "--predict class=a",
            "column 'class' to predict from; there are 'colour', 'size'",
        ),
        (TABLE, "--predict red", "'red' in the question 'red' is not of the form"),
        (TABLE, "--predict size=1,size=2", "two values for 'size'"),
        (TABLE, '--predict "size=1', "is not well-formed: unexpected end of data"),
        (
            TABLE,
            "--predict size=big",
            "column 'size' holds 'big', which is not a number",
        ),
        (TABLE, "--predict size=1e9", "more than a thousand times the values"),
        (TABLE, "--predict size=1e9999999", "more than a thousand times the values"),
        (TABLE, "--predict size=1,5", "a number is written with a point, like 1.5"),
        (TABLE, '--predict "size=1,5"', "write it with a point, as 1.5"),
        (TABLE, "--predict-csv other.csv", "other.csv cannot be read: No such file"),
        (
            "class,x,text\na,1,b c\nb,2,d\n",
            "--predict-csv table.csv --predict x=",
            None,
        ),
        # The folds.
        (TABLE, "--folds 1", "folds must be from 2 to the number of rows, 3; got 1"),
        (TABLE, "--folds 4", "got 4"),
    ],
)
def test_what_cannot_be_used_is_refused(run, table, arguments, sentence):
    """One line on standard error, exit code 65; None marks a good example."""
    words = [] if not arguments else arguments.split(" ")
    code, out, err = run(table, "--target", "class", *words)

    if sentence is None:
        assert (0, "") == (code, err)
        return
    assert (65, "") == (code, out)
    assert sentence in err
    assert 1 == err.count("\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--predict-csv", "--test"])
@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("class,size\na,1\nb,big\n", "more.csv: row 2: column 'size' holds 'big'"),
        ("class,length\na,1\n", "more.csv: there is no column 'length'"),
    ],
)
def test_a_second_table_is_named(run, tmp_path, option, rows, sentence):
    """Of up to three tables, an error is about one."""
    (tmp_path / "more.csv").write_text(rows)
    code, _, err = run(TABLE, "--target", "class", option, "more.csv")

    assert 65 == code
    assert sentence in err


def test_a_file_that_is_not_a_table_is_refused(tmp_path, capsys):
    """A folder, another encoding, or a file beyond the limit."""
    (tmp_path / "latin").write_bytes("class,x\na,caf\xe9\n".encode("latin-1"))
    (tmp_path / "large").write_bytes(b"x" * (BYTES_LIMIT + 1))
    for name, sentence in (
        ("", "cannot be read: Is a directory"),
        ("latin", "is not UTF-8 at byte 13"),
        ("large", f"has more than {BYTES_LIMIT} bytes"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["lab", str(tmp_path / name), "--target", "class"])

        assert 65 == end.value.code
        assert sentence in capsys.readouterr().err


def test_a_missing_target_is_a_wrong_command(run):
    """The framework's own code for wrong usage."""
    assert 2 == run(TABLE)[0]
    assert 2 == run(TABLE, "--target", "class", "--model", "forest")[0]
