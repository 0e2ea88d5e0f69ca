"""Access in the database: keys, people, events, and the secret of cookies."""

from __future__ import annotations

from dataclasses import asdict, fields
from operator import lt
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from app.access.rights import AccessKey, AuditEvent, Person, Right
from app.errors import NameTaken, UnknownKey, UnknownPerson
from app.storage.database.dialect import insert_into, where_given
from app.storage.tables import access_key, audit_event, person, service_secret

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Column, Connection, Row

_VERSION: Final = select(
    *(
        select(figure).select_from(table).scalar_subquery()
        for table in (access_key, person)
        for figure in (func.count(), func.coalesce(func.sum(table.c.revision), 0))
    )
)


def version(connection: Connection) -> tuple[int, ...]:
    """Return a value that changes with the keys or the people.

    Notes
    -----
    Each change adds 1 to the revision of its row, and rows are never removed, so the
    sums grow in whatever order transactions are committed.
    """
    return tuple(connection.execute(_VERSION).one())


def keys(connection: Connection) -> list[AccessKey]:
    """Return all keys, in the order of their names."""
    rows = connection.execute(select(access_key).order_by(access_key.c.name))
    return [_key(row) for row in rows]


def add_key(connection: Connection, key: AccessKey) -> None:
    """Store a new key, in place of a revoked one with this name.

    Raises
    ------
    NameTaken
        If a key in force has this name.
    """
    values = asdict(key) | {
        "rights": sorted(key.rights),
        "profiles": None if key.profiles is None else sorted(key.profiles),
        "labels": None if key.labels is None else sorted(key.labels),
        "networks": list(key.networks) or None,
    }
    if not _added(connection, access_key.c.revoked_at, values):
        raise NameTaken(
            f"the key {key.name!r} already exists; choose another name, or revoke "
            "that key first"
        )


def revoke_key(connection: Connection, name: str, *, time: datetime) -> None:
    """Revoke a key.

    Raises
    ------
    UnknownKey
        If no key in force has this name.
    """
    ended = access_key.c.revoked_at
    if not _changed(connection, ended, name, {"revoked_at": time}):
        raise UnknownKey(
            f"there is no valid key {name[:64]!r}; `postbayes keys list` shows the keys"
        )


def keys_used(connection: Connection, used: Mapping[str, datetime]) -> None:
    """Store when keys were last used, which does not count as a change."""
    column = access_key.c.last_used_at
    connection.execute(
        update(access_key)
        .where(
            access_key.c.name == bindparam("of"),
            or_(column.is_(None), column < bindparam("at", type_=column.type)),
        )
        .values(last_used_at=bindparam("at", type_=column.type)),
        [{"of": name, "at": used[name]} for name in sorted(used)],
    )


def _key(row: Row[Any]) -> AccessKey:
    values = row._asdict()
    del values["revision"]
    return AccessKey(
        **values
        | {
            # A newer version may have more rights.
            "rights": frozenset(each for each in Right if each in row.rights),
            "profiles": None if row.profiles is None else frozenset(row.profiles),
            "labels": None if row.labels is None else frozenset(row.labels),
            "networks": tuple(row.networks or ()),
        }
    )


def people(connection: Connection) -> list[Person]:
    """Return the people who can sign in, in the order of their names."""
    columns = [person.c[field.name] for field in fields(Person)]
    present = select(*columns).filter_by(removed_at=None)
    rows = connection.execute(present.order_by(person.c.name))
    return [Person(**row._asdict()) for row in rows]


def add_person(connection: Connection, new: Person) -> None:
    """Store a person.

    Raises
    ------
    NameTaken
        If somebody has this name.
    """
    values = asdict(new) | {"removed_at": None}
    if not _added(connection, person.c.removed_at, values):
        raise NameTaken(f"the person {new.name!r} already exists; choose another name")


def change_person(connection: Connection, name: str, **values: object) -> None:
    """Change a person, and end their sessions.

    Raises
    ------
    UnknownPerson
        If nobody has this name.
    """
    if not _changed(connection, person.c.removed_at, name, values):
        raise UnknownPerson(
            f"there is no person {name[:64]!r}; `postbayes people list` shows the "
            "people"
        )


def renew_password(connection: Connection, old: Person, password: str) -> bool:
    """Store another hash of an unchanged password; return False if it was changed."""
    unchanged = update(person).filter_by(name=old.name, revision=old.revision)
    values = {"password": password, "revision": old.revision + 1}
    return connection.execute(unchanged.values(values)).rowcount > 0


def _added(
    connection: Connection, ended: Column[Any], values: Mapping[str, object]
) -> bool:
    """Store a row in place of an ended one with its name; return whether it worked."""
    table = ended.table
    new = insert_into(connection, table).values({**values, "revision": 1})
    # From the returned rows: on PostgreSQL, the row count of an insert is -1.
    stored = connection.execute(
        new.on_conflict_do_update(
            index_elements=[table.c.name],
            set_={**values, "revision": table.c.revision + 1},
            where=ended.is_not(None),
        ).returning(table.c.name)
    )
    return stored.first() is not None


def _changed(
    connection: Connection, ended: Column[Any], name: str, values: Mapping[str, object]
) -> bool:
    """Change the row of a name that has not ended; return whether there is one."""
    table = ended.table
    done = connection.execute(
        update(table)
        .where(table.c.name == name, ended.is_(None))
        .values(revision=table.c.revision + 1, **values)
    )
    return done.rowcount > 0


def add_event(connection: Connection, **fields: object) -> None:
    """Store an event, in the transaction of the change that it reports."""
    connection.execute(insert(audit_event).values(fields))


def events(
    connection: Connection, *, before: int | None, limit: int
) -> list[AuditEvent]:
    """Return the newest events, newest first, with a number below `before`, if any."""
    number = audit_event.c.id
    wanted = select(audit_event).where(*where_given((number, lt, before)))
    wanted = wanted.order_by(number.desc()).limit(limit)
    return [AuditEvent(**row._asdict()) for row in connection.execute(wanted)]


def oldest_event(connection: Connection) -> datetime | None:
    """Return the time of the oldest event; None if there is none."""
    found: datetime | None = connection.scalar(select(func.min(audit_event.c.time)))
    return found


def expire_events(connection: Connection, *, before: datetime, limit: int) -> int:
    """Remove some older events; return their number."""
    event = audit_event.c
    older = select(event.id).where(event.time < before).order_by(event.time)
    old = older.limit(limit).scalar_subquery()
    return connection.execute(delete(audit_event).where(event.id.in_(old))).rowcount


def secret(connection: Connection, name: str) -> bytes | None:
    """Return a secret of the service; None if there is none yet."""
    return connection.scalar(select(service_secret.c.value).filter_by(name=name))


def add_secret(connection: Connection, name: str, value: bytes) -> bytes:
    """Store a secret of the service unless another process has; return the stored."""
    new = insert_into(connection, service_secret).values(name=name, value=value)
    connection.execute(new.on_conflict_do_nothing())
    return secret(connection, name) or value
