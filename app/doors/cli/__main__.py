"""Entry point of `postbayes`, before any slow import.

``python -m app.doors.cli`` is the same command.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

from app.doors.cli import ended_by_ctrl_c


def main() -> None:
    """Import the command line, and run it."""
    # Python has None for a stream that the caller closed, and a file that is opened
    # later, such as the database, would get its number.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
    # The character set of a locale, such as Latin-1, lacks most characters of mail; in
    # the locale C, Python lets through only what it could not decode.
    usual = {"strict", "surrogateescape"}
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors in usual:
        sys.stdout.reconfigure(errors="backslashreplace")
    with ended_by_ctrl_c():
        from app.doors.cli.main import main as run  # noqa: PLC0415  see above
    run()


# An evaluation starts processes, and each of them imports this file.
if __name__ == "__main__":
    main()
