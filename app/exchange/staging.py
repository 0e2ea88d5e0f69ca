"""Staging: the blocks of an export written to a hidden profile.

Contract of this file: the file was surveyed, and the profile is hidden
(`app.storage.hidden`).  What is read is written in steps, each of which holds the
write lock of SQLite for some ten milliseconds.

A fold changes the counts of a feature once for every few rows.  Nobody has to see
the counts of a hidden profile grow, so its ledger is summed up first, and each count
is written once: an import of 16,055 messages took 37 s so, and 77 s with a fold.

Contract of this file: nothing of the ledger is folded, and nobody else folds it.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import update

from app.bayes.counts import FeatureCounts
from app.bayes.statistics import sum_by_view
from app.errors import InconsistentCounts, MalformedExport
from app.exchange.format.blocks import BlockReader
from app.exchange.format.header import Header
from app.exchange.format.parts import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    read_names,
    read_sum,
    read_undo,
    surveyed_rows,
)
from app.ledger.entry import sum_by_epoch
from app.storage import bulk, hidden, ledger, tables
from app.storage.bulk import pieces
from app.storage.counts import deltas, names
from app.storage.counts.names import missing, texts_of
from app.storage.database.engine import reading, writing_then_pause
from app.storage.ledger import batches_after
from app.storage.undo import records
from app.storage.upkeep import retention
from app.storage.upkeep.audit import broken_rows
from app.storage.upkeep.prune import known_digests, sums_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.bayes.statistics import Statistics
    from app.exchange.survey import Source
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

    Write = Callable[[Connection], object]
    Epochs = Mapping[int, Mapping[str, Statistics]]

# Of one step, which takes some ten milliseconds on SQLite; rows have 8 kB.
_ROWS: Final = 200
_NAMES: Final = 4_000


def step(
    engine: Engine, profile: ProfileRow, clock: Callable[[], datetime], write: Write
) -> None:
    """Write something of a hidden profile, and let others have the write lock.

    Raises
    ------
    DatabaseUnavailable
        If the database did not take it, or the profile was removed.
    """
    with writing_then_pause(engine) as connection:
        hidden.renew(connection, profile, now=clock())
        write(connection)


class Staging:
    """One import on its way into the ledger of a hidden profile.

    Parameters
    ----------
    engine : Engine
        The database.
    profile : ProfileRow
        The hidden one.
    source : Source
        The export.
    joins : ProfileRow or None
        Whose ledger the rows are for; None where they are a ledger of their own.
    """

    def __init__(
        self,
        engine: Engine,
        profile: ProfileRow,
        source: Source,
        *,
        joins: ProfileRow | None,
    ) -> None:
        self._engine = engine
        self._profile = profile
        self._source = source
        self._words = source.words and source.header.words
        self._joins = joins
        self._revision = 0
        self.rows = 0
        self.known = 0
        # Asked when a source comes first: later its rows may be ours.
        self._imports: dict[str, bool] = {}

    def read(self) -> None:
        """Write the blocks of the file.

        Raises
        ------
        MalformedExport
            If it is not the file that was surveyed any more.
        DatabaseUnavailable
            If the database did not take it.
        """
        file = self._source.file
        if self._words:
            for kind, content in BlockReader(file):
                if kind == NAMES:
                    self._write(self._names(content))
            file.seek(0)
        reader = BlockReader(file)
        for kind, content in reader:
            if kind == SUM:
                self._write(self._sum(content))
            elif kind == LEDGER:
                self._write(self._ledger(content))
            elif kind == UNDOS and self._joins is None:
                self._write(self._undo(content))
            self._source.progress(file.tell())
        self._source.progress(file.tell())
        known = self._source.header, self._source.survey.content
        if known != (Header.decode(reader.header), reader.content):
            msg = "this export was changed while it was read; nothing of it is imported"
            raise MalformedExport(msg)

    def _write(self, writes: Iterator[Write]) -> None:
        for write in writes:
            step(self._engine, self._profile, self._source.clock, write)

    def _names(self, content: bytes) -> Iterator[Write]:
        view, texts = read_names(content)
        listed = list(texts.items())
        for start in range(0, len(listed), _NAMES):
            some = dict(listed[start : start + _NAMES])
            yield partial(names.add, profile_id=self._profile.id, view=view, names=some)

    def _sum(self, content: bytes) -> Iterator[Write]:
        epoch, views = read_sum(content, self._profile.labels)
        if self._source.header.contents == "ledger":
            sums = retention.encode(self._profile, {epoch: views})
            yield partial(retention.add, profile=self._profile, sums=sums)
            return
        with reading(self._engine) as connection:
            texts = {
                view: names.find(connection, self._profile.id, view, x.ids.tolist())
                for view, x in views.items()
            }
        yield partial(self._append_sum, epoch=epoch, views=views, texts=texts)

    def _append_sum(
        self,
        connection: Connection,
        epoch: int,
        views: dict[str, Statistics],
        texts: dict[str, dict[int, str]],
    ) -> None:
        self.rows += len(
            bulk.append_sums(
                connection,
                self._profile,
                {epoch: views},
                source=self._source.name,
                time=self._source.clock(),
                names=texts,
            )
        )

    def _ledger(self, content: bytes) -> Iterator[Write]:
        rows = surveyed_rows(content)
        known = self._known(rows)
        new = []
        for row in rows:
            if row.digest in known or self._stands(row):
                self.known += 1
                continue
            self._revision += 1
            new.append(self._mine(row))
        self.rows += len(new)
        for start in range(0, len(new), _ROWS):
            some = new[start : start + _ROWS]
            yield partial(ledger.write, profile_id=self._profile.id, rows=some)

    def _undo(self, content: bytes) -> Iterator[Write]:
        record = read_undo(content)
        yield partial(
            records.write,
            profile_id=self._profile.id,
            record=dataclasses.replace(record, revisions=()),
        )
        for start in range(0, len(record.revisions), _NAMES):
            some = record.revisions[start : start + _NAMES]
            yield partial(
                records.write_revisions,
                profile_id=self._profile.id,
                number=record.number,
                revisions=some,
            )

    def _known(self, rows: Sequence[LedgerRow]) -> set[bytes]:
        """Return the messages that the other profile had learned before."""
        if self._joins is None:
            return set()
        with reading(self._engine) as connection:
            return known_digests(
                connection,
                self._joins.id,
                {row.digest for row in rows},
                until=self._joins.revision,
            )

    def _stands(self, row: LedgerRow) -> bool:
        """Return whether a row is of an import that the other profile has had too."""
        if row.kind == "message" or self._joins is None:
            return False
        if row.source not in self._imports:
            with reading(self._engine) as connection:
                self._imports[row.source] = row.source.startswith(
                    "import:"
                ) and sums_in_force(connection, self._joins.id, row.source)
        return self._imports[row.source]

    def _mine(self, row: LedgerRow) -> LedgerRow:
        """Return a row as the ledger takes it."""
        names = row.encoded_names if self._words else None
        if self._joins is None or row.undo is None:
            return dataclasses.replace(
                row, revision=self._revision, encoded_names=names
            )
        # The other profile has undos of its own, with the same numbers. What one
        # there did is a teaching here.
        return dataclasses.replace(
            row,
            revision=self._revision,
            encoded_names=names,
            source=f"import:{row.source}",
            undo=None,
        )


# Of one step, which takes some ten milliseconds on SQLite.
_FEATURES: Final = 2_000


def replayed(
    connection: Connection, profile: ProfileRow
) -> dict[int, dict[str, Statistics]]:
    """Return what the whole ledger adds to each epoch, view by view.

    Raises
    ------
    InconsistentCounts
        If a view holds features in one row and measurements in another.
    """
    epochs = retention.load(connection, profile)
    for rows in batches_after(connection, profile.id, revision=0):
        for epoch, views in sum_by_epoch(rows, profile.labels).items():
            epochs[epoch] = sum_by_view(
                (epochs.get(epoch, {}), views), n_classes=len(profile.labels)
            )
    return epochs


def fault_of(connection: Connection, profile: ProfileRow, epochs: Epochs) -> str | None:
    """Return why a profile could not be folded, or None if it can.

    Parameters
    ----------
    connection : Connection
        Any.
    profile : ProfileRow
        Whose ledger.
    epochs : mapping of int to mapping of str to FeatureCounts or MomentSums
        What it comes to.
    """
    broken = broken_rows(connection, profile.id)
    if broken:
        return (
            f"{broken} ledger rows of this export contradict the row before of the "
            "same message; it was not written by Postbayes"
        )
    try:
        for views in epochs.values():
            for table in views.values():
                table.require_reachable()
    except InconsistentCounts as error:
        return f"the ledger of this export takes back what it never added: {error}"
    return None


def fill(
    engine: Engine, profile: ProfileRow, epochs: Epochs, clock: Callable[[], datetime]
) -> None:
    """Write the counts of a hidden profile, and the text of what is counted."""
    for epoch in sorted(epochs):
        for part in pieces(epochs[epoch], at_most=_FEATURES):
            step(
                engine,
                profile,
                clock,
                partial(
                    deltas.add,
                    profile_id=profile.id,
                    epoch=epoch,
                    labels=profile.labels,
                    delta=part,
                ),
            )
    revision = 0
    for upto, texts in _texts(engine, profile, epochs):
        revision = upto
        for view, some in texts.items():
            step(
                engine,
                profile,
                clock,
                partial(names.add, profile_id=profile.id, view=view, names=some),
            )
    step(engine, profile, clock, partial(_folded, profile=profile, upto=revision))


def _texts(
    engine: Engine, profile: ProfileRow, epochs: Epochs
) -> Iterator[tuple[int, dict[str, dict[int, str]]]]:
    """Give the text that the rows have of what is counted, some rows at a time.

    With each, the revision of the last of these rows.
    """
    counted: dict[str, set[int]] = {}
    for views in epochs.values():
        for view, part in views.items():
            having = part.documents if isinstance(part, FeatureCounts) else part.counts
            there = part.ids[(having > 0).any(axis=1)]
            counted.setdefault(view, set()).update(there.tolist())
    with reading(engine) as connection:
        for rows in batches_after(connection, profile.id, revision=0):
            yield (
                rows[-1].revision,
                {
                    view: missing(connection, profile.id, view, texts, counted[view])
                    for view, texts in texts_of(rows, profile).items()
                },
            )


def _folded(connection: Connection, profile: ProfileRow, upto: int) -> None:
    """Note that the counts hold the ledger up to a revision."""
    connection.execute(
        update(tables.fold)
        .where(tables.fold.c.profile_id == profile.id)
        .values(folded_revision=upto)
    )
