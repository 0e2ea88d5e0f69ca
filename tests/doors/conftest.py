"""What the tests of several doors share."""

from __future__ import annotations

import io
import os
import sys

import pytest

from app.doors.cli.main import main
from app.services.startup import open_database
from app.settings import Settings
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam


@pytest.fixture
def run(run_anew, tmp_path):
    """Run `postbayes` with an empty profile, and return code, output and errors."""
    url = sqlite_url(tmp_path)
    open_database(Settings(database_url=url), make=True).dispose()
    return run_anew


@pytest.fixture
def run_anew(tmp_path, monkeypatch, capsys):
    """Run `postbayes` in an empty folder, and return code, output and errors."""
    before = {**os.environ}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", f"sqlite:///{tmp_path}/postbayes.db")

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    yield run
    # `serve` gives its options to the process of uvicorn in the environment.
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def index(tmp_path):
    """A stream of twenty messages, in the order of their arrival."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = []
    for n in range(10):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (folder / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (folder / "index").write_text("".join(lines))
    return folder / "index"
