"""Profiles: one row for each trained filter."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from app.classifier.policy import Policy
from app.classifier.specification import require_label
from app.errors import (
    Inconsistent,
    InvalidPolicy,
    ProfileExists,
    ProfileReplaced,
    UnknownProfile,
)
from app.storage.database.statements import Prepared, insert_into
from app.storage.tables import class_count, fold, ledger, profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Connection, Row, Select

HIDDEN: Final = profile.c.name.like("% %")
"""Whether a profile is hidden (`app.storage.hidden`)."""
# Profiles of one query; SQLite takes 32,766 values.
_AT_ONCE: Final = 500
_LOCK: Final = Prepared(
    select(profile.c.revision)
    .where(
        profile.c.id == bindparam("profile_id"),
        # One that was replaced has its key and another name, until it is removed.
        profile.c.name == bindparam("name"),
    )
    # FOR NO KEY UPDATE.  A plain FOR UPDATE would also wait for a fold, whose
    # foreign keys hold a KEY SHARE lock on this row.
    .with_for_update(key_share=True)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """One trained filter: of a site, a domain or a user.

    Parameters
    ----------
    id : int
        Key of the profile in every table.
    name : str
        What people call it.
    labels : tuple of str
        What a message can be labelled as; their order gives the class index.
    spam_labels : tuple of str
        Those of the labels that count as spam.
    feature_set : int
        Number of the rules that features are extracted with.
    revision : int
        Of the newest ledger row, when this was read.
    created_at : datetime
        Aware, UTC.
    policy : object
        What it decides otherwise than the service's settings, as
        `app.classifier.policy.Policy.document` gave it; None for nothing. Checked
        by `policy_of`, so that one profile which was spoilt by hand does not stop
        the others.
    id_key : str or None
        Digest of the key of its feature ids; None where they are not keyed.  A
        profile keeps it for ever, as its vectors have no words to make new ids of.
    """

    id: int
    name: str
    labels: tuple[str, ...]
    spam_labels: tuple[str, ...]
    feature_set: int
    revision: int
    created_at: datetime
    policy: object
    id_key: str | None = None

    def require_label(self, label: str | None) -> None:
        """Raise `UnknownLabel` if the profile lacks a label; None forgets a message."""
        if label is not None:
            require_label(label, self.labels, of=f"the profile {self.name!r}")


def create(
    connection: Connection,
    *,
    name: str,
    labels: tuple[str, ...],
    spam_labels: tuple[str, ...],
    feature_set: int,
    created_at: datetime,
    id_key: str | None = None,
) -> ProfileRow:
    """Return the profile of that name, created unless it is there.

    Several processes may call it at once: one creates, all return the same.

    Raises
    ------
    ProfileExists
        If the profile is there with other labels.
    """
    created = connection.execute(
        insert_into(connection, profile)
        .values(
            name=name,
            labels=list(labels),
            spam_labels=list(spam_labels),
            feature_set=feature_set,
            revision=0,
            created_at=created_at,
            id_key=id_key,
        )
        .on_conflict_do_nothing(index_elements=[profile.c.name])
        .returning(profile.c.id)
    ).first()
    row = find(connection, name)
    if created is not None:
        connection.execute(insert(fold).values(profile_id=row.id, folded_revision=0))
    if (row.labels, row.spam_labels) != (labels, spam_labels):
        msg = (
            f"the profile {name!r} exists with the labels {', '.join(row.labels)} "
            f"(spam: {', '.join(row.spam_labels)}); use these, or another name"
        )
        raise ProfileExists(msg)
    return row


def find(connection: Connection, name: str) -> ProfileRow:
    """Return the profile of that name.

    Raises
    ------
    UnknownProfile
        If there is none.
    """
    return _one(connection, select(profile).where(profile.c.name == name), name)


def find_locked(connection: Connection, name: str) -> ProfileRow:
    """Return the profile of that name, locked until the end of the transaction.

    Raises
    ------
    UnknownProfile
        If there is none.
    """
    query = select(profile).where(profile.c.name == name)
    return _one(connection, query.with_for_update(key_share=True), name)


def _one(
    connection: Connection, query: Select[tuple[Any, ...]], name: str
) -> ProfileRow:
    row = connection.execute(query).first()
    if row is None:
        raise UnknownProfile.named(name)
    return _read(row)


def touch(connection: Connection, row: ProfileRow) -> None:
    """Write the row of a profile as it is, to see whether anything can be written."""
    statement = update(profile).where(profile.c.id == row.id)
    connection.execute(statement.values(revision=profile.c.revision))


def policy_of(row: ProfileRow) -> Policy:
    """Return the policy that is stored with a profile.

    Raises
    ------
    Inconsistent
        If it is none; only a change by hand in the database can have made it.
    """
    try:
        return Policy() if row.policy is None else Policy.read(row.policy)
    except InvalidPolicy as error:
        msg = (
            f"the policy that is stored for the profile {row.name!r} cannot be read: "
            f"{error}; `postbayes policy --reset --profile {row.name}` drops it"
        )
        raise Inconsistent(msg) from error


def set_policy(
    connection: Connection, row: ProfileRow, policy: Mapping[str, object]
) -> None:
    """Store what a profile decides otherwise than the service's settings."""
    connection.execute(
        update(profile)
        .where(profile.c.id == row.id)
        .values(policy=dict(policy) or None)
    )


