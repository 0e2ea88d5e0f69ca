"""Shell: the completions and the manual page, read by the programs that they are for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from app.doors.cli.main import COMMANDS
from tests.support.clients import find

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
COMPLETE = """
source {file}
COMP_WORDS=({words}) COMP_CWORD={last}
_postbayes
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(*words):
    """Return what bash offers in place of the last word."""
    script = COMPLETE.format(
        file=DEPLOY / "completions" / "postbayes.bash",
        words=" ".join(f"'{word}'" for word in ("postbayes", *words)),
        last=len(words),
    )
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_bash_completes_commands():
    """All commands are offered, or those with the given prefix."""
    assert [*COMMANDS, "--help", "--version"] == completed("")
    assert ["learn", "lab", "lists"] == completed("l")
    assert [] == completed("nothing")


def test_bash_completes_the_options_of_a_command():
    """Only options of the command are offered; bash itself completes files."""
    assert ["--label"] == completed("learn", "--la")
    assert [] == completed("serve", "--la")
    assert [] == completed("learn", "--label", "ham", "Mail")


def test_bash_completes_the_actions_of_a_group():
    """And then the options of the action."""
    assert ["list", "create", "revoke"] == completed("keys", "")
    assert ["--label"] == completed("keys", "create", "--la")
    assert [] == completed("keys", "create", "mx1")


@pytest.mark.clients
def test_the_manual_page_is_good_roff():
    """The page has each command, and no warning except for its missing date."""
    page = DEPLOY / "man" / "postbayes.1"
    lint = subprocess.run(
        [find("mandoc"), "-T", "lint", "-W", "warning", page],
        capture_output=True,
        text=True,
        check=False,
    )
    text = subprocess.run(
        [find("mandoc"), "-T", "ascii", "-O", "width=200", page],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Bold is a letter over itself.
    plain = "".join(
        c for c, after in zip(text, text[1:] + " ", strict=True) if after != "\b"
    ).replace("\b", "")

    assert all("missing date" in line for line in lint.stdout.splitlines())
    for name in COMMANDS:
        assert f"postbayes {name}" in plain
    assert "POSTBAYES_DATABASE_URL" in plain
