"""Placement: a hidden profile takes the place of one that goes on learning."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from app.errors import OtherProfile, Unavailable, UnknownLabel
from app.features.extract import FEATURE_SET
from app.ledger.teaching import ScoredRow, Teaching
from app.storage import hidden, ledger, profiles, scored
from app.storage.database.engine import reading, writing, writing_then_pause
from app.storage.ledger import append

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

# Messages that go over to the new profile in one transaction: some ten
# milliseconds on SQLite.
_CARRIED: Final = 64


def take_place(
    engine: Engine,
    new: ProfileRow,
    *,
    name: str,
    instead_of: ProfileRow | None,
    created_at: datetime,
    policy: Callable[[ProfileRow], object],
    clock: Callable[[], datetime],
) -> ProfileRow:
    """Show a hidden profile under a name, in the place of what has that name.

    Parameters
    ----------
    engine : Engine
        The database.
    new : ProfileRow
        The hidden profile.
    name : str
        What it is shown as.
    instead_of : ProfileRow or None
        Who had that name; None if nobody.  What was taught to it after its
        `revision`, and what was scored lately, goes over to the new one.
    created_at : datetime
        When the new one was made.
    policy : callable
        Returns the policy of the new one, given who had the name last.
    clock : callable
        Returns the time now, in UTC.

    Raises
    ------
    OtherProfile
        If what was taught meanwhile cannot be taught to the new one.
    ProfileReplaced
        If another import was here first.
    """
    if instead_of is not None:
        _copy_scored(engine, instead_of, new, clock)
    taught = 0 if instead_of is None else instead_of.revision
    while True:
        with writing_then_pause(engine) as connection:
            hidden.renew(connection, new, now=clock())
            # Made and replaced in one transaction, so that nobody sees it.
            old = instead_of or profiles.create(
                connection,
                name=name,
                labels=new.labels,
                spam_labels=new.spam_labels,
                feature_set=new.feature_set,
                created_at=created_at,
            )
            newest = profiles.lock(connection, old)
            rows = ledger.rows_after(
                connection, old.id, revision=taught, limit=_CARRIED
            )
            _teach(connection, new, rows)
            taught = rows[-1].revision if rows else taught
            if taught >= newest:
                return hidden.show(
                    connection,
                    new,
                    instead_of=old,
                    created_at=created_at,
                    policy=policy(profiles.find(connection, name)),
                )


def _copy_scored(
    engine: Engine,
    old: ProfileRow,
    new: ProfileRow,
    clock: Callable[[], datetime],
) -> None:
    """Let what was scored lately be taught by its id to the new profile too."""
    after = None
    more = True
    while more:
        with writing_then_pause(engine) as connection:
            hidden.renew(connection, new, now=clock())
            copied = scored.copy(
                connection, old.id, to=new.id, after=after, limit=_CARRIED
            )
        more = copied != after
        after = copied


def _teach(connection: Connection, new: ProfileRow, rows: Sequence[LedgerRow]) -> None:
    """Teach a profile what people said to another one.

    Raises
    ------
    OtherProfile
        If a row is not of what somebody said of a message, its label is none of the
        new profile, or the features that it moves are there no more.
    """
    strange = [row for row in rows if row.kind == "sum" or row.undo is not None]
    if strange:
        msg = (
            f"{strange[0].source!r} has changed the profile while this was imported, "
            "and that cannot be said to the new one; nothing is replaced. Import it "
            "again when that has ended"
        )
        raise OtherProfile(msg)
    teachings = [_teaching(row) for row in rows]
    try:
        outcomes = append(connection, new, teachings)
    except UnknownLabel as error:
        msg = (
            "while this was imported, the profile was taught what the export has no "
            f"label for; nothing is replaced. {error}"
        )
        raise OtherProfile(msg) from error
    for teaching, outcome in zip(teachings, outcomes, strict=True):
        # Of what people say: a verdict of the filter's own gives way to theirs.
        if outcome.label != teaching.label and not teaching.own:
            msg = (
                f"while this was imported, the message {teaching.digest.hex()} was "
                f"taught to be {teaching.label or 'forgotten'}, and the export has no "
                "features of it to take back; nothing is replaced. Import it again"
            )
            raise OtherProfile(msg)


def _teaching(row: LedgerRow) -> Teaching:
    """Return what a row was taught as."""
    return Teaching(
        digest=row.digest,
        label=row.label,
        evidence=None
        if row.vector is None
        else ScoredRow(
            digest=row.digest,
            vector=row.vector,
            encoded_names=row.encoded_names,
            feature_set=row.feature_set,
            time=row.time,
        ),
        source=row.source,
        time=row.time,
        scores=row.scores,
    )


class Labelled(Protocol):
    """What has labels, as a profile or an export has."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What people may call a message."""

    @property
    def spam_labels(self) -> tuple[str, ...]:
        """Those of the labels that stand for unwanted mail."""


@contextmanager
def unseen(
    engine: Engine, name: str, *, like: Labelled, clock: Callable[[], datetime]
) -> Iterator[ProfileRow]:
    """Give a hidden profile; what is left of it in the end is removed.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        What it may be shown as.
    like : Labelled
        Whose labels it has.
    clock : callable
        Returns the time now, in UTC.
    """
    _clear(engine, now=clock())
    with writing(engine) as connection:
        new = hidden.begin(
            connection,
            name=name,
            labels=like.labels,
            spam_labels=like.spam_labels,
            feature_set=FEATURE_SET,
            now=clock(),
        )
    try:
        yield new
    finally:
        # If not now, then by the next import or the upkeep of a service.
        with suppress(Unavailable):
            with writing(engine) as connection:
                hidden.abandon(connection, new)
            _clear(engine, now=clock())


def _clear(engine: Engine, *, now: datetime) -> None:
    """Remove what nobody works on any more."""
    with reading(engine) as connection:
        abandoned = hidden.abandoned(connection, now=now)
    for each in abandoned:
        more = True
        while more:
            with writing_then_pause(engine) as connection:
                more = hidden.remove_step(connection, each)
