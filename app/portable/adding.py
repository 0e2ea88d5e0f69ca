"""How do the blocks of an export get into the ledger of a profile?

Contract of this file: the file was surveyed, and everything happens in the
transaction of the caller, so that an import is there whole or not at all.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlalchemy import select

from app.errors import InconsistentCounts, MalformedExport
from app.portable.blocks import BlockReader
from app.portable.header import Header
from app.portable.parts import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    read_names,
    read_sum,
    read_undo,
    surveyed_rows,
)
from app.storage import bulk, counts, ledger, names, sealed, state, tables, undo_records
from app.storage.audit import broken_rows
from app.storage.known import known_digests, sums_stand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Connection

    from app.portable.survey import Survey
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow


class Adding:
    """One import on its way into the ledger."""

    def __init__(
        self,
        connection: Connection,
        profile: ProfileRow,
        header: Header,
        *,
        source: str,
        now: datetime,
        words: bool,
        revision: int,
    ) -> None:
        self._connection = connection
        self._profile = profile
        self._header = header
        self._source = source
        self._now = now
        self._words = words
        self._before = revision
        self._revision = revision
        self.rows = 0
        self.known = 0
        self.messages = False
        # Asked when a source comes first: later its rows may be ours.
        self._imports: dict[str, bool] = {}

    def read(
        self, file: BinaryIO, survey: Survey, progress: Callable[[int], object]
    ) -> None:
        """Add the blocks of a file.

        Raises
        ------
        MalformedExport
            If it is not the file that was surveyed any more.
        """
        # The writers of names hold this lock, as a fold does.
        self._connection.execute(
            select(tables.fold.c.folded_revision)
            .where(tables.fold.c.profile_id == self._profile.id)
            .with_for_update()
        ).scalar_one()
        reader = BlockReader(file)
        for kind, content in reader:
            if kind == SUM:
                self._add_sum(content)
            elif kind == LEDGER:
                self._add_rows(surveyed_rows(content))
            elif kind == UNDOS and self._before == 0:
                undo_records.write(
                    self._connection, self._profile.id, read_undo(content)
                )
            elif kind == NAMES and self._words:
                view, texts = read_names(content)
                names.add(self._connection, self._profile.id, view, texts)
            progress(file.tell())
        known = survey.header, survey.content
        if known != (Header.decode(reader.header), reader.content):
            msg = "this export was changed while it was read; nothing of it is imported"
            raise MalformedExport(msg)

    def _add_sum(self, content: bytes) -> None:
        epoch, views = read_sum(content, self._profile.labels)
        if self._header.contents == "ledger":
            sealed.add(self._connection, self._profile, {epoch: views})
            # The fold passes over the rows that have added it.
            counts.add(
                self._connection,
                self._profile.id,
                epoch=epoch,
                labels=self._profile.labels,
                delta=views,
            )
            return
        self.rows += len(
            bulk.append_sums(
                self._connection,
                self._profile,
                {epoch: views},
                source=self._source,
                time=self._now,
            )
        )

    def _add_rows(self, rows: Sequence[LedgerRow]) -> None:
        known = self._known(rows)
        new = []
        for row in rows:
            if row.digest in known or self._stands(row):
                self.known += 1
                continue
            self._revision += 1
            new.append(self._mine(row))
        ledger.write(self._connection, self._profile.id, new)
        self.rows += len(new)
        self.messages |= bool(new)

    def _known(self, rows: Sequence[LedgerRow]) -> set[bytes]:
        """Return the messages that the profile had learned before the import."""
        if self._before == 0:
            return set()
        return known_digests(
            self._connection,
            self._profile.id,
            {row.digest for row in rows},
            until=self._before,
        )

    def _stands(self, row: LedgerRow) -> bool:
        """Return whether a row is of an import that the profile has had too."""
        if row.kind == "message" or self._before == 0:
            return False
        if row.source not in self._imports:
            self._imports[row.source] = row.source.startswith("import:") and sums_stand(
                self._connection, self._profile.id, row.source
            )
        return self._imports[row.source]

    def _mine(self, row: LedgerRow) -> LedgerRow:
        """Return a row as the profile's ledger takes it."""
        names = row.encoded_names if self._words else None
        if self._before == 0 or row.undo is None:
            return dataclasses.replace(
                row, revision=self._revision, encoded_names=names
            )
        # The profile has undos of its own, with the same numbers. What one there
        # did is a teaching here.
        return dataclasses.replace(
            row,
            revision=self._revision,
            encoded_names=names,
            source=f"import:{row.source}",
            undo=None,
        )


def require_sound(connection: Connection, profile: ProfileRow) -> None:
    """Raise if the profile could not be loaded, or not be folded, as it is now."""
    broken = broken_rows(connection, profile.id)
    if broken:
        msg = (
            f"{broken} ledger rows of this export contradict the row before of the "
            "same message; it was not written by Postbayes"
        )
        raise MalformedExport(msg)
    for table in state.load(connection, profile).tables.values():
        try:
            table.require_reachable()
        except InconsistentCounts as error:
            msg = f"the ledger of this export takes back what it never added: {error}"
            raise MalformedExport(msg) from error
