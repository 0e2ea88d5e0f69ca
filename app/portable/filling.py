"""How does a hidden profile get its counts?

A fold changes the counts of a feature once for every few rows.  Nobody has to see
the counts of a hidden profile grow, so its ledger is summed up first, and each count
is written once: an import of 16,055 messages took 37 s so, and 77 s with a fold.

Contract of this file: nothing of the ledger is folded, and nobody else folds it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import update

from app.bayes.statistics import FeatureCounts
from app.errors import InconsistentCounts
from app.portable.staging import step
from app.storage import counts, names, sealed, tables
from app.storage.audit import broken_rows
from app.storage.bulk import pieces
from app.storage.deltas import sum_by_epoch, sum_by_view
from app.storage.engine import reading
from app.storage.ledger import batches_after
from app.storage.texts import texts_of, unnoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from sqlalchemy import Connection, Engine

    from app.classifier.snapshot import Statistics
    from app.storage.profiles import ProfileRow

    Epochs = Mapping[int, Mapping[str, Statistics]]

# Of one step, which takes some ten milliseconds on SQLite.
_FEATURES: Final = 2_000


def replayed(
    connection: Connection, profile: ProfileRow
) -> dict[int, dict[str, Statistics]]:
    """Return what the whole ledger adds to each epoch, view by view.

    Raises
    ------
    InconsistentCounts
        If a view holds features in one row and measurements in another.
    """
    epochs = sealed.load(connection, profile)
    for rows in batches_after(connection, profile.id, revision=0):
        for epoch, views in sum_by_epoch(rows, profile.labels).items():
            epochs[epoch] = sum_by_view(
                (epochs.get(epoch, {}), views), n_classes=len(profile.labels)
            )
    return epochs


def fault_of(connection: Connection, profile: ProfileRow, epochs: Epochs) -> str | None:
    """Return why a profile could not be folded, or None if it can.

    Parameters
    ----------
    connection : Connection
        Any.
    profile : ProfileRow
        Whose ledger.
    epochs : mapping of int to mapping of str to FeatureCounts or MomentSums
        What it comes to.
    """
    broken = broken_rows(connection, profile.id)
    if broken:
        return (
            f"{broken} ledger rows of this export contradict the row before of the "
            "same message; it was not written by Postbayes"
        )
    try:
        for views in epochs.values():
            for table in views.values():
                table.require_reachable()
    except InconsistentCounts as error:
        return f"the ledger of this export takes back what it never added: {error}"
    return None


def fill(
    engine: Engine, profile: ProfileRow, epochs: Epochs, clock: Callable[[], datetime]
) -> None:
    """Write the counts of a hidden profile, and the text of what is counted."""
    for epoch in sorted(epochs):
        for part in pieces(epochs[epoch], at_most=_FEATURES):
            step(
                engine,
                profile,
                clock,
                partial(
                    counts.add,
                    profile_id=profile.id,
                    epoch=epoch,
                    labels=profile.labels,
                    delta=part,
                ),
            )
    revision = 0
    for upto, texts in _texts(engine, profile, epochs):
        revision = upto
        for view, some in texts.items():
            step(
                engine,
                profile,
                clock,
                partial(names.add, profile_id=profile.id, view=view, names=some),
            )
    step(engine, profile, clock, partial(_folded, profile=profile, upto=revision))


def _texts(
    engine: Engine, profile: ProfileRow, epochs: Epochs
) -> Iterator[tuple[int, dict[str, dict[int, str]]]]:
    """Give the text that the rows have of what is counted, some rows at a time.

    With each, the revision of the last of these rows.
    """
    counted: dict[str, set[int]] = {}
    for views in epochs.values():
        for view, part in views.items():
            having = part.documents if isinstance(part, FeatureCounts) else part.counts
            there = part.ids[(having > 0).any(axis=1)]
            counted.setdefault(view, set()).update(there.tolist())
    with reading(engine) as connection:
        for rows in batches_after(connection, profile.id, revision=0):
            yield (
                rows[-1].revision,
                {
                    view: unnoted(connection, profile.id, view, texts, counted[view])
                    for view, texts in texts_of(rows, profile).items()
                },
            )


def _folded(connection: Connection, profile: ProfileRow, upto: int) -> None:
    """Note that the counts hold the ledger up to a revision."""
    connection.execute(
        update(tables.fold)
        .where(tables.fold.c.profile_id == profile.id)
        .values(folded_revision=upto)
    )
