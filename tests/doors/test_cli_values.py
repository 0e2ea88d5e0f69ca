"""Arguments of commands that are not text, and texts that are printed as cells."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from app.doors.cli.console import OUT, grid
from tests.support.messages import ham, spam

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


def test_an_error_has_no_control_characters(run, tmp_path):
    """The files of a strange archive may have any names."""
    code, _, err = run("classify", tmp_path / "a\x1b]0;b\x07\nc\u202e")

    assert 65 == code
    assert rf"{tmp_path}/a\x1b]0;b\x07\nc\u202e cannot be read" in err


def test_cells_of_a_table_are_whole_and_without_control_characters(capsys):
    """Names often differ at their ends, and a file may have any name."""
    long = "x" * 300

    OUT.print(grid(("name", "n"), [(long, "7"), ("a\x1b[2J", "12")], numbers={1}))
    header, rule, *rows = capsys.readouterr().out.splitlines()

    assert [f"{long}    7", "a\N{REPLACEMENT CHARACTER}[2J".ljust(303) + "12"] == rows
    assert {"─"} == set(rule)
    assert {len(header)} == {len(row) for row in rows}


def test_an_explanation_has_no_control_characters_and_its_columns_are_aligned(
    run, tmp_path
):
    """A mail may name any symbol, and a wide character takes two columns."""
    mail = tmp_path / "mail"
    mail.write_text(
        "Subject: =?utf-8?q?red_=1B[31m_nul=00?=\nContent-Type: text/plain; "
        "charset=utf-8\n\n\u6d4b\u8bd5\u4e2d\u6587 buy\n",
        encoding="utf-8",
    )
    run("feedback", "--label", "ham", stdin=ham(1))
    run("learn", "--label", "spam", str(mail))

    _, out, _ = run("classify", "--explain", "20", str(mail))
    reasons = [line for line in out.splitlines() if "ham 0 · spam 1" in line]
    columns = {
        cell_len(line[: re.search(r"\d+ features;|ham 0", line).start()])
        for line in reasons
    }

    assert all(line.isprintable() for line in out.splitlines())
    assert any("\u6d4b" in line for line in reasons)
    assert 1 == len(columns)
