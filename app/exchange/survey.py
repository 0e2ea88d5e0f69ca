"""Survey: checks an export to its last byte before it is learned.

Contract of this file: no part of an export is trusted.  A part that contradicts the
header, another part or the limits of the tables raises `MalformedExport` with a
sentence, and memory is bounded by the largest block.  Whether mail can have the counts
of all parts together is seen once they are written (`app.exchange.staging.fault_of`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.errors import InvalidObservation, MalformedExport, OtherProfile
from app.exchange.blocks import BlockReader
from app.exchange.format import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    ExportHeader,
    read_names,
    read_rows,
    read_sum,
    read_undo,
)
from app.ledger.sums import Amounts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from app.bayes.state import State
    from app.features.id_key import IdKey
    from app.ledger.entry import LedgerRow
    from app.ledger.undo import UndoRow
    from app.storage.profiles import ProfileRow

MOST_FEATURES: Final = 4
"""Most counts of features per byte of the file.

An id is a hash and takes six bytes; ids of grams and their counts take one or two.
Without the limit, a file of zeros would fill six hundred times its size on disk.
"""


@dataclass(slots=True, kw_only=True)
class Survey:
    """The contents of an export in numbers; created by `survey`.

    Parameters
    ----------
    content : str
        Digest of its contents.
    features : int
        Number of counts of features, for all labels and months.
    dropped : int
        Rows with features that were dropped because of their age, or are in a sum.
    """

    header: ExportHeader
    content: str = ""
    features: int = 0
    rows: int = 0
    dropped: int = 0
    undos: int = 0
    amounts: Amounts = field(default_factory=Amounts)
    _carried_out: int = 0

    @property
    def source(self) -> str:
        """The source of its counts in the ledger.

        It is short enough to be given as a source at the doors.
        """
        return f"import:{self.header.profile[:32]}:{self.content[:16]}"

    def add_sum(self, state: State) -> None:
        """Add the statistics of one block.

        Raises
        ------
        MalformedExport
            If they cannot be the sum of messages.
        """
        for view in state:
            if view not in self.header.views:
                raise MalformedExport(
                    f"this export has the view {view!r}, which is missing in its header"
                )
        self.features += state.size
        try:
            self.amounts.add(state)
        except InvalidObservation as error:
            msg = f"the counts of this export are impossible: {error}"
            raise MalformedExport(msg) from error

    def add_rows(self, rows: list[LedgerRow]) -> None:
        """Add the ledger rows of one block.

        Raises
        ------
        MalformedExport
            If their revisions do not follow the ones before.
        """
        for row in rows:
            self.rows += 1
            self.dropped += not row.kept
            self._carried_out = max(self._carried_out, row.undo or 0)
            if row.revision != self.rows:
                raise MalformedExport(
                    f"ledger row {self.rows} of this export has the number "
                    f"{row.revision}"
                )

    def add_undo(self, record: UndoRow) -> None:
        """Add an undo, which follows the rows that it takes back.

        Raises
        ------
        MalformedExport
            If its number does not follow the one before, or it takes back missing rows.
        """
        self.undos += 1
        takes = all(0 < number < record.number for number in record.takes)
        there = all(0 < revision <= self.rows for revision in record.revisions)
        ordered = all(
            list(each) == sorted(set(each)) for each in (record.takes, record.revisions)
        )
        if record.number != self.undos or not (takes and there and ordered):
            raise MalformedExport(
                f"undo {self.undos} of this export takes back rows that are not "
                "before it, or is out of order"
            )

    def finish(self, content: str) -> None:
        """Compare the whole with its header, at the end.

        Raises
        ------
        MalformedExport
            If the export contradicts its header.
        """
        self.content = content
        if self.header.contents == "ledger" and self.rows != self.header.revision:
            raise MalformedExport(
                f"this export has {self.rows} ledger rows, but {self.header.revision} "
                "by its header"
            )
        if self._carried_out > self.undos:
            raise MalformedExport(
                f"a ledger row of this export carries out undo {self._carried_out}, "
                f"but there are only {self.undos}"
            )


def survey(
    file: BinaryIO, *, progress: Callable[[int], object] = lambda _: None
) -> Survey:
    """Survey an export from its first byte to its last.

    Parameters
    ----------
    progress : callable, optional
        Called with the position of reading.  Unit: bytes.

    Raises
    ------
    MalformedExport
        With a sentence that describes the fault.
    """
    reader = BlockReader(file)
    found = Survey(header=ExportHeader.decode(reader.header))
    labels = found.header.labels
    kinds = (
        {LEDGER, SUM, UNDOS, NAMES}
        if found.header.contents == "ledger"
        else {SUM, NAMES}
    )
    for kind, content in reader:
        if kind not in kinds:
            raise MalformedExport(
                f"this export of {found.header.contents} must not have a block of the "
                f"kind {kind.decode('latin-1')!r}"
            )
        if kind == SUM:
            found.add_sum(read_sum(content, labels)[1])
            if found.features > MOST_FEATURES * file.tell():
                raise MalformedExport(
                    f"this export has {found.features:,} counts in {file.tell():,} "
                    "bytes, which is impossible"
                )
        elif kind == LEDGER:
            found.add_rows(read_rows(content, labels, found.amounts))
        elif kind == UNDOS:
            found.add_undo(read_undo(content))
        elif (view := read_names(content)[0]) not in found.header.views:
            raise MalformedExport(
                f"this export names features of {view!r:.80}, which is missing in its "
                "header"
            )
        progress(file.tell())
    found.finish(reader.content)
    return found


def require_feature_set(
    header: ExportHeader,
    feature_set: int,
    *,
    what: str = "this export",
    way_out: str = "Learn the mail again, or use a version with that feature set",
) -> None:
    """Raise if an export, or a page of another site, has another feature set.

    Raises
    ------
    OtherProfile
        With the two numbers.
    """
    if header.feature_set != feature_set:
        raise OtherProfile(
            f"{what} has feature set {header.feature_set}, but this Postbayes has "
            f"feature set {feature_set}, so its counts are of other features. {way_out}"
        )


def require_labels(
    header: ExportHeader,
    profile: ProfileRow,
    *,
    what: str = "this export",
    way_out: str = "Import it into a new profile with --profile NEWNAME, or replace "
    "this one with --replace",
) -> None:
    """Raise if a profile lacks a label of an export, or has it on the other side.

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
        raise OtherProfile(
            f"{what} has the labels {_listed(header)}, but the profile "
            f"{profile.name!r} has {_listed(profile)}. {way_out}"
        )


