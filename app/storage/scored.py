"""What was scored lately, so that it can be taught by its id alone?

A bounded table: whoever fills it also calls `expire`.  It is written behind the
answers, in batches, and losing its newest rows loses no feedback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, bindparam, delete, literal, or_, select, tuple_

from app.errors import InvalidObservation
from app.storage import tables
from app.storage.upsert import insert_into
from app.storage.vector import decode, encode, encode_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from app.features.observation import Observation, Payload

# As in `app.storage.ledger`.
_DIGESTS_PER_QUERY: Final = 500

_GET: Final = select(tables.scored).where(
    tables.scored.c.profile_id == bindparam("profile_id"),
    tables.scored.c.digest.in_(bindparam("digests", expanding=True)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """The features of a message as they are stored; fields as in `LedgerRow`."""

    digest: bytes
    vector: bytes
    encoded_names: bytes | None
    feature_set: int
    time: datetime
    decoded: Mapping[str, Payload] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def views(self) -> Mapping[str, Payload]:
        """The features, decoded at each call unless they are at hand.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read.
        """
        return decode(self.vector) if self.decoded is None else self.decoded

    @classmethod
    def of(cls, observation: Observation, *, time: datetime) -> ScoredRow:
        """Return the row of an observation that was scored at `time`.

        Encoding takes some 0.15 ms: call it where no transaction is open.

        Raises
        ------
        InvalidObservation
            If a view has another number of names than of features.
        """
        for view, names in observation.names.items():
            size = observation.views[view].size if view in observation.views else 0
            if len(names) != size:
                msg = f"View {view!r} has {len(names)} names for {size} features."
                raise InvalidObservation(msg)
        return cls(
            digest=observation.digest,
            vector=encode(observation.views),
            encoded_names=(
                encode_names(observation.names) if observation.names else None
            ),
            feature_set=observation.feature_set,
            time=time,
            decoded=observation.views,
        )


def put_many(
    connection: Connection, profile_id: int, rows: Iterable[ScoredRow]
) -> None:
    """Remember messages; one that is there already counts as scored again."""
    # By digest, and each once: workers that remember the same messages lock
    # the rows in one order, so they wait for each other and never deadlock.
    last = {row.digest: row for row in rows}
    if not last:
        return
    new = insert_into(connection, tables.scored)
    connection.execute(
        new.on_conflict_do_update(
            index_elements=[tables.scored.c.profile_id, tables.scored.c.digest],
            set_={
                name: new.excluded[name]
                for name in ("vector", "names", "feature_set", "time")
            },
        ),
        [
            {
                "profile_id": profile_id,
                "digest": digest,
                "vector": last[digest].vector,
                "names": last[digest].encoded_names,
                "feature_set": last[digest].feature_set,
                "time": last[digest].time,
            }
            for digest in sorted(last)
        ],
    )


def get(connection: Connection, profile_id: int, digest: bytes) -> ScoredRow | None:
    """Return what is remembered of a message, or None."""
    return get_many(connection, profile_id, {digest}).get(digest)


def get_many(
    connection: Connection, profile_id: int, digests: Iterable[bytes]
) -> dict[bytes, ScoredRow]:
    """Return what is remembered of each message, by digest."""
    asked = list(digests)
    found = {}
    for start in range(0, len(asked), _DIGESTS_PER_QUERY):
        chunk = asked[start : start + _DIGESTS_PER_QUERY]
        rows = connection.execute(_GET, {"profile_id": profile_id, "digests": chunk})
        for row in rows:
            found[row.digest] = _read(row)
    return found


def copy(
    connection: Connection,
    profile_id: int,
    *,
    to: int,
    after: tuple[datetime, bytes] | None,
    limit: int,
) -> tuple[datetime, bytes] | None:
    """Remember for another profile too what was scored, oldest first.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile_id, to : int
        Whose rows, and who shall have them as well.
    after : (datetime, bytes) or None
        What the call before returned; None for the first.
    limit : int
        Rows at most.

    Returns
    -------
    (datetime, bytes) or None
        Where to go on; `after` where there is nothing more.
    """
    table = tables.scored
    asked = (
        select(table)
        .where(table.c.profile_id == profile_id)
        .order_by(table.c.time, table.c.digest)
        .limit(limit)
    )
    if after is not None:
        time, digest = after
        asked = asked.where(
            tuple_(table.c.time, table.c.digest)
            > tuple_(
                literal(time, table.c.time.type), literal(digest, table.c.digest.type)
            )
        )
    rows = [_read(row) for row in connection.execute(asked)]
    put_many(connection, to, rows)
    return (rows[-1].time, rows[-1].digest) if rows else after


def last_over(
    connection: Connection, profile_id: int, *, keep: int
) -> tuple[datetime, bytes] | None:
    """Return time and digest of the newest row beyond the newest `keep`, if any."""
    scored = tables.scored
    row = connection.execute(
        select(scored.c.time, scored.c.digest)
        .where(scored.c.profile_id == profile_id)
        .order_by(scored.c.time.desc(), scored.c.digest.desc())
        .offset(keep)
        .limit(1)
    ).first()
    return None if row is None else (row.time, row.digest)


def expire(
    connection: Connection,
    profile_id: int,
    *,
    before: datetime,
    upto: tuple[datetime, bytes] | None,
    limit: int,
) -> int:
    """Forget some of what is too old or too much, and return how many rows.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile_id : int
        Whose rows.
    before : datetime
        Rows scored earlier go.
    upto : (datetime, bytes) or None
        And those up to this one, as `last_over` gives it.
    limit : int
        Rows at most, the oldest first.
    """
    scored = tables.scored
    gone = scored.c.time < before
    if upto is not None:
        time, digest = upto
        gone = or_(
            gone,
            scored.c.time < time,
            and_(scored.c.time == time, scored.c.digest <= digest),
        )
    return connection.execute(
        delete(scored).where(
            scored.c.profile_id == profile_id,
            scored.c.digest.in_(
                select(scored.c.digest)
                .where(scored.c.profile_id == profile_id, gone)
                .order_by(scored.c.time, scored.c.digest)
                .limit(limit)
                # A row that another worker is just writing is not waited for:
                # it is being scored again, and waiting might deadlock.
                .with_for_update(skip_locked=True)
            ),
        )
    ).rowcount


def _read(row: Row[Any]) -> ScoredRow:
    """Return a row of the table as what it means."""
    return ScoredRow(
        digest=row.digest,
        vector=row.vector,
        encoded_names=row.names,
        feature_set=row.feature_set,
        time=row.time,
    )
