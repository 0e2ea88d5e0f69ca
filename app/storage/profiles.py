"""Profiles: one row for each trained filter, including hidden ones in preparation.

Contract of this file: a profile is hidden while its name contains a blank, which no
name from a client can contain (`app.classifier.specification.check_name`).  So one
update of its name shows or hides a profile, and `lock` refuses a profile that was
hidden in the meantime.  The `created_at` of a hidden profile is the time of the last
work on it.

`leave_out` and `move` need the locks of both profiles, and unfolded rows.
Moving a row changes its key and not its vector: 16,055 messages take 0.35 s on SQLite.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import attrgetter, or_
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, select, tuple_, update

from app.classifier.policy import Policy
from app.classifier.specification import require_label
from app.errors import (
    DatabaseUnavailable,
    Inconsistent,
    InvalidPolicy,
    ProfileExists,
    ProfileReplaced,
    UnknownProfile,
)
from app.storage import lists, tables
from app.storage.database.dialect import (
    Prepared,
    chunks,
    insert_into,
    tuple_of,
    where_in,
)
from app.storage.tables import class_count, fold, ledger, profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection, Row, Select, Table


HIDDEN: Final = profile.c.name.like("% %")
"""Whether a profile is hidden (`app.storage.profiles`)."""
_LOCK: Final = Prepared(
    select(profile.c.revision)
    .where(
        profile.c.id == bindparam("profile_id"),
        # A replaced profile has its key and another name, until it is removed.
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
        Name of the profile.
    labels : tuple of str
        Labels of messages; their order gives the class index.
    spam_labels : tuple of str
        Those of the labels that count as spam.
    feature_set : int
        Version of the rules of feature extraction.
    revision : int
        Revision of the newest ledger row when this was read.
    created_at : datetime
        Aware, UTC.
    policy : object
        Its differences from the service's settings, from
        `app.classifier.policy.Policy.document`; None if there are none. Checked by
        `read_policy`, so a profile that was damaged by hand does not stop the others.
    id_key : str or None
        Digest of the key of its feature ids; None if they are not keyed.  A profile
        keeps it for ever, because its vectors have no words to make new ids from.
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

    def read_policy(self) -> Policy:
        """Return the policy that is stored with the profile.

        Raises
        ------
        Inconsistent
            If it is invalid, which only a change by hand in the database can cause.
        """
        try:
            return Policy() if self.policy is None else Policy.read(self.policy)
        except InvalidPolicy as error:
            raise Inconsistent(
                f"the stored policy of the profile {self.name!r} cannot be read: "
                f"{error}; `postbayes policy --reset --profile {self.name}` resets it"
            ) from error


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
        raise ProfileExists(
            f"the profile {name!r} already exists, with the labels "
            f"{', '.join(row.labels)} (spam: {', '.join(row.spam_labels)}); use "
            "these, or another name"
        )
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
    """Write the row of a profile unchanged, to check whether writing is possible."""
    statement = update(profile).where(profile.c.id == row.id)
    connection.execute(statement.values(revision=profile.c.revision))


def set_policy(
    connection: Connection, row: ProfileRow, policy: Mapping[str, object]
) -> None:
    """Store the policy of a profile."""
    connection.execute(
        update(profile)
        .where(profile.c.id == row.id)
        .values(policy=dict(policy) or None, lists=profile.c.lists + 1)
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
        raise ProfileExists(
            f"the profile {name!r} already exists; choose another name, or delete "
            "that profile"
        )
    connection.execute(
        update(profile)
        .where(profile.c.id == row.id)
        .values(name=name, lists=profile.c.lists + 1)
    )


MonthlyCounts = Counter[tuple[str | None, int, str | None]]
"""Learned messages by view, month (YYYYMM) and label; None stands for every view."""


def by_label(messages: MonthlyCounts) -> Counter[str]:
    """Return the messages of each label in all months.

    Later views have learned fewer messages, so the largest number of any view counts.
    """
    of_view: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for (view, _, label), n in messages.items():
        if label is not None:
            of_view[view][label] += n
    unfolded = of_view.pop(None, Counter())
    found: Counter[str] = reduce(or_, of_view.values(), Counter())
    found.update(unfolded)
    return found


def count_by_month(
    connection: Connection, profile_ids: Iterable[int]
) -> defaultdict[int, MonthlyCounts]:
    """Return the counts of some profiles, by their keys.

    They include unfolded ledger rows, but not the unfolded sums of an import.
    """
    found: defaultdict[int, MonthlyCounts] = defaultdict(Counter)
    counted, row = class_count.c, ledger.c
    for some in chunks(profile_ids):
        for profile_id, *key, n in connection.execute(
            select(
                counted.profile_id,
                counted.view,
                counted.epoch,
                counted.label,
                counted.messages,
            ).where(counted.profile_id.in_(some))
        ):
            found[profile_id][tuple(key)] += n
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
            found[profile_id][None, epoch, before] -= n
            found[profile_id][None, epoch, label] += n
    return found


def require_there(connection: Connection, row: ProfileRow) -> None:
    """Raise if a profile that was read before is gone.

    Raises
    ------
    ProfileReplaced
        If an import has replaced it.
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
    """Return the latest revision; 0 if the profile is gone."""
    query = select(profile.c.revision).where(profile.c.id == profile_id)
    return connection.scalar(query) or 0


