"""Profiles: their state, and the thresholds that they set."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.bayes.posterior import probability_of
from app.classifier.policy import Policy
from app.classifier.verdict import ActionRule
from app.errors import Inconsistent, InvalidPolicy
from app.storage import profiles
from app.storage.database.engine import writing
from app.storage.profiles import policy_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Engine

    from app.classifier.decay import Decay
    from app.classifier.policy import Never
    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import Specification
    from app.services.memory.live import LiveProfile
    from app.storage.profiles import ProfileRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    """What one view has learned.

    Parameters
    ----------
    features : int
        Distinct features, or fields that were measured.
    occurrences : mapping of str to int
        Occurrences of features per label; empty for measurements.
    """

    features: int
    occurrences: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Threshold:
    """Where a decision begins.

    Parameters
    ----------
    log_odds : float
        Unit: nats.

    Examples
    --------
    >>> Threshold(0.0).probability
    0.5
    """

    log_odds: float

    @property
    def probability(self) -> float:
        """The same as a probability of spam."""
        return probability_of(self.log_odds)


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionState:
    """What the views are worth here.

    Parameters
    ----------
    weights : mapping of str to float
        Of each term of the verdict.
    bias : mapping of str to float
        What is added for each label.  Unit: nats.
    fitted_revision : int
        The ledger row up to which they were fitted.
    fitted_messages : int
        To how many messages; 0 while the shipped weights stand.
    """

    weights: Mapping[str, float]
    bias: Mapping[str, float]
    fitted_revision: int
    fitted_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileState:
    """What a profile is made of and what it has learned, at one revision."""

    name: str
    labels: tuple[str, ...]
    spam_labels: tuple[str, ...]
    feature_set: int
    created_at: datetime
    revision: int
    messages: Mapping[str, int]
    views: Mapping[str, ViewState]
    undo_days: float | None
    spam_threshold: Threshold
    ham_threshold: Threshold
    quarantine_from: Threshold | None
    reject_from: Threshold | None
    policy: Mapping[str, float | Never]
    fusion: FusionState
    decay: Decay | None


def describe(live: LiveProfile, *, undo_days: float | None) -> ProfileState:
    """Return the state of a profile as it is in memory now."""
    row, snapshot = live.row, live.snapshot
    rule, action = snapshot.specification.verdict, snapshot.specification.action
    return ProfileState(
        name=row.name,
        labels=row.labels,
        spam_labels=row.spam_labels,
        feature_set=row.feature_set,
        created_at=row.created_at,
        revision=snapshot.revision,
        messages=learned(snapshot),
        views=_views(snapshot),
        undo_days=undo_days,
        spam_threshold=Threshold(rule.spam_threshold),
        ham_threshold=Threshold(rule.ham_threshold),
        quarantine_from=_threshold(action.quarantine_from),
        reject_from=_threshold(action.reject_from),
        policy=policy_of(row).document(),
        fusion=FusionState(
            weights={
                term.name: weight
                for term, weight in zip(
                    rule.terms, snapshot.fusion.weights.tolist(), strict=True
                )
            },
            bias=dict(zip(row.labels, snapshot.fusion.bias.tolist(), strict=True)),
            fitted_revision=snapshot.fusion.fitted_revision,
            fitted_messages=snapshot.fusion.fitted_messages,
        ),
        decay=snapshot.specification.decay,
    )


def learned(snapshot: Snapshot) -> dict[str, int]:
    """Return how many messages a profile has learned, by label."""
    return snapshot.specification.by_label(snapshot.messages)


def label_of(row: ProfileRow, word: str) -> str:
    """Return the label of a profile that a word stands for.

    Protocols that know but *spam* and *ham* mean the first label of that side
    where a profile has other labels.  Any other word is a label, or will be
    told to be none.
    """
    if word in row.labels or word not in {"spam", "ham"}:
        return word
    return next(
        label for label in row.labels if (label in row.spam_labels) == (word == "spam")
    )


def _threshold(log_odds: float | None) -> Threshold | None:
    return None if log_odds is None else Threshold(log_odds)


def _views(snapshot: Snapshot) -> dict[str, ViewState]:
    """Return what each view has learned."""
    made_of = snapshot.specification
    occurrences = {
        view: made_of.by_label(table.totals("occurrences"))
        for view, table in snapshot.feature_tables.items()
    }
    return {
        view: ViewState(
            features=table.vocabulary, occurrences=occurrences.get(view, {})
        )
        for view, table in snapshot.tables.items()
    }


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Changed:
    """What a profile decided by, and what it decides by now.

    Parameters
    ----------
    before, after : Policy
        What it says itself.
    specification_before, specification_after : Specification
        What follows from it under the service's settings.
    """

    before: Policy
    after: Policy
    specification_before: Specification
    specification_after: Specification


def decided_by(row: ProfileRow, service: Specification) -> Specification:
    """Return what a stored profile is made of.

    Parameters
    ----------
    row : ProfileRow
        The profile, with its labels and its policy.
    service : Specification
        What the service's settings make of any profile.

    Notes
    -----
    Where the policy cannot be read, mail is marked and goes on: nothing is held
    or refused by guess, and one profile that was spoilt does not stop the others.
    """
    labelled = replace(service, labels=row.labels, spam_labels=row.spam_labels)
    try:
        policy = profiles.policy_of(row)
    except Inconsistent as error:
        log.error("%s", error)  # noqa: TRY400  a defect of the data, not of ours
        spam_from = service.verdict.spam_threshold
        return replace(labelled, action=ActionRule(spam_from=spam_from))
    try:
        policy.require_kept(labelled)
    except InvalidPolicy as error:
        log.warning("the profile %r decides by less than it says: %s", row.name, error)
    return policy.applied_to(labelled)


def change(
    engine: Engine, name: str, service: Specification, changes: Mapping[str, Any]
) -> Changed:
    """Change what a profile decides by, in one transaction.

    Parameters
    ----------
    engine : Engine
        The database.
    name : str
        Of the profile.
    service : Specification
        What the service's settings make of any profile.
    changes : mapping of str to value
        Fields of `Policy`; what is not named stays, and None leaves it to the
        service's settings.

    Raises
    ------
    UnknownProfile
        If there is none of that name.
    InvalidPolicy
        If a value is none, or contradicts another one.
    DatabaseUnavailable
        If it could not be stored; then nothing is changed.
    """
    with writing(engine) as connection:
        row = profiles.find_locked(connection, name)
        try:
            before = profiles.policy_of(row)
        except Inconsistent as error:
            log.warning("%s", error)
            before = Policy()
        after = replace(before, **changes)
        after.require_kept(service)
        profiles.set_policy(connection, row, after.document())
    if before != after:
        said = after.document() or "that of the service's settings"
        log.info("the policy of %r is now %s", name, said)
    return Changed(before, after, before.applied_to(service), after.applied_to(service))
