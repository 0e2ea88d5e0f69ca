"""How does a profile learn what a file holds?

Contract of this file: the file was surveyed, and everything happens in the
transaction of the caller, so that an import is there whole or not at all.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import select, update

from app.errors import InconsistentCounts, MalformedExport, OtherProfile
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
from app.storage.supersede import supersede

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import BinaryIO

    from sqlalchemy import Connection

    from app.portable.survey import Survey
    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow

Outcome = Literal["added", "replaced", "unchanged"]
"""What became of an import."""

_DIGITS: Final = 16
_NAME_CHARS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What became of an import.

    Parameters
    ----------
    outcome : str
        See `Outcome`; ``unchanged`` where all of it was there already.
    profile : ProfileRow
        As it was before, or as it begins anew.
    source : str
        What the ledger calls it; undo takes it back by this name.
    rows : int
        Ledger rows that were added.
    known : int
        Ledger rows that were not, because the profile knows their messages.
    """

    outcome: Outcome
    profile: ProfileRow
    source: str
    rows: int
    known: int


def source_of(survey: Survey) -> str:
    """Return what the ledger calls the counts of an export.

    Not longer than a source of the doors may be, so that it can be named there.
    """
    name = survey.header.profile[:_NAME_CHARS]
    return f"import:{name}:{survey.content[:_DIGITS]}"


def require_feature_set(header: Header, feature_set: int) -> None:
    """Raise if an export counts other features than are made here.

    Raises
    ------
    OtherProfile
        With the two numbers.
    """
    if header.feature_set != feature_set:
        msg = (
            f"this export is of feature set {header.feature_set}, and feature set "
            f"{feature_set} is made here: its counts are of other features. Learn the "
            "mail again, or use a Postbayes of that feature set"
        )
        raise OtherProfile(msg)


def require_labels(header: Header, profile: ProfileRow) -> None:
    """Raise if a profile lacks a label of an export, or means it otherwise.

    Raises
    ------
    OtherProfile
        With the labels of both, and how to make a profile that fits.
    """
    strange = [
        label
        for label in header.labels
        if label not in profile.labels
        or (label in profile.spam_labels) != (label in header.spam_labels)
    ]
    if strange:
        msg = (
            f"this export has the labels {_listed(header)}, and the profile "
            f"{profile.name!r} has {_listed(profile)}. Import it into a profile of its "
            "own with --profile NEWNAME, or into this one with --replace"
        )
        raise OtherProfile(msg)


def add(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    survey: Survey,
    *,
    now: datetime,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> Learned:
    """Add what an export holds to what a profile has learned.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`.
    profile : ProfileRow
        Who learns; it fits (`require_feature_set`, `require_labels`).
    file : binary file
        The export, at its beginning.
    survey : Survey
        What is in it.
    now : datetime
        With a time zone.
    words : bool
        Whether the text of features is kept, if it is there.
    progress : callable, optional
        Told where in the file the reading is, in bytes.

    Raises
    ------
    OtherProfile
        If the export is of this very profile, so that adding it would count
        every message twice.
    InconsistentCounts
        If the ledger of the export contradicts itself.

    Notes
    -----
    Counts are added once: the ledger remembers the digest of the export as its
    source.  Of a ledger, each message that the profile does not know is added,
    with its whole history; what the profile says of the others stays.
    """
    revision = ledger.lock(connection, profile)
    header = survey.header
    source = source_of(survey)
    if header.contents == "counts" and sums_stand(connection, profile.id, source):
        return Learned(
            outcome="unchanged", profile=profile, source=source, rows=0, known=0
        )
    if survey.dropped and (revision or not _same_labels(header, profile)):
        msg = (
            f"the features of {survey.dropped:,} ledger rows of this export were "
            "dropped for their age, so that their messages cannot be told from those "
            "that the profile knows. Import it into a profile of its own with "
            "--profile NEWNAME, or into this one with --replace; or export the counts"
        )
        raise OtherProfile(msg)
    if survey.dropped:
        # A new key, so that a service that has loaded the profile loads it anew:
        # following the rows alone it would miss what is sealed.
        profile = supersede(
            connection,
            profile,
            labels=header.labels,
            spam_labels=header.spam_labels,
            created_at=header.created,
            policy=profile.policy or _policy(header, profile),
        )
    elif revision == 0 and _same_labels(header, profile):
        # It was made for this, so it is what the export is of.
        connection.execute(
            update(tables.profile)
            .where(tables.profile.c.id == profile.id)
            .values(
                created_at=header.created,
                policy=profile.policy or _policy(header, profile) or None,
            )
        )
    elif header.contents == "counts" and header.created == profile.created_at:
        msg = (
            f"this export is of the profile {profile.name!r} itself, or of one that "
            "began as a copy of it: their messages would count twice. Export it "
            "--with-ledger to add what is new, or use --replace to go back to it"
        )
        raise OtherProfile(msg)
    added = _Adding(
        connection,
        profile,
        header,
        source=source,
        now=now,
        words=words,
        revision=revision,
    )
    added.read(file, survey, progress)
    if added.messages:
        _require_sound(connection, profile)
    return Learned(
        outcome="added" if added.rows else "unchanged",
        profile=profile,
        source=source,
        rows=added.rows,
        known=added.known,
    )


def replace(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    survey: Survey,
    *,
    now: datetime,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> Learned:
    """Make a profile that of an export; what it has learned is gone.

    Parameters and errors are those of `add`.
    """
    header = survey.header
    new = supersede(
        connection,
        profile,
        labels=header.labels,
        spam_labels=header.spam_labels,
        created_at=header.created,
        policy=_policy(header, profile),
    )
    learned = add(
        connection, new, file, survey, now=now, words=words, progress=progress
    )
    return Learned(
        outcome="replaced",
        profile=learned.profile,
        source=learned.source,
        rows=learned.rows,
        known=0,
    )


class _Adding:
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


def _require_sound(connection: Connection, profile: ProfileRow) -> None:
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


def _same_labels(header: Header, profile: ProfileRow) -> bool:
    return (header.labels, header.spam_labels) == (profile.labels, profile.spam_labels)


def _policy(header: Header, profile: ProfileRow) -> object:
    """Return the policy of an export; of an older one, that of the profile."""
    return profile.policy if header.policy is None else header.policy.document()


def _listed(of: Header | ProfileRow) -> str:
    """Return labels as a person reads them."""
    return ", ".join(
        f"{label} (spam)" if label in of.spam_labels else label for label in of.labels
    )
