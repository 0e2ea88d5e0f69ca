"""Export: a profile written to a file."""

from __future__ import annotations

from io import BytesIO
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from app.classifier.rule import CORRECTIONS
from app.errors import (
    CorruptVector,
    DatabaseUnavailable,
    InconsistentCounts,
    InvalidObservation,
    MalformedExport,
    OtherProfile,
)
from app.exchange.blocks import BlockReader, BlockWriter
from app.exchange.format import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    Contents,
    ExportHeader,
    read_rows,
    write_names,
    write_rows,
    write_sum,
    write_undo,
)
from app.exchange.survey import require_feature_set, require_labels
from app.features.extract import VIEWS
from app.features.id_key import keyable
from app.ledger.sums import FEATURES_PER_ROW, Amounts, redacted_sums
from app.ledger.vector import decode_names
from app.storage import feature_names, fold, runs, undo_records, undo_work
from app.storage.database.dialect import chunks
from app.storage.follow import offer
from app.storage.ledger import batches_after

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.follow import Offer
    from app.storage.profiles import ProfileRow


# Bytes of features in a block: some 130 messages.  Rows with dropped features are
# limited too, because they have scores of about 1 kB.
_BLOCK_BYTES: Final = 1024 * 1024
_ROWS_PER_BLOCK: Final = 1_000
_NAMES_PER_BLOCK: Final = 20_000


