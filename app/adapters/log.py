"""How does a process that serves keep a log? On standard error, a line each.

Each process for itself: one that another has started, as a worker is, has nothing
of how that one keeps its log.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.settings import Settings


def keep_log(settings: Settings) -> None:
    """Log from the level of the settings on; where something is set up, leave it."""
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(levelname)-8s %(name)s: %(message)s",
    )
    # Six lines at each migration, of what is in Alembic.
    logging.getLogger("alembic.runtime.plugins").setLevel(logging.WARNING)
