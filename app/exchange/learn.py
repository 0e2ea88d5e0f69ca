"""Import: learns an export, or the dump of another filter, into a profile.

Contract of this file: the file was checked to its last byte.  Its contents are written
step by step into a hidden profile (`app.exchange.staging`), verified there, and made
visible in one short transaction.  An import is therefore complete or absent, and
feedback continues meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.bayes.state import History, State
from app.errors import (
    InconsistentCounts,
    InvalidObservation,
    MalformedDump,
    MalformedExport,
    OtherProfile,
    UnknownProfile,
)
from app.exchange.staging import (
    Staging,
    fault_of,
    fill,
    hidden_profile,
)
from app.exchange.survey import (
    Imported,
    id_key_of,
    policy_of,
    require_feature_set,
    require_key,
    require_labels,
    same_labels,
)
from app.features.extract import FEATURE_SET
from app.ledger.entry import epoch_of
from app.ledger.sums import Amounts, redacted_sums
from app.storage import bulk, fold, profiles
from app.storage.bulk import sums_in_force
from app.storage.database.engine import reading, writing
from app.storage.fold import replayed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.exchange.dumps import Taken
    from app.exchange.staging import HiddenProfile
    from app.exchange.survey import Outcome, Source, Survey
    from app.features.id_key import IdKey
    from app.storage.profiles import ProfileRow

_DIGITS: Final = 16


def add(engine: Engine, name: str, source: Source) -> Imported:
    """Add an export to a profile.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        Name of the profile, which is created if missing.
    source : Source
        The export.

    Raises
    ------
    OtherProfile
        If the profile does not fit, or the export is from the same profile, whose
        messages would be counted twice.
    MalformedExport
        If the ledger of the export contradicts itself, or the file was changed.
    DatabaseUnavailable, ProfileReplaced
        If it could not be stored; then nothing is learned.

    Notes
    -----
    Counts are added only once: the ledger has the digest of the export as the source.
    From a ledger, each message unknown to the profile is added with its whole history;
    known messages keep their labels.
    """
    header = source.header
    require_feature_set(header, FEATURE_SET)
    with reading(engine) as connection:
        try:
            profile = profiles.find(connection, name)
        except UnknownProfile:
            profile = None
        id_key = id_key_of(source, profile)
        if profile is not None:
            require_feature_set(header, profile.feature_set)
            require_labels(header, profile)
            if _counts_are_learned(connection, profile, source):
                return Imported.unchanged(profile, source.name)
    if profile is not None and profile.revision:
        return _join(engine, profile, source)
    with hidden_profile(
        engine, name, like=profile or header, clock=source.clock, id_key=id_key
    ) as new:
        rows = _stage(new, source)
        shown = new.take_place(
            profile,
            # A profile that has learned nothing was created for this import, so the
            # export becomes its origin.
            created_at=header.created
            if profile is None or same_labels(header, profile)
            else profile.created_at,
            policy=lambda old: old.policy or policy_of(header, old),
        )
    outcome: Outcome = "added" if rows else "unchanged"
    return Imported(outcome=outcome, profile=shown, source=source.name, rows=rows)


def replace(engine: Engine, profile: ProfileRow, source: Source) -> Imported:
    """Replace a profile by an export; its own ledger and counts are deleted.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : ProfileRow
        The profile at the time of the decision to replace it.  Feedback after its
        revision is given to the new profile.
    source : Source
        The export.

    Raises
    ------
    OtherProfile
        If the export has another feature set, or feedback given meanwhile cannot be
        taught to the new profile.
    MalformedExport, DatabaseUnavailable, ProfileReplaced
        As `add`; then nothing is changed.
    """
    header = source.header
    require_feature_set(header, FEATURE_SET)
    with hidden_profile(
        engine,
        profile.name,
        like=header,
        clock=source.clock,
        id_key=id_key_of(source, profile),
    ) as new:
        rows = _stage(new, source)
        shown = new.take_place(
            profile,
            created_at=header.created,
            policy=lambda old: policy_of(header, old),
        )
    return Imported(outcome="replaced", profile=shown, source=source.name, rows=rows)


def add_counts(
    engine: Engine,
    profile: ProfileRow,
    taken: Mapping[str, Taken],
    *,
    program: str,
    digest: str,
    clock: Callable[[], datetime],
    words: bool,
    progress: Callable[[int], object],
    key: IdKey | None = None,
) -> Imported:
    """Add the counts of a dump to a profile, once.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : ProfileRow
        The profile.
    taken : mapping of str to Taken
        The counts, by view.
    program : str
        The program that wrote the dump.
    digest : str
        Digest of the dump, in hexadecimal, for the ledger.
    clock : callable
        Returns the time now, in UTC.  A dump has no times of messages, so they count in
        the present month.
    words : bool
        Whether the text of features is kept.
    progress : callable
        Called with the number of features written.
    key : IdKey or None
        The key of the database, if there is one.

    Raises
    ------
    MalformedDump
        If the counts of the dump exceed the limits of the tables.
    OtherProfile
        If its counts and those of the profile together exceed them, or the profile has
        another key.
    DatabaseUnavailable, ProfileReplaced
        If it could not be stored; then nothing is learned.
    """
    source = f"import:{program.lower()}:{digest[:_DIGITS]}"
    require_key(f"the profile {profile.name!r}", profile.id_key, key)
    with reading(engine) as connection:
        if sums_in_force(connection, profile.id, source):
            return Imported.unchanged(profile, source)
    now = clock()
    epoch = epoch_of(now)
    state = State({view: x.counts for view, x in taken.items()})
    names = {
        view: dict(zip(x.counts.ids.tolist(), x.names, strict=True))
        for view, x in taken.items()
    }
    if key is not None and profile.id_key is not None:
        state = redacted_sums(state, key)
        names = {view: key.names(view, some) for view, some in names.items()}
    amounts = Amounts()
    try:
        amounts.add(state)
    except InvalidObservation as error:
        msg = f"the counts of the dump are too large: {error}"
        raise MalformedDump(msg) from error
    _require_room(
        engine,
        profile,
        amounts,
        what="the dump",
        way_out="Import it into another profile",
    )
    parts = [
        History({epoch: part}) for part in state.pieces(at_most=bulk.FEATURES_PER_ROW)
    ]
    with hidden_profile(
        engine, profile.name, like=profile, clock=clock, id_key=profile.id_key
    ) as new:
        written = 0
        for part in parts:
            new.write(
                bulk.append_sums,
                profile=new.row,
                sums=part,
                source=source,
                time=now,
                names=names if words else None,
            )
            written += part[epoch].size
            progress(written)
        if profile.revision:
            with writing(engine) as connection:
                profiles.lock(connection, profile)
                profiles.renew(connection, new.row, now=clock())
                if sums_in_force(connection, profile.id, source):
                    return Imported.unchanged(profile, source)
                bulk.require_kinds(connection, profile, History({epoch: state}))
                profiles.move(connection, new.row, profile)
        else:
            # The profile is empty, so the counts need no fold.
            fill(new, History({epoch: state}))
            profile = new.take_place(
                profile, created_at=profile.created_at, policy=lambda old: old.policy
            )
    return Imported(outcome="added", profile=profile, source=source, rows=len(parts))


def _join(engine: Engine, profile: ProfileRow, source: Source) -> Imported:
    """Add an export to a profile that has learned something."""
    _require_joinable(source.survey, profile)
    _require_room(
        engine,
        profile,
        source.survey.amounts,
        what="this export",
        way_out="Import it into a profile of its own with --profile NEWNAME",
    )
    with hidden_profile(
        engine, profile.name, like=profile, clock=source.clock, id_key=profile.id_key
    ) as new:
        staging = Staging(new, source, joins=profile)
        staging.read()
        epochs, fault = _proven(new)
        with writing(engine) as connection:
            profiles.lock(connection, profile)
            profiles.renew(connection, new.row, now=source.clock())
            if _counts_are_learned(connection, profile, source):
                return Imported.unchanged(profile, source.name)
            bulk.require_kinds(connection, profile, epochs)
            left_out = profiles.leave_out(
                connection, new.row, profile, after=profile.revision
            )
            rows = profiles.move(connection, new.row, profile)
            # An export that is valid by itself is valid in any profile.  Another may
            # still be valid in this one: it may prune counts that only the profile has.
            if fault or left_out:
                both = fold.load_by_epoch(connection, profile)
                fault = fault_of(connection, profile, both)
            if fault:
                raise MalformedExport(fault)
    return Imported(
        outcome="added" if rows else "unchanged",
        profile=profile,
        source=source.name,
        rows=rows,
        known=staging.known + left_out,
    )


def _stage(new: HiddenProfile, source: Source) -> int:
    """Write an export into a hidden profile of its own; return the number of rows.

    Raises
    ------
    MalformedExport
        If it contradicts itself.
    """
    staging = Staging(new, source, joins=None)
    staging.read()
    epochs, fault = _proven(new)
    if fault:
        raise MalformedExport(fault)
    fill(new, epochs)
    return staging.rows


def _proven(new: HiddenProfile) -> tuple[History, str | None]:
    """Return the sums of a hidden profile, and any fault of its ledger."""
    with reading(new.engine) as connection:
        try:
            epochs = replayed(connection, new.row)
        except InconsistentCounts as error:
            return History(), f"the ledger of this export is contradictory: {error}"
        return epochs, fault_of(connection, new.row, epochs)


def _counts_are_learned(
    connection: Connection, profile: ProfileRow, source: Source
) -> bool:
    """Return whether the counts of an export were learned before."""
    return source.header.contents == "counts" and sums_in_force(
        connection, profile.id, source.name
    )


def _require_joinable(survey: Survey, profile: ProfileRow) -> None:
    """Raise if a message may be in both export and profile without being noticed."""
    header = survey.header
    if survey.dropped:
        msg = (
            f"in {survey.dropped:,} ledger rows of this export, the features were "
            "dropped for their age or are in a sum, so their messages could be "
            "learned twice. Import it into a new profile with --profile NEWNAME, "
            "replace this one with --replace, or export the counts"
        )
        raise OtherProfile(msg)
    if header.contents == "counts" and header.created == profile.created_at:
        msg = (
            f"this export is of the profile {profile.name!r} itself, or of a copy: "
            "its messages would count twice. Use --replace to return to the export; "
            "or, if this profile has its whole ledger, export --with-ledger to add "
            "only new messages"
        )
        raise OtherProfile(msg)


def _require_room(
    engine: Engine, profile: ProfileRow, amounts: Amounts, *, what: str, way_out: str
) -> None:
    """Raise if import and profile together exceed the limits of the tables."""
    try:
        with reading(engine) as connection:
            before = bulk.held(connection, profile)
        amounts.beside(before)
    except InvalidObservation as error:
        msg = (
            f"{what} and the counts of the profile {profile.name!r} are too large "
            f"together: {error}. {way_out}"
        )
        raise OtherProfile(msg) from error