def rename(connection: Connection, row: ProfileRow, name: str) -> None:
    """Give a profile another name; the caller holds its lock.

    Raises
    ------
    ProfileExists
        If another profile has it.
    """
    there = connection.execute(select(profile.c.id).where(profile.c.name == name))
    if there.first() is not None:
        msg = f"there is a profile {name!r} already; choose another name, or delete it"
        raise ProfileExists(msg)
    connection.execute(update(profile).where(profile.c.id == row.id).values(name=name))


def learned(connection: Connection) -> defaultdict[int, Counter[str]]:
    """Return how many messages of each label each profile has learned, by its key.

    They are those of the counts and of the ledger rows that are not folded; sums
    of an import that waits to be folded are left out.
    """
    found: defaultdict[int, Counter[str]] = defaultdict(Counter)
    counted = class_count.c
    folded = connection.execute(
        select(
            counted.profile_id, counted.view, counted.label, func.sum(counted.messages)
        ).group_by(counted.profile_id, counted.view, counted.label)
    )
    for profile_id, _, label, messages in folded:
        # Views that came later know fewer messages.
        known = found[profile_id]
        known[label] = max(known[label], int(messages))
    taught = connection.execute(
        select(ledger.c.profile_id, ledger.c.label_before, ledger.c.label, func.count())
        .join(fold, fold.c.profile_id == ledger.c.profile_id)
        .where(ledger.c.revision > fold.c.folded_revision, ledger.c.kind == "message")
        .group_by(ledger.c.profile_id, ledger.c.label_before, ledger.c.label)
    )
    for profile_id, before, label, messages in taught:
        if before is not None:
            found[profile_id][before] -= messages
        if label is not None:
            found[profile_id][label] += messages
    return found


@dataclass(frozen=True, slots=True)
class MonthlyCounts:
    """The messages that a profile has learned.

    Parameters
    ----------
    messages : Counter of (str or None, int, str)
        By view, month (YYYYMM) and label; None stands for every view.
    settled : bool
        Whether all of the ledger is in the counts; else these may be of another
        moment than the profile's revision.
    """

    messages: Counter[tuple[str | None, int, str]]
    settled: bool


