"""The use case of changing what a profile decides by."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.classifier.action import ActionRule
from app.classifier.policy import Policy
from app.errors import Inconsistent, InvalidPolicy
from app.storage import profiles
from app.storage.engine import writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

    from app.classifier.specification import Specification
    from app.storage.profiles import ProfileRow

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
        row = profiles.hold(connection, name)
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
