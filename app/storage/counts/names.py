"""Feature names: the text behind the ids, for browsing.

Contract of this file: the features in the count tables have names, and no others do.
A word that only a forgotten message had is forgotten with it, and may lose its name
before its counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from sqlalchemy import delete, select

from app.storage import tables
from app.storage.counts import classes
from app.storage.counts import features as feature_rows
from app.storage.counts import moments as moment_rows
from app.storage.counts.features import Key
from app.storage.database.statements import BulkInsert, BulkLookup, chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from sqlalchemy import Connection

    from app.ledger.entry import LedgerRow
    from app.storage.profiles import ProfileRow

_TABLE: Final = tables.feature_name
_OF_VIEW: Final = ("profile_id", "view")
_ADD: Final = BulkInsert(
    _TABLE,
    shared=_OF_VIEW,
    given=("feature", "name"),
    conflict="ON CONFLICT DO NOTHING",
)
_STORED: Final = BulkLookup(_TABLE, shared=_OF_VIEW, given="feature")


def add(
    connection: Connection, profile_id: int, view: str, names: Mapping[int, str]
) -> None:
    """Store the text of features; those that are stored already stay."""
    features = sorted(names)
    if features:
        texts = [_storable(names[feature]) for feature in features]
        shared = {"profile_id": profile_id, "view": view}
        _ADD.run(connection, shared, features, texts)


def find(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> dict[int, str]:
    """Return the text of those features that have one."""
    found = {}
    for chunk in chunks(features):
        rows = connection.execute(
            select(_TABLE.c.feature, _TABLE.c.name).where(
                _TABLE.c.profile_id == profile_id,
                _TABLE.c.view == view,
                _TABLE.c.feature.in_(chunk),
            )
        )
        found.update({row.feature: row.name for row in rows})
    return found


def pages(
    connection: Connection, profile_id: int, view: str, *, size: int
) -> Iterator[dict[int, str]]:
    """Give the text of all features of a view, by id, `size` at a time."""
    after: int | None = None
    while True:
        asked = (
            select(_TABLE.c.feature, _TABLE.c.name)
            .where(_TABLE.c.profile_id == profile_id, _TABLE.c.view == view)
            .order_by(_TABLE.c.feature)
            .limit(size)
        )
        if after is not None:
            asked = asked.where(_TABLE.c.feature > after)
        page = {row.feature: row.name for row in connection.execute(asked)}
        if not page:
            return
        yield page
        after = max(page)


def drop_uncounted(
    connection: Connection, profile_id: int, view: str, features: Iterable[int]
) -> None:
    """Drop the text of those features that no message has any more."""
    groups = tables.class_count
    # One look at the key for each epoch and label, until each has been found.  A
    # subquery without them would walk all counts of the profile for each feature.
    keys = [
        (
            Key(profile_id, row.epoch, view, row.label),
            moment_rows if row.kind == classes.MOMENTS else feature_rows,
        )
        for row in connection.execute(
            select(groups.c.epoch, groups.c.label, groups.c.kind)
            .where(groups.c.profile_id == profile_id, groups.c.view == view)
            # Where most messages are, most features are.
            .order_by(groups.c.messages.desc())
        )
    ]
    for chunk in chunks(features):
        left = set(chunk)
        for key, rows in keys:
            if not left:
                break
            left -= rows.counted(connection, key, sorted(left))
        if not left:
            continue
        connection.execute(
            delete(_TABLE).where(
                _TABLE.c.profile_id == profile_id,
                _TABLE.c.view == view,
                _TABLE.c.feature.in_(sorted(left)),
            )
        )


def _storable(name: str) -> str:
    """Return a name as both databases take it."""
    # NUL is a character of Unicode, but not of PostgreSQL's text; a lone
    # surrogate is not one of UTF-8.
    if name.isascii() and "\0" not in name:
        return name
    mended = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return mended.encode("utf-8", "replace").decode()


def texts_of(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    # Messages share most of their words: each is looked at once, not once a message.
    ids: dict[str, list[NDArray[np.int64]]] = {}
    texts: dict[str, list[str]] = {}
    for row in rows:
        forgets = row.kind == "message" and row.label is None
        if forgets or row.encoded_names is None:
            continue
        of_row = row.ids(profile.labels)
        for view, given in row.names.items():
            # As many names as features, or `ScoredRow.of` would have refused.
            ids.setdefault(view, []).append(of_row[view])
            texts.setdefault(view, []).extend(given)
    found: dict[str, dict[int, str]] = {}
    for view, written in texts.items():
        features, first = np.unique(np.concatenate(ids[view]), return_index=True)
        found[view] = {
            feature: text
            for feature, place in zip(features.tolist(), first.tolist(), strict=True)
            if (text := written[place])
        }
    return found


def missing(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
) -> dict[int, str]:
    """Return the text of those features that have none stored."""
    # Most words of a message are stored: to look them up here costs as much as
    # to insert them in vain, but holds no lock.  Only a fold drops names, and it
    # moves the mark.
    asked = sorted(texts)
    shared = {"profile_id": profile_id, "view": view}
    stored = _STORED.run(connection, shared, asked)
    return {feature: texts[feature] for feature in asked if feature not in stored}