def export(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    *,
    contents: Contents,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> tuple[ExportHeader, str]:
    """Write the folded counts of a profile, or its ledger, to a file.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot, while learning
        continues.
    file : binary file
        The export; it may be a pipe.
    words : bool
        Whether to write the text of features too, and the views that tell a text
        (`app.features.id_key.UNKEYED`).
    progress : callable, optional
        Called with the number of rows written.

    Returns
    -------
    (ExportHeader, str)
        The header, and the digest of the contents.

    Raises
    ------
    Inconsistent
        If the tables and the ledger contradict each other, or the policy or something
        else that is exported cannot be read.
    DatabaseUnavailable
        If the ledger is requested while an undo is carried out.

    Notes
    -----
    Equal states give equal bytes: everything is sorted by key, and no clock is read.
    All counts, and the sealed sums of a ledger (`app.storage.retention`), are in memory
    at once, as in a service.
    """
    views: dict[str, dict[str, int]] = {}
    for row in runs.read_messages(connection, profile):
        counts = views.setdefault(row.view, {})
        counts[row.label] = counts.get(row.label, 0) + row.messages
    header = ExportHeader.of(
        profile,
        contents=contents,
        words=words,
        revision=_last(connection, profile, contents),
        views=views if words else keyable(views),
        policy=profile.read_policy(),
    )
    writer = BlockWriter(file, header.encode())
    if contents == "ledger":
        for rows in _batches(connection, profile.id, last=header.revision):
            exported = [_exported(row, profile, words=words) for row in rows]
            writer.write(LEDGER, write_rows(exported, words=words))
            progress(len(rows))
    # Of a ledger, the sums of rows with dropped vectors.
    kind: runs.Kind = "sealed" if contents == "ledger" else "counts"
    for epoch, sums in sorted(runs.load(connection, profile, kind).items()):
        told = sums if words else redacted_sums(sums)
        # In parts that a ledger row can hold.
        for part in told.pieces(at_most=FEATURES_PER_ROW):
            writer.write(SUM, write_sum(epoch, part, profile.labels))
    if contents == "ledger":
        for record in undo_records.read(connection, profile.id):
            writer.write(UNDOS, write_undo(record))
    if words:
        for view, page in _names(connection, profile, kind):
            writer.write(NAMES, write_names(view, page))
    return header, writer.close()


def _exported(row: LedgerRow, profile: ProfileRow, *, words: bool) -> LedgerRow:
    """Return a row as it is exported.

    Raises
    ------
    CorruptVector
        If its features or their text cannot be read: no import would take the file, and
        whoever keeps exports as backups has to know it while there are older ones.
    """
    try:
        if not words:
            return row.redacted(profile.labels)
        if row.vector is not None:
            row.ids(profile.labels)
        if row.encoded_names is not None:
            decode_names(row.encoded_names)
    except CorruptVector as error:
        msg = f"the ledger row {row.revision} cannot be exported: {error}"
        raise CorruptVector(msg) from error
    return row


def _last(connection: Connection, profile: ProfileRow, contents: Contents) -> int:
    """Return the last revision of an export."""
    if contents == "counts":
        return fold.folded_revision(connection, profile.id)
    if undo_work.pending(connection, profile.id):
        raise DatabaseUnavailable(
            f"an undo of the profile {profile.name!r} is running; export it again in "
            "a moment"
        )
    return profile.revision


def _names(
    connection: Connection, profile: ProfileRow, kind: runs.Kind
) -> Iterator[tuple[str, dict[int, str]]]:
    """Yield the text of counted features, or of those whose rows no longer have it."""
    rows: Iterable[LedgerRow] = ()
    if kind == "counts":
        batches = batches_after(connection, profile.id, revision=0)
        rows = chain.from_iterable(batches)
    found = feature_names.of_rows(rows, profile)
    counts = runs.total(connection, profile, kind)
    for view in sorted(counts):
        stored = feature_names.of_view(connection, profile.id, view)
        texts = found.get(view, {}) | stored
        left = ((at, texts[at]) for at in counts[view].ids.tolist() if at in texts)
        for page in chunks(left, most=_NAMES_PER_BLOCK):
            yield view, dict(page)


def _batches(
    connection: Connection, profile_id: int, *, last: int
) -> Iterator[list[LedgerRow]]:
    """Yield blocks of ledger rows, of which the last has this revision."""
    revision = 0
    rows = chain.from_iterable(batches_after(connection, profile_id, revision=0))
    size = attrgetter("stored_bytes")
    for batch in chunks(rows, most=_ROWS_PER_BLOCK, weigh=size, room=_BLOCK_BYTES):
        revision = batch[-1].revision
        yield batch
    if revision != last:
        raise InconsistentCounts(
            f"The ledger ends at revision {revision}, but the counts go up to {last}. "
            "Run `postbayes audit`."
        )


MOST_BYTES: Final = 32 * 1024 * 1024
"""Most bytes of a page; one of the largest messages takes 2 MB."""
# A million messages of this size must fit into the counts, so a site cannot exhaust
# them with messages that are valid one by one.
_TIMES: Final = 2**20


def write_page(
    connection: Connection, profile: ProfileRow, *, after: str
) -> tuple[bytes, Offer]:
    """Return a page as bytes, with the other results of `app.storage.follow.offer`."""
    found = offer(connection, profile, after=after)
    header = ExportHeader.of(
        profile, contents="ledger", words=False, revision=profile.revision, views={}
    )
    page = BytesIO()
    writer = BlockWriter(page, header.encode())
    writer.write(LEDGER, write_rows(found.words, words=False))
    writer.close()
    return page.getvalue(), found


def read_page(content: bytes, profile: ProfileRow) -> list[LedgerRow]:
    """Return the rows of a page that another site wrote.

    Raises
    ------
    MalformedExport
        If it is not a page, or has something that sites do not offer.
    OtherProfile
        If the profile cannot learn it.
    """
    reader = BlockReader(BytesIO(content))
    header = ExportHeader.decode(reader.header)
    what = "the other site"
    require_feature_set(
        header, profile.feature_set, what=what, way_out="Upgrade the older of the two"
    )
    way_out = "Follow it with a profile that has the same labels"
    require_labels(header, profile, what=what, way_out=way_out)
    if header.id_key != profile.id_key:
        raise OtherProfile(
            "the feature ids of the other site are made with another key than those "
            "of this one, or only one of them has a key (POSTBAYES_KEY_FILE)"
        )
    blocks = list(zip(range(2), reader, strict=False))
    if len(blocks) != 1 or blocks[0][1].kind != LEDGER:
        raise MalformedExport("a page is one block of rows, and this one is not")
    words = read_rows(blocks[0][1].content, header.labels, Amounts())
    for word in words:
        _require_word(word)
    return words


def _require_word(word: LedgerRow) -> None:
    """Raise unless a row is one that sites offer."""
    plain = (word.kind, word.undo, word.encoded_names, word.scores, word.label_before)
    if plain != ("message", None, None, None, None) or word.kept == (
        word.label is None
    ):
        msg = f"a page holds a row on {word.digest.hex()} that no site offers"
        raise MalformedExport(msg)
    if word.vector is None:
        return
    views = word.views
    for view in views:
        if view not in {*VIEWS, CORRECTIONS}:
            raise MalformedExport(f"a page has the unknown view {view!r:.80}")
    try:
        Amounts().add_message(views, times=_TIMES)
    except InvalidObservation as error:
        msg = f"a page has features that no message has: {error}"
        raise MalformedExport(msg) from error