def require_revision(connection: Connection, row: ProfileRow) -> int:
    """Return the latest revision.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    """
    revision = connection.scalar(
        select(profile.c.revision).where(profile.c.id == row.id)
    )
    if revision is None:
        raise UnknownProfile(f"The profile {row.name!r} no longer exists.")
    return int(revision)


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


def get_many(connection: Connection, profile_ids: Iterable[int]) -> list[ProfileRow]:
    """Return those of some profiles that are there and not hidden, sorted by name."""
    rows = where_in(
        connection, select(profile).where(~HIDDEN), profile.c.id, profile_ids
    )
    return sorted(map(_read, rows), key=attrgetter("name"))


ProfileMark = tuple[int, str, int, int, int]
"""Key, name, revision, changes and folded revision: a plain tuple, quick to compare."""


def total(connection: Connection) -> Row[*tuple[Any, ...]]:
    """Return what changes with each change of any profile: sums of its `marks`.

    On SQLite with 10,000 profiles it takes 4 ms of CPU where the marks take 30 and all
    rows 200.
    """
    return connection.execute(
        select(
            func.count(),
            func.sum(profile.c.id),
            # SQLite gives the key of a deleted profile to the next one.
            func.max(profile.c.created_at),
            func.sum(profile.c.revision),
            func.sum(profile.c.lists),
            func.sum(fold.c.folded_revision),
        )
        .join(fold, fold.c.profile_id == profile.c.id)
        .where(~HIDDEN)
    ).one()


def marks(connection: Connection) -> dict[int, ProfileMark]:
    """Return what changes with each change of a profile, by the keys of profiles."""
    rows = connection.execute(
        select(
            profile.c.id,
            profile.c.name,
            profile.c.revision,
            profile.c.lists,
            fold.c.folded_revision,
        )
        .join(fold, fold.c.profile_id == profile.c.id)
        .where(~HIDDEN)
    )
    return {row[0]: tuple(row) for row in rows.all()}


def _read(row: Row[tuple[object, ...]]) -> ProfileRow:
    """Return a row of the table as a value of the domain."""
    values = dict(row._mapping)  # noqa: SLF001  (SQLAlchemy's public name for it)
    # Of `app.storage.lists`.
    del values["lists"]
    values["labels"] = tuple(values["labels"])
    values["spam_labels"] = tuple(values["spam_labels"])
    return ProfileRow(**values)


# Tables without rows of a profile, and the table whose row is deleted last.
_OF_NONE: Final = frozenset({profile, *tables.OF_THE_SITE})
LEASE: Final = timedelta(hours=1)
"""Time without progress after which the rows of an import are removed.

Its longest pause is the check of the whole ledger.
"""
_GONE: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Rows that are deleted in one transaction.  Most are of some 40 bytes, but those of
# the ledger of some 8 kB, and a part of a run of some 150 kB.
_ROWS: Final = 4096
_LARGE_ROWS: Final = {"ledger": 512, "scored": 512, "run": 64}


def hidden_name(name: str) -> str:
    """Return a unique hidden name for a profile that may later get another name."""
    return f"{name} (import {token_hex(8)})"


def renew(connection: Connection, hidden: ProfileRow, *, now: datetime) -> None:
    """Renew the lease of a hidden profile, and lock it.

    Raises
    ------
    DatabaseUnavailable
        If it was removed, because it was not renewed for longer than `LEASE`.
    """
    kept = connection.execute(
        update(profile)
        .where(profile.c.id == hidden.id, profile.c.name == hidden.name)
        .values(created_at=now)
    )
    if not kept.rowcount:
        raise DatabaseUnavailable(
            "this import was idle for so long that its data were removed; nothing was "
            "learned. Import it again"
        )


