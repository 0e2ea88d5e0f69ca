"""Where do a command's words go? Results to standard output, the rest to error."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

OUT = Console(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(sentence: str) -> None:
    """Say what went wrong on standard error."""
    ERR.print("postbayes:", sentence, markup=False)


def progress() -> Progress:
    """Return a progress bar on standard error; it shows on terminals only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )
