"""Markdown: tables, code and headings of the pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NOTICE: Final = (
    "<!-- Written by `python scripts/reference` from the code; a test compares. -->"
)

# A sentence ends with a full stop before blanks and a capital, a digit, a bracket,
# a link or a code span.
_END: Final = re.compile(r"(?<=[.!?…])\s+(?=[A-Z0-9`{(\[])")


def document(title: str, *parts: str) -> str:
    """Return a page: its title, the notice that it is written, and its parts."""
    return "\n\n".join((f"# {title}", NOTICE, *parts)) + "\n"


def sentences(text: str) -> str:
    """Return a paragraph with one sentence per line."""
    return "\n".join(_END.split(" ".join(text.split())))


def paragraphs(text: str) -> str:
    """Return a text of paragraphs with one sentence per line."""
    return "\n\n".join(sentences(part) for part in re.split(r"\n\s*\n", text.strip()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(c.split()).replace("|", r"\|") for c in line) + " |"
        for line in lines
    )


def block(language: str, text: str) -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"
