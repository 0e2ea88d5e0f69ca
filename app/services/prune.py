"""Pruning of features that hardly count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.classifier.specification import TEXT_VIEWS
from app.errors import DatabaseUnavailable, explaining
from app.ledger.entry import epoch_of
from app.services.fold import Folding
from app.storage.database.engine import reading, writing
from app.storage.upkeep import prune

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    import numpy as np
    from numpy.typing import NDArray
    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow
    from app.storage.upkeep.prune import Pruning

    Progress = Callable[[int], object]

# An undo of many messages appends its rows in steps, for as long as it takes.
_TRIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """The outcome of a pruning, or its forecast.

    Parameters
    ----------
    features : mapping of str to int
        Features, view by view.
    rows : int
        Rows of counts.
    revision : int
        Of the newest ledger row after it.
    """

    features: Mapping[str, int]
    rows: int
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """The features to prune.

    Parameters
    ----------
    max_messages : int
        Features of at most so many messages.
    months : int
        Only those that no message of the last so many months had.
    weak : mapping of str to ndarray of int64
        Further features, if as old (`app.classifier.explain.insignificant`).
    """

    max_messages: int
    months: int
    weak: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)


class Prune:
    """Takes out old features that say next to nothing.

    Parameters
    ----------
    engine : Engine
        The database.
    clock : callable
        Returns the time now, in UTC.
    """

    def __init__(self, engine: Engine, clock: Callable[[], datetime]) -> None:
        self._engine = engine
        self._clock = clock

    def forecast(
        self, profile: ProfileRow, criterion: Criterion, *, progress: Progress
    ) -> Pruned:
        """Return what would be pruned; nothing changes but for the fold.

        Parameters
        ----------
        profile : ProfileRow
            The profile.
        criterion : Criterion
            The features to prune.
        progress : callable
            Is given the ledger rows that each step folded.

        Raises
        ------
        DatabaseUnavailable
            If the database cannot be read, or an undo or an import is under way.
        """
        found = self._find(profile, criterion, progress)
        return Pruned(features=found.features, rows=found.rows, revision=found.revision)

    def __call__(
        self, profile: ProfileRow, criterion: Criterion, *, progress: Progress
    ) -> Pruned:
        """Prune in one transaction, and fold the pruning.

        Parameters
        ----------
        profile, criterion, progress
            As `forecast`.

        Raises
        ------
        Irreversible
            If something was imported, undone or pruned meanwhile.
        DatabaseUnavailable
            As `forecast`; then nothing is pruned.  Or if the pruning could not be
            folded, which the error says.
        """
        found = self._find(profile, criterion, progress)
        with writing(self._engine) as connection:
            rows = prune.carry_out(connection, profile, found, time=self._clock())
        if not rows:
            return Pruned(features={}, rows=0, revision=found.revision)
        with explaining(
            "the features are pruned, but the counts are not up to date yet; a running "
            "service or `postbayes fold` updates them"
        ):
            self._fold(profile, progress)
            Folding(self._engine).compact(profile)
        return Pruned(
            features=found.features, rows=found.rows, revision=rows[-1].revision
        )

    def _find(
        self, profile: ProfileRow, criterion: Criterion, progress: Progress
    ) -> Pruning:
        """Return the features to prune."""
        before = months_before(epoch_of(self._clock()), criterion.months)
        for _ in range(_TRIES):
            with reading(self._engine) as connection:
                found = prune.find(
                    connection,
                    profile,
                    views=TEXT_VIEWS,
                    max_messages=criterion.max_messages,
                    before_epoch=before,
                    weak=criterion.weak,
                )
            if found is not None:
                return found
            self._fold(profile, progress)
        msg = "an undo or an import is under way; prune again once it has ended"
        raise DatabaseUnavailable(msg)

    def _fold(self, profile: ProfileRow, progress: Progress) -> None:
        for rows in Folding(self._engine).all(profile):
            progress(rows)


def months_before(epoch: int, months: int) -> int:
    """Return the epoch some months before another.

    Examples
    --------
    >>> months_before(202603, 4)
    202511
    """
    year, month = divmod(epoch, 100)
    year, month = divmod(year * 12 + month - 1 - months, 12)
    return year * 100 + month + 1
