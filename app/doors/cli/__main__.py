"""``python -m app.doors.cli`` is the command `postbayes`."""

from __future__ import annotations

from app.doors.cli.entry import main

# An evaluation starts processes, and each of them imports this file.
if __name__ == "__main__":
    main()
