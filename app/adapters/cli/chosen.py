"""What do the options of `postbayes evaluate` ask for, taken together?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import InvalidInput
from app.evaluation.plan import Folds, Online, TrainFirst
from app.evaluation.source import FolderSource, IndexSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from app.evaluation.plan import Plan
    from app.evaluation.source import Source
    from app.settings import Settings


def chosen_plan(
    *,
    folds: int | None,
    train_first: int | None,
    delay: int | None,
    first: int | None,
    share: float | None,
    shuffle: int | None,
) -> Plan:
    """Return the plan that the options ask for.

    Raises
    ------
    InvalidInput
        If they ask for two that contradict each other.
    """
    feedback = [
        name
        for name, value in (
            ("--delay", delay),
            ("--feedback-first", first),
            ("--feedback-share", share),
        )
        if value is not None
    ]
    batch = "--folds" if folds is not None else "--train-first"
    if folds is not None and train_first is not None:
        msg = "give --folds or --train-first, not both: each says what is learned"
        raise InvalidInput(msg)
    if feedback and (folds is not None or train_first is not None):
        msg = (
            f"{feedback[0]} is about users who answer as mail arrives; with {batch} "
            "everything is learned beforehand. Leave one of the two out"
        )
        raise InvalidInput(msg)
    if folds is not None and shuffle is not None:
        msg = "folds are dealt by chance already: leave --shuffle out, or vary --seed"
        raise InvalidInput(msg)
    if folds is not None:
        return Folds(folds=folds)
    if train_first is not None:
        return TrainFirst(messages=train_first)
    return Online(delay=delay or 0, first=first, share=1.0 if share is None else share)


def chosen_sources(
    indexes: Sequence[Path],
    ham: Sequence[Path],
    spam: Sequence[Path],
    limit: int | None,
    settings: Settings,
) -> list[Source]:
    """Return the streams that the options name.

    Raises
    ------
    InvalidInput
        If they name none, or two kinds.
    """
    if bool(indexes) == bool(ham or spam):
        msg = (
            "say which mail: --ham PATH and --spam PATH, or --index FILE, which says "
            "what each message is"
        )
        raise InvalidInput(msg)
    if indexes:
        return [IndexSource(index=index, limit=limit) for index in indexes]
    if limit is not None:
        msg = "--limit takes the first of an index; leave it out with --ham and --spam"
        raise InvalidInput(msg)
    wanted = [label for label in settings.labels if label not in settings.spam_labels]
    return [
        FolderSource(
            ham=tuple(ham),
            spam=tuple(spam),
            ham_label=wanted[0],
            spam_label=settings.spam_labels[0],
        )
    ]
