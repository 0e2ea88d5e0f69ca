"""Staging: the blocks of an export written to a hidden profile.

Contract of this file: the file was surveyed, and the profile is hidden
(`app.storage.hidden`), so nobody else writes to it and nobody folds it.

Nobody has to see the counts of a hidden profile grow, so its ledger is summed up first,
and each count is written once.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, func, select, update

from app.errors import InconsistentCounts, MalformedExport
from app.exchange.format.blocks import BlockReader
from app.exchange.format.header import ExportHeader
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
from app.exchange.keying import keyed_names, keyed_row, keyed_sums
from app.storage import bulk, ledger, tables
from app.storage.counts import classes, names, runs
from app.storage.database.engine import reading
from app.storage.undo import records
from app.storage.upkeep.audit import broken_rows
from app.storage.upkeep.prune import known_digests, sums_in_force

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.bayes.state import History
    from app.exchange.hidden_profile import HiddenProfile
    from app.exchange.survey import Source
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow


T = TypeVar("T")
# Of one step, which takes some ten milliseconds on SQLite; rows have 8 kB.
_ROWS: Final = 200
_NAMES: Final = 4_000
_PARTS: Final = 8


class Staging:
    """One import on its way into the ledger of a hidden profile.

    Parameters
    ----------
    new : HiddenProfile
        The hidden profile.
    source : Source
        The export.
    joins : ProfileRow or None
        The profile that the rows will join; None where they are a ledger of their own.
    """

    def __init__(
        self, new: HiddenProfile, source: Source, *, joins: ProfileRow | None
    ) -> None:
        self._new = new
        self._profile = new.row
        self._source = source
        self._words = source.words and source.header.words
        self._joins = joins
        # Of ids that are not keyed yet.
        self._key = None if source.header.id_key == new.row.id_key else source.key
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
                    self._write_names(content)
            file.seek(0)
        reader = BlockReader(file)
        for kind, content in reader:
            if kind == SUM:
                self._write_sum(content)
            elif kind == LEDGER:
                self._write_rows(content)
            elif kind == UNDOS and self._joins is None:
                self._write_undo(content)
            self._source.progress(file.tell())
        self._source.progress(file.tell())
        self._drop_names()
        surveyed = self._source.header, self._source.survey.content
        if surveyed != (ExportHeader.decode(reader.header), reader.content):
            msg = "this export was changed while it was read; nothing of it is imported"
            raise MalformedExport(msg)

    def _write_names(self, content: bytes) -> None:
        view, texts = read_names(content)
        measured = self._source.survey.amounts.of(view).fields
        if self._key is not None and not measured:
            texts = keyed_names(self._key, view, texts)
        for some in _pieces(list(texts.items()), _NAMES):
            self._new.write(
                names.add, profile_id=self._profile.id, view=view, names=dict(some)
            )

    def _drop_names(self) -> None:
        """Drop the names that rows have as well."""
        with reading(self._new.engine) as connection:
            sealed = runs.total(connection, self._profile, "sealed")
            found = {
                view: names.all_of(connection, self._profile.id, view)
                for view in self._source.header.views
            }
        for view, texts in found.items():
            kept = sealed[view].ids.tolist() if view in sealed else ()
            for some in _pieces(sorted(texts.keys() - set(kept)), _NAMES):
                self._new.write(
                    names.drop, profile_id=self._profile.id, view=view, features=some
                )

    def _write_sum(self, content: bytes) -> None:
        epoch, views = read_sum(content, self._profile.labels)
        if self._key is not None:
            views = keyed_sums(views, self._key)
        if self._source.header.contents == "ledger":
            self._new.write(
                runs.add,
                profile_id=self._profile.id,
                kind="sealed",
                parts=runs.encode({epoch: views}, self._profile.labels),
            )
            return
        with reading(self._new.engine) as connection:
            texts = {
                view: names.find(connection, self._profile.id, view, x.ids.tolist())
                for view, x in views.items()
            }
        self.rows += len(
            self._new.write(
                bulk.append_sums,
                self._profile,
                {epoch: views},
                source=self._source.name,
                time=self._source.clock(),
                names=texts,
            )
        )

    def _write_rows(self, content: bytes) -> None:
        rows = surveyed_rows(content)
        digests = self._known_digests(rows)
        new = []
        for row in rows:
            if row.digest in digests or self._is_imported(row):
                self.known += 1
                continue
            self._revision += 1
            new.append(self._renumbered(row))
        self.rows += len(new)
        for some in _pieces(new, _ROWS):
            self._new.write(ledger.write, profile_id=self._profile.id, rows=some)

    def _write_undo(self, content: bytes) -> None:
        record = read_undo(content)
        self._new.write(
            records.write,
            profile_id=self._profile.id,
            record=dataclasses.replace(record, revisions=()),
        )
        for some in _pieces(record.revisions, _NAMES):
            self._new.write(
                records.write_revisions,
                profile_id=self._profile.id,
                number=record.number,
                revisions=some,
            )

    def _known_digests(self, rows: Sequence[LedgerRow]) -> set[bytes]:
        """Return the digests of messages that the other profile has learned."""
        if self._joins is None:
            return set()
        with reading(self._new.engine) as connection:
            return known_digests(
                connection,
                self._joins.id,
                {row.digest for row in rows},
                until=self._joins.revision,
            )

    def _is_imported(self, row: LedgerRow) -> bool:
        """Return whether the other profile has had the import that a row is of."""
        if row.kind == "message" or self._joins is None:
            return False
        if row.source not in self._imports:
            with reading(self._new.engine) as connection:
                self._imports[row.source] = row.source.startswith(
                    "import:"
                ) and sums_in_force(connection, self._joins.id, row.source)
        return self._imports[row.source]

    def _renumbered(self, row: LedgerRow) -> LedgerRow:
        """Return a row under the next revision of the hidden profile."""
        if self._key is not None:
            row = keyed_row(row, self._key, self._profile.labels)
        row = dataclasses.replace(
            row,
            revision=self._revision,
            encoded_names=row.encoded_names if self._words else None,
        )
        if self._joins is None or row.undo is None:
            return row
        # The other profile has undos of its own, with the same numbers. The work
        # of one there is a teaching here.
        return dataclasses.replace(row, source=f"import:{row.source}", undo=None)


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def fault_of(
    connection: Connection, profile: ProfileRow, epochs: History
) -> str | None:
    """Return why a profile could not be folded, or None if it can.

    Parameters
    ----------
    connection : Connection
        Any.
    profile : ProfileRow
        The owner of the ledger.
    epochs : History
        The sums of the ledger.
    """
    broken = broken_rows(connection, profile.id)
    if broken:
        return (
            f"{broken} ledger rows of this export contradict the row before of the "
            "same message; it was not written by Postbayes"
        )
    try:
        for _, _, statistics in epochs.parts():
            statistics.require_reachable()
    except InconsistentCounts as error:
        return f"the ledger of this export takes back what it never added: {error}"
    return None


def fill(new: HiddenProfile, epochs: History) -> None:
    """Write the counts of a hidden profile."""
    changes = classes.changes(epochs, new.row.id, new.row.labels)
    new.write(classes.add, changed=changes)
    for epoch in sorted(epochs):
        parts = runs.encode({epoch: epochs[epoch]}, new.row.labels)
        for some in _pieces(parts, _PARTS):
            new.write(runs.add, profile_id=new.row.id, kind="counts", parts=some)
    rows, fold = tables.ledger, tables.fold
    newest = select(func.max(rows.c.revision)).where(rows.c.profile_id == new.row.id)
    new.write(
        Connection.execute,
        update(fold)
        .where(fold.c.profile_id == new.row.id)
        .values(folded_revision=func.coalesce(newest.scalar_subquery(), 0)),
    )
