"""Documents of the overview."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from app.doors.documents.figures import FiguresOut  # noqa: TC001  pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.ledger.history import Count


class VerdictsOut(BaseModel):
    """The verdicts of one stretch of time."""

    begin: datetime = Field(description="When it begins, in UTC.")
    spam: int = Field(description="Verdicts *spam*.")
    unsure: int = Field(description="Verdicts *unsure*.")
    ham: int = Field(description="Verdicts *ham*.")


class DoorOut(BaseModel):
    """One door of the service."""

    open: bool = Field(description="Whether this service listens there.")
    verdicts: int = Field(description="Verdicts in the time of the overview.")


class BacklogOut(BaseModel):
    """What waits."""

    feedback: int = Field(description="Feedback that waits to be written.")
    look_ups: int = Field(description="Ids that wait to be looked up.")
    scored: int = Field(description="Scored messages that wait to be written.")
    unfolded: int = Field(description="Ledger rows that are not in the counts yet.")


class DatabaseOut(BaseModel):
    """The database."""

    kind: str = Field(description="`sqlite` or `postgresql`.")
    writable: bool = Field(description="Whether what was written last is stored.")
    failure: str | None = Field(description="Why not; null where it is.")


class OverviewOut(BaseModel):
    """The answer of `/overview`."""

    profile: str = Field(description="The profile that answered.")
    step: int = Field(description="Length of a stretch of `verdicts`, in seconds.")
    verdicts: list[VerdictsOut] = Field(
        description="Verdicts of the history over time, oldest first; stretches "
        "without any are left out."
    )
    doors: dict[str, DoorOut] = Field(description="The doors, by name.")
    learned: dict[str, int] = Field(description="Messages learned, per label.")
    figures: FiguresOut = Field(
        description="How the profile does on the newest 5,000 messages that people "
        "labelled, as `/profiles/{name}/figures` says."
    )
    backlog: BacklogOut = Field(description="What waits, in this process.")
    database: DatabaseOut = Field(
        description="Which database it is, and whether it can be written."
    )


def verdicts_of(counts: Iterable[Count]) -> list[VerdictsOut]:
    """Return counts by stretch of time."""
    found: dict[int, dict[str, int]] = {}
    for begin, decision, _, lines in counts:
        each = found.setdefault(begin, {"spam": 0, "unsure": 0, "ham": 0})
        each[decision] += lines
    return [
        VerdictsOut(begin=datetime.fromtimestamp(begin, UTC), **each)
        for begin, each in sorted(found.items())
    ]
