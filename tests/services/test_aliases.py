"""Aliases: a file of other names, and what happens when it changes."""

from __future__ import annotations

import os
import time

import pytest

from app.errors import InvalidSetting
from app.services.recipients import Aliases, parse_aliases
from tests.support.application import running
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url


def test_a_file_of_aliases_has_one_on_each_line():
    """Blank lines and comments are ignored, and aliases are in lower case."""
    text = "# ours\n\n Root :carl\n@Example.com: shop\r\n"

    assert {"root": "carl", "@example.com": "shop"} == parse_aliases(text, "f")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("root", "line 2 of f must be 'alias: profile', got 'root'"),
        (": carl", "must be 'alias: profile'"),
        ("root:", "must be 'alias: profile'"),
        ("root: a b", "the name of a profile must have 1 to 128"),
        ("ANN: shop", "names the alias 'ann' again"),
    ],
)
def test_a_line_that_is_no_alias_is_named(line, sentence):
    """The error has the number of the line and its form."""
    with pytest.raises(InvalidSetting, match="line 2") as caught:
        parse_aliases(f"ann: carl\n{line}", "f")

    assert sentence in str(caught.value)


def test_the_service_reads_the_file_that_the_setting_names(tmp_path):
    """Aliases apply from the start of the service."""
    file = tmp_path / "aliases"
    file.write_text("root: default\n@example.org: default\n")
    url = sqlite_url(tmp_path)

    with running(database_url=url, aliases=file) as app:
        assert "default" == app.recipients.profile("root")


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_stops_the_start(tmp_path, content):
    """The error names the file, and no database is created."""
    file = tmp_path / "aliases"
    if content is not None:
        file.write_bytes(content)
    url = f"sqlite:///{tmp_path}/postbayes.db"

    with (
        pytest.raises(InvalidSetting, match="POSTBAYES_ALIASES names"),
        running(database_url=url, aliases=file),
    ):
        pass

    assert not (tmp_path / "postbayes.db").exists()


@pytest.fixture
def file(tmp_path):
    """A file with one alias."""
    file = tmp_path / "aliases"
    file.write_text("root: carl\n")
    return file


def test_a_file_that_changes_is_read_again(file):
    """Editors save in place, or by a new file with an older time."""
    aliases = Aliases(file)
    # Of another size: two writes may have one time.
    file.write_text("root: dorothea\n")
    aliases.refresh()
    in_place = aliases.get("root")
    other = file.with_name("other")
    other.write_text("root: anna\n")
    os.utime(other, (1, 1))
    other.replace(file)
    aliases.refresh()

    assert ("dorothea", "anna") == (in_place, aliases.get("root"))


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda file: file.write_text("root dora\n"), "line 1 of"),
        (lambda file: file.write_bytes(b"\xff"), "cannot be read"),
        (lambda file: file.unlink(), "cannot be read"),
    ],
)
def test_a_file_that_is_broken_changes_nothing(file, break_it, says, caplog):
    """The error is logged once, and the repaired file applies."""
    aliases = Aliases(file)
    break_it(file)
    aliases.refresh()
    aliases.refresh()
    before = aliases.get("root")
    file.write_text("root: dora\n")
    aliases.refresh()

    assert ("carl", "dora") == (before, aliases.get("root"))
    assert 1 == caplog.text.count("the old ones still apply")
    assert says in caplog.text


def test_without_a_file_there_are_none():
    """No file is looked for."""
    aliases = Aliases(None)
    aliases.refresh()

    assert aliases.get("root") is None


def test_the_service_reads_a_file_that_changes(tmp_path, file):
    """No restart is needed."""
    file.write_text("root: nobody\n")
    url = sqlite_url(tmp_path)

    with running(database_url=url, aliases=file) as app:
        before = app.aliases.get("root")
        # Put in its place: one that is written in place may be read while empty.
        changed = tmp_path / "changed"
        changed.write_text("root: default\n")
        changed.replace(file)
        deadline = time.monotonic() + PATIENCE
        while app.aliases.get("root") == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)

        assert ("nobody", "default") == (before, app.aliases.get("root"))
