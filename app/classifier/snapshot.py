"""What does a profile know right now? One immutable value, ready to score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.bayes.table import FeatureTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from app.bayes.likelihood import Likelihood
    from app.bayes.sparse import SparseCounts
    from app.bayes.statistics import FeatureCounts
    from app.classifier.specification import Specification


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
    tables : mapping of str to FeatureTable
        The statistics of each view.
    likelihoods : mapping of str to Likelihood
        Each classifier, fitted to them.
    messages : ndarray of int64, shape (K,)
        Messages learned per class.
    log_prior : ndarray of float64, shape (K,)
        Log-prior of each class. Unit: nats.
    """

    specification: Specification
    revision: int
    tables: Mapping[str, FeatureTable]
    likelihoods: Mapping[str, Likelihood[SparseCounts]]
    messages: NDArray[np.int64]
    log_prior: NDArray[np.float64]

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
    ) -> Snapshot:
        """Return the snapshot of stored statistics.

        Raises
        ------
        InconsistentCounts
            If a stored count is negative.
        """
        tables = {
            view: FeatureTable.of(states[view])
            if view in states
            else FeatureTable.empty(specification.n_classes)
            for view in specification.views
        }
        return cls._fit(specification, tables, revision)

    def learn(self, delta: Mapping[str, FeatureCounts], *, revision: int) -> Snapshot:
        """Return the snapshot after one more ledger row.

        Raises
        ------
        InconsistentCounts
            If a count would become negative.
        """
        tables = {
            view: table.add(delta[view]) if view in delta else table
            for view, table in self.tables.items()
        }
        return self._fit(self.specification, tables, revision)

    @classmethod
    def _fit(
        cls,
        specification: Specification,
        tables: Mapping[str, FeatureTable],
        revision: int,
    ) -> Snapshot:
        # Every view of a message is learned or none is, so that all views
        # agree on the messages; the first one is asked.
        messages = tables[specification.views[0]].messages
        return cls(
            specification=specification,
            revision=revision,
            tables=tables,
            likelihoods={
                name: model.event_model.estimate(tables[model.view])
                for name, model in specification.classifiers.items()
            },
            messages=messages,
            log_prior=specification.prior.log_prior(messages),
        )
