"""How does a file get its name only once it is whole?"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.errors import UnreadableSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the path to write to, which becomes `path` at the end, or goes away.

    Raises
    ------
    UnreadableSource
        If it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        # An older one may be of somebody whom the copy is not for.
        part.unlink(missing_ok=True)
        # What is learned is as private as the mail.
        part.touch(mode=0o600, exist_ok=False)
        yield part
        part.replace(path)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}"
        raise UnreadableSource(msg) from error
    finally:
        part.unlink(missing_ok=True)
