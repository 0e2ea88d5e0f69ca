"""What a column is taken for."""

from __future__ import annotations

import pytest

from app.lab.table import Kind, Model, kind_of, read_text


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
