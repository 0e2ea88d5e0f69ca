"""Snapshot: the state of a profile at one revision, and the score of a message."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from app.bayes.posterior import log_posterior, probability_of
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable, GroupedClasses
from app.classifier.fusion import Fusion
from app.classifier.rule import lowered, raised
from app.classifier.verdict import Verdict, ViewScore
from app.kernels import likelihood

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from app.bayes.counts import CountSource, FeatureCounts
    from app.bayes.models import Likelihood
    from app.classifier.fusion import Lesson
    from app.classifier.specification import Specification
    from app.kernels import Bools, Floats, Ints


class ByLevel(NamedTuple):
    """What the verdicts at L levels need besides the counts.

    Parameters
    ----------
    raised, weights : ndarray of float64, shape (L, T)
        `Scorer.raised`, and the weights of the fusion.
    added : ndarray of float64, shape (L, K)
        What is added for all messages alike: log-prior and bias.  Unit: nats.
    """

    raised: Floats
    weights: Floats
    added: Floats


class Scorer:
    """A specification fitted to counts, which scores messages.

    Parameters
    ----------
    tables : mapping of str to CountSource
        The statistics of each view in use.
    revision : int
        The last ledger row learned; 0 before the first.

    Attributes
    ----------
    messages : ndarray of int64, shape (K,)
        Weighted messages per class.
    learned : ndarray of int64, shape (K,)
        Messages learned per class; different from `messages` if messages of a level
        count more than once (`app.classifier.levels`).
    log_prior : ndarray of float64, shape (K,)
        Log-prior of each class, for single classifiers.  Unit: nats.
    verdict_log_prior : ndarray of float64, shape (K,)
        Log-prior of each class, for the verdict. Unit: nats.
    raised : ndarray of float64, shape (T,)
        Factors of the terms that compensate for views with few messages (`raised`).  A
        view that learns only errors has fewer by design and is excluded: its terms
        are `lowered` until it knows enough.
    sides : Scorer
        The same for wanted mail and spam, with the counts of all labels of a side
        together; this scorer itself where it has two labels.
    by_level : ByLevel
        What a verdict needs of each level; one unless there are others above it.
    """

    def __init__(
        self,
        specification: Specification,
        tables: Mapping[str, CountSource],
        *,
        revision: int,
        fusion: Fusion,
    ) -> None:
        self.specification = specification
        self.tables = tables
        self._fit(revision, fusion)

    def documents(self, view: str, ids: Ints) -> Ints:
        """Return in how many messages of each class features were, shape (n, K).

        Parameters
        ----------
        view : str
            The view of the features.
        ids : ndarray of int64, shape (n,)
            The features.
        """
        return self.tables[view].look_up(ids, "presence")

    def likelihood(self, classifier: str) -> Likelihood[Any]:
        """Return a fitted classifier."""
        found = self._likelihoods.get(classifier)
        if found is None:
            model = self.specification.classifiers[classifier]
            estimate: Callable[[Any], Likelihood[Any]] = model.event_model.estimate
            found = self._likelihoods[classifier] = estimate(self.tables[model.view])
        return found

    def in_messages(self, view: str, ids: Ints) -> list[dict[str, int]]:
        """Return the number of learned messages per label that had each feature."""
        specification = self.specification
        found = specification.in_messages(self.documents(view, ids)).tolist()
        return [*map(dict, map(zip, repeat(specification.labels), found))]

    def _fit(self, revision: int, fusion: Fusion) -> None:
        """Compute the values that depend on the counts of the classes."""
        specification, tables = self.specification, self.tables
        self.revision = revision
        self.fusion = fusion
        self._likelihoods: dict[str, Likelihood[Any]] = {}
        # All extracted views of a message are learned, or none; a view that was added
        # later has fewer messages than the deciding view.
        terms = specification.verdict.terms
        models = [specification.classifiers[term.classifier] for term in terms]
        # Its own, where there are levels above it.
        k, spam = len(specification.labels), specification.spam_mask
        taught = np.array([tables[m.view].messages.reshape(-1, k)[0] for m in models])
        self.messages = self.learned = messages = taught[0]
        self.log_prior = specification.prior.log_prior(messages)
        self.verdict_log_prior = specification.verdict.prior.log_prior(
            messages,
            fusion.arrivals.by_side * specification.unit,
            spam,
        )
        # In messages, because unlike all other values it depends on the unit.
        of_ham = specification.in_messages(taught @ ~spam)
        of_spam = specification.in_messages(taught @ spam)
        made = np.array([model.learns_errors for model in models])
        fewer = np.minimum(of_ham, of_spam)
        self.raised = np.where(made, lowered(fewer), raised((of_ham + of_spam)[~made]))
        self.sides: Scorer = self
        added = self.verdict_log_prior
        if specification.sides is specification:
            added = added + fusion.bias
        else:
            self.sides = _sides_of(self)
        self.by_level = ByLevel(
            self.raised[np.newaxis], fusion.weights[np.newaxis], added[np.newaxis]
        )


def _sides_of(whole: Scorer) -> Scorer:
    """Return the two sides of a scorer with more labels, asked for verdicts alone."""
    group = whole.specification.spam_mask.astype(np.int64)
    return Scorer(
        whole.specification.sides,
        {view: GroupedClasses(x, group) for view, x in whole.tables.items()},
        revision=whole.revision,
        fusion=whole.fusion,
    )


PARTIAL: Final = -1
"""The revision of counts that have learned some rows in part: none that can be next."""


class Snapshot(Scorer):
    """The counts of a profile at a revision of its ledger, ready to score.

    Build one with `empty` or `of`; `learn` brings it to the next revision.

    Notes
    -----
    Learning changes the tables in place.  To score while another thread learns, hold
    the lock of `app.services.live.LiveProfile`.
    """

    tables: dict[str, FeatureTable]

    @classmethod
    def empty(cls, specification: Specification) -> Snapshot:
        """Return the snapshot of a profile that has learned nothing."""
        return cls.of(specification, {}, revision=0)

    @classmethod
    def of(
        cls,
        specification: Specification,
        states: Mapping[str, FeatureCounts],
        *,
        revision: int,
        lessons: Sequence[Lesson] = (),
    ) -> Snapshot:
        """Return the snapshot for stored statistics.

        Parameters
        ----------
        revision : int
            The last ledger row learned.
        lessons : sequence of Lesson
            The newest rows of the ledger, in order: at least those after
            `lessons_after`.

        Raises
        ------
        InconsistentCounts
            If a stored count is negative.
        """
        tables = {}
        for view in specification.views:
            tables[view] = FeatureTable(specification.n_classes)
            if view in states:
                states[view].require_reachable()
                tables[view].add(states[view])
        fusion = Fusion.shipped(specification).follow(
            lessons, specification, before=0, revision=revision
        )
        return cls(specification, tables, revision=revision, fusion=fusion)

    def copy(self) -> Snapshot:
        """Return an independent copy."""
        tables = {view: table.copy() for view, table in self.tables.items()}
        return Snapshot(
            self.specification, tables, revision=self.revision, fusion=self.fusion
        )

    def learn(
        self,
        delta: Mapping[str, FeatureCounts],
        *,
        revision: int,
        lessons: Sequence[Lesson] = (),
    ) -> None:
        """Learn more ledger rows.

        Parameters
        ----------
        lessons : sequence of Lesson
            The rows themselves, in their order.

        Raises
        ------
        InconsistentCounts
            If the sum is impossible for any set of messages; then nothing is learned.
        """
        self.prepare(delta, revision=revision, lessons=lessons)()

    def prepare(
        self,
        delta: Mapping[str, FeatureCounts],
        *,
        revision: int,
        lessons: Sequence[Lesson] = (),
    ) -> Callable[[], None]:
        """Return the change that learns more ledger rows; see `learn`.

        Readers see no change before the returned function is called.  That function
        is fast, because the slow work is done here.  It fails only where no memory is
        left: then some views have learned the rows, and the revision is `PARTIAL`.
        """
        changes = [
            partial(table.apply, delta[view], table.prepare(delta[view]))
            for view, table in self.tables.items()
            if view in delta
        ]
        fusion = self.fusion.follow(
            lessons, self.specification, before=self.revision, revision=revision
        )

        def learned() -> None:
            try:
                for change in changes:
                    change()
                self._fit(revision, fusion)
            except BaseException:
                self.revision = PARTIAL
                raise

        return learned

    def decide_as(self, other: Specification) -> None:
        """Adopt the thresholds and actions of another specification."""
        self.specification = self.specification.deciding_as(other)
        self.sides.specification = self.specification.sides


def lessons_after(specification: Specification, revision: int) -> int:
    """Return the row after which the fusion at a revision needs all rows."""
    rule = specification.verdict.fusion
    return max(0, revision - revision % rule.every - rule.window)


def score(snapshot: Scorer, views: Mapping[str, SparseCounts]) -> Verdict:
    r"""Return the verdict of a snapshot on the features of a message.

    Notes
    -----
    Only the classifiers in `Specification.deciding` are used.  With more than two
    labels, the verdict is between wanted mail and spam, by the counts of all labels of
    a side together; the labels of a side then divide its probability in proportion to
    their posteriors (experiment 0112).

    Let :math:`f_{tic}` be the log-likelihood of feature *i* in class *c* for the
    classifier of term *t*, :math:`g_t` the factor of its normaliser for this message,
    :math:`w_t` and :math:`b_c` the weights of the fusion, and :math:`r_t` the factor
    that compensates for views which have learned less than others
    (`raised`).  The verdict's joint is

    .. math:: J_c = \log \pi_c + b_c
        + \sum_t r_t \, w_t \, g_t \sum_i f_{tic}

    `app.classifier.rule.VerdictRule` gives the reasons.
    """
    sides = _scored(snapshot.sides, views)
    if snapshot.sides is snapshot:
        return sides
    labels = _scored(snapshot, views)
    spam = snapshot.specification.spam_mask
    posterior, *of_views = _within_sides(
        [labels.log_posterior, *(each.log_posterior for each in labels.views.values())],
        [sides.log_posterior, *(each.log_posterior for each in sides.views.values())],
        spam,
    )
    return replace(
        sides,
        label=int(posterior.argmax()),
        log_posterior=posterior,
        views={
            name: replace(each, log_posterior=of_view)
            for (name, each), of_view in zip(sides.views.items(), of_views, strict=True)
        },
    )


def _within_sides(
    labels: Sequence[Floats], sides: Sequence[Floats], spam: Bools
) -> Floats:
    """Divide the probability of each side among its labels, shape (n, K).

    Parameters
    ----------
    labels, sides : sequence of n ndarrays of float64, shapes (K,) and (2,)
        Log-posteriors of the labels and of the sides.
    """
    found = np.array(labels)
    for side, mask in enumerate((~spam, spam)):
        found[:, mask] = log_posterior(found[:, mask])
        found[:, mask] += np.array(sides)[:, side, np.newaxis]
    return found


def _scored(snapshot: Scorer, views: Mapping[str, SparseCounts]) -> Verdict:
    """Return the verdict between the classes of a scorer."""
    specification = snapshot.specification
    models = specification.classifiers
    parts = {
        name: snapshot.likelihood(name).contributions(models[name].features(views))
        for name in specification.deciding
    }
    terms = specification.verdict.terms
    by_level = snapshot.by_level
    sums = {name: part.totals.tolist() for name, part in parts.items()}
    factors = [
        [
            term.normaliser.factor(
                parts[term.classifier].seen.size, sums[term.classifier][level]
            )
            for term in terms
        ]
        for level in range(len(by_level.raised))
    ]
    evidence, posteriors, odds = likelihood.verdict(
        np.array([*sums.values()]),
        snapshot.log_prior,
        specification.places,
        by_level.raised * factors,
        by_level.weights,
        by_level.added,
        specification.spam_mask,
    )
    last = len(parts)
    each = odds.tolist()
    log_odds = each[last]
    scores = {
        name: ViewScore(
            event_model=models[name].event_model_name,
            log_posterior=posteriors[place],
            log_odds=each[place],
            features=part.known,
        )
        for place, (name, part) in enumerate(parts.items())
    }
    # Any text has grams, even one of new words.
    known = any(
        scores[term.classifier].features
        for term in terms
        if not models[term.classifier].learns_errors
    )
    return Verdict(
        # Without evidence for either side, the prior alone must not decide.
        decision=specification.verdict.decide(log_odds) if known else "unsure",
        label=int(posteriors[last].argmax()),
        probability=probability_of(log_odds),
        log_odds=log_odds,
        known=known,
        log_posterior=posteriors[last],
        views=scores,
        evidence=evidence,
        log_prior=snapshot.verdict_log_prior,
        parts=parts,
        factors=factors[0],
        above=each[last + 1 :],
    )


def insignificant(
    snapshot: Snapshot, views: Collection[str], *, max_log_odds: float
) -> dict[str, Ints]:
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