def require_key(what: str, id_key: str | None, key: IdKey | None) -> None:
    """Raise if keyed feature ids need a key other than that of the database.

    Raises
    ------
    OtherProfile
        With the digests of both.
    """
    here = None if key is None else key.digest
    if id_key is not None and id_key != here:
        holds = "no key" if here is None else f"the key {here}"
        raise OtherProfile(
            f"{what} needs the key {id_key}, but POSTBAYES_KEY_FILE names a file with "
            f"{holds}. A database has one key: use the database of that key, or a new "
            "database with a copy of the key file"
        )


def id_key_of(
    header: ExportHeader, profile: ProfileRow | None, key: IdKey | None, *, words: bool
) -> str | None:
    """Return the digest of the key of an export's ids after its import.

    Parameters
    ----------
    profile : ProfileRow or None
        The profile into which it is imported.  None if a new one is created, which gets
        the key of the export, or that of the database if words are not stored.
    key : IdKey or None
        The key of the database.
    words : bool
        Whether words are stored.

    Raises
    ------
    OtherProfile
        If the export needs another key, or the ids of the profile are not keyed.
    """
    theirs = header.id_key
    require_key("this export", theirs, key)
    if profile is not None:
        require_key(f"the profile {profile.name!r}", profile.id_key, key)
        if theirs is not None and profile.id_key is None:
            raise OtherProfile(
                "the feature ids of this export are keyed, but those of the profile "
                f"{profile.name!r} are not; import it into a new profile with "
                "--profile NEWNAME"
            )
        return profile.id_key
    return key.digest if theirs is None and not words and key is not None else theirs


def policy_of(header: ExportHeader, profile: ProfileRow) -> object:
    """Return the policy of an export, or that of the profile if the export has none."""
    return profile.policy if header.policy is None else header.policy.document()


def _listed(of: ExportHeader | ProfileRow) -> str:
    """Return labels as text for people."""
    return ", ".join(
        f"{label} (spam)" if label in of.spam_labels else label for label in of.labels
    )
