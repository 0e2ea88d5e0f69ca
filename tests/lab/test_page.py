"""docs/lab.md says what the command prints."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.command import on_path

PAGE = Path(__file__).parents[2] / "docs" / "lab.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_a_shell_prints(tmp_path):
    """Each block is run, in order, and the block after it is the output."""
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    commands, outputs = blocks[::2], blocks[1::2]

    assert {"sh"} == {language for language, _ in commands}
    assert {"text"} == {language for language, _ in outputs}
    with on_path() as folder:
        for (_, command), (_, output) in zip(commands, outputs, strict=True):
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                cwd=tmp_path,
                env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
                capture_output=True,
                check=True,
            )
            printed = [line.rstrip() for line in done.stdout.decode().splitlines()]

            assert output.splitlines() == printed


def test_the_examples_are_the_lectures():
    """The fractions that the lectures have are on the page."""
    page = PAGE.read_text(encoding="utf-8")

    assert "3/125" in page
    assert "1/125" in page
    assert "256/499" in page
    assert "A tie of Cold and Flu" in page
