"""How does a profile learn what another filter has counted?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.portable.source import Learned
from app.storage import bulk, ledger
from app.storage.entry import epoch_of
from app.storage.known import sums_stand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from app.foreign.tally import Taken
    from app.storage.profiles import ProfileRow

_DIGITS: Final = 16


def add_counts(
    connection: Connection,
    profile: ProfileRow,
    taken: Mapping[str, Taken],
    *,
    program: str,
    digest: str,
    now: datetime,
    words: bool,
) -> Learned:
    """Add the counts of a dump to what a profile has learned, once.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Who learns.
    taken : mapping of str to Taken
        The counts, view by view.
    program : str
        Whose they are.
    digest : str
        Of the dump, in hexadecimal; the ledger remembers it.
    now : datetime
        With a time zone.  A dump does not say when its messages came, so they
        count as those of this month.
    words : bool
        Whether the text of features is kept.
    """
    ledger.lock(connection, profile)
    source = f"import:{program.lower()}:{digest[:_DIGITS]}"
    if sums_stand(connection, profile.id, source):
        return Learned(
            outcome="unchanged", profile=profile, source=source, rows=0, known=0
        )
    names = {
        view: dict(zip(x.counts.ids.tolist(), x.names, strict=True))
        for view, x in taken.items()
    }
    rows = bulk.append_sums(
        connection,
        profile,
        {epoch_of(now): {view: x.counts for view, x in taken.items()}},
        source=source,
        time=now,
        names=names if words else None,
    )
    return Learned(
        outcome="added", profile=profile, source=source, rows=len(rows), known=0
    )
