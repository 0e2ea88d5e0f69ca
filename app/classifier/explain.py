"""Explanation: the contribution of each feature to the log-odds of a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.bayes.posterior import odds_weights
from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from app.classifier.snapshot import Snapshot
    from app.classifier.verdict import Verdict
    from app.features.observation import Observation


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
        parts = verdict.contributions(term.classifier)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Summand:
    """One summand of the log-odds.

    Parameters
    ----------
    kind : {'prior', 'feature', 'rest'}
        The class prior with the bias of the fusion, one feature, or all features
        that are not listed.
    feature : str
        Text of the feature; ``"#"`` and its id in hex where the text is not
        kept; the kind in brackets for the other two.
    view : str or None
        View of the feature; None for the prior and the rest.
    log_odds : float
        What it adds. Unit: nats; positive speaks for spam.
    features : int
        How many features stand behind it.
    messages : mapping of str to int
        For a feature, in how many learned messages of each label it was; for
        the prior, how many messages of each label were learned; empty for
        measurements and for the rest.
    """

    kind: Literal["prior", "feature", "rest"]
    feature: str
    view: str | None
    log_odds: float
    features: int
    messages: Mapping[str, int]


def explain(
    attribution: Attribution,
    snapshot: Snapshot,
    observation: Observation,
    *,
    strongest: int,
) -> tuple[Summand, ...]:
    """Return the summands whose log-odds sum to that of the verdict.

    Parameters
    ----------
    attribution : Attribution
        What each feature adds to the verdict.
    snapshot : Snapshot
        The snapshot that gave the verdict.
    observation : Observation
        What was seen of the message.
    strongest : int
        How many features of each side to list, for spam and against it: those
        with the largest absolute contribution, ties by view and id.  A feature
        that adds nothing is of neither side.

    Returns
    -------
    tuple of Summand
        The prior, the strongest features of both sides in falling order of
        strength, and the rest.
    """
    views = list(attribution.contributions)
    known = [attribution.seen[view].nonzero()[0] for view in views]
    # Feature k of all views together is the one at `position[k]` of its view.
    position = np.concatenate(known)
    owner = np.repeat(np.arange(len(views)), [at.size for at in known])
    value = np.concatenate(
        [
            attribution.contributions[view].take(at)
            for view, at in zip(views, known, strict=True)
        ]
    )
    order = (-np.abs(value)).argsort(kind="stable")
    falling = value.take(order)
    # Both sides are listed: the winning side alone would not show the features
    # that it outvoted.
    chosen = np.zeros(order.size, np.bool_)
    for side in (falling > 0, falling < 0):
        chosen |= side & (side.cumsum() <= strongest)
    listed = order[chosen]
    owner, position = owner.take(listed), position.take(listed)
    counts = _counts(snapshot, observation, views, owner, position)

    summands = [
        Summand(
            kind="prior",
            feature="(prior)",
            view=None,
            log_odds=attribution.prior,
            features=0,
            messages=snapshot.specification.by_label(snapshot.messages),
        )
    ]
    for number, at, log_odds, messages in zip(
        owner.tolist(),
        position.tolist(),
        falling[chosen].tolist(),
        counts,
        strict=True,
    ):
        view = views[number]
        names = observation.names.get(view)
        summands.append(
            Summand(
                kind="feature",
                feature=names[at]
                if names
                else f"#{int(observation.views[view].ids[at]) % 2**64:016x}",
                view=view,
                log_odds=log_odds,
                features=1,
                messages=messages,
            )
        )
    rest = falling[~chosen]
    summands.append(
        Summand(
            kind="rest",
            feature="(rest)",
            view=None,
            log_odds=float(np.add.reduce(rest)),
            features=rest.size,
            messages={},
        )
    )
    return tuple(summands)


def _counts(
    snapshot: Snapshot,
    observation: Observation,
    views: list[str],
    owner: NDArray[np.intp],
    position: NDArray[np.intp],
) -> list[Mapping[str, int]]:
    """Return in how many messages of each label each listed feature was."""
    found: list[Mapping[str, int]] = [{}] * owner.size
    tables = snapshot.feature_tables
    for number, view in enumerate(views):
        table = tables.get(view)
        (rows,) = (owner == number).nonzero()
        if rows.size and table is not None:
            ids = observation.views[view].ids.take(position.take(rows))
            looked_up = table.look_up(ids, "presence")
            for row, counts in zip(rows.tolist(), looked_up, strict=True):
                found[row] = snapshot.specification.by_label(counts)
    return found


def insignificant(
    snapshot: Snapshot, views: Collection[str], *, max_log_odds: float
) -> dict[str, NDArray[np.int64]]:
    r"""Return the features that tell no two labels apart by more than a bound.

    Parameters
    ----------
    snapshot : Snapshot
        What is known.
    views : collection of str
        Views of text, each with the classifier of its name.
    max_log_odds : float
        Bound on what one feature adds to the log-odds of one label against
        another, before weights and normalisers.  Unit: nats.

    Returns
    -------
    dict of str to ndarray of int64
        Ids of features, sorted, view by view.

    Notes
    -----
    With :math:`f_{ic}` the contribution of feature *i* to the log-likelihood of
    class *c*, a feature is one of them if
    :math:`\max_c f_{ic} - \min_c f_{ic} \le b`.  The log-odds of any set of
    classes against the rest is a difference of two averages of
    :math:`f_{ic}` over classes, so without the feature it is another one by no
    more than *b*.  A term of the verdict takes a mean over the *n* features of
    the message, :math:`\sum_i f_{ic} / (n + 20)`, so without all of them it
    moves by less than *b*, and the verdict by less than *b* times the sum of the
    weights: a bound that no message exceeds.  That the totals of the labels
    shrink as well is not in it (experiment 0071 has how much that is).

    Examples
    --------
    >>> from app.bayes.counts import FeatureCounts
    >>> from app.classifier.snapshot import Snapshot
    >>> from app.classifier.specification import Specification
    >>> both, one = SparseCounts.of({1: 1}), SparseCounts.of({1: 1, 2: 1})
    >>> words = FeatureCounts.sum(
    ...     [FeatureCounts.of(both, label=0, n_classes=2),
    ...      FeatureCounts.of(one, label=1, n_classes=2)] * 40, n_classes=2)
    >>> snapshot = Snapshot.of(Specification(), {"words": words}, revision=80)
    >>> insignificant(snapshot, {"words"}, max_log_odds=0.8)["words"].tolist()
    [1]
    """
    found = {}
    tables = snapshot.feature_tables
    for view in sorted(set(views) & tables.keys() & snapshot.likelihoods.keys()):
        ids = tables[view].flatten().ids
        every = SparseCounts(ids, np.ones_like(ids))
        added = snapshot.likelihoods[view].contributions(every).features
        # No labels have no largest, and no feature is no row.
        spread = np.ptp(added, axis=1) if ids.size else np.empty(0)
        found[view] = ids[spread <= max_log_odds]
    return found
