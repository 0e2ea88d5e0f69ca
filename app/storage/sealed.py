"""What did the rows of the ledger add whose vectors were dropped?

Contract of this file: the sealed sums and the rows that have vectors add up to
the whole ledger.  Sums of small steps are kept beside one another and merged
when there are many, sixteen at a time, so that a step costs what it has itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select

from app.storage import tables
from app.storage.bulk import pieces
from app.storage.deltas import sum_by_view
from app.storage.sums import decode_sum, encode_sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from app.classifier.snapshot import Statistics
    from app.storage.profiles import ProfileRow

# As in `app.bayes.table`: a larger ratio leaves more to read for an audit, a
# smaller one merges each feature more often.
RUNS: Final = 16

# 100,000 features of two labels are 4 MB before compression.
_FEATURES: Final = 100_000

_TABLE: Final = tables.sealed


def add(
    connection: Connection,
    profile: ProfileRow,
    sums: Mapping[int, Mapping[str, Statistics]],
) -> None:
    """Add statistics to the sealed sums, epoch by epoch.

    Parameters
    ----------
    connection : Connection
        From `app.storage.engine.writing`; it holds the profile's lock.
    profile : ProfileRow
        Whose.
    sums : mapping of int to mapping of str to FeatureCounts or MomentSums
        What the rows of each epoch have added, view by view.
    """
    for epoch in sorted(sums):
        _write(connection, profile, epoch, 0, sums[epoch])
        level = 0
        while len(runs := _runs(connection, profile, epoch, level)) >= RUNS:
            merged = sum_by_view(runs.values(), n_classes=len(profile.labels))
            connection.execute(
                delete(_TABLE).where(
                    _TABLE.c.profile_id == profile.id,
                    _TABLE.c.epoch == epoch,
                    _TABLE.c.level == level,
                )
            )
            level += 1
            _write(connection, profile, epoch, level, merged)


def load(
    connection: Connection, profile: ProfileRow
) -> dict[int, dict[str, Statistics]]:
    """Return the sealed sums of each epoch, view by view.

    Raises
    ------
    CorruptVector
        If one of them cannot be read.
    InconsistentCounts
        If one has a label that the profile has not.
    """
    found: dict[int, dict[str, Statistics]] = {}
    rows = connection.execute(
        select(_TABLE.c.epoch, _TABLE.c.vector).where(_TABLE.c.profile_id == profile.id)
    )
    for row in rows:
        found[row.epoch] = sum_by_view(
            (found.get(row.epoch, {}), decode_sum(row.vector, profile.labels)),
            n_classes=len(profile.labels),
        )
    return found


def _runs(
    connection: Connection, profile: ProfileRow, epoch: int, level: int
) -> dict[int, dict[str, Statistics]]:
    """Return the sums of one level, by run."""
    here = (
        _TABLE.c.profile_id == profile.id,
        _TABLE.c.epoch == epoch,
        _TABLE.c.level == level,
    )
    runs = connection.execute(
        select(func.count(_TABLE.c.run.distinct())).where(*here)
    ).scalar_one()
    if runs < RUNS:
        return {}
    found: dict[int, dict[str, Statistics]] = {}
    for row in connection.execute(select(_TABLE.c.run, _TABLE.c.vector).where(*here)):
        found[row.run] = sum_by_view(
            (found.get(row.run, {}), decode_sum(row.vector, profile.labels)),
            n_classes=len(profile.labels),
        )
    return found


def _write(
    connection: Connection,
    profile: ProfileRow,
    epoch: int,
    level: int,
    views: Mapping[str, Statistics],
) -> None:
    """Write one run of a level."""
    last = connection.execute(
        select(func.max(_TABLE.c.run)).where(
            _TABLE.c.profile_id == profile.id,
            _TABLE.c.epoch == epoch,
            _TABLE.c.level == level,
        )
    ).scalar_one()
    rows = [
        {
            "profile_id": profile.id,
            "epoch": epoch,
            "level": level,
            "run": 0 if last is None else last + 1,
            "part": part,
            "vector": encode_sum(piece, profile.labels),
        }
        for part, piece in enumerate(pieces(views, at_most=_FEATURES))
    ]
    if rows:
        connection.execute(insert(_TABLE), rows)
