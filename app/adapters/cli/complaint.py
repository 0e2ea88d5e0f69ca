"""How does a command say what went wrong? In one line on standard error."""

from __future__ import annotations

import sys


def complain(sentence: str) -> None:
    """Say what went wrong on standard error."""
    sys.stderr.write(f"postbayes: {sentence}\n")
