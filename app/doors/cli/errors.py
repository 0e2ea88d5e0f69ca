"""Errors of a command: one line on standard error, and Ctrl-C during an import.

Nothing has begun by then that would have to be put in order, and the exception that
Python raises may come out anywhere in a module that is half read: as a traceback, or
as an import that fails for another reason.

Contract of this file: it imports next to nothing, since it must be there first.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from app.errors import UnreadableMessage


def complain(sentence: str) -> None:
    """Say what went wrong on standard error."""
    sys.stderr.write(f"postbayes: {sentence}\n")


def raise_for(unreadable: int) -> None:
    """End a command that has passed over messages, once the others are done.

    Raises
    ------
    UnreadableMessage
        If there is any such message.
    """
    if unreadable:
        msg = (
            f"{unreadable} of the messages could not be read and were skipped; "
            "please report them, because each shows a defect of Postbayes"
        )
        raise UnreadableMessage(msg)


class Complaints(logging.Handler):
    """Says what a thread of a command warns of, as the command itself would.

    Without a traceback: what ends a command is told by the command, and what does
    not needs no more than its sentence.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        complain(record.getMessage().partition("\n")[0])


class EndedByCtrlC:
    """Lets Ctrl-C end the process at once, with the code that it ends commands with."""

    def __init__(self) -> None:
        self._taken = False

    def __enter__(self) -> None:
        """Do so from here on, where Python would raise an exception."""
        # Where it is ignored, as in what a shell runs beside others, it stays so.
        if signal.getsignal(signal.SIGINT) != signal.default_int_handler:
            return
        try:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        except ValueError:
            # Only the main thread has signals.
            return
        self._taken = True

    def __exit__(self, *_: object) -> None:
        """Leave the signal as it was."""
        if self._taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
