"""Learning: the statistics of labelled messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts, one_hot
from app.bayes.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.classifier.snapshot import Scorer
    from app.classifier.specification import Specification
    from app.classifier.verdict import Verdict
    from app.kernels import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A message that changes its class.

    Parameters
    ----------
    views : mapping of str to SparseCounts
        The message, view by view.
    before : int or None
        Index of its previous class; None if it was not learned.
    after : int or None
        Index of its new class; None to forget it.
    """

    views: Mapping[str, SparseCounts]
    before: int | None
    after: int | None


def delta(
    views: Mapping[str, SparseCounts],
    *,
    before: int | None,
    after: int | None,
    n_classes: int,
) -> State:
    """Return the statistics that move a message from one class to another.

    Parameters
    ----------
    before, after : int or None
        As in `Move`.

    Returns
    -------
    State
        One group element per view: ``-delta(x, before) + delta(x, after)``.

    Raises
    ------
    InvalidObservation
        If a class index is not in ``range(n_classes)``.

    Examples
    --------
    >>> from app.bayes.sparse import SparseCounts
    >>> x = {"words": SparseCounts.of({1: 2})}
    >>> learned = delta(x, before=None, after=0, n_classes=2)
    >>> moved = delta(x, before=0, after=1, n_classes=2)
    >>> (learned["words"] + moved["words"]).occurrences.tolist()
    [[0, 2]]
    """
    move = Move(views=views, before=before, after=after)
    return sum_of_moves([move], n_classes=n_classes)


def sum_of_moves(moves: Sequence[Move], *, n_classes: int) -> State:
    """Return the sum of many moves by view, in one pass.

    Raises
    ------
    InvalidObservation
        If a class index is not in ``range(n_classes)``.
    """
    signs = np.zeros((len(moves), n_classes), np.int64)
    holders: dict[str, list[int]] = {}
    for m, move in enumerate(moves):
        if move.before is not None:
            signs[m] -= one_hot(move.before, n_classes)
        if move.after is not None:
            signs[m] += one_hot(move.after, n_classes)
        for view in move.views:
            holders.setdefault(view, []).append(m)
    found = State()
    for view, having in holders.items():
        xs = [moves[m].views[view] for m in having]
        # Usually every message has the view.
        of_view = signs if len(having) == len(moves) else signs[having]
        found[view] = FeatureCounts.of_messages(xs, of_view)
    return found


MARGIN: Final = 0.42
"""Least lead of the right class in a verdict that needs no correction.

In units of a sum bounded by 1 (`app.classifier.rule.Bounded`), where 0.42 corresponds
to 2.5 nats over the root of the number of features; 1.8 to 3.5 give similar results
(experiment 0078)."""


# If a tenth more spam with 20,000 words each was taught, 32 of 33 words in the spam
# were theirs, and 22 % of the other spam was missed instead of 3; with the bound it was
# 7 % (experiment 0094).  In a corpus with headers, one message in 60 has more pairs,
# and one in 750 more words.
MOST_TAUGHT: Final = 2_000
"""Most features of a view that one message teaches."""


def bounded(views: Mapping[str, SparseCounts]) -> dict[str, SparseCounts]:
    """Limit the features of a message to those that may be learned.

    A larger view keeps the features with the lowest ids.  Ids are hashes, so this is a
    random but reproducible sample of the view.

    Examples
    --------
    >>> x = SparseCounts.of(dict.fromkeys(range(40_000), 1))
    >>> bounded({"words": x})["words"].size
    2000
    """
    return {
        view: SparseCounts.of_sorted(x.ids[:MOST_TAUGHT], x.values[:MOST_TAUGHT])
        if x.size > MOST_TAUGHT
        else x
        for view, x in views.items()
    }


def taught(
    views: Mapping[str, SparseCounts],
    verdict: Verdict,
    label: int,
    specification: Specification,
) -> dict[str, SparseCounts]:
    """Return the features that a message teaches each view.

    `bounded` limits the features of every view.  Corrections and grams are taught only
    if the classifier of their name was wrong or nearly so: if the right side did not
    lead the other by `MARGIN`, whatever the term of the view counts in the verdict.
    """
    models = specification.classifiers
    side = specification.side_of[specification.labels[label]]
    wary = {model.view for model in models.values() if model.learns_errors}
    found = bounded({view: x for view, x in views.items() if view not in wary})
    for term, factor in zip(specification.verdict.terms, verdict.factors, strict=True):
        model = models[term.classifier]
        if not model.learns_errors or model.view != term.classifier:
            continue
        others = (verdict.parts[term.classifier].totals[0] * factor).tolist()
        if others.pop(side) - max(others) < MARGIN:
            if model.made_of:
                ids = np.unique(model.features(found).ids)
                found[model.view] = SparseCounts(ids, np.ones_like(ids))
            elif model.view in views:
                found[model.view] = views[model.view]
    return found


# Experiment 0054: a stream begins with 133 spam, one message in twenty is taught, and
# the filter learns its own verdicts from 8 nats on. Without this minimum it lost 28 %
# of the ham; with 20 or 50 messages, 1.8 % (1.7 % without learning its own verdicts).
# The minimum only prevents disaster, so the smaller value is used.
FEWEST: Final = 20
"""Least messages of each side before the filter learns its own verdicts."""


def confident(verdict: Verdict, snapshot: Scorer, *, own_from: float) -> bool:
    """Return whether a verdict is confident enough to be learned by itself.

    Parameters
    ----------
    own_from : float
        Least distance of the log-odds from 0.  Unit: nats.
    """
    if verdict.decision == "unsure" or abs(verdict.log_odds) < own_from:
        return False
    return knows_both_sides(snapshot)


class MessageCounts(Protocol):
    """The numbers of learned messages: a snapshot, or a part of one."""

    @property
    def specification(self) -> Specification:
        """The specification of the filter."""
        ...

    @property
    def messages(self) -> Ints:
        """Messages learned per class, shape (K,)."""
        ...


def knows_both_sides(learned: MessageCounts) -> bool:
    """Return whether a filter has learned `FEWEST` messages of each side."""
    spam = learned.specification.spam_mask
    messages = learned.specification.in_messages(learned.messages)
    return bool(min(messages[spam].sum(), messages[~spam].sum()) >= FEWEST)
