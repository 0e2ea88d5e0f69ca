"""Export: a profile written to a file."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import func, select

from app import __version__
from app.bayes.counts import FeatureCounts
from app.bayes.moment_rows import from_rows
from app.bayes.sparse import one_hot
from app.bayes.state import State
from app.errors import DatabaseUnavailable, InconsistentCounts
from app.exchange.format.blocks import BlockWriter
from app.exchange.format.header import Contents, ExportHeader
from app.exchange.format.parts import (
    LEDGER,
    NAMES,
    SUM,
    UNDOS,
    write_names,
    write_rows,
    write_sum,
    write_undo,
)
from app.storage import tables
from app.storage.bulk import FEATURES_PER_ROW
from app.storage.counts import classes as class_rows
from app.storage.counts import features, moments, names
from app.storage.counts.features import Key
from app.storage.fold import state
from app.storage.ledger import rows_after
from app.storage.profiles import policy_of
from app.storage.undo import records, work
from app.storage.upkeep import retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from sqlalchemy import Connection, Row

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

    _ClassRow = Row[tuple[int, int, str, str, int, str]]

# Rows read at once, and bytes of features in one block: some 130 messages.  Rows whose
# features were dropped are limited too: they have scores, of 1 kB or so.
_ROWS: Final = 200
_BLOCK_BYTES: Final = 1024 * 1024
_ROWS_PER_BLOCK: Final = 1_000
_NAMES_PER_BLOCK: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A written export.

    Parameters
    ----------
    header : ExportHeader
        Its header.
    content : str
        Digest of its contents: equal for equal contents.
    """

    header: ExportHeader
    content: str


def size(connection: Connection, profile: ProfileRow, contents: Contents) -> int:
    """Return the number of counts or rows in an export of a profile."""
    if contents == "ledger":
        return profile.revision
    table = tables.feature_count
    return int(
        connection.execute(
            select(func.count())
            .select_from(table)
            .where(table.c.profile_id == profile.id)
        ).scalar_one()
    )


def export(
    connection: Connection,
    profile: ProfileRow,
    file: BinaryIO,
    *,
    contents: Contents,
    words: bool,
    progress: Callable[[int], object] = lambda _: None,
) -> Exported:
    """Write the folded counts of a profile, or its ledger, to a file.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.reading`: one snapshot, so that learning goes
        on meanwhile.
    profile : ProfileRow
        The profile.
    file : binary file
        The export; it may be a pipe.
    contents : {'counts', 'ledger'}
        Which of the two is written.
    words : bool
        Whether the text of features is written too.
    progress : callable, optional
        Gets the number of counts or rows in each block.

    Raises
    ------
    Inconsistent
        If the tables and the ledger contradict each other, or the policy
        cannot be read.
    DatabaseUnavailable
        If a ledger is asked for while an undo is carried out, or counts while a fold
        is written in part.

    Notes
    -----
    Equal states give equal bytes: everything is in the order of its keys, and
    no clock is read.  The memory in use does not depend on the size of the profile,
    as long as a month has few views and labels; only the sealed sums of a ledger
    (`app.storage.upkeep.retention`) are held at once.
    """
    classes = class_rows.read(connection, profile.id, profile.labels)
    header = ExportHeader(
        postbayes=__version__,
        profile=profile.name,
        created=profile.created_at,
        feature_set=profile.feature_set,
        labels=profile.labels,
        spam_labels=profile.spam_labels,
        contents=contents,
        words=words,
        revision=_last(connection, profile, contents),
        views=_messages(classes),
        policy=policy_of(profile),
        id_key=profile.id_key,
    )
    writer = BlockWriter(file, header.encode())
    if contents == "ledger":
        for rows in _batches(connection, profile.id, last=header.revision):
            writer.write(LEDGER, write_rows(rows, words=words))
            progress(len(rows))
        # The sums of the rows whose vectors were dropped.
        for epoch, sealed in sorted(retention.load(connection, profile).items()):
            for part in sealed.pieces(at_most=FEATURES_PER_ROW):
                writer.write(SUM, write_sum(epoch, part, profile.labels))
        for record in records.read(connection, profile.id):
            writer.write(UNDOS, write_undo(record))
    else:
        for epoch, views in _sums(connection, profile, classes):
            writer.write(SUM, write_sum(epoch, views, profile.labels))
            progress(views.size)
    if words:
        for view in header.views:
            for page in names.pages(
                connection, profile.id, view, size=_NAMES_PER_BLOCK
            ):
                writer.write(NAMES, write_names(view, page))
    return Exported(header=header, content=writer.close())


def _last(connection: Connection, profile: ProfileRow, contents: Contents) -> int:
    """Return the revision that an export ends with."""
    if contents == "counts":
        if not state.in_part(connection, profile.id):
            return state.folded_revision(connection, profile.id)
        obstacle = (
            f"the counts of the profile {profile.name!r} are being brought up to date"
        )
    else:
        if not work.pending(connection, profile.id):
            return profile.revision
        obstacle = f"an undo of the profile {profile.name!r} is being carried out"
    msg = f"{obstacle}; export it again in a moment"
    raise DatabaseUnavailable(msg)


def _messages(
    classes: Sequence[_ClassRow],
) -> dict[str, dict[str, int]]:
    """Return the number of messages of each label, view by view."""
    views: dict[str, dict[str, int]] = {}
    for row in sorted(classes, key=lambda row: (row.view, row.label)):
        counts = views.setdefault(row.view, {})
        counts[row.label] = counts.get(row.label, 0) + row.messages
    return views


def _sums(
    connection: Connection,
    profile: ProfileRow,
    classes: Sequence[_ClassRow],
) -> Iterator[tuple[int, State]]:
    """Give the sums in the tables, in parts that a ledger row can hold."""
    for row in sorted(classes, key=lambda row: (row.epoch, row.view, row.label)):
        key = Key(profile.id, row.epoch, row.view, row.label)
        index = profile.labels.index(row.label)
        n_classes = len(profile.labels)
        messages = row.messages
        if row.kind == class_rows.MOMENTS:
            stored = moments.read(connection, key, label=index)
            sums = from_rows(stored, one_hot(index, n_classes) * messages)
            yield row.epoch, State({row.view: sums})
            continue
        pages = features.pages(connection, key, size=FEATURES_PER_ROW)
        # Without any feature, the messages alone.
        for page in chain([next(pages, np.empty((0, 3), np.int64))], pages):
            counts = FeatureCounts.of_class(
                index, *page.T.copy(), messages=messages, n_classes=n_classes
            )
            yield row.epoch, State({row.view: counts})
            # They come with the first page, so that no part is a state that no
            # messages can have.
            messages = 0


def _batches(
    connection: Connection, profile_id: int, *, last: int
) -> Iterator[list[LedgerRow]]:
    """Give the rows of the ledger up to a revision, a block of them at a time."""
    batch: list[LedgerRow] = []
    held = 0
    revision = 0
    while revision < last:
        rows = rows_after(connection, profile_id, revision=revision, limit=_ROWS)
        if not rows:
            msg = (
                f"The ledger ends at revision {revision}, and the counts hold {last}. "
                "`postbayes audit` says more."
            )
            raise InconsistentCounts(msg)
        for row in rows:
            revision = row.revision
            if revision > last:
                break
            batch.append(row)
            held += len(row.vector or b"") + len(row.encoded_names or b"")
            if held >= _BLOCK_BYTES or len(batch) >= _ROWS_PER_BLOCK:
                yield batch
                batch, held = [], 0
    if batch:
        yield batch
