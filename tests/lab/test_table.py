"""Table: a CSV file, and the kinds of its columns."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import MalformedTable
from app.lab.table import Kind, Model, kind_of, listed, read_table, read_text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    """Whatever stands most often in the header."""
    table = read_text(f"a{delimiter} b\n1{delimiter}2 3\n")

    assert ("a", "b") == table.columns
    assert {"a": "1", "b": "2 3"} == table.rows[0].cells


def test_a_delimiter_in_quotes_is_none():
    """It belongs to the name of a column."""
    table = read_text('"a; b; c",d\n1,2\n')

    assert ("a; b; c", "d") == table.columns


def test_a_table_of_one_column_is_a_table():
    """No delimiter is needed; empty lines are no rows."""
    table = read_text("\nclass\nham\n\nspam\n")

    assert ["ham", "spam"] == table.filled("class")


def test_quoted_cells_hold_delimiters_and_quotes():
    """As RFC 4180 has it."""
    (row,) = read_text('a,b\n"1, 2","say ""hi"""\n').rows

    assert {"a": "1, 2", "b": 'say "hi"'} == row.cells


def test_what_a_spreadsheet_saves_is_read(tmp_path):
    """A byte order mark and line ends of another system are not data."""
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbfa;b\r\n1;\r\n")
    table = read_table(path)

    assert ("a", "b") == table.columns
    assert {"a": "1"} == table.rows[0].cells


def test_names_are_listed():
    """None is said as such."""
    assert ("'a', 'b'", "none") == (listed(("a", "b")), listed(()))


@example("a;b\n1;2\n")
@given(st.text(max_size=60) | st.text('ab,;"\n\r', max_size=60))
def test_any_text_is_a_table_or_refused(text):
    """Nothing but the one error, whatever is in the file."""
    try:
        table = read_text(text)
    except MalformedTable:
        return

    assert table.rows
    assert all(row.cells.keys() <= set(table.columns) for row in table.rows)


@pytest.mark.parametrize(
    ("cells", "model", "kind"),
    [
        ("1 2.5 -3e2", Model.AUTO, Kind.MEASUREMENT),
        ("0 1 1", Model.AUTO, Kind.CATEGORY),
        ("red blue red", Model.AUTO, Kind.CATEGORY),
        ("do_math buy_book buy", Model.AUTO, Kind.TEXT),
        ("new_york new_york new_york los_angeles", Model.MIXED, Kind.CATEGORY),
        ("1 1 x y", Model.AUTO, Kind.CATEGORY),
        ("1 2 3", Model.CATEGORICAL, Kind.CATEGORY),
        ("x y", Model.CATEGORICAL, Kind.CATEGORY),
        ("0 1", Model.GAUSSIAN, Kind.MEASUREMENT),
        ("x", Model.DISCRIMINANT, Kind.MEASUREMENT),
        ("0 3 1", Model.MULTINOMIAL, Kind.COUNT),
        ("0 3 x", Model.BERNOULLI, Kind.TEXT),
        ("red blue", Model.BERNOULLI, Kind.TEXT),
    ],
)
def test_a_column_is_what_it_looks_like(cells, model, kind):
    """Or what the model makes of it."""
    lines = "\n".join(cells.replace("_", "\0").split()).replace("\0", " ")

    assert kind is kind_of("x", read_text(f"x\n{lines}\n"), model=model)


def test_many_different_numbers_may_be_categories():
    """Only words are taken for names."""
    lines = "\n".join(str(n) for n in range(30))

    assert Kind.CATEGORY is kind_of(
        "x", read_text(f"x\n{lines}\n"), model=Model.CATEGORICAL
    )
