"""The use case of looking at a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.bayes.moments import MomentSums

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.classifier.snapshot import Table
    from app.services.live import LiveProfile
    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """What one view has learned.

    Parameters
    ----------
    features : int
        Distinct features, or fields that were measured.
    occurrences : mapping of str to int
        Occurrences of features per label; empty for measurements.
    """

    features: int
    occurrences: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileState:
    """What a profile is made of and what it has learned, at one revision."""

    name: str
    labels: tuple[str, ...]
    spam_labels: tuple[str, ...]
    feature_set: int
    created_at: datetime
    revision: int
    messages: Mapping[str, int]
    views: Mapping[str, ViewState]
    spam_threshold: float
    ham_threshold: float
    undo_days: float | None


def describe(live: LiveProfile, *, undo_days: float | None) -> ProfileState:
    """Return the state of a profile as it is in memory now."""
    row, snapshot = live.row, live.snapshot
    rule = snapshot.specification.verdict
    return ProfileState(
        name=row.name,
        labels=row.labels,
        spam_labels=row.spam_labels,
        feature_set=row.feature_set,
        created_at=row.created_at,
        revision=snapshot.revision,
        messages=dict(zip(row.labels, snapshot.messages.tolist(), strict=True)),
        views={
            view: _state(table, row.labels) for view, table in snapshot.tables.items()
        },
        spam_threshold=rule.spam_threshold,
        ham_threshold=rule.ham_threshold,
        undo_days=undo_days,
    )


def label_of(row: ProfileRow, word: str) -> str:
    """Return the label of a profile that a word stands for.

    Protocols that know but *spam* and *ham* mean the first label of that side
    where a profile has other labels.  Any other word is a label, or will be
    told to be none.
    """
    if word in row.labels or word not in {"spam", "ham"}:
        return word
    return next(
        label for label in row.labels if (label in row.spam_labels) == (word == "spam")
    )


def _state(table: Table, labels: tuple[str, ...]) -> ViewState:
    """Return what a view has learned."""
    if isinstance(table, MomentSums):
        return ViewState(features=table.ids.size, occurrences={})
    totals = table.totals("occurrences").tolist()
    return ViewState(
        features=table.vocabulary, occurrences=dict(zip(labels, totals, strict=True))
    )
