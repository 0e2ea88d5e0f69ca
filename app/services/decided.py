"""What is said where something is stored, and what follows from it fails?"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def decided(stored: str) -> Iterator[None]:
    """Say of what fails in the block what is stored all the same.

    What a failing step says of itself, that nothing of it was stored, would be taken
    to be about the whole.

    Parameters
    ----------
    stored : str
        A sentence without its full stop.

    Raises
    ------
    DatabaseUnavailable
        If the database went away in the block.
    """
    try:
        yield
    except DatabaseUnavailable as error:
        msg = f"{stored}. Of the step that failed it is said: {error}"
        raise DatabaseUnavailable(msg) from error
