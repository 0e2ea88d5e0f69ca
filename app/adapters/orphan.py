"""What does a worker do whose parent is gone? It ends, as if it were told to.

The parent starts workers anew and passes on the signal to stop.  Where it was
killed, its workers would go on listening: the service could be stopped by nobody
who does not look for them, and a new one would find its port taken.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

log = logging.getLogger(__name__)

# Seconds between two looks.
_EVERY: Final = 1.0


@asynccontextmanager
async def ending_with_its_parent() -> AsyncIterator[None]:
    """End this process, in order, as soon as the one that started it is gone."""
    # Not who its parent is now: that may have been killed while this one imported what
    # it needs, which takes a second.
    started_by = parent_process()
    parent = os.getppid() if started_by is None else started_by.pid
    watch = asyncio.create_task(_watch(parent))
    try:
        yield
    finally:
        watch.cancel()


async def _watch(parent: int | None) -> None:
    # An orphan is given another parent, whichever the system has for orphans.
    while os.getppid() == parent:  # noqa: ASYNC110  nothing tells it but a look
        await asyncio.sleep(_EVERY)
    log.error("the process that started this worker is gone; the worker ends too")
    os.kill(os.getpid(), signal.SIGTERM)
