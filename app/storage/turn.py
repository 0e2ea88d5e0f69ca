"""How do others get the write lock of SQLite between two steps?

Whoever writes step by step leaves it free after each for half as long as the step had
it, and for no less and no more than the bounds below.  Another thread of the same
process has it as soon as it is free (`app.storage.engine`), but another process asks
for it only now and then: SQLite's busy handler asks again after 1, 2, 5, 10, 15, 20,
25, 25, 25, 50, 50 and then every 100 ms, so that whoever has waited for a few steps
misses a pause that is much shorter than they are.  The longest wait of one who came
every 10 ms, for 6 s, in ms:

    a step takes     30 ms    60 ms
    5 ms between     1,055    2,238
    a quarter        1,567      831
    half               240       83
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from app.storage.engine import writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

# Enough for a thread that waits, and as long as the busy handler sleeps at most, so
# that it asks once in the longest pause.  Unit: seconds.
SHORTEST: Final = 0.005
LONGEST: Final = 0.1


class Turn:
    """Writes step by step, and lets others write in between.

    Parameters
    ----------
    engine : Engine
        The database.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held = 0.0
        self._free_since = 0.0

    @property
    def held(self) -> float:
        """How long the newest step had the lock, with its commit; 0 before any.

        Unit: seconds.
        """
        return self._held

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give a connection that writes, as `app.storage.engine.writing` does.

        Raises
        ------
        DatabaseUnavailable
            If the database did not take it.
        """
        with writing(self._engine) as connection:
            # Not before: who has waited for others owes them nothing.
            begun = time.monotonic()
            yield connection
        self._free_since = time.monotonic()
        self._held = self._free_since - begun

    def pause(self) -> None:
        """Let others write after a step; what was done since it ended counts."""
        pause = max(SHORTEST, min(self._held / 2, LONGEST))
        time.sleep(max(0.0, self._free_since + pause - time.monotonic()))


@contextmanager
def brief(engine: Engine) -> Iterator[Connection]:
    """Give a connection that writes one step, and then others the time to write.

    Raises
    ------
    DatabaseUnavailable
        If the database did not take it; then there is no pause.
    """
    turn = Turn(engine)
    with turn.writing() as connection:
        yield connection
    turn.pause()
