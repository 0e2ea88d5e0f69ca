"""Ledger rows: one teaching each, or a sum of messages that were counted elsewhere.

A row is self-contained.  The row of a message holds one vector and the labels before
and after; it adds ``-delta(vector, label_before) + delta(vector, label)`` to the counts
of its month.  The row of a sum has no labels, and its vector is what it adds.

A part of an archive may be learned as a sum: rows of its messages that add nothing
(`app.ledger.vector.IN_SUM`), and sums of the same source and time that add what all of
them have.  They were written together, and are taken back together.

A site that is followed is a teacher: its rows have the source ``site:`` and its name.
Where a message is known already, the row is a note: it keeps the label and the features
that the other site gave, and adds nothing.  Rows of the undo `MERGED` then make of the
message what all sites together say of it (`app.ledger.undo.standing`).

The source of a row is the name under which it was taught, text of one line.  People
choose theirs; five kinds of names are the filter's own, and nobody else may teach under
them: what is undone or audited by its source must not be mixed with what a person said
under the same name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from app.bayes.state import History
from app.classifier.fusion import Lesson
from app.classifier.learn import Move, sum_of_moves
from app.errors import CorruptVector, InconsistentCounts, InvalidInput
from app.features.observation import DIGEST_BYTES
from app.ledger.sums import decode_sum
from app.ledger.vector import IN_SUM, decode, decode_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray

    from app.bayes.state import State
    from app.features.observation import Payload

RowKind = Literal["message", "sum", "note"]
"""The content of a row: one message, many that were counted elsewhere, or a note."""
OWN: Final = "auto"
"""The source of messages that the filter learned from its own verdicts."""
PRUNED: Final = "prune"
"""The source of the rows that take pruned features out."""
UNDO_PREFIX: Final = "undo:"
"""Begins the source of the rows that an undo writes."""
IMPORT_PREFIX: Final = "import:"
"""Begins the source of the rows that an import writes."""
SITE_PREFIX: Final = "site:"
"""Begins the source of what another site taught."""
MERGED: Final = 0
"""The undo of rows that give a message the label that all sites agree on."""
MAX_SOURCE: Final = 64
PRINTABLE: Final = r"^[^\x00-\x1f\x7f]+$"
"""Text of one line; PostgreSQL takes no NUL."""
_PRINTABLE: Final = re.compile(PRINTABLE)


class Identity(NamedTuple):
    """The fields that distinguish a row from another of the same revision.

    Where a database lost its last commits, in a failover or by a backup, their
    revisions are given out a second time.
    """

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    source: str
    time: datetime


class LedgerLine(NamedTuple):
    """A row as people look through the ledger: without the features that it holds.

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
class LedgerRow:
    """One entry of the ledger; the fields are the columns of the table.

    One field more, `decoded`, holds the features that `vector` was encoded from, while
    they are at hand: it spares the writer of the row the decoding.
    """

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
    kind: RowKind = "message"
    undo: int | None = None
    decoded: Mapping[str, Payload] | None = field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def of_sum(cls, vector: bytes, *, profile_id: int, **fields: Any) -> LedgerRow:
        """Return the row that adds an encoded sum, with any other `fields` of a row."""
        # The digest is of content and place: two sums of the same content are two rows.
        place = f"{profile_id}/{fields['revision']}".encode()
        return cls(
            digest=blake2b(vector, digest_size=DIGEST_BYTES, key=place).digest(),
            label_before=None,
            label=None,
            vector=vector,
            scores=None,
            kind="sum",
            **fields,
        )

    @property
    def views(self) -> Mapping[str, Payload]:
        """The features of the row's one message, decoded at each call.

        Raises
        ------
        CorruptVector
            If the stored vector cannot be read, was dropped or is a sum.
        """
        if self.decoded is not None:
            return self.decoded
        return decode(self._vector())

    @property
    def identity(self) -> Identity:
        """The fields that distinguish the row from another of its revision."""
        return Identity(*(getattr(self, name) for name in Identity._fields))

    @property
    def lesson(self) -> Lesson:
        """The part of the row that the fusion reads; a sum is no message's lesson."""
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
        """Whether somebody had the message forgotten, for good."""
        return self.kind == "message" and self.label is None and self.undo is None

    @property
    def merged(self) -> bool:
        """Whether it is of other sites: their teaching, or what follows from it."""
        return self.undo == MERGED or self.source.startswith(SITE_PREFIX)

    @property
    def kept(self) -> bool:
        """Whether it still has its features: neither dropped nor in another row."""
        return self.vector not in (None, IN_SUM)

    @property
    def own(self) -> bool:
        """Whether the filter taught itself, and not a person."""
        return self.source == OWN

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The text of the features, decoded at each call; empty if not kept.

        In the order of `ids`; in a sum, a feature without text has "".
        """
        return {} if self.encoded_names is None else decode_names(self.encoded_names)

    def ids(self, labels: Sequence[str]) -> dict[str, NDArray[np.int64]]:
        """Return the features or fields that this row counts, view by view.

        Raises
        ------
        CorruptVector, InconsistentCounts
            As `delta`.
        """
        views = self.delta(labels) if self.kind == "sum" else self.views
        return {view: x.ids for view, x in views.items()}

    def delta(self, labels: Sequence[str]) -> State:
        """Return the statistics that this row adds to its epoch.

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
            msg = (
                f"Ledger row {self.revision} moves a message from "
                f"{self.label_before} to {self.label}, but the labels of the "
                f"profile are {', '.join(labels)}."
            )
            raise InconsistentCounts(msg) from error
        return Move(views=self.views, before=before, after=after)

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

    Summed before anything is written: the rows of a batch share most of their
    features, and a message that was learned and forgotten in it adds nothing.
    Nor does a row whose vector was dropped: what it added is in the sealed sums
    (`app.storage.retention`), and was in the tables before it was dropped.

    Raises
    ------
    CorruptVector
        If a stored vector cannot be read.
    InconsistentCounts
        If a row has a label that is not one of `labels`, or a view holds
        features in one row and measurements in another.
    """
    moves: dict[int, list[Move]] = {}
    sums: list[dict[int, State]] = []
    for row in rows:
        if row.vector is None or row.kind == "note":
            continue
        if row.kind == "sum":
            sums.append({row.epoch: row.delta(labels)})
        else:
            moves.setdefault(row.epoch, []).append(row.move(labels))
    sums.append(
        {
            epoch: sum_of_moves(of_epoch, n_classes=len(labels))
            for epoch, of_epoch in moves.items()
        }
    )
    return History.sum(sums)


def check_source(source: str) -> None:
    """Raise unless a person may teach under the name of a source.

    Raises
    ------
    InvalidInput
        If the name is empty, too long, not printable text of one line, or one of
        the filter's own.
    """
    printable = _PRINTABLE.match(source) and source.isprintable()
    if not printable or len(source) > MAX_SOURCE:
        msg = (
            f"a source must have 1 to {MAX_SOURCE} printable characters, as a user's "
            f"name has; got {source[:MAX_SOURCE]!r}"
        )
        raise InvalidInput(msg)
    reserved = UNDO_PREFIX, IMPORT_PREFIX, SITE_PREFIX
    if source in (OWN, PRUNED) or source.startswith(reserved):
        msg = (
            f"the source {source!r} is reserved for rows that Postbayes writes "
            "itself; give another name, such as the name of a user"
        )
        raise InvalidInput(msg)


def source_of(door: str, user: str) -> str:
    r"""Return the source of a user who teaches through a mail door, which names them.

    Examples
    --------
    >>> source_of("spamd", "ann@example.org"), source_of("spamd", "\0" + "x" * 99)[:10]
    ('spamd:ann@example.org', 'spamd:xxxx')
    """
    who = "".join(c for c in user if c.isprintable())
    return f"{door}:{who}"[:MAX_SOURCE] if who else door
