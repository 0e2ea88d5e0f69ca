"""What was taught, in which order, and what did each teaching add?

The ledger is the durable act: a feedback is acknowledged once its row is
committed.  A row is self-contained.  It holds one vector and the labels before
and after, and what it adds to the counts of its epoch is
``-delta(vector, label_before) + delta(vector, label)``.  Moving or forgetting a
message therefore takes back what was added then, with the vector and in the
epoch of that time, whatever features a message has today.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import func, insert, select, update

from app.classifier import learn
from app.errors import CorruptVector, InconsistentCounts, UnknownLabel, UnknownProfile
from app.storage import scored, tables
from app.storage.vector import decode, decode_names, encode, encode_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row

    from app.bayes.sparse import SparseCounts
    from app.bayes.statistics import FeatureCounts
    from app.features.observation import Observation
    from app.storage.profiles import ProfileRow

Kind = Literal["learned", "relabelled", "forgotten", "unchanged", "unknown", "expired"]
"""What became of a teaching; only the first three add a row.

``unchanged``: the message has that label already.  ``unknown``: it is to be
forgotten but was not learned, or it is taught by id and nothing is stored of it.
``expired``: its vector was dropped for its age, so it cannot be taken back.
"""

# Digests asked for in one query: below the 999 variables that SQLite allowed
# before 3.32, and few enough to keep a parsed statement small.
_DIGESTS_PER_QUERY: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """What somebody says about one message.

    Parameters
    ----------
    digest : bytes
        Identity of the message, 16 bytes.
    label : str or None
        What it is; None to forget it.
    observation : Observation or None
        Its features; None to use those that are stored of it.
    source : str
        Who says it: a user, an API key, a door.
    time : datetime
        When, with a time zone.
    scores : mapping or None
        What each view gave it before learning, as JSON takes it; None where it
        was not scored.
    """

    digest: bytes
    label: str | None
    observation: Observation | None
    source: str
    time: datetime
    scores: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One entry of the ledger; the fields are the columns of the table."""

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    epoch: int
    vector: bytes | None
    encoded_names: bytes | None
    feature_set: int
    source: str
    time: datetime
    scores: Mapping[str, Any] | None

    @property
    def views(self) -> dict[str, SparseCounts]:
        """The features that this row counts, decoded at each call.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, or was dropped.
        """
        if self.vector is None:
            msg = f"The vector of ledger row {self.revision} was dropped for its age."
            raise CorruptVector(msg)
        return decode(self.vector)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The text of the features, decoded at each call; empty if not kept."""
        return {} if self.encoded_names is None else decode_names(self.encoded_names)

    def delta(self, labels: Sequence[str]) -> dict[str, FeatureCounts]:
        """Return what this row adds to the counts of its epoch.

        Parameters
        ----------
        labels : sequence of str
            The profile's labels, in the order of the class index.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, or was dropped.
        InconsistentCounts
            If the row has a label that is not one of `labels`.
        """
        try:
            before, after = (
                None if label is None else labels.index(label)
                for label in (self.label_before, self.label)
            )
        except ValueError as error:
            msg = (
                f"Ledger row {self.revision} moves a message from "
                f"{self.label_before} to {self.label}, but the labels of the "
                f"profile are {', '.join(labels)}."
            )
            raise InconsistentCounts(msg) from error
        return learn.delta(
            self.views, before=before, after=after, n_classes=len(labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one teaching.

    Parameters
    ----------
    kind : str
        See `Kind`.
    digest : bytes
        Identity of the message.
    label_before : str or None
        What it was learned as before; None if it was not.
    label : str or None
        What it is learned as now; None if it is not.
    row : LedgerRow or None
        The new entry; None where nothing changed.
    """

    kind: Kind
    digest: bytes
    label_before: str | None
    label: str | None
    row: LedgerRow | None


