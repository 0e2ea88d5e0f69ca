"""Command line: errors on one line of standard error, and Ctrl-C during an import.

During an import there is nothing to clean up.  Python's KeyboardInterrupt could be
raised inside a half-imported module, and show as a traceback or as a different error.

Contract of this file: it imports next to nothing, because it is imported first.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.errors import UnreadableMessage

if TYPE_CHECKING:
    from collections.abc import Iterator


def complain(sentence: str) -> None:
    """Print an error to standard error; a file that it names may have any name."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
    sys.stderr.write(f"postbayes: {shown}\n")


def raise_for(unreadable: int) -> None:
    """End a command that has skipped messages, after the others are done.

    Raises
    ------
    UnreadableMessage
        If any message was skipped.
    """
    if unreadable:
        raise UnreadableMessage(
            f"{unreadable} of the messages could not be read and were skipped; "
            "please report them, because each shows a defect of Postbayes"
        )


class Complaints(logging.Handler):
    """Prints warnings of a command's threads like errors of the command.

    It prints no traceback: an error that ends the command is reported by the command,
    and for others the sentence is enough.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        complain(record.getMessage().partition("\n")[0])


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the process at once, with the usual exit code."""
    # If the signal is ignored, as in background jobs of a shell, it stays so; and only
    # the main thread has signals.
    python = signal.getsignal(signal.SIGINT) == signal.default_int_handler
    if not (python and threading.current_thread() is threading.main_thread()):
        yield
        return
    # In place of Python's handler, which raises an exception.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
