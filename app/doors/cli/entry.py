"""Entry point of `postbayes`: runs before any slow import."""

from __future__ import annotations

from app.doors.cli.errors import ended_by_ctrl_c


def main() -> None:
    """Import the command line, and run it."""
    with ended_by_ctrl_c():
        from app.doors.cli.main import main as run  # noqa: PLC0415  see above
    run()
