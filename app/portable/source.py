"""What is imported, and what became of it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import BinaryIO

    from app.portable.header import Header
    from app.portable.survey import Survey
    from app.storage.profiles import ProfileRow

_DIGITS: Final = 16
_NAME_CHARS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An export that is to be learned.

    Parameters
    ----------
    file : binary file
        The export, at its beginning.
    survey : Survey
        What is in it.
    clock : callable
        Returns the time now, in UTC.
    words : bool
        Whether the text of features is kept, if it is there.
    progress : callable
        Told where in the file the reading is, in bytes.
    """

    file: BinaryIO
    survey: Survey
    clock: Callable[[], datetime]
    words: bool
    progress: Callable[[int], object]

    @property
    def header(self) -> Header:
        """What the export says of itself."""
        return self.survey.header

    @property
    def name(self) -> str:
        """What the ledger calls the counts of it.

        Not longer than a source of the doors may be, so that it can be named there.
        """
        profile = self.header.profile[:_NAME_CHARS]
        return f"import:{profile}:{self.survey.content[:_DIGITS]}"


Outcome = Literal["added", "replaced", "unchanged"]
"""What became of an import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What became of an import.

    Parameters
    ----------
    outcome : str
        See `Outcome`; ``unchanged`` where all of it was there already.
    profile : ProfileRow
        Who has learned it.
    source : str
        What the ledger calls it; undo takes it back by this name.
    rows : int
        Ledger rows that were added.
    known : int
        Ledger rows that were not, because the profile knows their messages.
    """

    outcome: Outcome
    profile: ProfileRow
    source: str
    rows: int
    known: int
