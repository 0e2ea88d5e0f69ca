"""Ledger rows: what a teaching or a sum adds.

A row is self-contained.  The row of a message holds one vector and the labels before
and after; it adds ``-delta(vector, label_before) + delta(vector, label)`` to the counts
of its month.  The row of a sum has no labels, and its vector is the sum.

A part of an archive may be learned as a sum: the rows of its messages add nothing
(`app.ledger.vector.IN_SUM`), and sums with the same source and time add the features of
all messages.  These rows are written together and taken back together.

A followed site is a teacher: its rows have the source ``site:`` with its name.  If a
message is already known, the row is a note: it stores the label and features from the
other site, and adds nothing.  Rows of the undo `MERGED` then bring the message into the
state that all sites together determine (`app.ledger.undo.standing`).

The source of a row is the name of its teacher, one line of text.  People choose their
names.  Five kinds of names are reserved for the filter, so that rows which are undone
or audited by source are never mixed with the feedback of a person.

Relabelling or forgetting a message subtracts the vector that was added, in the month of
that time, whatever features the message has today.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from app.bayes.state import History, State
from app.classifier.fusion import Lesson
from app.classifier.learn import Move, sum_of_moves
from app.classifier.specification import weighted
from app.errors import (
    CorruptVector,
    InconsistentCounts,
    InvalidInput,
)
from app.features.id_key import keyable
from app.features.observation import DIGEST_BYTES, Observation, names_at
from app.ledger.sums import decode_sum, encode_sum, redacted_sums
from app.ledger.vector import IN_SUM, decode, decode_names, encode, encode_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from app.bayes.sparse import SparseCounts
    from app.classifier.snapshot import Snapshot
    from app.features.id_key import IdKey
    from app.kernels import Ints

RowKind = Literal["message", "sum", "note"]
"""The content of a row: one message, a sum of many, or a note."""
OWN: Final = "auto"
"""The source of messages that the filter learned from its own verdicts."""
PRUNED: Final = "prune"
"""The source of rows that remove pruned features."""
UNDO_PREFIX: Final = "undo:"
"""Prefix of the sources of undos."""
IMPORT_PREFIX: Final = "import:"
"""Prefix of the sources of imports."""
SITE_PREFIX: Final = "site:"
"""Prefix of the sources of other sites."""
MERGED: Final = 0
"""The name of the rows that merge the labels of all sites."""
MAX_SOURCE: Final = 64
PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
"""One line of text, without NUL, which PostgreSQL refuses."""


class Identity(NamedTuple):
    """The fields that distinguish a row from another of the same revision.

    After a database has lost its last commits, by a failover or a restored backup,
    their revisions are assigned again.
    """

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    source: str
    time: datetime


class LedgerLine(NamedTuple):
    """A row for a listing of the ledger, without features.

    The fields are columns of the table, as in `LedgerRow`.
    """

    revision: int
    time: datetime
    digest: bytes
    kind: RowKind
    label_before: str | None
    label: str | None
    source: str
    undo: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """The stored features of a message.

    A further field, `decoded`, has the features from which `vector` was encoded, if
    they are available, so the writer of the row need not decode them.
    """

    digest: bytes
    vector: bytes | None
    encoded_names: bytes | None
    feature_set: int
    time: datetime
    decoded: Mapping[str, SparseCounts] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def stored_bytes(self) -> int:
        """Stored bytes of the features and their text."""
        return len(self.vector or b"") + len(self.encoded_names or b"")

    @property
    def views(self) -> Mapping[str, SparseCounts]:
        """The features, decoded at each call unless available.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, was dropped or is a sum.
        """
        return decode(self._vector()) if self.decoded is None else self.decoded

    def _vector(self) -> bytes:
        """Return the stored features; empty if there are none."""
        return self.vector or b""

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The text of the features, decoded at each call; empty if not kept.

        In the order of the ids; in a sum, a feature without text has "".
        """
        return {} if self.encoded_names is None else decode_names(self.encoded_names)

    def teaching(self, views: Mapping[str, SparseCounts]) -> ScoredRow:
        """Return the row with the lesson of the message, encoded if it is not yet."""
        known = self.views
        if self.vector and views == known:
            return self
        names = self.encoded_names
        if names and any(x is not known.get(view, x) for view, x in views.items()):
            # The remaining features are the first ones
            # (`app.classifier.learn.bounded`).
            names = encode_names(
                {view: each[: views[view].size] for view, each in self.names.items()}
            )
        return replace(self, vector=encode(views), encoded_names=names, decoded=views)

    @classmethod
    def of(
        cls, observation: Observation, *, time: datetime, encoded: bool = True
    ) -> ScoredRow:
        """Return the row of an observation that was scored at `time`.

        Encoding takes some 0.15 ms, so call it outside of a transaction.

        Parameters
        ----------
        encoded : bool, default True
            Whether to encode the features; otherwise `teaching` does it, because most
            messages do not teach every view.
        """
        return cls(
            digest=observation.digest,
            vector=encode(observation.views) if encoded else b"",
            encoded_names=(
                encode_names(observation.names) if observation.names else None
            ),
            feature_set=observation.feature_set,
            time=time,
            decoded=observation.views,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow(ScoredRow):
    """One entry of the ledger; the fields are the columns of the table."""

    revision: int
    label_before: str | None
    label: str | None
    epoch: int
    source: str
    scores: Mapping[str, Any] | None
    kind: RowKind = "message"
    undo: int | None = None

    @classmethod
    def of_sum(cls, vector: bytes, *, profile_id: int, **given: Any) -> LedgerRow:
        """Return the row of an encoded sum, with further fields."""
        # The digest covers content and place: two equal sums are two rows.
        place = f"{profile_id}/{given['revision']}".encode()
        return cls(
            digest=blake2b(vector, digest_size=DIGEST_BYTES, key=place).digest(),
            label_before=None,
            label=None,
            vector=vector,
            scores=None,
            kind="sum",
            **given,
        )

    @property
    def identity(self) -> Identity:
        """The fields that distinguish the row from another with its revision."""
        return Identity(
            self.revision,
            self.digest,
            self.label_before,
            self.label,
            self.source,
            self.time,
        )

    @property
    def lesson(self) -> Lesson:
        """The part of the row for the fusion; a sum has none."""
        return Lesson(
            revision=self.revision,
            digest=self.digest,
            label_before=self.label_before,
            label=self.label,
            scores=self.scores,
            own=self.own,
        )

    @property
    def forgotten(self) -> bool:
        """Whether a person had the message forgotten for good."""
        return self.kind == "message" and self.label is None and self.undo is None

    @property
    def merged(self) -> bool:
        """Whether it is a teaching of another site, or follows from one."""
        return self.undo == MERGED or self.source.startswith(SITE_PREFIX)

    @property
    def kept(self) -> bool:
        """Whether it still has its features: not dropped, and not in another row."""
        return self.vector not in (None, IN_SUM)

    @property
    def own(self) -> bool:
        """Whether the teacher is the filter itself, not a person."""
        return self.source == OWN

    def ids(self, labels: Sequence[str]) -> dict[str, Ints]:
        """Return the features of the row, by view.

        Raises
        ------
        CorruptVector, InconsistentCounts
            As `delta`.
        """
        views = self.delta(labels) if self.kind == "sum" else self.views
        return {view: x.ids for view, x in views.items()}

    def delta(self, labels: Sequence[str]) -> State:
        """Return the statistics that this row adds to its epoch.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, or was dropped.
        InconsistentCounts
            If the row has a label that is not one of `labels`.
        """
        if self.kind == "sum":
            return decode_sum(self._vector(), labels)
        return sum_of_moves([self.move(labels)], n_classes=len(labels))

    def move(self, labels: Sequence[str]) -> Move:
        """Return the move of the row's one message.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, was dropped or is a sum.
        InconsistentCounts
            If the row has a label that is not one of `labels`.
        """
        try:
            before, after = (
                None if label is None else labels.index(label)
                for label in (self.label_before, self.label)
            )
        except ValueError as error:
            raise InconsistentCounts(
                f"Ledger row {self.revision} moves a message from "
                f"{self.label_before} to {self.label}, but the labels of the "
                f"profile are {', '.join(labels)}."
            ) from error
        return Move(views=self.views, before=before, after=after)

    def redacted(self, labels: Sequence[str], key: IdKey | None = None) -> LedgerRow:
        """Return the row without the views that no key can hide.

        Parameters
        ----------
        key : IdKey, optional
            The key that its ids are given.

        Raises
        ------
        CorruptVector, InconsistentCounts
            As `delta`.
        """
        if self.vector is None:
            return self
        names: Mapping[str, Sequence[str]] = keyable(self.names)
        if self.kind == "sum":
            sums = self.delta(labels)
            vector = encode_sum(redacted_sums(sums, key), labels)
            if key is not None:
                places = {v: key.ordered(x.ids)[1] for v, x in sums.items()}
                names = {
                    view: names_at(texts, places[view]) if view in places else texts
                    for view, texts in names.items()
                }
        else:
            views = keyable(self.views)
            seen = Observation(self.digest, self.feature_set, views, names).keyed(key)
            vector, names = encode(seen.views), seen.names
        return replace(
            self,
            vector=vector,
            encoded_names=encode_names(names) if names else None,
            decoded=None,
        )

    def _vector(self) -> bytes:
        """Return the stored vector, or raise if it was dropped."""
        if self.vector is None:
            msg = f"The vector of ledger row {self.revision} was dropped for its age."
            raise CorruptVector(msg)
        return self.vector


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
        raise ValueError(f"{time.isoformat()} has no time zone; pass an aware datetime")
    month = time.astimezone(UTC)
    return month.year * 100 + month.month


def sum_by_epoch(rows: Iterable[LedgerRow], labels: Sequence[str]) -> History:
    """Return the sum of the rows in each epoch, view by view.

    The rows are summed before anything is written, because rows of a batch share most
    of their features, and a message learned and forgotten in it adds nothing.  A row
    with a dropped vector adds nothing either: its counts are in the sealed sums
    (`app.storage.retention`), and were in the tables before the vector was dropped.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that is not one of `labels`.
    """
    moves: defaultdict[int, list[Move]] = defaultdict(list)
    sums: list[dict[int, State]] = []
    for row in rows:
        if row.vector is None or row.kind == "note":
            continue
        if row.kind == "sum":
            sums.append({row.epoch: row.delta(labels)})
        else:
            moves[row.epoch].append(row.move(labels))
    for epoch, of_epoch in moves.items():
        sums.append({epoch: sum_of_moves(of_epoch, n_classes=len(labels))})
    return History.sum(sums)


def check_source(source: str) -> None:
    """Raise unless a person may use the name of a source.

    Raises
    ------
    InvalidInput
        If the name is empty, too long, not one line of printable text, or reserved.
    """
    if not (source and source.isprintable()) or len(source) > MAX_SOURCE:
        raise InvalidInput(
            f"a source must have 1 to {MAX_SOURCE} printable characters, as a user's "
            f"name has; got {source[:MAX_SOURCE]!r}"
        )
    reserved = UNDO_PREFIX, IMPORT_PREFIX, SITE_PREFIX
    if source in (OWN, PRUNED) or source.startswith(reserved):
        raise InvalidInput(
            f"the source {source!r} is reserved for rows that Postbayes writes "
            "itself; give another name, such as the name of a user"
        )


def source_of(door: str, user: str) -> str:
    r"""Return the source for a user who teaches through a mail door.

    Examples
    --------
    >>> source_of("spamd", "ann@example.org"), source_of("spamd", "\0" + "x" * 99)[:10]
    ('spamd:ann@example.org', 'spamd:xxxx')
    """
    who = "".join(c for c in user if c.isprintable())
    return f"{door}:{who}"[:MAX_SOURCE] if who else door


def learning(snapshot: Snapshot, rows: Sequence[LedgerRow]) -> Callable[[], None]:
    """Return the change that learns rows in one addition; deltas form a group.

    Parameters
    ----------
    rows : sequence of LedgerRow
        The next rows, at least one, without a gap.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a count would become negative.
    """
    specification = snapshot.specification
    epochs = sum_by_epoch(rows, specification.labels)
    return snapshot.prepare(
        State.sum(weighted(epochs, specification.decay)),
        revision=rows[-1].revision,
        lessons=[row.lesson for row in rows if row.kind != "note"],
    )