def count_by_month(
    connection: Connection, profile_ids: Sequence[int]
) -> dict[int, MonthlyCounts]:
    """Return what some profiles have learned, by their keys; see `learned`."""
    found: dict[int, MonthlyCounts] = {}
    for first in range(0, len(profile_ids), _AT_ONCE):
        some = profile_ids[first : first + _AT_ONCE]
        messages: defaultdict[int, Counter[tuple[str | None, int, str]]]
        messages = defaultdict(Counter)
        counted, row = class_count.c, ledger.c
        for profile_id, *key, n in connection.execute(
            select(
                counted.profile_id,
                counted.view,
                counted.epoch,
                counted.label,
                counted.messages,
            ).where(counted.profile_id.in_(some))
        ):
            messages[profile_id][tuple(key)] += n
        for profile_id, epoch, before, label, n in connection.execute(
            select(row.profile_id, row.epoch, row.label_before, row.label, func.count())
            .join(fold, fold.c.profile_id == row.profile_id)
            .where(
                row.profile_id.in_(some),
                row.revision > fold.c.folded_revision,
                row.kind == "message",
            )
            .group_by(row.profile_id, row.epoch, row.label_before, row.label)
        ):
            messages[profile_id][None, epoch, before] -= n
            messages[profile_id][None, epoch, label] += n
        settled = connection.execute(
            select(profile.c.id)
            .join(fold, fold.c.profile_id == profile.c.id)
            .where(
                profile.c.id.in_(some),
                fold.c.folded_revision == profile.c.revision,
            )
        )
        final = set(settled.scalars())
        found |= {
            each: MonthlyCounts(messages[each], settled=each in final) for each in some
        }
    return found


def require_there(connection: Connection, row: ProfileRow) -> None:
    """Raise if a profile that was read before is gone.

    Raises
    ------
    ProfileReplaced
        If an import has put another one in its place.
    """
    there = connection.execute(
        select(profile.c.id).where(profile.c.id == row.id, profile.c.name == row.name)
    )
    if there.first() is None:
        raise replaced(row)


def is_there(connection: Connection, profile_id: int) -> bool:
    """Return whether there is a profile of this key, and it is not hidden."""
    found = select(profile.c.id).where(profile.c.id == profile_id, ~HIDDEN)
    return connection.execute(found).first() is not None


def last_revision(connection: Connection, profile_id: int) -> int:
    """Return the revision of what was taught last; 0 if the profile is gone."""
    return _revision(connection, profile_id) or 0


def require_revision(connection: Connection, row: ProfileRow) -> int:
    """Return the revision of what was taught last.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    """
    revision = _revision(connection, row.id)
    if revision is None:
        msg = f"The profile {row.name!r} does not exist any more."
        raise UnknownProfile(msg)
    return revision


def _revision(connection: Connection, profile_id: int) -> int | None:
    found = select(profile.c.revision).where(profile.c.id == profile_id)
    revision: int | None = connection.execute(found).scalar_one_or_none()
    return revision


def lock(connection: Connection, profile: ProfileRow) -> int:
    """Return the profile's revision, locked until the end of the transaction.

    Raises
    ------
    ProfileReplaced
        If the profile is gone.
    """
    found = _LOCK.rows(connection, profile_id=profile.id, name=profile.name)
    if not found:
        raise replaced(profile)
    revision: int = found[0].revision
    return revision


def replaced(row: ProfileRow) -> ProfileReplaced:
    """Return the error of a profile that is gone.

    An import has replaced it, or somebody has renamed or deleted it.
    """
    return ProfileReplaced(
        f"The profile {row.name!r} was replaced a moment ago, and this process has not "
        "loaded the new one yet. Nothing was learned; send it again in a second."
    )


def list_all(connection: Connection) -> list[ProfileRow]:
    """Return all profiles that are not hidden, sorted by name."""
    rows = connection.execute(select(profile).where(~HIDDEN).order_by(profile.c.name))
    return [_read(row) for row in rows]


def _read(row: Row[tuple[object, ...]]) -> ProfileRow:
    """Return a row of the table as what it means."""
    values = dict(row._mapping)  # noqa: SLF001  (SQLAlchemy's public name for it)
    # Of `app.storage.lists`.
    del values["lists"]
    values["labels"] = tuple(values["labels"])
    values["spam_labels"] = tuple(values["spam_labels"])
    return ProfileRow(**values)
