"""Errors of a command: one line on standard error, and Ctrl-C during an import.

During an import there is nothing to clean up.  Python's KeyboardInterrupt could be
raised inside a half-imported module, and show as a traceback or as a different error.

Contract of this file: it imports next to nothing, because it is imported first.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from app.errors import UnreadableMessage


def complain(sentence: str) -> None:
    """Print an error to standard error."""
    sys.stderr.write(f"postbayes: {sentence}\n")


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


class EndedByCtrlC:
    """Lets Ctrl-C end the process at once, with the usual exit code."""

    def __init__(self) -> None:
        self._taken = False

    def __enter__(self) -> None:
        """Install the handler in place of Python's, which raises an exception."""
        # If the signal is ignored, as in background jobs of a shell, it stays so.
        if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
            return
        try:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        except ValueError:
            # Only the main thread has signals.
            return
        self._taken = True

    def __exit__(self, *_: object) -> None:
        """Restore the previous handler."""
        if self._taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
