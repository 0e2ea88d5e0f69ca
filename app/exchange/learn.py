"""Import: an export learned by a profile.

Contract of this file: the file was surveyed.  What it holds is written step by step
into a hidden profile (`app.storage.hidden`), proven there, and shown in one short
transaction: an import is there whole or not at all, and feedback goes on meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import (
    InconsistentCounts,
    InvalidObservation,
    MalformedExport,
    OtherProfile,
    UnknownProfile,
)
from app.exchange.place import take_place, unseen
from app.exchange.staging import Staging, fault_of, fill, replayed
from app.exchange.survey import (
    Learned,
    policy_of,
    require_feature_set,
    require_labels,
    same_labels,
)
from app.features.extract import FEATURE_SET
from app.storage import bulk, capacity, hidden, profiles
from app.storage import hidden as merge
from app.storage.database.engine import reading, writing
from app.storage.fold import state
from app.storage.upkeep.prune import sums_in_force

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from app.exchange.staging import Epochs
    from app.exchange.survey import Source, Survey
    from app.storage.profiles import ProfileRow


def add(engine: Engine, name: str, source: Source) -> Learned:
    """Add what an export holds to what a profile has learned.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        Of the profile, which is made if there is none.
    source : Source
        The export.

    Raises
    ------
    OtherProfile
        If the profile does not fit, or the export is of this very profile, so that
        adding it would count every message twice.
    MalformedExport
        If the ledger of the export contradicts itself, or the file was changed.
    DatabaseUnavailable, ProfileReplaced
        If it could not be stored; then nothing is learned.

    Notes
    -----
    Counts are added once: the ledger remembers the digest of the export as its
    source.  Of a ledger, each message that the profile does not know is added,
    with its whole history; what the profile says of the others stays.
    """
    header = source.header
    require_feature_set(header, FEATURE_SET)
    with reading(engine) as connection:
        try:
            profile = profiles.find(connection, name)
        except UnknownProfile:
            profile = None
        if profile is not None:
            require_feature_set(header, profile.feature_set)
            require_labels(header, profile)
            if _stands(connection, profile, source):
                return _unchanged(profile, source)
    if profile is not None and profile.revision:
        return _join(engine, profile, source)
    with unseen(engine, name, like=profile or header, clock=source.clock) as new:
        staging = _staged(engine, new, source)
        # One that has learned nothing was made for this, so it is what the export
        # is of.
        shown = take_place(
            engine,
            new,
            name=name,
            instead_of=profile,
            created_at=header.created
            if profile is None or same_labels(header, profile)
            else profile.created_at,
            policy=lambda old: old.policy or policy_of(header, old),
            clock=source.clock,
        )
    return Learned(
        outcome="added" if staging.rows else "unchanged",
        profile=shown,
        source=source.name,
        rows=staging.rows,
        known=0,
    )


def replace(engine: Engine, profile: ProfileRow, source: Source) -> Learned:
    """Make a profile what an export holds; what it had learned is gone.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : ProfileRow
        As it was when somebody decided to replace it: what is taught to it after
        that revision, until the export is in its place, is taught to the new one.
    source : Source
        The export.

    Raises
    ------
    OtherProfile
        If the export is of another feature set, or if what came meanwhile cannot be
        taught to the new profile.
    MalformedExport, DatabaseUnavailable, ProfileReplaced
        As `add`; then all is as it was.
    """
    header = source.header
    require_feature_set(header, FEATURE_SET)
    with unseen(engine, profile.name, like=header, clock=source.clock) as new:
        staging = _staged(engine, new, source)
        shown = take_place(
            engine,
            new,
            name=profile.name,
            instead_of=profile,
            created_at=header.created,
            policy=lambda old: policy_of(header, old),
            clock=source.clock,
        )
    return Learned(
        outcome="replaced",
        profile=shown,
        source=source.name,
        rows=staging.rows,
        known=0,
    )


def _join(engine: Engine, profile: ProfileRow, source: Source) -> Learned:
    """Add what an export holds to a profile that has learned something."""
    _require_joinable(source.survey, profile)
    _require_room(engine, source.survey, profile)
    with unseen(engine, profile.name, like=profile, clock=source.clock) as new:
        staging = Staging(engine, new, source, joins=profile)
        staging.read()
        epochs, fault = _proven(engine, new)
        with writing(engine) as connection:
            profiles.lock(connection, profile)
            hidden.renew(connection, new, now=source.clock())
            if _stands(connection, profile, source):
                return _unchanged(profile, source)
            bulk.require_kinds(connection, profile, epochs)
            left_out = merge.leave_out(connection, new, profile, after=profile.revision)
            rows = merge.move(connection, new, profile)
            # What was proven is proven beside anything else, unless it was not by
            # itself: a pruning may be of counts that only the profile has.
            if fault or left_out:
                both = state.load_by_epoch(connection, profile)
                fault = fault_of(connection, profile, both)
            if fault:
                raise MalformedExport(fault)
    return Learned(
        outcome="added" if rows else "unchanged",
        profile=profile,
        source=source.name,
        rows=rows,
        known=staging.known + left_out,
    )


def _staged(engine: Engine, new: ProfileRow, source: Source) -> Staging:
    """Write all of an export into a hidden profile of its own.

    Raises
    ------
    MalformedExport
        If it contradicts itself.
    """
    staging = Staging(engine, new, source, joins=None)
    staging.read()
    epochs, fault = _proven(engine, new)
    if fault:
        raise MalformedExport(fault)
    fill(engine, new, epochs, source.clock)
    return staging


def _proven(engine: Engine, new: ProfileRow) -> tuple[Epochs, str | None]:
    """Return what a hidden profile has learned, and what is wrong with it if so."""
    with reading(engine) as connection:
        try:
            epochs = replayed(connection, new)
        except InconsistentCounts as error:
            return {}, f"the ledger of this export contradicts itself: {error}"
        return epochs, fault_of(connection, new, epochs)


def _stands(connection: Connection, profile: ProfileRow, source: Source) -> bool:
    """Return whether the counts of an export are learned already."""
    return source.header.contents == "counts" and sums_in_force(
        connection, profile.id, source.name
    )


def _unchanged(profile: ProfileRow, source: Source) -> Learned:
    return Learned(
        outcome="unchanged", profile=profile, source=source.name, rows=0, known=0
    )


def _require_joinable(survey: Survey, profile: ProfileRow) -> None:
    """Raise if what an export holds cannot be told from what a profile knows."""
    header = survey.header
    if survey.dropped:
        msg = (
            f"the features of {survey.dropped:,} ledger rows of this export were "
            "dropped for their age, so that their messages cannot be told from those "
            "that the profile knows. Import it into a profile of its own with "
            "--profile NEWNAME, or into this one with --replace; or export the counts"
        )
        raise OtherProfile(msg)
    if header.contents == "counts" and header.created == profile.created_at:
        msg = (
            f"this export is of the profile {profile.name!r} itself, or of one that "
            "began as a copy of it: their messages would count twice. Use --replace "
            "to go back to it; or export --with-ledger, which adds only what is new "
            "where this profile has the ledger too, and not its counts alone"
        )
        raise OtherProfile(msg)


def _require_room(engine: Engine, survey: Survey, profile: ProfileRow) -> None:
    """Raise if a profile cannot count all of an export beside what it has."""
    try:
        with reading(engine) as connection:
            before = capacity.held(connection, profile)
        survey.amounts.beside(before)
    except InvalidObservation as error:
        msg = (
            f"this export and what the profile {profile.name!r} has learned are more "
            f"than can be counted: {error}. Import it into a profile of its own with "
            "--profile NEWNAME"
        )
        raise OtherProfile(msg) from error
