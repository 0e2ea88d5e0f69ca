"""Explanation: the log-odds of a verdict by feature, by family and by reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.sparse import SparseCounts
from app.classifier.reasons import Summand, anonymous, reasons_of, texts_at
from app.kernels import likelihood

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
        Contribution of the class prior and the bias of the fusion, and of the constants
        of the event models.  Unit: nats.
    contributions : mapping of str to ndarray of float64, shape (n,)
        By view, the contribution of each feature, in the order of the view's features.
        Together with `prior` they sum to the log-odds.  A view made of others has none
        of its own: its contributions are added to those of the other views.  Unit:
        nats.
    seen : mapping of str to ndarray of bool, shape (n,)
        By view, which of the features were seen before.
    """

    prior: float
    contributions: Mapping[str, NDArray[np.float64]]
    seen: Mapping[str, NDArray[np.bool_]]


def attribute(verdict: Verdict, snapshot: Scorer) -> Attribution:
    """Return the contribution of each feature to the log-odds of a verdict.

    Notes
    -----
    A verdict is between two sides, so its log-odds are the difference of their joints
    (`app.classifier.score.score`), which is a sum with one contribution per feature.
    """
    snapshot = snapshot.sides
    specification = snapshot.specification
    weights = np.where(specification.spam_mask, 1.0, -1.0)
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
        constant += parts.constant * weight
        start = 0
        # Contributions of a view made of others are added to the features of those, and
        # several terms may use one view, but each feature has one entry.
        for view in model.made_of or (model.view,):
            if view not in contributions:
                contributions[view] = np.zeros(sizes[view])
                seen[view] = np.zeros(sizes[view], np.bool_)
            start = likelihood.attribute(
                parts.terms,
                parts.seen,
                start,
                weights * weight,
                contributions[view],
                seen[view],
            )
    return Attribution(
        prior=float(constant @ weights),
        contributions=contributions,
        seen=seen,
    )


_NOTHING: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The log-odds of a verdict, split in two ways.

    Parameters
    ----------
    strongest : int
        Requested number of reasons of each side.
    families : mapping of str to float
        Contributions of each family of features, each kind of statement, and the prior,
        strongest first.  They sum to the log-odds.  Unit: nats.
    summands : tuple of Summand
        The prior, all statements, the strongest reasons of the winning side, those of
        the other side, and the rest.  They sum to the log-odds too.
    """

    strongest: int
    families: Mapping[str, float]
    summands: tuple[Summand, ...]

    @property
    def reasons(self) -> tuple[Summand, ...]:
        """The listed reasons."""
        return tuple(each for each in self.summands if each.kind == "reason")

    @property
    def share(self) -> float | None:
        """Share of the listed reasons in the log-odds.

        It is more than 1 if the rest is evidence for the other side, and None if the
        log-odds are within a thousandth of 0.
        """
        total = math.fsum(self.families.values())
        if abs(total) < _NOTHING:
            return None
        return math.fsum(each.log_odds for each in self.reasons) / total

    def stated(self, statements: Sequence[Statement]) -> Self:
        """Return the explanation with statements added."""
        families = dict(self.families)
        for each in statements:
            families[each.kind] = families.get(each.kind, 0.0) + each.nats
        prior, *reasons, rest = self.summands
        spam = math.fsum(families.values()) >= 0
        # The sort is stable: on each side the strongest reason stays first.
        reasons.sort(key=lambda each: (each.log_odds > 0) != spam)
        said = [Summand("reason", x.text, x.kind, x.nats, 0) for x in statements]
        return replace(
            self,
            families=_strongest_first(families),
            summands=(prior, *said, *reasons, rest),
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
    """Split the log-odds of a verdict by family, and by reason.

    Parameters
    ----------
    strongest : int
        Number of strongest reasons to list for spam and against it.  A reason without a
        contribution is on neither side.
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
    """Return the view and the text of the strongest feature of one side.

    If a statement is stronger, its kind and name are returned.

    Parameters
    ----------
    named : bool
        Whether to return the text of the feature, or else its id.

    Returns
    -------
    str or None
        None if there is no evidence for that side.
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
    payload = observation.views.get(view)
    if payload is None:
        return view
    if not named:
        return f"{view}:{anonymous(int(payload.ids[at]))}"
    (text,) = texts_at(observation, view, np.array([at]))
    return f"{view}:{text}"


def insignificant(
    snapshot: Snapshot, views: Collection[str], *, max_log_odds: float
) -> dict[str, NDArray[np.int64]]:
    r"""Return the features that distinguish no two labels by more than a bound.

    Parameters
    ----------
    views : collection of str
        Views of text, each with a classifier of the same name.
    max_log_odds : float
        Bound on the contribution of one feature to the log-odds of one label against
        another, before weights and normalisers.  Unit: nats.

    Returns
    -------
    dict of str to ndarray of int64
        Sorted ids of features by view.

    Notes
    -----
    Let :math:`f_{ic}` be the contribution of feature *i* to the log-likelihood of class
    *c*.  A feature is returned if :math:`\max_c f_{ic} - \min_c f_{ic} \le b`.  The
    log-odds of any set of classes against the rest are a difference of two averages of
    :math:`f_{ic}` over classes, so they change by at most *b* without the feature.  A
    term of the verdict is a mean over the *n* features of the message, :math:`\sum_i
    f_{ic} / (n + 20)`.  Without all these features it changes by less than *b*, and the
    verdict by less than *b* times the sum of the weights, for every message. The bound
    does not include the effect of smaller totals of the labels (experiment 0071 has its
    size).

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
    tables = snapshot.tables
    for view in sorted(
        set(views) & tables.keys() & snapshot.specification.classifiers.keys()
    ):
        ids = tables[view].flatten().ids
        every = SparseCounts(ids, np.ones_like(ids))
        added = snapshot.likelihood(view).contributions(every).features
        # Reductions need at least one label and one feature.
        spread = np.ptp(added, axis=1) if ids.size else np.empty(0)
        found[view] = ids[spread <= max_log_odds]
    return found
