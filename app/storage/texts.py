"""Which text do the features of ledger rows have, and is it noted?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.storage import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from app.storage.entry import LedgerRow
    from app.storage.profiles import ProfileRow


def texts_of(
    rows: Iterable[LedgerRow], profile: ProfileRow
) -> dict[str, dict[int, str]]:
    """Return the text that the rows have of their features, view by view."""
    texts: dict[str, dict[int, str]] = {}
    for row in rows:
        forgets = row.kind == "message" and row.label is None
        if forgets or row.encoded_names is None:
            continue
        ids = row.ids(profile.labels)
        for view, given in row.names.items():
            # As many names as features, or `ScoredRow.of` would have refused.
            named = zip(ids[view].tolist(), given, strict=True)
            texts.setdefault(view, {}).update((i, text) for i, text in named if text)
    return texts


def unnoted(
    connection: Connection,
    profile_id: int,
    view: str,
    texts: Mapping[int, str],
    gained: set[int],
) -> dict[int, str]:
    """Return the text of features that gained messages and have none noted."""
    # Most words of a message are noted: to look them up here costs as much as
    # to insert them in vain, but holds no lock.  Only a fold drops names, and it
    # moves the mark.
    kept = texts.keys() & gained
    noted = names.noted(connection, profile_id, view, kept)
    return {feature: texts[feature] for feature in sorted(kept - noted)}
