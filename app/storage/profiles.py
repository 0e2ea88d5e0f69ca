"""Profiles: one row for each trained filter, found, listed, locked and counted.

Contract of this file: `lock` refuses a profile that was hidden since it was read
(`app.storage.hidden`), and hidden profiles are in no list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, bindparam, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from app.classifier.policy import Policy
from app.classifier.specification import require_label
from app.errors import (
    Inconsistent,
    InvalidPolicy,
    ProfileExists,
    ProfileReplaced,
    UnknownProfile,
)
from app.storage.database.dialect import (
    PER_QUERY,
    Prepared,
    chunks,
    insert_into,
    where_in,
)
from app.storage.tables import class_count, fold, ledger, profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection, Row, Select


HIDDEN: Final = profile.c.name.like("% %")
"""Whether a profile is hidden (`app.storage.hidden`)."""
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
    labels : tuple of str
        Labels of messages; their order gives the class index.
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

    def is_other_than(self, row: ProfileRow) -> bool:
        """Return whether this is another profile, perhaps under the same key."""
        return (self.id, self.created_at) != (row.id, row.created_at)

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
    new = insert_into(connection, profile).values(
        name=name,
        labels=list(labels),
        spam_labels=list(spam_labels),
        feature_set=feature_set,
        revision=0,
        created_at=created_at,
        id_key=id_key,
    )
    new = new.on_conflict_do_nothing(index_elements=[profile.c.name])
    created = connection.scalar(new.returning(profile.c.id))
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
    query = select(profile).filter_by(name=name).with_for_update(key_share=True)
    return _one(connection, query, name)


def _one(
    connection: Connection, query: Select[tuple[Any, ...]], name: str
) -> ProfileRow:
    row = connection.execute(query).first()
    if row is None:
        raise UnknownProfile.named(name)
    return _read(row)


def change(connection: Connection, profile_id: int, **values: object) -> None:
    """Change columns of a profile."""
    connection.execute(update(profile).filter_by(id=profile_id).values(**values))


def touch(connection: Connection, row: ProfileRow) -> None:
    """Write the row of a profile unchanged, to check whether writing is possible."""
    change(connection, row.id, revision=profile.c.revision)


def set_policy(
    connection: Connection, row: ProfileRow, policy: Mapping[str, object]
) -> None:
    """Store the policy of a profile."""
    change(connection, row.id, policy=dict(policy) or None, lists=profile.c.lists + 1)


def rename(connection: Connection, row: ProfileRow, name: str) -> None:
    """Give a profile another name; the caller holds its lock.

    Raises
    ------
    ProfileExists
        If another profile has it.
    """
    try:
        change(connection, row.id, name=name, lists=profile.c.lists + 1)
    # Not looked for before: another process may make the profile in between.
    except IntegrityError as error:
        raise ProfileExists(
            f"the profile {name!r} already exists; choose another name, or delete "
            "that profile"
        ) from error


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
    found: Counter[str] = reduce(Counter.__or__, of_view.values(), Counter())
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
        of_some = select(*counted["profile_id", "view", "epoch", "label", "messages"])
        for profile_id, *key, n in connection.execute(
            of_some.where(counted.profile_id.in_(some))
        ):
            found[profile_id][tuple(key)] += n
        behind = connection.execute(
            select(*fold.c["profile_id", "folded_revision"])
            .join(profile, profile.c.id == fold.c.profile_id)
            .where(fold.c.profile_id.in_(some))
            .where(profile.c.revision > fold.c.folded_revision)
        ).all()
        # As values, two for each: PostgreSQL expects a third of the ledger of a join
        # with `fold`, and reads all of it, 0.1 s for 100,000 rows.
        for part in chunks(behind, most=PER_QUERY // 2):
            of_part = (
                and_(row.profile_id == key, row.revision > folded)
                for key, folded in part
            )
            of_message = row.profile_id, row.epoch, row.label_before, row.label
            for profile_id, epoch, before, label, n in connection.execute(
                select(*of_message, func.count())
                .where(or_(*of_part), row.kind == "message")
                .group_by(*of_message)
            ):
                found[profile_id][None, epoch, before] -= n
                found[profile_id][None, epoch, label] += n
    return found


def is_there(connection: Connection, profile_id: int) -> bool:
    """Return whether there is a profile of this key, and it is not hidden."""
    found = select(profile.c.id).where(profile.c.id == profile_id, ~HIDDEN)
    return connection.execute(found).first() is not None


def last_revision(connection: Connection, profile_id: int) -> int:
    """Return the latest revision; 0 if the profile is gone."""
    query = select(profile.c.revision).filter_by(id=profile_id)
    return connection.scalar(query) or 0


def require_revision(connection: Connection, row: ProfileRow) -> int:
    """Return the latest revision.

    Raises
    ------
    UnknownProfile
        If the profile is gone.
    """
    revision = connection.scalar(select(profile.c.revision).filter_by(id=row.id))
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


def list_all(connection: Connection, only: str | None = None) -> list[ProfileRow]:
    """Return all profiles that are not hidden, or only one, sorted by name.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    """
    if only is not None:
        return [find(connection, only)]
    rows = connection.execute(select(profile).where(~HIDDEN).order_by(profile.c.name))
    return [_read(row) for row in rows]


def get_many(connection: Connection, profile_ids: Iterable[int]) -> list[ProfileRow]:
    """Return those of some profiles that are there and not hidden, sorted by name."""
    shown = select(profile).where(~HIDDEN)
    rows = where_in(connection, shown, profile.c.id, profile_ids)
    return sorted(map(_read, rows), key=attrgetter("name"))


ProfileMark = tuple[int, str, int, int, int, datetime]
"""Key, name, revision, changes, folded revision, and time of creation.

A plain tuple, quick to compare.  A database that was restored from a backup gives a key
again."""


_MARKS: Final = (
    select(
        *profile.c["id", "name", "revision", "lists"],
        fold.c.folded_revision,
        profile.c.created_at,
    )
    .join(fold, fold.c.profile_id == profile.c.id)
    .where(~HIDDEN)
)


def total(connection: Connection) -> Row[*tuple[Any, ...]]:
    """Return what changes with each change of any profile: sums of its `marks`.

    On SQLite with 10,000 profiles it takes 4 ms of CPU where the marks take 30 and all
    rows 200.
    """
    number, _, *others, created_at = _MARKS.selected_columns
    figures = func.count(), func.max(created_at), *map(func.sum, (number, *others))
    query = _MARKS.with_only_columns(*figures, maintain_column_froms=True)
    return connection.execute(query).one()


def marks(connection: Connection) -> dict[int, ProfileMark]:
    """Return what changes with each change of a profile, by the keys of profiles."""
    rows = connection.execute(_MARKS)
    return {row[0]: tuple(row) for row in rows.all()}


def _read(row: Row[tuple[object, ...]]) -> ProfileRow:
    """Return a row of the table as a value of the domain."""
    values = row._asdict()
    # Of `app.storage.lists`.
    del values["lists"]
    values["labels"] = tuple(values["labels"])
    values["spam_labels"] = tuple(values["spam_labels"])
    return ProfileRow(**values)
