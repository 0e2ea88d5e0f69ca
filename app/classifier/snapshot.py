"""Snapshot: the immutable state of a profile at one revision, ready to score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.models.bernoulli import Bernoulli
from app.bayes.moments import MomentSums
from app.bayes.state import State
from app.bayes.table import added, feature_tables, tables_of
from app.classifier.fusion import Fusion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from app.bayes.likelihood import Likelihood
    from app.bayes.statistics import Statistics
    from app.bayes.table import FeatureTable, Table
    from app.classifier.fusion import Lesson
    from app.classifier.specification import EventModel, Specification


def raised(messages: NDArray[np.int64]) -> float:
    r"""Return what all terms are multiplied by, so that none leaves its weight unused.

    Parameters
    ----------
    messages : ndarray of int64, shape (T,)
        How many messages the view of each term has learned.

    Returns
    -------
    float
        At least 1; exactly 1 where all have learned the same messages, and where
        none has learned any.

    Notes
    -----
    .. math:: \sqrt{\frac{T \max_t \log (1 + n_t)}{\sum_t \log (1 + n_t)}}

    The weights are fitted to views that say much the same of a message
    (`app.classifier.rule.VerdictRule`): where one of them says nothing, as after
    the counts of another program were imported, which has no such view, the
    others speak for it.  If they said the very same, the others would have to be
    raised by all of its weight, and if they were independent, not at all; the root
    is halfway.  As it learns, its weight goes back to it: its first hundred
    messages teach a view more than the next.

    Examples
    --------
    >>> [round(raised(np.array([1000, 1000, n])), 2) for n in (0, 50, 1000)]
    [1.22, 1.08, 1.0]
    """
    # Experiment 0056, expected cost of what an imported list decides, sum of five
    # streams: 1,477 as it was, 1,353 with the root, 1,334 without it; where words
    # alone were imported 2,492, 1,967 and 2,633.
    most = int(messages.max(initial=0))
    if not most or bool((messages == most).all()):
        return 1.0
    taught = np.log1p(messages)
    return math.sqrt(taught.size * taught.max() / taught.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a profile at one revision of its ledger.

    Build one with `empty` or `of`; `learn` returns the next one and leaves
    this one as it is, so readers need no lock.

    Parameters
    ----------
    specification : Specification
        What the profile is made of.
    revision : int
        The ledger row that was learned last; 0 before the first.
    tables : mapping of str to FeatureTable or MomentSums
        The statistics of each view.
    likelihoods : mapping of str to Likelihood
        Each classifier, fitted to them.
    messages : ndarray of int64, shape (K,)
        Messages learned per class.
    log_prior : ndarray of float64, shape (K,)
        Log-prior of each class, for each classifier by itself. Unit: nats.
    verdict_log_prior : ndarray of float64, shape (K,)
        Log-prior of each class, for the verdict. Unit: nats.
    fusion : Fusion
        What the terms of the verdict are worth.
    raised : float
        What they are multiplied by, for the views that have learned less than the
        others (`app.classifier.snapshot`).
    """

    specification: Specification
    revision: int
    tables: Mapping[str, Table]
    likelihoods: Mapping[str, Likelihood[Any]]
    messages: NDArray[np.int64]
    log_prior: NDArray[np.float64]
    verdict_log_prior: NDArray[np.float64]
    fusion: Fusion
    raised: float

    @classmethod
    def empty(cls, specification: Specification) -> Snapshot:
        """Return the snapshot of a profile that has learned nothing."""
        return cls.of(specification, {}, revision=0)

    @classmethod
    def of(
        cls,
        specification: Specification,
        states: Mapping[str, Statistics],
        *,
        revision: int,
        lessons: Iterable[Lesson] = (),
    ) -> Snapshot:
        """Return the snapshot of stored statistics.

        Parameters
        ----------
        specification : Specification
            What the profile is made of.
        states : mapping of str to Statistics
            The statistics of each view.
        revision : int
            The ledger row that was learned last.
        lessons : iterable of Lesson
            The newest rows of the ledger, in their order: at least those that
            `lessons_after` asks for.

        Raises
        ------
        InconsistentCounts
            If a stored count is negative.
        """
        group: dict[bool, type[FeatureCounts | MomentSums]]
        group = {False: FeatureCounts, True: MomentSums}
        tables = tables_of(
            State(
                {
                    view: states.get(
                        view, group[measures].zero(specification.n_classes)
                    )
                    for view, measures in specification.views.items()
                }
            )
        )
        features = feature_tables(tables)
        for model in specification.classifiers.values():
            if isinstance(model.event_model, Bernoulli) and model.view in features:
                tables[model.view] = features[model.view].with_spectra()
        fusion = Fusion.shipped(specification).follow(
            lessons, specification, before=0, revision=revision
        )
        return cls._fit(specification, tables, revision, fusion)

    def learn(
        self,
        delta: Mapping[str, Statistics],
        *,
        revision: int,
        lessons: Iterable[Lesson] = (),
        takes_back: bool = True,
    ) -> Snapshot:
        """Return the snapshot after more ledger rows.

        Parameters
        ----------
        delta : mapping of str to Statistics
            What they add to each view.
        revision : int
            The last of them.
        lessons : iterable of Lesson
            The rows themselves, in their order.
        takes_back : bool, default True
            False where they take back no message: then nothing can contradict, and
            it is not looked for.

        Raises
        ------
        InconsistentCounts
            If a count would become negative.
        """
        tables = {
            view: added(table, delta[view], takes_back=takes_back)
            if view in delta
            else table
            for view, table in self.tables.items()
        }
        fusion = self.fusion.follow(
            lessons, self.specification, before=self.revision, revision=revision
        )
        return self._fit(self.specification, tables, revision, fusion)

    @property
    def feature_tables(self) -> dict[str, FeatureTable]:
        """The views that count features."""
        return feature_tables(self.tables)

    @classmethod
    def _fit(
        cls,
        specification: Specification,
        tables: Mapping[str, Table],
        revision: int,
        fusion: Fusion,
    ) -> Snapshot:
        # Every view of a message is learned or none is; a view that came
        # later has fewer messages than the view that decides.
        deciding = specification.verdict.terms[0].classifier
        messages = tables[specification.classifiers[deciding].view].messages
        taught = [
            int(tables[specification.classifiers[term.classifier].view].messages.sum())
            for term in specification.verdict.terms
        ]
        return cls(
            specification=specification,
            revision=revision,
            tables=tables,
            likelihoods={
                name: _estimate(model.event_model, tables[model.view])
                for name, model in specification.classifiers.items()
            },
            messages=messages,
            log_prior=specification.prior.log_prior(messages),
            verdict_log_prior=specification.verdict.prior.log_prior(messages),
            fusion=fusion,
            # In messages: unlike everything else, it depends on the unit.
            raised=raised(specification.in_messages(np.array(taught, np.int64))),
        )


def lessons_after(specification: Specification, revision: int) -> int:
    """Return the row after which the fusion of a revision needs every row."""
    rule = specification.verdict.fusion
    if rule is None:
        return revision
    return max(0, revision - revision % rule.every - rule.window)


def _estimate(event_model: EventModel, table: Table) -> Likelihood[Any]:
    """Return an event model fitted to a view of its kind."""
    estimate: Callable[[Any], Likelihood[Any]] = event_model.estimate
    return estimate(table)
