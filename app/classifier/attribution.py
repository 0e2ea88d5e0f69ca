"""What does each feature add to the log-odds of a verdict?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.bayes.posterior import odds_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from app.classifier.score import Verdict
    from app.classifier.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The log-odds of a verdict as a sum.

    Parameters
    ----------
    prior : float
        What the class prior and the bias of the fusion add, and with them what
        the event models add for every message alike.  Unit: nats.
    contributions : mapping of str to ndarray of float64, shape (n,)
        View by view, what each feature adds, in the order of the view's features;
        all of them and `prior` sum to the log-odds.  Unit: nats.
    seen : mapping of str to ndarray of bool, shape (n,)
        View by view, which of the features have been seen before.
    """

    prior: float
    contributions: Mapping[str, NDArray[np.float64]]
    seen: Mapping[str, NDArray[np.bool_]]


def attribute(verdict: Verdict, snapshot: Snapshot) -> Attribution:
    """Return what each feature adds to the log-odds of a verdict.

    Parameters
    ----------
    verdict : Verdict
        The verdict.
    snapshot : Snapshot
        The snapshot that gave it.

    Notes
    -----
    The log-odds of a set of classes against the rest is a difference of two
    log-sum-exps, which is linear in the joint (`app.classifier.score.score_many`)
    once the weights of the classes within each side are known: so it is a sum of
    one contribution per feature for every K (`app.bayes.posterior.odds_weights`).
    """
    specification = snapshot.specification
    # The posterior is the joint without what all classes share, and the weights
    # sum to zero over the classes.
    weights, offset = odds_weights(verdict.log_posterior, specification.spam_mask)
    constant = snapshot.verdict_log_prior + snapshot.fusion.bias
    contributions: dict[str, NDArray[np.float64]] = {}
    seen: dict[str, NDArray[np.bool_]] = {}
    for worth, term in zip(
        snapshot.fusion.weights.tolist(), specification.verdict.terms, strict=True
    ):
        parts = verdict.said[term.classifier]
        view = specification.classifiers[term.classifier].view
        weight = worth * snapshot.raised * term.normaliser.factor(parts.seen.size)
        constant = constant + parts.constant * weight
        added = parts.features @ (weights * weight)
        # Two terms may take one view in two ways: one entry for each feature.
        if view in contributions:
            added, parts_seen = added + contributions[view], parts.seen | seen[view]
        else:
            parts_seen = parts.seen
        contributions[view], seen[view] = added, parts_seen
    return Attribution(
        prior=float(constant @ weights + offset),
        contributions=contributions,
        seen=seen,
    )
