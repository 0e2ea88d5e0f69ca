"""Where do a command's words go? Results to standard output, the rest to error."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from app.adapters.cli.complaint import complain

if TYPE_CHECKING:
    from collections.abc import Iterator

OUT = Console(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def interruptible(sentence: str) -> Iterator[None]:
    """Let Ctrl-C end a command with a sentence and the code of its signal."""
    try:
        yield
    except KeyboardInterrupt:
        complain(sentence)
        raise typer.Exit(130) from None


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