def show(
    connection: Connection,
    hidden: ProfileRow,
    *,
    instead_of: ProfileRow,
    created_at: datetime,
    policy: object,
) -> ProfileRow:
    """Return a hidden profile, shown in place of another and with its name.

    The other is hidden, for `remove_step`; the caller holds its lock.  Its lists stay
    with the name, because they are not learned.
    """
    hide(connection, instead_of, why="replaced")
    lists.move(connection, instead_of.id, hidden.id)
    connection.execute(
        update(profile)
        .where(profile.c.id == hidden.id)
        .values(name=instead_of.name, created_at=created_at, policy=policy or None)
    )
    return find(connection, instead_of.name)


def hide(connection: Connection, row: ProfileRow, *, why: str) -> None:
    """Hide a profile for `remove_step`; the caller holds its lock."""
    connection.execute(delete(fold).where(fold.c.profile_id == row.id))
    connection.execute(
        update(profile)
        .where(profile.c.id == row.id)
        .values(
            name=f"{row.name} ({why} {row.id})",
            created_at=_GONE,
            # An older version would append to the profile that it holds, by the key
            # alone.  With a row 1 it fails, and loses nothing.
            revision=0,
        )
    )


def abandon(connection: Connection, hidden: ProfileRow) -> None:
    """End the lease of a hidden profile; one that was shown stays."""
    connection.execute(
        update(profile)
        .where(profile.c.id == hidden.id, profile.c.name == hidden.name)
        .values(created_at=_GONE)
    )


def abandoned(connection: Connection, *, now: datetime) -> list[int]:
    """Return the keys of the hidden profiles whose lease is over."""
    rows = connection.execute(
        select(profile.c.id)
        .where(HIDDEN, profile.c.created_at < now - LEASE)
        .order_by(profile.c.id)
    )
    return list(rows.scalars())


def remove_step(connection: Connection, profile_id: int) -> bool:
    """Delete some rows of a hidden profile, and finally the profile itself.

    Parameters
    ----------
    connection : Connection
        From `app.storage.database.engine.writing`.
    profile_id : int
        From `abandoned`.

    Returns
    -------
    bool
        Whether there is more to delete.
    """
    # Processes that delete the same rows take turns.
    there = connection.execute(
        select(profile.c.id).where(profile.c.id == profile_id, HIDDEN).with_for_update()
    ).first()
    if there is None:
        return False
    for table in reversed(tables.metadata.sorted_tables):
        if table in _OF_NONE:
            continue
        if _delete(connection, table, profile_id):
            return True
    connection.execute(delete(profile).where(profile.c.id == profile_id))
    return False


def _delete(connection: Connection, table: Table, profile_id: int) -> int:
    """Delete rows of a table, the first ones by its key."""
    of_profile = table.c.profile_id == profile_id
    key = [column for column in table.primary_key if column.name != "profile_id"]
    statement = delete(table).where(of_profile)
    if key:
        first_left: Any = connection.execute(
            select(*key)
            .where(of_profile)
            .order_by(*key)
            .offset(_LARGE_ROWS.get(table.name, _ROWS))
            .limit(1)
        ).first()
        if first_left is not None:
            statement = statement.where(tuple_(*key) < tuple_of(key, first_left))
    return connection.execute(statement).rowcount


def leave_out(
    connection: Connection, hidden: ProfileRow, into: ProfileRow, *, after: int
) -> int:
    """Delete the messages that the other profile was taught after a revision.

    Returns
    -------
    int
        Rows that were deleted: the whole history of each of these messages.
    """
    taught = select(ledger.c.digest).where(
        ledger.c.profile_id == into.id, ledger.c.revision > after
    )
    return connection.execute(
        delete(ledger).where(
            ledger.c.profile_id == hidden.id, ledger.c.digest.in_(taught)
        )
    ).rowcount


def move(connection: Connection, hidden: ProfileRow, into: ProfileRow) -> int:
    """Append the rows of the hidden profile to the ledger of the other.

    Returns
    -------
    int
        How many there were.
    """
    last = select(profile.c.revision).where(profile.c.id == into.id).scalar_subquery()
    # Consecutive, whatever was left out.
    numbered = (
        select(
            ledger.c.revision,
            func.row_number().over(order_by=ledger.c.revision).label("number"),
        )
        .where(ledger.c.profile_id == hidden.id)
        .subquery()
    )
    moved = connection.execute(
        update(ledger)
        .where(
            ledger.c.profile_id == hidden.id, ledger.c.revision == numbered.c.revision
        )
        .values(profile_id=into.id, revision=last + numbered.c.number)
    ).rowcount
    connection.execute(
        update(profile)
        .where(profile.c.id == into.id)
        .values(revision=profile.c.revision + moved)
    )
    return moved
