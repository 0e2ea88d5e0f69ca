"""The use case of looking at a profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from app.services.live import LiveProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """What one view has learned: distinct features, occurrences per label."""

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


def describe(live: LiveProfile) -> ProfileState:
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
            view: ViewState(
                features=table.vocabulary,
                occurrences=dict(
                    zip(row.labels, table.totals("occurrences").tolist(), strict=True)
                ),
            )
            for view, table in snapshot.tables.items()
        },
        spam_threshold=rule.spam_threshold,
        ham_threshold=rule.ham_threshold,
    )
