"""The use case of looking at one word: how often, and what does it say?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from app.bayes.posterior import log_odds
from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable
from app.features.lookup import meant
from app.storage import epochs
from app.storage.engine import reading
from app.storage.fold import folded_revision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from app.classifier.snapshot import Snapshot
    from app.services.live import LiveProfiles
    from app.storage.epochs import EpochCount


@dataclass(frozen=True, slots=True, kw_only=True)
class WordInView:
    """What one view has learned of a word.

    Parameters
    ----------
    messages, occurrences : mapping of str to int
        Per label, as it is in memory now.
    log_odds : float
        What seeing the word once adds to the log-odds of the view's classifier.
        Unit: nats.
    epochs : tuple of EpochCount
        Month by month, up to `WordState.folded_revision`.
    """

    messages: Mapping[str, int]
    occurrences: Mapping[str, int]
    log_odds: float
    epochs: tuple[EpochCount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WordState:
    """What a profile knows of a word.

    Parameters
    ----------
    word : str
        As it was asked for.
    profile : str
        Which profile answers.
    revision : int
        The ledger row that the counts in memory had learned last.
    folded_revision : int
        The one that the months had.
    messages : mapping of str to int
        Messages learned per label: what the counts are a share of.
    views : mapping of str to WordInView
        The views that have seen the word; none for one that was never learned.
    """

    word: str
    profile: str
    revision: int
    folded_revision: int
    messages: Mapping[str, int]
    views: Mapping[str, WordInView]


class Words:
    """Tell what is known of a word.

    Parameters
    ----------
    live : LiveProfiles
        The profiles in memory.
    engine : Engine
        Where the counts of each month are.
    """

    def __init__(self, live: LiveProfiles, engine: Engine) -> None:
        self._live = live
        self._engine = engine

    def __call__(self, profile: str, word: str) -> WordState:
        """Return what a profile knows of a word.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the months cannot be read.
        """
        live = self._live.get(profile)
        snapshot, labels = live.snapshot, live.row.labels
        found = {}
        with reading(self._engine) as connection:
            folded = folded_revision(connection, live.row.id)
            for view, feature in meant(word).items():
                table = snapshot.tables.get(view)
                if not isinstance(table, FeatureTable):
                    continue
                ids = np.array([feature], np.int64)
                documents = table.look_up(ids, "presence")[0].tolist()
                if not any(documents):
                    continue
                occurrences = table.look_up(ids, "occurrences")[0].tolist()
                found[view] = WordInView(
                    messages=dict(zip(labels, documents, strict=True)),
                    occurrences=dict(zip(labels, occurrences, strict=True)),
                    log_odds=weight(snapshot, view, feature),
                    epochs=tuple(
                        epochs.history(
                            connection, live.row.id, view=view, feature=feature
                        )
                    ),
                )
        return WordState(
            word=word,
            profile=live.row.name,
            revision=snapshot.revision,
            folded_revision=folded,
            messages=dict(zip(labels, snapshot.messages.tolist(), strict=True)),
            views=found,
        )


def weight(snapshot: Snapshot, view: str, feature: int) -> float:
    """Return by how much a feature moves the log-odds of its view.  Unit: nats.

    From the class prior, with the view's own classifier; for two classes that
    is the difference of the two log-likelihoods, whatever the prior.
    """
    specification = snapshot.specification
    x = SparseCounts(np.array([feature], np.int64), np.ones(1, np.int64))
    parts = snapshot.likelihoods[view].contributions(x)
    joints = np.array([snapshot.log_prior, snapshot.log_prior + parts.features[0]])
    without, with_it = log_odds(joints, specification.spam_mask).tolist()
    return float(with_it - without)
