"""How does a command say what went wrong? In one line on standard error."""

from __future__ import annotations

import logging
import sys


def complain(sentence: str) -> None:
    """Say what went wrong on standard error."""
    sys.stderr.write(f"postbayes: {sentence}\n")


class Complaints(logging.Handler):
    """Says what a thread of a command warns of, as the command itself would.

    Without a traceback: what ends a command is told by the command, and what does
    not needs no more than its sentence.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        complain(record.getMessage().partition("\n")[0])
