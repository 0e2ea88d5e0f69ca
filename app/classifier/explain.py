"""Explanation: the log-odds of a verdict by feature, by family and by reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import odds_weights
from app.bayes.sparse import SparseCounts
from app.classifier.reasons import Summand, anonymous, reasons_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Self

    from numpy.typing import NDArray

    from app.classifier.snapshot import Scorer, Snapshot
    from app.classifier.statement import Statement
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
        all of them and `prior` sum to the log-odds.  A view that is made of others
        has none of its own: its share is added to that of theirs.  Unit: nats.
    seen : mapping of str to ndarray of bool, shape (n,)
        View by view, which of the features have been seen before.
    """

    prior: float
    contributions: Mapping[str, NDArray[np.float64]]
    seen: Mapping[str, NDArray[np.bool_]]


def attribute(verdict: Verdict, snapshot: Scorer) -> Attribution:
    """Return the contribution of each feature to the log-odds of a verdict.

    Parameters
    ----------
    verdict : Verdict
        The verdict.
    snapshot : Scorer
        The snapshot that gave it.

    Notes
    -----
    The log-odds of a set of classes against the rest is a difference of two
    log-sum-exps, which is linear in the joint (`app.classifier.score.score`)
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
    sizes = {
        specification.classifiers[name].view: parts.seen.size
        for name, parts in verdict.parts.items()
    }
    for worth, term, factor in zip(
        (snapshot.fusion.weights * snapshot.raised).tolist(),
        specification.verdict.terms,
        verdict.factors,
        strict=True,
    ):
        parts = verdict.parts[term.classifier]
        model = specification.classifiers[term.classifier]
        weight = worth * factor
        constant = constant + parts.constant * weight
        # Not a product of matrices: its last bits, and with them the order of equal
        # features, depend on the processor.
        all_added = np.add.reduce(parts.terms * (weights * weight)[:, np.newaxis])
        start = 0
        # What a view that is made of others adds stands with the features of those.
        for view in model.made_of or (model.view,):
            here = slice(start, start := start + sizes[view])
            added, known = all_added[here], parts.seen[here]
            # Several terms may take one view: one entry for each feature.
            if view in contributions:
                added, known = added + contributions[view], known | seen[view]
            contributions[view], seen[view] = added, known
    return Attribution(
        prior=float(constant @ weights + offset),
        contributions=contributions,
        seen=seen,
    )


_NOTHING: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The log-odds of a verdict, taken apart in two ways.

    Parameters
    ----------
    strongest : int
        How many reasons of each side were asked for.
    families : mapping of str to float
        What each family of features adds, each kind of statement, and the prior; the
        strongest first.  They sum to the log-odds.  Unit: nats.
    summands : tuple of Summand
        The prior, all statements, the strongest reasons of the side that the log-odds
        are on, those of the other side, and the rest.  They sum to the log-odds, too.
    """

    strongest: int
    families: Mapping[str, float]
    summands: tuple[Summand, ...]

    @property
    def reasons(self) -> tuple[Summand, ...]:
        """The reasons that are listed."""
        return tuple(each for each in self.summands if each.kind == "reason")

    @property
    def share(self) -> float | None:
        """Share of the log-odds that the listed reasons add.

        More than 1 where the rest speaks for the other side; None of log-odds that are
        nearer to 0 than a thousandth, and so a share of nothing.
        """
        total = math.fsum(self.families.values())
        if abs(total) < _NOTHING:
            return None
        return math.fsum(each.log_odds for each in self.reasons) / total

    def stated(self, statements: Sequence[Statement]) -> Self:
        """Return the explanation with the statements."""
        families = dict(self.families)
        for each in statements:
            families[each.kind] = families.get(each.kind, 0.0) + each.nats
        prior, *reasons, rest = self.summands
        spam = math.fsum(families.values()) >= 0
        # The sort is stable: on each side the strongest reason stays first.
        reasons.sort(key=lambda each: (each.log_odds > 0) != spam)
        return replace(
            self,
            families=_strongest_first(families),
            summands=(
                prior,
                *(
                    Summand(
                        kind="reason",
                        text=each.text,
                        family=each.kind,
                        log_odds=each.nats,
                        features=0,
                    )
                    for each in statements
                ),
                *reasons,
                rest,
            ),
        )


def _strongest_first(families: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(families.items(), key=lambda item: -abs(item[1])))


def explain(
    attribution: Attribution,
    snapshot: Scorer,
    observation: Observation,
    *,
    strongest: int,
) -> Explanation:
    """Return the log-odds of a verdict by family, and by reason.

    Parameters
    ----------
    attribution : Attribution
        What each feature adds to the verdict.
    snapshot : Scorer
        The snapshot that gave the verdict.
    observation : Observation
        What was seen of the message.
    strongest : int
        How many reasons of each side to list, for spam and against it: those that
        add most.  A reason that adds nothing is of neither side.
    """
    families, summands = reasons_of(
        attribution.contributions,
        attribution.seen,
        attribution.prior,
        snapshot,
        observation,
        strongest=strongest,
    )
    return Explanation(
        strongest=strongest, families=_strongest_first(families), summands=summands
    )


def strongest_reason(
    attribution: Attribution,
    observation: Observation,
    statements: Iterable[Statement] = (),
    *,
    spam: bool,
    named: bool,
) -> str | None:
    """Return the view and the text of the feature that adds most to one side.

    Or the kind and the name of a statement, if that adds more.

    Parameters
    ----------
    attribution : Attribution
        What each feature adds to a verdict.
    observation : Observation
        What was seen of the message.
    statements : iterable of Statement
        What is stated beside the features.
    spam : bool
        Whether the side is spam.
    named : bool
        Whether the text is wanted, or the id of the feature.

    Returns
    -------
    str or None
        None where nothing speaks for that side.
    """
    strongest, found, said = 0.0, None, None
    for view, added in attribution.contributions.items():
        if added.size:
            at = int(added.argmax() if spam else added.argmin())
            adds = float(added[at]) if spam else -float(added[at])
            if adds > strongest:
                strongest, found = adds, (view, at)
    for each in statements:
        if (each.nats if spam else -each.nats) > strongest:
            strongest = abs(each.nats)
            said = f"{each.kind}:{each.name}" if named else each.kind
    if said is not None or found is None:
        return said
    view, at = found
    names = observation.names.get(view) if named else None
    if names:
        return f"{view}:{names[at]}"
    payload = observation.views.get(view)
    return view if payload is None else f"{view}:{anonymous(int(payload.ids[at]))}"


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
    for view in sorted(
        set(views) & tables.keys() & snapshot.specification.classifiers.keys()
    ):
        ids = tables[view].flatten().ids
        every = SparseCounts(ids, np.ones_like(ids))
        added = snapshot.likelihood(view).contributions(every).features
        # No labels have no largest, and no feature is no row.
        spread = np.ptp(added, axis=1) if ids.size else np.empty(0)
        found[view] = ids[spread <= max_log_odds]
    return found
