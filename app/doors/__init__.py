"""Doors: protocols and commands, with one use case behind each.

What a command or a route takes is described in its docstring.
"""

from __future__ import annotations

import re
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the description of a command or a route, and those of its parameters."""
    # Without docstrings, as `python -OO` runs, there is none.
    docstring = dedent(f"    {function.__doc__ or ''}").strip()
    says, _, section = docstring.partition("\n\nParameters\n----------\n")
    found = re.findall(r"^(\w+)\n((?:    .*\n?)+)", section, re.MULTILINE)
    return says, {name: " ".join(text.split()) for name, text in found}
