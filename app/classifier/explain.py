"""Why does a message have its score? A list of entries that adds up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from app.bayes.table import FeatureTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from app.classifier.attribution import Attribution
    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import Specification
    from app.features.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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
        How many features stand behind the entry.
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
) -> tuple[Entry, ...]:
    """Return the entries whose log-odds sum to that of the verdict.

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
    tuple of Entry
        The prior, the strongest features of both sides in falling order of
        strength, and the rest.
    """
    views = list(attribution.contributions)
    known = [np.flatnonzero(attribution.seen[view]) for view in views]
    # Feature k of all views together is the one at `position[k]` of its view.
    position = np.concatenate(known)
    owner = np.repeat(np.arange(len(views)), [at.size for at in known])
    value = np.concatenate(
        [
            attribution.contributions[view][at]
            for view, at in zip(views, known, strict=True)
        ]
    )
    order = np.argsort(-np.abs(value), kind="stable")
    # Of each side: a list of those that outvoted the others would not say what
    # there was to outvote.
    for_spam, against = value[order] > 0, value[order] < 0
    chosen = np.zeros(order.size, np.bool_)
    for side in (for_spam, against):
        chosen |= side & (np.cumsum(side) <= strongest)
    listed, rest = order[chosen], order[~chosen]

    entries = [
        Entry(
            kind="prior",
            feature="(prior)",
            view=None,
            log_odds=attribution.prior,
            features=0,
            messages=_by_label(snapshot.specification, snapshot.messages),
        )
    ]
    counts = _counts(snapshot, observation, views, owner[listed], position[listed])
    for k, messages in zip(listed.tolist(), counts, strict=True):
        view, at = views[owner[k]], int(position[k])
        names = observation.names.get(view)
        entries.append(
            Entry(
                kind="feature",
                feature=names[at]
                if names
                else f"#{int(observation.views[view].ids[at]) % 2**64:016x}",
                view=view,
                log_odds=float(value[k]),
                features=1,
                messages=messages,
            )
        )
    entries.append(
        Entry(
            kind="rest",
            feature="(rest)",
            view=None,
            log_odds=float(value[rest].sum()),
            features=int(rest.size),
            messages={},
        )
    )
    return tuple(entries)


def _counts(
    snapshot: Snapshot,
    observation: Observation,
    views: list[str],
    owner: NDArray[np.intp],
    position: NDArray[np.intp],
) -> list[Mapping[str, int]]:
    """Return in how many messages of each label each listed feature was."""
    found: list[Mapping[str, int]] = [{}] * owner.size
    for number, view in enumerate(views):
        table = snapshot.tables[view]
        rows = np.flatnonzero(owner == number)
        if rows.size and isinstance(table, FeatureTable):
            ids = observation.views[view].ids[position[rows]]
            looked_up = table.look_up(ids, "presence")
            for row, counts in zip(rows.tolist(), looked_up, strict=True):
                found[row] = _by_label(snapshot.specification, counts)
    return found


def _by_label(
    specification: Specification, counts: NDArray[np.int64]
) -> dict[str, int]:
    """Return counts of messages by the label that they belong to."""
    whole = specification.in_messages(counts).tolist()
    return dict(zip(specification.labels, whole, strict=True))
