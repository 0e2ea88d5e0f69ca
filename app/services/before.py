"""What was said of a message before it was learned?

Scored before it is learned, always: that makes the error rates on the site's own
mail live figures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.classifier.record import record
from app.classifier.score import score_many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.classifier.score import Verdict
    from app.classifier.snapshot import Snapshot
    from app.storage.teaching import Teaching


def scored(
    teachings: Sequence[Teaching], snapshot: Snapshot
) -> tuple[list[Teaching], list[Verdict | None]]:
    """Return teachings with their scores, and the verdicts.

    Together they take less than half of the time that they take one by one.

    Parameters
    ----------
    teachings : sequence of Teaching
        What is taught; what has no features, or has its scores, is left as it is.
    snapshot : Snapshot
        What is known before any of it is learned.
    """
    marked = list(teachings)
    verdicts: list[Verdict | None] = [None] * len(marked)
    due = {
        place: teaching.evidence.views
        for place, teaching in enumerate(teachings)
        if teaching.evidence is not None and teaching.scores is None
    }
    if due:
        found = score_many(snapshot, list(due.values()))
        for place, verdict in zip(due, found, strict=True):
            verdicts[place] = verdict
            marked[place] = replace(
                marked[place], scores=record(verdict, snapshot.specification)
            )
    return marked, verdicts
