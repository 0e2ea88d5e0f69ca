"""Import of a dump: the counts of another filter learned by a profile.

As it learns an export (`app.exchange.learn`): step by step where nobody sees it, and
all of it at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from app.errors import InvalidObservation, MalformedDump, OtherProfile
from app.exchange.place import take_place, unseen
from app.exchange.staging import fill, step
from app.exchange.survey import Learned
from app.ledger.entry import epoch_of
from app.storage import bulk, capacity, hidden, profiles
from app.storage import hidden as merge
from app.storage.database.engine import reading, writing
from app.storage.upkeep.prune import sums_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from sqlalchemy import Engine

    from app.bayes.statistics import Statistics
    from app.exchange.dumps.tally import Taken
    from app.storage.profiles import ProfileRow

_DIGITS: Final = 16


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
) -> Learned:
    """Add the counts of a dump to what a profile has learned, once.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : ProfileRow
        Who learns.
    taken : mapping of str to Taken
        The counts, view by view.
    program : str
        Whose they are.
    digest : str
        Of the dump, in hexadecimal; the ledger remembers it.
    clock : callable
        Returns the time now, in UTC.  A dump does not say when its messages came, so
        they count as those of this month.
    words : bool
        Whether the text of features is kept.
    progress : callable
        Told how many of the features are written.

    Raises
    ------
    MalformedDump
        If it says more than can be counted.
    OtherProfile
        If it does so beside what the profile has learned.
    DatabaseUnavailable, ProfileReplaced
        If it could not be stored; then nothing is learned.
    """
    source = f"import:{program.lower()}:{digest[:_DIGITS]}"
    with reading(engine) as connection:
        if sums_in_force(connection, profile.id, source):
            return _unchanged(profile, source)
    now = clock()
    epoch = epoch_of(now)
    sums = {epoch: {view: x.counts for view, x in taken.items()}}
    names = {
        view: dict(zip(x.counts.ids.tolist(), x.names, strict=True))
        for view, x in taken.items()
    }
    _require_room(engine, profile, sums[epoch])
    parts = [
        {epoch: part}
        for part in bulk.pieces(sums[epoch], at_most=bulk.FEATURES_PER_ROW)
    ]
    with unseen(engine, profile.name, like=profile, clock=clock) as new:
        written = 0
        for part in parts:
            step(
                engine,
                new,
                clock,
                partial(
                    bulk.append_sums,
                    profile=new,
                    sums=part,
                    source=source,
                    time=now,
                    names=names if words else None,
                ),
            )
            written += sum(x.ids.size for x in part[epoch].values())
            progress(written)
        if profile.revision:
            with writing(engine) as connection:
                profiles.lock(connection, profile)
                hidden.renew(connection, new, now=clock())
                if sums_in_force(connection, profile.id, source):
                    return _unchanged(profile, source)
                bulk.require_kinds(connection, profile, sums)
                merge.move(connection, new, profile)
        else:
            # There is nothing to add it to, so its counts need no fold.
            fill(engine, new, sums, clock)
            profile = take_place(
                engine,
                new,
                name=profile.name,
                instead_of=profile,
                created_at=profile.created_at,
                policy=lambda old: old.policy,
                clock=clock,
            )
    return Learned(
        outcome="added", profile=profile, source=source, rows=len(parts), known=0
    )


def _require_room(
    engine: Engine, profile: ProfileRow, views: Mapping[str, Statistics]
) -> None:
    """Raise if a profile cannot count what a dump says, beside what it has."""
    amounts = capacity.Amounts()
    try:
        amounts.add(views)
    except InvalidObservation as error:
        msg = f"the dump says more than can be counted: {error}"
        raise MalformedDump(msg) from error
    try:
        with reading(engine) as connection:
            before = capacity.held(connection, profile)
        amounts.beside(before)
    except InvalidObservation as error:
        msg = (
            f"the dump and what the profile {profile.name!r} has learned are more than "
            f"can be counted: {error}. Import it into another profile"
        )
        raise OtherProfile(msg) from error


def _unchanged(profile: ProfileRow, source: str) -> Learned:
    return Learned(outcome="unchanged", profile=profile, source=source, rows=0, known=0)
