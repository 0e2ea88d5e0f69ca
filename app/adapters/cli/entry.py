"""Where does `postbayes` begin? Here, before anything is imported that takes time."""

from __future__ import annotations

from app.adapters.cli.loading import EndedByCtrlC


def main() -> None:
    """Import the command line, and run it."""
    with EndedByCtrlC():
        from app.adapters.cli.main import main as run  # noqa: PLC0415  see above
    run()
