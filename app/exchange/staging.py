"""Staging: writes the blocks of an export to a hidden profile.

Contract of this file: the file was surveyed, and the profile is hidden
(`app.storage.hidden`), so no other process writes to it or folds it.

The counts of a hidden profile are not visible, so its whole ledger is summed first, and
each count is written only once.

It is written in steps, each of which holds the write lock of SQLite for some ten
milliseconds.  If it does not become visible in the end, it is removed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from app.errors import (
    InconsistentCounts,
    MalformedExport,
    OtherProfile,
    Unavailable,
    UnknownLabel,
)
from app.exchange.blocks import BlockReader
from app.exchange.format import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    ExportHeader,
    read_names,
    read_sum,
    read_undo,
    surveyed_rows,
)
from app.features.extract import FEATURE_SET
from app.ledger.entry import IMPORT_PREFIX
from app.ledger.sums import encode_sums, redacted_sums
from app.ledger.teaching import Teaching
from app.ledger.vector import DROPPED
from app.storage import (
    feature_names,
    fold,
    hidden,
    ledger,
    lists,
    profiles,
    runs,
    scored,
    tables,
    undo_records,
)
from app.storage.database.dialect import chunks
from app.storage.database.engine import reading, writing, writing_then_pause
from app.storage.ledger import append_sums
from app.storage.undo_records import sums_in_force

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Connection, Engine, Table

    from app.bayes.state import History
    from app.exchange.survey import Survey
    from app.features.id_key import IdKey
    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

# Limits of a step, which takes some ten milliseconds on SQLite; a row has 8 kB.
_ROWS: Final = 200
_NAMES: Final = 4_000
_PARTS: Final = 8


@dataclass(eq=False)
class Staging:
    """An import into the ledger of a hidden profile.

    Parameters
    ----------
    words : bool
        Whether to store the text of features, if present.
    key : IdKey or None
        The key of the database.
    progress : callable
        Called with the position of reading.  Unit: bytes.
    """

    file: BinaryIO
    survey: Survey
    _: KW_ONLY
    words: bool
    key: IdKey | None
    progress: Callable[[int], object]
    rows: int = field(default=0, init=False)
    known: int = field(default=0, init=False)
    summed: bool = field(default=False, init=False)

    def write(self, new: HiddenProfile, *, joins: ProfileRow | None = None) -> None:
        """Write the blocks of the file.

        Parameters
        ----------
        joins : ProfileRow or None
            The profile that the rows will join; None if they form a ledger of their
            own.

        Raises
        ------
        MalformedExport
            If the file was changed since the survey.
        DatabaseUnavailable
            If the rows could not be stored.
        """
        self.new, self._profile, self.joins = new, new.row, joins
        file, header = self.file, self.survey.header
        self._words = self.words and header.words
        # By ids that are not keyed yet.
        self._key = None if header.id_key == new.row.id_key else self.key
        # Looked up at the first row of a source, because later rows may be our own.
        self._is_known_import = cache(self._imported)
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
            elif kind == UNDOS and self.joins is None:
                self._write_undo(content)
            self.progress(file.tell())
        self.progress(file.tell())
        self._drop_names()
        read = ExportHeader.decode(reader.header), reader.content
        if read != (header, self.survey.content):
            msg = "this export changed while it was read; nothing was imported"
            raise MalformedExport(msg)

    def _write_names(self, content: bytes) -> None:
        view, texts = read_names(content)
        if view in DROPPED:
            return
        if self._key is not None:
            texts = self._key.names(texts)
        for some in chunks(texts.items(), most=_NAMES):
            with self.new.step() as connection:
                feature_names.add(connection, self._profile.id, view, dict(some))

    def _drop_names(self) -> None:
        """Drop the names that are also in rows."""
        with reading(self.new.engine) as connection:
            sealed = runs.total(connection, self._profile, "sealed")
            found = {
                view: feature_names.of_view(connection, self._profile.id, view)
                for view in self.survey.header.views
            }
        for view, texts in found.items():
            kept = sealed[view].ids.tolist() if view in sealed else ()
            for some in chunks(sorted(texts.keys() - set(kept)), most=_NAMES):
                with self.new.step() as connection:
                    feature_names.drop(connection, self._profile.id, view, some)

    def _write_sum(self, content: bytes) -> None:
        epoch, views = read_sum(content, self._profile.labels)
        if self._key is not None:
            views = redacted_sums(views, self._key)
        profile = self._profile
        if self.survey.header.contents == "ledger":
            parts = runs.encode({epoch: views}, profile.labels)
            with self.new.step() as connection:
                runs.add(connection, profile.id, "sealed", parts)
            return
        with reading(self.new.engine) as connection:
            texts = {
                view: feature_names.find(connection, profile.id, view, x.ids.tolist())
                for view, x in views.items()
            }
        sums = encode_sums({epoch: views}, profile.labels, texts)
        source, time = self.survey.source, self.new.clock()
        with self.new.step() as connection:
            rows = append_sums(connection, profile, sums, source=source, time=time)
        self.rows += len(rows)

    def _write_rows(self, content: bytes) -> None:
        rows = surveyed_rows(content)
        digests = self._known_digests(rows)
        new = []
        for row in rows:
            of_sum = row.kind != "message"
            if row.digest in digests or (of_sum and self._is_known_import(row.source)):
                self.known += 1
            else:
                self.rows += 1
                self.summed |= row.kind == "sum"
                new.append(self._renumbered(row))
        for some in chunks(new, most=_ROWS):
            with self.new.step() as connection:
                ledger.write(connection, self._profile.id, some)

    def _write_undo(self, content: bytes) -> None:
        record = read_undo(content)
        with self.new.step() as connection:
            undo_records.write(
                connection, self._profile.id, replace(record, revisions=())
            )
        for some in chunks(record.revisions, most=_NAMES):
            with self.new.step() as connection:
                undo_records.write_revisions(
                    connection, self._profile.id, record.number, some
                )

    def _known_digests(self, rows: Sequence[LedgerRow]) -> set[bytes]:
        """Return the digests of messages that the joined profile has learned."""
        if self.joins is None:
            return set()
        with reading(self.new.engine) as connection:
            return ledger.known_digests(
                connection,
                self.joins.id,
                {row.digest for row in rows},
                tables.ledger.c.revision <= self.joins.revision,
            )

    def _imported(self, source: str) -> bool:
        """Return whether the joined profile already has an import."""
        if self.joins is None or not source.startswith(IMPORT_PREFIX):
            return False
        with reading(self.new.engine) as connection:
            return bool(sums_in_force(connection, self.joins.id, source))

    def _renumbered(self, row: LedgerRow) -> LedgerRow:
        """Return a row under the next revision of the hidden profile."""
        if self._key is not None:
            row = row.redacted(self._profile.labels, self._key)
        row = replace(
            row,
            revision=self.rows,
            encoded_names=row.encoded_names if self._words else None,
        )
        if self.joins is None or row.undo is None:
            return row
        # The joined profile has undos with the same numbers, so rows that an undo wrote
        # are imported as teachings.
        return replace(row, source=f"import:{row.source}", undo=None)


def fault_of(
    connection: Connection, profile: ProfileRow, epochs: History
) -> str | None:
    """Return why a profile cannot be folded; None if it can."""
    broken = fold.broken_rows(connection, profile.id)
    if broken:
        return (
            f"{broken} ledger rows of this export contradict an earlier row of the "
            "same message; the export was not written by Postbayes"
        )
    try:
        for _, _, statistics in epochs.parts():
            statistics.require_reachable()
    except InconsistentCounts as error:
        return f"no mail has the counts of this export: {error}"
    return None


def fill(new: HiddenProfile, epochs: History) -> None:
    """Write the counts of a hidden profile."""
    profile = new.row
    with new.step() as connection:
        changes = runs.changes(epochs, profile.id, profile.labels)
        runs.add_messages(connection, changes)
    for epoch in sorted(epochs):
        parts = runs.encode({epoch: epochs[epoch]}, profile.labels)
        for some in chunks(parts, most=_PARTS):
            with new.step() as connection:
                runs.add(connection, profile.id, "counts", some)
    with new.step() as connection:
        fold.move(
            connection, profile.id, profiles.last_revision(connection, profile.id)
        )


# Messages moved to the new profile in one transaction, in some ten milliseconds on
# SQLite.
_CARRIED: Final = 64


@dataclass(frozen=True, slots=True)
class HiddenProfile:
    """A profile that is being imported; created by `hidden_profile`.

    Parameters
    ----------
    name : str
        The name that it gets when it becomes visible.
    """

    engine: Engine
    row: ProfileRow
    name: str
    clock: Callable[[], datetime]

    @contextmanager
    def step(self) -> Iterator[Connection]:
        """Give a connection for one step, and release the write lock after it.

        Raises
        ------
        DatabaseUnavailable
            If the database refused it, or the profile was removed.
        """
        with writing_then_pause(self.engine) as connection:
            hidden.renew(connection, self.row, now=self.clock())
            yield connection

    def take_place(
        self,
        instead_of: ProfileRow | None,
        *,
        created_at: datetime,
        policy: Callable[[ProfileRow], object],
    ) -> ProfileRow:
        """Make the profile visible under its name, and replace the owner of the name.

        Parameters
        ----------
        instead_of : ProfileRow or None
            The owner of the name; None if there was none.  Its feedback after
            `revision` and its recently scored messages move to this profile.
        policy : callable
            Returns the policy of this profile, given the previous owner of the name.

        Raises
        ------
        OtherProfile
            If feedback given meanwhile cannot be taught to this profile.
        ProfileReplaced
            If another import was faster.
        """
        taught = 0
        if instead_of is not None:
            taught = instead_of.revision
            for table in (tables.scored, tables.history):
                self._copy(table, instead_of.id)
            if instead_of.id_key == self.row.id_key:
                with self.step() as connection:
                    lists.copy_correspondents(connection, instead_of.id, to=self.row.id)
        while True:
            with self.step() as connection:
                # Created and replaced in one transaction, so it is never visible.
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

    def _copy(self, table: Table, profile_id: int) -> None:
        """Copy the rows of another profile, some at a time."""
        after = None
        while True:
            with self.step() as connection:
                after = scored.copy(
                    connection,
                    table,
                    profile_id,
                    to=self.row.id,
                    after=after,
                    limit=_CARRIED,
                )
            if after is None:
                return


@contextmanager
def hidden_profile(
    engine: Engine,
    name: str,
    *,
    like: ProfileRow | ExportHeader,
    clock: Callable[[], datetime],
    id_key: str | None,
) -> Iterator[HiddenProfile]:
    """Give a hidden profile, which is removed at the end unless it became visible.

    Parameters
    ----------
    name : str
        The name that it gets when it becomes visible.
    like : ProfileRow or ExportHeader
        The profile or export with its labels.
    id_key : str or None
        Digest of the key of its feature ids, if they are keyed.
    """
    _clear(engine, now=clock())
    with writing(engine) as connection:
        row = profiles.create(
            connection,
            name=hidden.hidden_name(name),
            labels=like.labels,
            spam_labels=like.spam_labels,
            feature_set=FEATURE_SET,
            created_at=clock(),
            id_key=id_key,
        )
    try:
        yield HiddenProfile(engine, row, name, clock)
    finally:
        # Otherwise the next import or the maintenance of a service removes it.
        with suppress(Unavailable):
            with writing(engine) as connection:
                hidden.abandon(connection, row)
            _clear(engine, now=clock())


def _clear(engine: Engine, *, now: datetime) -> None:
    """Remove hidden profiles of abandoned imports."""
    with reading(engine) as connection:
        abandoned = hidden.abandoned(connection, now=now)
    for each in abandoned:
        for _ in hidden.remove(engine, each):
            pass


def _teach(connection: Connection, new: ProfileRow, rows: Sequence[LedgerRow]) -> None:
    """Repeat the feedback of one profile in another.

    Raises
    ------
    OtherProfile
        If a row is not feedback on a message, its label is unknown to the new profile,
        or the features that it needs were dropped.
    """
    # Rows of other sites will be pulled again.
    rows = [row for row in rows if not row.merged]
    strange = [row for row in rows if row.kind == "sum" or row.undo is not None]
    if strange:
        raise OtherProfile(
            f"{strange[0].source!r} changed the profile during the import, and the "
            "change cannot be transferred to the new profile; nothing was replaced. "
            "Import it again once that has ended"
        )
    teachings = [
        Teaching(
            digest=row.digest,
            label=row.label,
            evidence=None if row.vector is None else row,
            source=row.source,
            time=row.time,
            scores=row.scores,
        )
        for row in rows
    ]
    try:
        outcomes = ledger.append(connection, new, teachings)
    except UnknownLabel as error:
        raise OtherProfile(
            "during the import, the profile learned a label that the export does not "
            f"have; nothing was replaced. {error}"
        ) from error
    for teaching, outcome in zip(teachings, outcomes, strict=True):
        # Only labels of people: those that the filter taught itself give way.
        if outcome.label != teaching.label and not teaching.own:
            raise OtherProfile(
                f"during the import, the message {teaching.digest.hex()} was taught "
                f"as {teaching.label or 'forgotten'}, but the export does not have "
                "its features, so it cannot be changed; nothing was replaced. Import "
                "it again"
            )
