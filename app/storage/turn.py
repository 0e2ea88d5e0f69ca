"""How do others get the write lock of SQLite between two steps? In a pause.

A thread that takes the lock again at once would have it for the whole of its work.
Another thread of its process has the lock as soon as it is free
(`app.storage.engine`), and another process asks for it each millisecond
(`app.storage.drivers`).  The longest of 100 waits (p99) of three processes that write
for 3 ms every 10 ms, and the steps that a fourth does in 6 s beside them:

    a step takes       30 ms            60 ms           250 ms
    pauses of  2 ms    101 ms   155    189 ms    87    506 ms    24
               5 ms    103 ms   151    129 ms    86    762 ms    24
              10 ms     36 ms   146     65 ms    85    256 ms    23
    half a step         38 ms   116     67 ms    64    255 ms    18
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from app.storage.engine import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

PAUSE: Final = 0.01
"""What comes after a step.  Unit: seconds."""


def pause() -> None:
    """Let others write."""
    time.sleep(PAUSE)


@contextmanager
def brief(engine: Engine) -> Iterator[Connection]:
    """Give a connection that writes one step, and then others the time to write.

    Raises
    ------
    DatabaseUnavailable
        If the database did not take it; then there is no pause.
    """
    with writing(engine) as connection:
        yield connection
    pause()
