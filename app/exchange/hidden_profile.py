"""Hidden profile: written in steps, then put in the place of a visible one.

Contract of this file: a hidden profile is written in steps, each of which holds the
write lock of SQLite for some ten milliseconds; a profile that was not shown in the end
is removed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from app.errors import OtherProfile, Unavailable, UnknownLabel
from app.features.extract import FEATURE_SET
from app.ledger.teaching import ScoredRow, Teaching
from app.storage import correspondents, hidden, history, ledger, profiles, scored
from app.storage.database.engine import reading, writing, writing_then_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.exchange.format.header import ExportHeader
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

P = ParamSpec("P")
T = TypeVar("T")
# Messages that go over to the new profile in one transaction: some ten
# milliseconds on SQLite.
_CARRIED: Final = 64


@dataclass(frozen=True, slots=True)
class HiddenProfile:
    """A profile that is being imported; made by `hidden_profile`.

    Parameters
    ----------
    engine : Engine
        The database.
    row : ProfileRow
        The profile.
    name : str
        The name that it gets when it is shown.
    clock : callable
        Returns the time now, in UTC.
    """

    engine: Engine
    row: ProfileRow
    name: str
    clock: Callable[[], datetime]

    def write(
        self,
        statement: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Execute one step of the import, then let others have the write lock.

        Raises
        ------
        DatabaseUnavailable
            If the database refused it, or the profile was removed.
        """
        with writing_then_pause(self.engine) as connection:
            hidden.renew(connection, self.row, now=self.clock())
            return statement(connection, *args, **kwargs)

    def take_place(
        self,
        instead_of: ProfileRow | None,
        *,
        created_at: datetime,
        policy: Callable[[ProfileRow], object],
    ) -> ProfileRow:
        """Show the profile under its name, in the place of the owner of that name.

        Parameters
        ----------
        instead_of : ProfileRow or None
            The owner of the name; None if there was none.  Feedback that it got after
            its `revision`, and messages that it scored lately, go over to this profile.
        created_at : datetime
            The time of creation that this profile shows.
        policy : callable
            Returns the policy of this profile, given the last owner of the name.

        Raises
        ------
        OtherProfile
            If feedback that came meanwhile cannot be given to this profile.
        ProfileReplaced
            If another import was here first.
        """
        for copy in (scored.copy, history.copy):
            after, copied = None, instead_of is None
            while instead_of is not None and not copied:
                last = self.write(
                    copy, instead_of.id, to=self.row.id, after=after, limit=_CARRIED
                )
                after, copied = last, last == after
        if instead_of is not None and instead_of.id_key == self.row.id_key:
            self.write(correspondents.copy, instead_of.id, to=self.row.id)
        taught = 0 if instead_of is None else instead_of.revision
        while True:
            with writing_then_pause(self.engine) as connection:
                hidden.renew(connection, self.row, now=self.clock())
                # Made and replaced in one transaction, so that nobody sees it.
                old = instead_of or profiles.create(
                    connection,
                    name=self.name,
                    labels=self.row.labels,
                    spam_labels=self.row.spam_labels,
                    feature_set=self.row.feature_set,
                    created_at=created_at,
                    id_key=self.row.id_key,
                )
                newest = profiles.lock(connection, old)
                rows = ledger.rows_after(
                    connection, old.id, revision=taught, limit=_CARRIED
                )
                _teach(connection, self.row, rows)
                taught = rows[-1].revision if rows else taught
                if taught >= newest:
                    return hidden.show(
                        connection,
                        self.row,
                        instead_of=old,
                        created_at=created_at,
                        policy=policy(profiles.find(connection, self.name)),
                    )


@contextmanager
def hidden_profile(
    engine: Engine,
    name: str,
    *,
    like: ProfileRow | ExportHeader,
    clock: Callable[[], datetime],
    id_key: str | None,
) -> Iterator[HiddenProfile]:
    """Give a hidden profile, which is removed in the end unless it was shown.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        The name that it gets when it is shown.
    like : ProfileRow or ExportHeader
        The profile or export whose labels it has.
    clock : callable
        Returns the time now, in UTC.
    id_key : str or None
        Digest of the key of its feature ids, if they are keyed.
    """
    _clear(engine, now=clock())
    with writing(engine) as connection:
        row = hidden.begin(
            connection,
            name=name,
            labels=like.labels,
            spam_labels=like.spam_labels,
            feature_set=FEATURE_SET,
            now=clock(),
            id_key=id_key,
        )
    try:
        yield HiddenProfile(engine, row, name, clock)
    finally:
        # If not now, then by the next import or the upkeep of a service.
        with suppress(Unavailable):
            with writing(engine) as connection:
                hidden.abandon(connection, row)
            _clear(engine, now=clock())


def _clear(engine: Engine, *, now: datetime) -> None:
    """Remove the hidden profiles of imports that were given up."""
    with reading(engine) as connection:
        abandoned = hidden.abandoned(connection, now=now)
    for each in abandoned:
        more = True
        while more:
            with writing_then_pause(engine) as connection:
                more = hidden.remove_step(connection, each)


def _teach(connection: Connection, new: ProfileRow, rows: Sequence[LedgerRow]) -> None:
    """Repeat the feedback of one profile in another.

    Raises
    ------
    OtherProfile
        If a row is no feedback on a message, its label is unknown to the new profile,
        or the features that it moves are gone.
    """
    strange = [row for row in rows if row.kind == "sum" or row.undo is not None]
    if strange:
        msg = (
            f"{strange[0].source!r} has changed the profile while this was imported, "
            "and that cannot be said to the new one; nothing is replaced. Import it "
            "again when that has ended"
        )
        raise OtherProfile(msg)
    teachings = [
        Teaching(
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
        for row in rows
    ]
    try:
        outcomes = ledger.append(connection, new, teachings)
    except UnknownLabel as error:
        msg = (
            "while this was imported, the profile was taught what the export has no "
            f"label for; nothing is replaced. {error}"
        )
        raise OtherProfile(msg) from error
    for teaching, outcome in zip(teachings, outcomes, strict=True):
        # Only the labels of people: a verdict of the filter's own gives way to them.
        if outcome.label != teaching.label and not teaching.own:
            msg = (
                f"while this was imported, the message {teaching.digest.hex()} was "
                f"taught to be {teaching.label or 'forgotten'}, and the export has no "
                "features of it to take back; nothing is replaced. Import it again"
            )
            raise OtherProfile(msg)
