"""Comparison of configurations, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.figures.bootstrap import interval, lam_replicates, roca_replicates
from app.figures.metrics import roca_pct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.evaluation.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much a figure changes.

    Parameters
    ----------
    value : float or None
        New minus old, so that less than 0 is better; the mean over the streams.
        Unit: per cent points.
    interval : (float, float) or None
        Of the paired bootstrap, 95 %.
    """

    value: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One configuration against another, on the same messages.

    Parameters
    ----------
    configuration, against : str
        The new one and the old one.
    won, tied, lost : int
        Folds, or streams where there are none, in which 1-ROCA of the new one
        is lower, the same, higher.
    roca, lam : Difference
        Of 1-ROCA and of lam.
    """

    configuration: str
    against: str
    won: int
    tied: int
    lost: int
    roca: Difference
    lam: Difference


def compare(new: Sequence[Run], old: Sequence[Run], *, seed: int) -> Comparison:
    """Compare two configurations over the same streams.

    Parameters
    ----------
    new, old : sequence of Run
        The runs of each, stream by stream.
    seed : int
        Of the bootstrap.

    Notes
    -----
    The bootstrap is paired: a resample takes the same messages for both, so
    what is hard for both cancels out [1]_.  With several streams each resample
    takes messages of all of them, and the differences are averaged.

    References
    ----------
    .. [1] B. Efron and R. J. Tibshirani, *An Introduction to the Bootstrap*,
       Chapman and Hall, 1993, chapters 8 and 13.
    """
    signs = [
        (there > here) - (there < here)
        for a, b in zip(new, old, strict=True)
        for here, there in zip(_of_parts(a), _of_parts(b), strict=True)
        if here is not None and there is not None
    ]
    rocas = []
    lams = []
    for a, b in zip(new, old, strict=True):
        # In folds the parts of both score the same messages in one order.
        gold = a.is_spam
        rocas.append(
            roca_replicates(a.log_odds, gold, seed=seed)
            - roca_replicates(b.log_odds, gold, seed=seed)
        )
        lams.append(
            lam_replicates(a.decided_spam, gold, seed=seed)
            - lam_replicates(b.decided_spam, gold, seed=seed)
        )
    return Comparison(
        configuration=new[0].configuration,
        against=old[0].configuration,
        won=signs.count(1),
        tied=signs.count(0),
        lost=signs.count(-1),
        roca=Difference(
            value=_mean(
                [
                    (a.report().roca_pct, b.report().roca_pct)
                    for a, b in zip(new, old, strict=True)
                ]
            ),
            interval=interval(np.mean(rocas, axis=0)),
        ),
        lam=Difference(
            value=_mean(
                [
                    (a.report().lam_pct, b.report().lam_pct)
                    for a, b in zip(new, old, strict=True)
                ]
            ),
            interval=interval(np.mean(lams, axis=0)),
        ),
    )


def _of_parts(run: Run) -> list[float | None]:
    """Return 1-ROCA % of each part of a run."""
    found = []
    begun = 0
    gold = run.is_spam
    for outcome in run.outcomes:
        ended = begun + outcome.message.size
        found.append(roca_pct(outcome.log_odds, gold[begun:ended]))
        begun = ended
    return found


def _mean(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return the mean difference; None where one is not defined."""
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    return sum(differences) / len(pairs) if len(differences) == len(pairs) else None
