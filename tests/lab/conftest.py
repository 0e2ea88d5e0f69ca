"""How a test of the lab runs the command, and the tables of the lectures."""

from __future__ import annotations

import json
from collections import defaultdict
from fractions import Fraction

import pytest

from app.doors.cli.main import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `postbayes lab` on the text of a table; return code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def run(table, *arguments):
        (tmp_path / "table.csv").write_text(table, encoding="utf-8")
        with pytest.raises(SystemExit) as end:
            main(["lab", "table.csv", *arguments])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return run


@pytest.fixture
def answer(run):
    """Run `postbayes lab --json` on the text of a table; return the object."""

    def answer(table, *arguments):
        code, out, err = run(table, "--json", *arguments)

        assert (0, "") == (code, err)
        return json.loads(out)

    return answer


@pytest.fixture
def ask(answer):
    """Ask one question; return its exact joints and posteriors by class."""

    def ask(table, question, *arguments):
        (prediction,) = answer(table, "--predict", question, *arguments)["predictions"]
        return (
            {c["class"]: exact(c["joint_fraction"]) for c in prediction["classes"]},
            {c["class"]: exact(c["posterior_fraction"]) for c in prediction["classes"]},
        )

    return ask


@pytest.fixture
def learned(answer):
    """Fit a table; return what was learned by title, row and column."""

    def learned(table, *arguments):
        found = defaultdict(dict)
        for part in answer(table, *arguments)["learned"]:
            for row in part["rows"]:
                for name, number in zip(part["header"], row["numbers"], strict=True):
                    found[part["title"]][row["name"], name] = number
        return found

    return learned


def exact(fraction):
    """Return the fraction of a text, None for none."""
    return None if fraction is None else Fraction(fraction)
