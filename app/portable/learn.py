"""How does a profile learn what a file holds?

Contract of this file: the file was surveyed, and everything happens in the
transaction of the caller, so that an import is there whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import update

from app.errors import OtherProfile
from app.portable.adding import Adding, require_sound
from app.portable.fit import policy_of, same_labels
from app.storage import ledger, tables
from app.storage.known import sums_stand
from app.storage.supersede import supersede

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Connection

    from app.portable.survey import Survey
    from app.storage.profiles import ProfileRow

Outcome = Literal["added", "replaced", "unchanged"]
"""What became of an import."""

_DIGITS: Final = 16
_NAME_CHARS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What became of an import.

    Parameters
    ----------
    outcome : str
        See `Outcome`; ``unchanged`` where all of it was there already.
    profile : ProfileRow
        As it was before, or as it begins anew.
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


def source_of(survey: Survey) -> str:
    """Return what the ledger calls the counts of an export.

    Not longer than a source of the doors may be, so that it can be named there.
    """
    name = survey.header.profile[:_NAME_CHARS]
    return f"import:{name}:{survey.content[:_DIGITS]}"


def add(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    survey: Survey,
    *,
    now: datetime,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> Learned:
    """Add what an export holds to what a profile has learned.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Who learns; it fits (`require_feature_set`, `require_labels`).
    file : binary file
        The export, at its beginning.
    survey : Survey
        What is in it.
    now : datetime
        With a time zone.
    words : bool
        Whether the text of features is kept, if it is there.
    progress : callable, optional
        Told where in the file the reading is, in bytes.

    Raises
    ------
    OtherProfile
        If the export is of this very profile, so that adding it would count
        every message twice.
    InconsistentCounts
        If the ledger of the export contradicts itself.

    Notes
    -----
    Counts are added once: the ledger remembers the digest of the export as its
    source.  Of a ledger, each message that the profile does not know is added,
    with its whole history; what the profile says of the others stays.
    """
    revision = ledger.lock(connection, profile)
    header = survey.header
    source = source_of(survey)
    if header.contents == "counts" and sums_stand(connection, profile.id, source):
        return Learned(
            outcome="unchanged", profile=profile, source=source, rows=0, known=0
        )
    if survey.dropped and (revision or not same_labels(header, profile)):
        msg = (
            f"the features of {survey.dropped:,} ledger rows of this export were "
            "dropped for their age, so that their messages cannot be told from those "
            "that the profile knows. Import it into a profile of its own with "
            "--profile NEWNAME, or into this one with --replace; or export the counts"
        )
        raise OtherProfile(msg)
    if survey.dropped:
        # A new key, so that a service that has loaded the profile loads it anew:
        # following the rows alone it would miss what is sealed.
        profile = supersede(
            connection,
            profile,
            labels=header.labels,
            spam_labels=header.spam_labels,
            created_at=header.created,
            policy=profile.policy or policy_of(header, profile),
        )
    elif revision == 0 and same_labels(header, profile):
        # It was made for this, so it is what the export is of.
        connection.execute(
            update(tables.profile)
            .where(tables.profile.c.id == profile.id)
            .values(
                created_at=header.created,
                policy=profile.policy or policy_of(header, profile) or None,
            )
        )
    elif header.contents == "counts" and header.created == profile.created_at:
        msg = (
            f"this export is of the profile {profile.name!r} itself, or of one that "
            "began as a copy of it: their messages would count twice. Export it "
            "--with-ledger to add what is new, or use --replace to go back to it"
        )
        raise OtherProfile(msg)
    added = Adding(
        connection,
        profile,
        header,
        source=source,
        now=now,
        words=words,
        revision=revision,
    )
    added.read(file, survey, progress)
    if added.messages:
        require_sound(connection, profile)
    return Learned(
        outcome="added" if added.rows else "unchanged",
        profile=profile,
        source=source,
        rows=added.rows,
        known=added.known,
    )


def replace(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    survey: Survey,
    *,
    now: datetime,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> Learned:
    """Make a profile that of an export; what it has learned is gone.

    Parameters and errors are those of `add`.
    """
    header = survey.header
    new = supersede(
        connection,
        profile,
        labels=header.labels,
        spam_labels=header.spam_labels,
        created_at=header.created,
        policy=policy_of(header, profile),
    )
    learned = add(
        connection, new, file, survey, now=now, words=words, progress=progress
    )
    return Learned(
        outcome="replaced",
        profile=learned.profile,
        source=learned.source,
        rows=learned.rows,
        known=0,
    )
