"""Console: output, progress, errors and files of a command."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Final

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from app.doors.cli.errors import complain
from app.errors import UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

OUT = Console(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False, soft_wrap=True)
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""What ends a process at once where it does not ask to be told."""


@contextmanager
def interruptible(
    sentence: str, *, ending: Sequence[signal.Signals] = ENDING
) -> Iterator[None]:
    """Let Ctrl-C and other signals end a command with a sentence, and clean up.

    After Ctrl-C the exit code is that of the signal.  By the others the process dies,
    as it would without this: whoever sent one looks for that.

    Parameters
    ----------
    sentence : str
        What becomes of what was begun.
    ending : sequence of Signals, optional
        The other signals; those that are ignored or handled already stay so.
    """
    heard: list[int] = []
    usual = [each for each in ending if signal.getsignal(each) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread has signals.
        usual = []

    def hear(number: int, _: object) -> None:
        # `timeout` sends it twice: what is cleaned up is not to be torn again.
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        heard.append(number)
        raise KeyboardInterrupt

    try:
        for number in usual:
            signal.signal(number, hear)
        yield
    except KeyboardInterrupt:
        complain(sentence)
        if not heard:
            raise typer.Exit(130) from None
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)
        if heard:
            os.kill(os.getpid(), heard[0])


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


def undo_of(source: str, *, profile: str) -> str:
    """Return the command that takes back what has a source, as a shell reads it.

    Examples
    --------
    >>> undo_of("undo:1", profile="default")
    'postbayes undo --profile default --source undo:1'
    """
    return f"postbayes undo --profile {quote(profile)} --source {quote(source)}"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the path to write to, which becomes `path` at the end, or goes away.

    Raises
    ------
    UnreadableSource
        If it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        # An older one may be of somebody whom the copy is not for.
        part.unlink(missing_ok=True)
        # What is learned is as private as the mail.
        part.touch(mode=0o600, exist_ok=False)
        yield part
        part.replace(path)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise UnreadableSource(msg) from error
    finally:
        part.unlink(missing_ok=True)
