"""Where do several workers count? Into a folder that is there while they run.

Contract of this file: a folder is of a process that lives while that holds the lock of
the file in it, which ends with the process, however it ends.  Numbers of processes
tell nothing: after a start of the machine or of its container they are given out anew.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from app.services.tally import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "postbayes-metrics-"
_LOCK: Final = "lock"


@contextmanager
def counting(workers: int) -> Iterator[None]:
    """Let several workers count into one folder, which is gone afterwards."""
    if workers == 1 or SHARED in os.environ:
        yield
        return
    _remove_those_of_the_dead()
    with TemporaryDirectory(prefix=_PREFIX) as folder, _held(Path(folder)):
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            del os.environ[SHARED]


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep others from removing a folder."""
    # Locked before it has its name: another that starts just now finds no lock in the
    # folder, or one that is held.  Workers do not inherit it.
    new = folder / f"{_LOCK}.new"
    with new.open("xb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        new.rename(folder / _LOCK)
        yield


def _remove_those_of_the_dead() -> None:
    """Remove what services left that were killed.

    Workers that have not noticed yet that their service is gone go on counting into
    files that have no name any more.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # Whatever cannot be looked at or removed is left.
        with suppress(OSError):
            # Anybody may put something there, if not for this user.
            if folder.lstat().st_uid != os.geteuid():
                continue
            with (folder / _LOCK).open("rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
