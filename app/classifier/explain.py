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
    # Of each side: a list of those that outvoted the others would not say what
    # there was to outvote.
    chosen = np.zeros(order.size, np.bool_)
    for side in (falling > 0, falling < 0):
        chosen |= side & (side.cumsum() <= strongest)
    listed = order[chosen]
    owner, position = owner.take(listed), position.take(listed)
    counts = _counts(snapshot, observation, views, owner, position)

    (learned,) = _by_label(snapshot.specification, snapshot.messages[np.newaxis])
    entries = [
        Entry(
            kind="prior",
            feature="(prior)",
            view=None,
            log_odds=attribution.prior,
            features=0,
            messages=learned,
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
        entries.append(
            Entry(
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
    entries.append(
        Entry(
            kind="rest",
            feature="(rest)",
            view=None,
            log_odds=float(np.add.reduce(rest)),
            features=rest.size,
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
        (rows,) = (owner == number).nonzero()
        if rows.size and isinstance(table, FeatureTable):
            ids = observation.views[view].ids.take(position.take(rows))
            looked_up = table.look_up(ids, "presence")
            by_label = _by_label(snapshot.specification, looked_up)
            for row, counts in zip(rows.tolist(), by_label, strict=True):
                found[row] = counts
    return found


def _by_label(
    specification: Specification, counts: NDArray[np.int64]
) -> list[dict[str, int]]:
    """Return counts of messages, shape (n, K), by the label that they belong to."""
    return [
        dict(zip(specification.labels, whole, strict=True))
        for whole in specification.in_messages(counts).tolist()
    ]