def append(
    connection: Connection, profile: ProfileRow, teachings: Sequence[Teaching]
) -> list[Outcome]:
    """Write what was taught into the ledger, all of it or nothing.

    The teachings are decided in their order, so a message may occur in them
    twice.  Revisions are consecutive, and the order of commits is the order of
    revisions: the profile stays locked until the transaction ends.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    teachings : sequence of Teaching
        What to write.

    Returns
    -------
    list of Outcome
        One per teaching, in the same order.

    Raises
    ------
    UnknownLabel
        If a label is not one of the profile's; nothing is written.
    UnknownProfile
        If the profile is gone.
    """
    for teaching in teachings:
        if teaching.label is not None and teaching.label not in profile.labels:
            msg = (
                f"{teaching.label!r} is not a label of the profile "
                f"{profile.name!r}. Use one of: {', '.join(profile.labels)}."
            )
            raise UnknownLabel(msg)
    revision = _lock(connection, profile)
    digests = {teaching.digest for teaching in teachings}
    latest_rows = _latest(connection, profile.id, digests)
    scored_rows = scored.get_many(
        connection,
        profile.id,
        {
            teaching.digest
            for teaching in teachings
            if teaching.observation is None and teaching.label is not None
        }
        - latest_rows.keys(),
    )
    outcomes = []
    written: list[dict[str, object]] = []
    for teaching in teachings:
        outcome = _decide(
            teaching,
            before=latest_rows.get(teaching.digest),
            remembered=scored_rows.get(teaching.digest),
            revision=revision + len(written) + 1,
        )
        outcomes.append(outcome)
        if outcome.row is not None:
            latest_rows[teaching.digest] = outcome.row
            written.append(_values(profile.id, outcome.row))
    if written:
        connection.execute(insert(tables.ledger), written)
        connection.execute(
            update(tables.profile)
            .where(tables.profile.c.id == profile.id)
            .values(revision=revision + len(written))
        )
    return outcomes


def rows_after(
    connection: Connection, profile_id: int, *, revision: int, limit: int
) -> list[LedgerRow]:
    """Return the rows that follow a revision, oldest first, `limit` at most."""
    rows = connection.execute(
        select(tables.ledger)
        .where(
            tables.ledger.c.profile_id == profile_id,
            tables.ledger.c.revision > revision,
        )
        .order_by(tables.ledger.c.revision)
        .limit(limit)
    )
    return [_read(row) for row in rows]


def latest(connection: Connection, profile_id: int, digest: bytes) -> LedgerRow | None:
    """Return the newest row of a message, or None if it was never learned.

    The newest row of a message that was learned and forgotten has label None.
    """
    return _latest(connection, profile_id, {digest}).get(digest)


def epoch_of(time: datetime) -> int:
    """Return the month of a moment, in UTC, as YYYYMM.

    Raises
    ------
    ValueError
        If `time` has no time zone.

    Examples
    --------
    >>> from datetime import datetime, timedelta, timezone
    >>> epoch_of(datetime(2026, 4, 1, 1, tzinfo=timezone(timedelta(hours=2))))
    202603
    """
    if time.tzinfo is None:
        msg = f"{time.isoformat()} has no time zone; pass an aware datetime"
        raise ValueError(msg)
    month = time.astimezone(UTC)
    return month.year * 100 + month.month


