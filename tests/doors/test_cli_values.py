"""Arguments of commands that are not text, and texts that are printed as cells."""

from __future__ import annotations

import pytest

from app.doors.cli.console import OUT, grid
from tests.support.messages import spam

# As Python gives the byte FF of an argument.
FF = "\udcff"


@pytest.mark.parametrize(
    "arguments",
    [
        ("word", FF),
        ("word", "--profile", FF, "money"),
        ("undo", "--source", FF),
        ("undo", "0" * 32, f"a{FF}"),
        ("feedback", "--label", "spam", "--source", FF),
    ],
)
def test_an_argument_that_is_no_text_is_refused(run, arguments):
    """With the bytes of it, and the code of a command that is called wrongly."""
    code, out, err = run(*arguments, stdin=spam(1))

    assert (2, "") == (code, out)
    assert "\\xff' is not valid UTF-8." in err


def test_the_name_of_a_file_may_be_any_bytes(run, tmp_path):
    """It is found by them."""
    (tmp_path / FF).write_bytes(spam(1))

    assert 0 == run("learn", "--label", "spam", FF)[0]


def test_cells_of_a_table_are_whole_and_without_control_characters(capsys):
    """Names often differ at their ends, and a file may have any name."""
    long = "x" * 300

    OUT.print(grid(("name", "n"), [(long, "7"), ("a\x1b[2J", "12")], numbers={1}))
    header, rule, *rows = capsys.readouterr().out.splitlines()

    assert [f"{long}    7", "a\N{REPLACEMENT CHARACTER}[2J".ljust(303) + "12"] == rows
    assert {"─"} == set(rule)
    assert {len(header)} == {len(row) for row in rows}
