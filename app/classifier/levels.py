"""Levels: a personal profile that backs off to the profiles above it.

The counts of a user, of the user's domain and of the site are combined in one verdict.
Contract of this file: no sum is computed in advance or stored, so a change at a level
has an immediate and exact effect on all levels below.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.models.chain import Chain
from app.bayes.models.discrete import Differential, Multinomial
from app.bayes.table import PartialSums
from app.classifier.snapshot import ByLevel, Scorer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import EventModel, Specification
    from app.classifier.verdict import Verdict
    from app.kernels import Ints

# Experiment 0080: six mailboxes of one site.  With a lower value, single users lose ham
# that the site would not lose; with a higher value, personal preferences take longer to
# count.
REACH: Final = 400
"""Most messages for which all levels above a level count together."""


def weights(messages: Sequence[int]) -> list[int]:
    """Return the weight of a message of each level.

    Parameters
    ----------
    messages : sequence of int
        Number of messages learned at each level, the most personal first.

    Returns
    -------
    list of int
        At least 1 each; the last one, for the site, is 1.

    Examples
    --------
    >>> weights([10, 1200]), weights([10, 50, 12_000]), weights([10, 300])
    ([3, 1], [34, 30, 1], [1, 1])
    """
    found: list[int] = []
    above = 0
    for n in reversed(messages):
        found.append(max(1, round(above / REACH)))
        above += found[-1] * n
    return found[::-1]


class Level(NamedTuple):
    """A profile that contributes to the verdict of another."""

    profile: str
    """Its name."""
    snapshot: Snapshot
    """Its counts."""


@dataclass(frozen=True, slots=True)
class LevelShare:
    """The part of a level in a verdict.

    Parameters
    ----------
    messages : mapping of str to int
        Learned messages by label.
    weight : int
        Weight of each of them.
    log_odds : float
        The log-odds without the levels below, minus those without this level too. Unit:
        nats.
    """

    profile: str
    messages: Mapping[str, int]
    weight: int
    log_odds: float


def backed_off(levels: Sequence[Level]) -> Scorer:
    """Return the scorer of a profile with the compatible profiles above it.

    Parameters
    ----------
    levels : sequence of Level
        The profile, and those above it, the most personal first.
    """
    own = levels[0].snapshot
    speaking = [
        level
        for level in levels
        if agree(own.specification, level.snapshot.specification)
    ]
    return BackedOff(speaking) if len(speaking) > 1 else own


def agree(own: Specification, above: Specification) -> bool:
    """Return whether the counts of two profiles can be combined in one verdict."""
    return (
        own.labels == above.labels
        and own.key == above.key
        and own.spam_labels == above.spam_labels
        and own.classifiers == above.classifiers
        and own.verdict.terms == above.verdict.terms
        and all(
            _counts_alone(own.classifiers[name].event_model) for name in own.deciding
        )
    )


def _counts_alone(event_model: EventModel) -> bool:
    """Return whether a model asks for no more than the counts that were learned."""
    return isinstance(event_model, Chain | Differential) or (
        isinstance(event_model, Multinomial) and event_model.vocabulary is None
    )


class BackedOff(Scorer):
    r"""A scorer for a profile that backs off to those above it.

    Parameters
    ----------
    levels : sequence of Level
        The profile, and those above it, the most personal first; at least two, and
        each agrees with the first (`agree`).

    Notes
    -----
    If :math:`n_{\ell ci}` is the count of feature *i* in class *c* at level
    :math:`\ell`, the combined counts are

    .. math:: n_{ci} = \sum_\ell k_\ell \, n_{\ell ci}, \qquad
        k_\ell = \max\left(1, \left\lfloor
        \frac{1}{R} \sum_{m > \ell} k_m n_m \right\rceil \right)

    with :math:`n_m` the messages of level *m* and *R* = `REACH`.  Divided by
    :math:`k_\ell`, this is the posterior mean of a Dirichlet distribution; its prior is
    the distribution of the levels above with the weight of *R* messages. This is a
    hierarchical Dirichlet model in integers [1]_.  A small site keeps its counts
    unchanged.

    The fusion is that of the level with the most messages in its fit.

    References
    ----------
    .. [1] D. J. C. MacKay and L. C. Bauman Peto, "A hierarchical Dirichlet language
       model", *Natural Language Engineering* 1 (3), 1995, pages 289-308.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = levels
        snapshots = [level.snapshot for level in levels]
        own, *others = snapshots
        specification = own.specification
        self._weights = weights(
            [int(specification.in_messages(each.messages).sum()) for each in snapshots]
        )
        super().__init__(
            specification,
            {
                view: PartialSums(
                    [
                        (weight, each.tables[view])
                        for weight, each in zip(self._weights, snapshots, strict=True)
                    ]
                )
                for view in {
                    specification.classifiers[name].view
                    for name in specification.deciding
                }
            },
            revision=own.revision,
            fusion=max(
                (each.fusion for each in snapshots),
                key=lambda fusion: fusion.fitted_messages,
            ),
        )
        self.learned = np.sum([each.messages for each in snapshots], axis=0)
        above = BackedOff(levels[1:]) if len(others) > 1 else others[0]
        self.by_level = _stacked(self, above)
        if self.sides is not self:
            self.sides.by_level = _stacked(self.sides, above.sides)

    def documents(self, view: str, ids: Ints) -> Ints:
        """Return the sum over the levels, in which each message counts once."""
        return reduce(
            add, (level.snapshot.documents(view, ids) for level in self._levels)
        )

    def shares(self, verdict: Verdict) -> tuple[LevelShare, ...]:
        """Return the part of each level, the most personal first.

        Parameters
        ----------
        verdict : Verdict
            What this said of a message; the shares sum to its log-odds.
        """
        odds = (verdict.log_odds, *verdict.above)
        return tuple(
            LevelShare(
                level.profile,
                level.snapshot.specification.by_label(level.snapshot.messages),
                weight,
                here - above,
            )
            for level, weight, here, above in zip(
                self._levels, self._weights, odds, (*odds[1:], 0.0), strict=True
            )
        )


def _stacked(own: Scorer, above: Scorer) -> ByLevel:
    """Return the levels of a scorer before those of another."""
    return ByLevel(*map(np.vstack, zip(own.by_level, above.by_level, strict=True)))