def _decide(
    teaching: Teaching,
    *,
    before: LedgerRow | None,
    remembered: scored.ScoredRow | None,
    revision: int,
) -> Outcome:
    """Return what a teaching does to a message whose newest row is `before`."""
    label_before = None if before is None else before.label

    def nothing(kind: Kind) -> Outcome:
        return Outcome(
            kind=kind,
            digest=teaching.digest,
            label_before=label_before,
            label=label_before,
            row=None,
        )

    if teaching.label == label_before:
        return nothing("unknown" if teaching.label is None else "unchanged")
    evidence = before if label_before is not None else remembered or before
    if label_before is None and teaching.observation is not None:
        epoch = epoch_of(teaching.time)
        vector: bytes | None = encode(teaching.observation.views)
        names = (
            encode_names(teaching.observation.names)
            if teaching.observation.names
            else None
        )
        feature_set = teaching.observation.feature_set
    elif evidence is None:
        return nothing("unknown")
    else:
        vector = evidence.vector
        if vector is None:
            return nothing("expired")
        names = evidence.encoded_names
        feature_set = evidence.feature_set
        # What is learned anew belongs to the month of now, what is moved or
        # forgotten to the month whose counts it is in.
        epoch = (
            epoch_of(teaching.time)
            if before is None or label_before is None
            else before.epoch
        )
    row = LedgerRow(
        revision=revision,
        digest=teaching.digest,
        label_before=label_before,
        label=teaching.label,
        epoch=epoch,
        vector=vector,
        encoded_names=names,
        feature_set=feature_set,
        source=teaching.source,
        time=teaching.time,
        scores=_finite(teaching.scores),
    )
    if teaching.label is None:
        kind: Kind = "forgotten"
    else:
        kind = "learned" if label_before is None else "relabelled"
    return Outcome(
        kind=kind,
        digest=teaching.digest,
        label_before=label_before,
        label=teaching.label,
        row=row,
    )


def _lock(connection: Connection, profile: ProfileRow) -> int:
    """Return the profile's revision; nobody else moves it until the end."""
    revision: int | None = connection.execute(
        select(tables.profile.c.revision)
        .where(tables.profile.c.id == profile.id)
        # FOR NO KEY UPDATE.  A plain FOR UPDATE would also wait for a fold,
        # whose foreign keys hold a KEY SHARE lock on this row.
        .with_for_update(key_share=True)
    ).scalar_one_or_none()
    if revision is None:
        msg = f"The profile {profile.name!r} does not exist any more."
        raise UnknownProfile(msg)
    return revision


def _latest(
    connection: Connection, profile_id: int, digests: Iterable[bytes]
) -> dict[bytes, LedgerRow]:
    """Return the newest row of each message that has one."""
    ledger = tables.ledger
    asked = list(digests)
    found = {}
    for start in range(0, len(asked), _DIGESTS_PER_QUERY):
        newest = (
            select(func.max(ledger.c.revision).label("revision"))
            .where(
                ledger.c.profile_id == profile_id,
                ledger.c.digest.in_(asked[start : start + _DIGESTS_PER_QUERY]),
            )
            .group_by(ledger.c.digest)
        )
        rows = connection.execute(
            select(ledger).where(
                ledger.c.profile_id == profile_id, ledger.c.revision.in_(newest)
            )
        )
        for row in rows:
            read = _read(row)
            found[read.digest] = read
    return found


def _read(row: Row[Any]) -> LedgerRow:
    """Return a row of the table as what it means."""
    return LedgerRow(
        revision=row.revision,
        digest=row.digest,
        label_before=row.label_before,
        label=row.label,
        epoch=row.epoch,
        vector=row.vector,
        encoded_names=row.names,
        feature_set=row.feature_set,
        source=row.source,
        time=row.time,
        scores=row.scores,
    )


def _values(profile_id: int, row: LedgerRow) -> dict[str, object]:
    """Return a row as the table takes it."""
    return {
        "profile_id": profile_id,
        "revision": row.revision,
        "digest": row.digest,
        "label_before": row.label_before,
        "label": row.label,
        "epoch": row.epoch,
        "vector": row.vector,
        "names": row.encoded_names,
        "feature_set": row.feature_set,
        "source": row.source,
        "time": row.time,
        "scores": row.scores,
    }


def _finite(scores: Any) -> Any:
    """Return scores with null for what JSON has no number for.

    An unsmoothed model gives -inf to a message with one unseen feature.
    """
    if isinstance(scores, float) and not math.isfinite(scores):
        return None
    if isinstance(scores, dict):
        return {key: _finite(value) for key, value in scores.items()}
    if isinstance(scores, list | tuple):
        return [_finite(value) for value in scores]
    return scores
