"""Commands of access: `keys`, `people` and `events`."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from getpass import getpass
from typing import TYPE_CHECKING, Final, Literal

from app.access.rights import MAX_LIFE, MEANINGS, Right
from app.doors.cli.console import (
    ERR,
    OUT,
    Json,
    argument,
    flag,
    option,
    show,
    this_user,
)
from app.doors.documents.access import EventOut, KeyOut, NewKeyOut
from app.errors import InvalidInput
from app.services.access import (
    MAX_EVENTS,
    add_key,
    list_events,
    list_keys,
    made_key,
    revoke_key,
)
from app.services.clock import now
from app.services.sessions import (
    add_person,
    check_password,
    list_people,
    remove_person,
    set_password,
)
from app.services.startup import opened_database
from app.settings import load_settings

if TYPE_CHECKING:
    from datetime import datetime

    from app.access.rights import AccessKey

_RIGHTS: Final = " ".join(f"{right}: {text}" for right, text in MEANINGS.items())


def keys(
    action: Literal["list", "create", "revoke"] = argument(
        "list, create or revoke.", metavar="ACTION", default="list"
    ),
    name: str | None = argument(
        "The name of the key to create or revoke, such as mx1.", metavar="NAME"
    ),
    right: list[Right] | None = option(
        f"A right of the new key. May be repeated. {_RIGHTS}", metavar="RIGHT"
    ),
    profile: list[str] | None = option(
        "The only profile that it may use; @example.org means the "
        "profile of the domain and those of its addresses. May be "
        "repeated.",
        metavar="PROFILE",
    ),
    label: list[str] | None = option(
        "The only label that it may teach. May be repeated.", metavar="LABEL"
    ),
    network: list[str] | None = option(
        "The only address or network that it may be used from. May be repeated.",
        metavar="NETWORK",
    ),
    days: float | None = option(
        "Days until it expires; never if not given.", min=0, max=MAX_LIFE.days
    ),
    names_sources: bool = flag(
        "--names-sources",
        "Let it name the source of feedback, for a mail server that knows its users.",
    ),
    as_json: Json = False,
) -> None:
    """Create, list and revoke API keys.

    A new key is printed only once, to standard output; messages about it go to
    standard error. A running service accepts a new key within a second, and
    refuses a revoked one within two.
    """
    if action == "list":
        _list_keys(as_json=as_json)
    elif name is None:
        raise InvalidInput(f"give the name of the key to {action}")
    elif action == "revoke":
        with opened_database(load_settings()) as engine:
            revoke_key(engine, name, who=this_user())
        OUT.print(f"the key {name} is revoked")
    else:
        text, key = made_key(
            name,
            right or (),
            profiles=profile or (),
            labels=label or (),
            networks=network or (),
            names_sources=names_sources,
            expires_at=None if days is None else now() + timedelta(days=days),
        )
        with opened_database(load_settings(), make=True) as engine:
            add_key(engine, key, who=this_user())
        document = NewKeyOut.of(key, key=text).model_dump(mode="json")
        show(document, [text], as_json=as_json)
        if not as_json:
            ERR.print(
                f"the key {name} is shown only now; the database stores only its digest"
            )


def _list_keys(*, as_json: bool) -> None:
    with opened_database(load_settings()) as engine:
        found = list_keys(engine)
    documents = [KeyOut.of(each).model_dump(mode="json") for each in found]
    show({"keys": documents}, map(_key_line, found), as_json=as_json)


def _key_line(key: AccessKey) -> str:
    """Return a key as a line."""
    parts = [key.name, ", ".join(sorted(key.rights))]
    for what, limits in (
        ("profiles", key.profiles),
        ("labels", key.labels),
        ("from", key.networks),
    ):
        if limits:
            parts.append(f"{what} {', '.join(sorted(limits))}")
    if key.names_sources:
        parts.append("names sources")
    parts.append(f"made {_day(key.created_at)}")
    if key.expires_at is not None:
        parts.append(f"expires {_day(key.expires_at)}")
    parts.append(
        "never used" if key.last_used_at is None else f"used {_day(key.last_used_at)}"
    )
    if key.revoked_at is not None:
        parts.append(f"revoked {_day(key.revoked_at)}")
    return "  ".join(parts)


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def people(
    action: Literal["list", "add", "remove", "password"] = argument(
        "list, add, remove or password.", metavar="ACTION", default="list"
    ),
    name: str | None = argument("The sign-in name of the person.", metavar="NAME"),
    role: Literal["reader", "teacher", "admin"] = option(
        "What the person may do: a reader reads, a teacher also teaches, "
        "an admin also undoes, changes policies, and manages keys and people.",
        metavar="ROLE",
        default="reader",
    ),
    profile: str | None = option(
        "The only profile that the person sees; all if not given.", metavar="PROFILE"
    ),
    no_password: bool = flag(
        "--no-password",
        "Set no password: a proxy (POSTBAYES_SIGN_IN_HEADER) signs the person in.",
    ),
    as_json: Json = False,
) -> None:
    """Add, list and remove the people who may sign in to the pages.

    The password is prompted for, or read from standard input. A new password or a
    removal ends the sessions of the person within two seconds.
    """
    if action == "list":
        _list_people(as_json=as_json)
        return
    if name is None:
        msg = f"give the name of the person: `postbayes people {action} NAME`"
        raise InvalidInput(msg)
    if action == "remove":
        with opened_database(load_settings()) as engine:
            remove_person(engine, name, who=this_user())
        OUT.print(f"{name} can no longer sign in")
        return
    password = None if no_password and action == "add" else _password(name)
    with opened_database(load_settings(), make=action == "add") as engine:
        if action == "password":
            set_password(engine, name, password or "", who=this_user())
        else:
            add_person(
                engine,
                name,
                role=role,
                password=password,
                profile=profile,
                who=this_user(),
            )
    OUT.print(f"{name} can sign in now")


def _list_people(*, as_json: bool) -> None:
    with opened_database(load_settings()) as engine:
        found = list_people(engine)
    names = ("name", "role", "profile")
    lines = (
        f"{each.name}  {each.role}"
        + (f"  profile {each.profile}" if each.profile else "")
        + ("" if each.password else "  no password")
        + f"  added {each.created_at:%Y-%m-%d}"
        for each in found
    )
    documents = [{n: getattr(each, n) for n in names} for each in found]
    show({"people": documents}, lines, as_json=as_json)


def _password(name: str) -> str:
    """Read a password from the terminal, without echo, or from a pipe."""
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
        check_password(password)
        return password
    password = getpass(f"Password of {name}: ")
    check_password(password)
    if getpass("Once more: ") != password:
        msg = "the two passwords differ; try again"
        raise InvalidInput(msg)
    return password


def events(
    last: int = option("Number of events to show.", min=1, max=MAX_EVENTS, default=50),
    as_json: Json = False,
) -> None:
    """Show the changes outside the ledger and who made them, newest first.

    Keys created and revoked, people added and removed, sign-ins, policies and lists
    changed, correspondents forgotten, undos, and profiles created and deleted.
    """
    with opened_database(load_settings()) as engine:
        found = list_events(engine, limit=last)
    documents = [EventOut.describing(each).model_dump(mode="json") for each in found]
    lines = (
        f"{each.time:%Y-%m-%d %H:%M:%S}  {each.who}  {each.act}  {each.object}"
        + ("" if each.details is None else f"  {json.dumps(each.details)}")
        for each in found
    )
    show({"events": documents}, lines, as_json=as_json)
