"""Ledger pages: what was learned, when and by whom, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.ledger.undo import in_force
from app.storage import ledger
from app.storage.database.engine import reading
from app.storage.undo import records, work

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from app.ledger.entry import LedgerLine
    from app.ledger.undo import Selection
    from app.services.memory.cache import LiveProfiles


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """Some rows of a ledger.

    Parameters
    ----------
    profile : str
        Whose ledger.
    rows : tuple of LedgerLine
        Newest first.
    taken_back : frozenset of int
        Revisions of those rows that an undo in force takes back.
    next : int or None
        The revision before which the next page begins; None: these are the last rows.
    unfinished : int
        Changes of recorded undos that are still to be carried out.
    """

    profile: str
    rows: tuple[LedgerLine, ...]
    taken_back: frozenset[int]
    next: int | None
    unfinished: int


class Ledgers:
    """Looks through the ledgers of profiles.

    Parameters
    ----------
    live : LiveProfiles
        The profiles in memory.
    engine : Engine
        The database.
    """

    def __init__(self, live: LiveProfiles, engine: Engine) -> None:
        self._live = live
        self._engine = engine

    def __call__(
        self,
        profile: str,
        asked: Selection,
        *,
        label: str | None = None,
        before: int | None = None,
        limit: int,
    ) -> LedgerPage:
        """Return the newest rows that meet all conditions.

        Parameters
        ----------
        profile : str
            Whose ledger.
        asked : Selection
            Messages, source and time.
        label : str or None
            What the rows made of their messages; None means any.
        before : int or None
            `next` of the page before.
        limit : int
            How many rows at most.

        Raises
        ------
        UnknownProfile, UnknownLabel
            If there is no such profile, or it has no such label.
        DatabaseUnavailable
            If the ledger cannot be read.
        """
        row = self._live.find(profile).row
        if label is not None:
            row.require_label(label)
        with reading(self._engine) as connection:
            found = ledger.lines(
                connection, row.id, asked, label=label, before=before, limit=limit + 1
            )
            rows = tuple(found[:limit])
            # Rows that an undo wrote carry it out; they are not what is taken back.
            taken = records.taken_by(
                connection, row.id, {each.revision for each in rows}
            )
            force = in_force(records.all_of(connection, row.id)) if taken else ()
            unfinished = work.pending(connection, row.id)
        return LedgerPage(
            profile=row.name,
            rows=rows,
            taken_back=frozenset(
                revision for revision, by in taken.items() if by & frozenset(force)
            ),
            next=rows[-1].revision if len(found) > limit else None,
            unfinished=unfinished,
        )
