"""The commands are listed without being imported, and the lists are right."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.doors.cli.main import COMMANDS, FILES, load, main, summary

# What takes some 50 ms of CPU or more to import.
LARGE = (
    "alembic",
    "app.services.application",
    "fastapi",
    "httpx2",
    "numpy",
    "opentelemetry.sdk",
    "rich",
    "scipy",
    "sqlalchemy",
)


def imported(code):
    """Return which of the large packages are there after some code has run."""
    told = f"import sys; {code}; print(*sorted(sys.modules.keys() & {set(LARGE)!r}))"
    ran = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, check=True, text=True
    )
    return ran.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_a_command_is_the_first_paragraph_of_its_help(name):
    """The lists of commands agree with the help."""
    first = " ".join(load(name).help.split("\n\n")[0].split())

    assert first == summary(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_parameter_is_described(name):
    """In the docstring of its command, or where several commands share it."""
    command = load(name)

    assert [] == [each.name for each in command.params if not each.help]
    assert "Parameters" not in command.help


@pytest.mark.parametrize("arguments", [[], ["undo"]])
def test_a_flag_takes_no_value_in_the_help(arguments, capsys):
    """Nobody is led to write `--dry-run true`."""
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--help"])
    out = capsys.readouterr().out

    assert 0 == ended.value.code
    assert "--help" in out
    assert "bool" not in out


def test_a_value_has_the_same_word_in_the_help_as_in_the_reference(capsys):
    """TEXT and NUMBER, where typer would print `<str>` and `<int>`."""
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    out = capsys.readouterr().out

    assert "--host                TEXT" in out
    assert "<" not in out


def test_a_command_is_in_one_file():
    """Which is the one that is imported for it."""
    grouped = [name for names in FILES.values() for name in names]

    assert [*COMMANDS] == grouped


def test_the_program_itself_imports_nothing_large():
    """A command that does not exist, and `--version`, are answered at once."""
    assert [] == imported("from app.doors.cli import main")


def test_a_service_imports_what_it_serves_with_and_no_more():
    """Alembic, a quarter of a second of CPU, is for those who need it.

    So is what traces; and source, 0.1 s of CPU, is read for a description alone.
    """
    needed = imported(
        "from app.doors.cli.main import load; load('serve'); import app.doors.service; "
        "from app.settings import Settings, texts_below; "
        "from app.services.metrics import tally_of; tally_of(Settings()); "
        "assert not texts_below.cache_info().misses"
    )

    assert [
        "app.services.application",
        "fastapi",
        "numpy",
        "sqlalchemy",
    ] == needed


def test_who_asks_a_service_puts_none_together():
    """`classify --url` is run for every message that is delivered."""
    told = "from app.doors.cli.main import load; load('classify')"

    assert set() == {"app.services.application", "sqlalchemy"} & {*imported(told)}
