"""Bulk rows: sums of many messages in the ledger.

An import, a pruning, or what takes one of them back is a run of consecutive
rows that are sums, of bounded size, all of one source and one time, written in
one transaction.  Readers of the ledger meet them as rows like any other:
folds, followers, audits and undo add what they say.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import select

from app.bayes.counts import FeatureCounts
from app.bayes.moments import MomentSums
from app.errors import InvalidObservation
from app.ledger.entry import LedgerRow
from app.ledger.sums import encode_sum
from app.ledger.vector import encode_names
from app.storage import ledger, profiles, tables
from app.storage.counts import classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from app.bayes.statistics import Statistics
    from app.storage.profiles import ProfileRow

    Epochs = Mapping[int, Mapping[str, Statistics]]
    Names = Mapping[str, Mapping[int, str]]

FEATURES_PER_ROW: Final = 5_000
"""Features in one row at most, since a fold sums at least one row at once.

Appending a million of them takes 0.7 s on SQLite, 8.0 bytes each.
"""
_DIGEST_BYTES: Final = 16


def append_sums(
    connection: Connection,
    profile: ProfileRow,
    sums: Epochs,
    *,
    source: str,
    time: datetime,
    names: Names | None = None,
) -> list[LedgerRow]:
    """Write statistics into the ledger, all of them or nothing.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile : ProfileRow
        Whose ledger.
    sums : mapping of int to mapping of str to FeatureCounts or MomentSums
        What to add to each epoch, view by view.  What is negative must be in
        the counts already, or it can never be folded: the caller, which holds the
        profile with `app.storage.profiles.lock`, has to know.
    source : str
        Who says so: ``import:NAME``, ``prune``.
    time : datetime
        When, with a time zone.
    names : mapping of str to mapping of int to str, optional
        The text of features, view by view, as far as it is to be kept.

    Returns
    -------
    list of LedgerRow
        The rows, in the order of their revisions; none where nothing is added.

    Raises
    ------
    InvalidObservation
        If the statistics are of another number of classes than the profile, a
        view is of another kind in the tables, or a sum is too large.
    ProfileReplaced
        If the profile is gone.
    """
    revision = profiles.lock(connection, profile)
    require_kinds(connection, profile, sums)
    rows = []
    for epoch in sorted(sums):
        for part in pieces(sums[epoch], at_most=FEATURES_PER_ROW):
            revision += 1
            vector = encode_sum(part, profile.labels)
            rows.append(
                LedgerRow(
                    revision=revision,
                    digest=digest_of_sum(profile.id, revision, vector),
                    label_before=None,
                    label=None,
                    epoch=epoch,
                    vector=vector,
                    encoded_names=_names_of(part, names or {}),
                    feature_set=profile.feature_set,
                    source=source,
                    time=time,
                    scores=None,
                    kind="sum",
                )
            )
    ledger.write(connection, profile.id, rows)
    return rows


def pieces(
    views: Mapping[str, Statistics], *, at_most: int
) -> Iterator[dict[str, Statistics]]:
    """Give statistics in parts of bounded size that add up to them.

    The sum of the first parts is what some messages can have taught, if the
    whole is: messages that come, come first, and messages that go, go last.

    Parameters
    ----------
    views : mapping of str to FeatureCounts or MomentSums
        The statistics, view by view.
    at_most : int
        Features of a part.  Sums of measurements stay whole: they are few.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> words = SparseCounts.of({1: 1, 2: 1, 3: 1})
    >>> both = {"words": FeatureCounts.of(words, label=0, n_classes=2)}
    >>> [p["words"].messages.tolist() for p in pieces(both, at_most=2)]
    [[1, 0], [0, 0]]
    """
    part: dict[str, Statistics] = {}
    room = at_most
    for view in sorted(views):
        x = views[view]
        if isinstance(x, MomentSums):
            if x.ids.size or x.messages.any():
                part[view] = x
            continue
        start = 0
        while start < x.ids.size or (start == 0 and x.messages.any()):
            end = min(start + room, x.ids.size)
            part[view] = _slice(x, start, end)
            room -= end - start
            start = max(end, 1)
            if room == 0:
                yield part
                part, room = {}, at_most
    if part:
        yield part


def _slice(x: FeatureCounts, start: int, end: int) -> FeatureCounts:
    """Return some of the features, with the messages that go with them."""
    messages = np.zeros_like(x.messages)
    if start == 0:
        messages += np.maximum(x.messages, 0)
    if end == x.ids.size:
        messages += np.minimum(x.messages, 0)
    return FeatureCounts.of_counts(
        messages, x.ids[start:end], x.occurrences[start:end], x.documents[start:end]
    )


def _names_of(part: Mapping[str, Statistics], names: Names) -> bytes | None:
    """Return the text of a part's features, or None if there is none."""
    found = {
        view: tuple(names[view].get(i, "") for i in x.ids.tolist())
        for view, x in part.items()
        if view in names
    }
    return encode_names(found) if any(map(any, found.values())) else None


def digest_of_sum(profile_id: int, revision: int, vector: bytes) -> bytes:
    """Return the digest of a sum: of what it says and where."""
    place = f"{profile_id}/{revision}".encode()
    return blake2b(vector, digest_size=_DIGEST_BYTES, key=place).digest()


def require_kinds(connection: Connection, profile: ProfileRow, sums: Epochs) -> None:
    """Raise if a view is of another kind than what it has learned.

    Raises
    ------
    InvalidObservation
        With both kinds.
    """
    table = tables.class_count
    found = connection.execute(
        select(table.c.view, table.c.kind)
        .where(table.c.profile_id == profile.id)
        .distinct()
    )
    kinds = {row.view: row.kind for row in found}
    for views in sums.values():
        for view, x in views.items():
            kind = classes.MOMENTS if isinstance(x, MomentSums) else classes.FEATURES
            if kinds.setdefault(view, kind) != kind:
                msg = (
                    f"The view {view!r} of the profile {profile.name!r} holds "
                    f"{kinds[view]}, and {kind} cannot be added to it."
                )
                raise InvalidObservation(msg)
