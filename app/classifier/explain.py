"""Why does a message have its score? A list of entries that adds up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.bayes.sparse import SparseCounts
from app.bayes.table import FeatureTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.classifier.score import Verdict
    from app.classifier.snapshot import Snapshot
    from app.features.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One summand of the log-odds.

    Parameters
    ----------
    kind : {'prior', 'feature', 'rest'}
        The class prior, one feature, or all features that are not listed.
    feature : str
        Text of the feature; ``"#"`` and its id in hex where the text is not
        kept; the kind in brackets for the other two.
    view : str or None
        View of the feature; None for the prior.
    log_odds : float
        What it adds. Unit: nats; positive speaks for spam.
    features : int
        How many features stand behind the entry.
    messages : mapping of str to int
        For a feature, in how many learned messages of each label it was; for
        the prior, how many messages of each label were learned; empty for
        the rest.
    """

    kind: Literal["prior", "feature", "rest"]
    feature: str
    view: str | None
    log_odds: float
    features: int
    messages: Mapping[str, int]


def explain(
    verdict: Verdict,
    snapshot: Snapshot,
    observation: Observation,
    *,
    strongest: int,
) -> tuple[Entry, ...]:
    """Return the entries whose log-odds sum to that of the verdict.

    Parameters
    ----------
    verdict : Verdict
        The verdict to explain.
    snapshot : Snapshot
        The snapshot that gave it.
    observation : Observation
        What was seen of the message.
    strongest : int
        How many features to list: those with the largest absolute
        contribution, ties by id.

    Returns
    -------
    tuple of Entry
        The prior, the strongest features in falling order of strength, and
        the rest.
    """
    specification = snapshot.specification
    labels = specification.labels
    view = specification.classifiers[specification.verdict.classifier].view
    x = observation.views.get(view, SparseCounts.of({}))
    names = observation.names.get(view, ())

    known = np.flatnonzero(verdict.seen)
    order = np.argsort(-np.abs(verdict.contributions[known]), kind="stable")
    listed = known[order[: max(0, strongest)]]
    rest = known[order[listed.size :]]
    table = snapshot.tables[view]
    counts = (
        table.look_up(x.ids[listed], "presence")
        if isinstance(table, FeatureTable)
        else np.zeros((listed.size, len(labels)), np.int64)
    )

    def by_label(row: np.ndarray) -> dict[str, int]:
        return dict(zip(labels, row.tolist(), strict=True))

    entries = [
        Entry(
            kind="prior",
            feature="(prior)",
            view=None,
            log_odds=verdict.prior,
            features=0,
            messages=by_label(snapshot.messages),
        )
    ]
    entries += [
        Entry(
            kind="feature",
            feature=names[i] if names else f"#{int(x.ids[i]) % 2**64:016x}",
            view=view,
            log_odds=float(verdict.contributions[i]),
            features=1,
            messages=by_label(counts[k]),
        )
        for k, i in enumerate(listed.tolist())
    ]
    entries.append(
        Entry(
            kind="rest",
            feature="(rest)",
            view=view,
            log_odds=float(verdict.contributions[rest].sum()),
            features=int(rest.size),
            messages={},
        )
    )
    return tuple(entries)
