"""Commands of access: `keys`, `people`, `events`, `lists` and `correspondents`."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from typer import Argument, Option

from app.access.lists import (
    DEFAULT_NATS,
    SAYS,
    ListEntry,
    ListSubject,
    parse_lists,
    read_entry,
)
from app.access.rights import MAX_LIFE, MEANINGS, Right
from app.classifier.verdict import MAX_NATS
from app.doors.cli.console import (
    ERR,
    OUT,
    AsJson,
    Profile,
    fields_of,
    number_of,
    opened,
    show,
    this_user,
)
from app.doors.documents.access import (
    CreatedKeyOut,
    EventsOut,
    KeyOut,
    KeysOut,
    ListsOut,
    PeopleOut,
)
from app.errors import InvalidInput, NotFound
from app.services.access import (
    MAX_EVENTS,
    add_key,
    list_events,
    list_keys,
    made_key,
    revoke_key,
)
from app.services.clock import now
from app.services.correspondents import forget_correspondent, list_correspondents
from app.services.lists import add_entries, list_entries, remove_entry
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
    from collections.abc import Sequence
    from datetime import datetime

    from app.doors.documents.access import PersonOut


_RIGHTS: Final = " ".join(f"{right}: {text}" for right, text in MEANINGS.items())
_RIGHT: Final = f"A right of the new key. May be repeated. {_RIGHTS}"


def keys_list(as_json: AsJson = False) -> None:
    """List the API keys with their rights."""
    with opened_database(load_settings()) as engine:
        listed = KeysOut.describing(keys=list_keys(engine))
    show(listed, map(_key_line, listed.keys), as_json=as_json, otherwise="no keys")


def keys_create(
    name: str,
    right: Annotated[list[Right], Option(help=_RIGHT)],
    profile: Annotated[list[str] | None, Option(metavar="PROFILE")] = None,
    label: Annotated[list[str] | None, Option(metavar="LABEL")] = None,
    network: Annotated[list[str] | None, Option(metavar="NETWORK")] = None,
    days: Annotated[float | None, Option(min=0, max=MAX_LIFE.days)] = None,
    names_sources: bool = False,
    as_json: AsJson = False,
) -> None:
    """Create an API key.

    The key is printed only once, to standard output; messages about it go to
    standard error. A running service accepts it within a second.

    Parameters
    ----------
    name
        The name of the key, such as mx1.
    profile
        The only profile that it may use; @example.org means the profile of the domain
        and those of its addresses. May be repeated.
    label
        The only label that it may teach. May be repeated.
    network
        The only address or network that it may be used from. May be repeated.
    days
        Days until it expires; never if not given.
    names_sources
        Let it name the source of feedback, for a mail server that knows its users.
    """
    text, key = made_key(
        name,
        right,
        profiles=profile or (),
        labels=label or (),
        networks=network or (),
        names_sources=names_sources,
        expires_at=None if days is None else now() + timedelta(days=days),
    )
    with opened_database(load_settings(), make=True) as engine:
        add_key(engine, key, actor=this_user())
        try:
            show(CreatedKeyOut.describing(key, key=text), [text], as_json=as_json)
        except OSError:
            # Nobody has seen it, and its name would be taken.
            revoke_key(engine, name, actor=this_user())
            raise
    if not as_json:
        ERR.print(
            f"the key {name} is shown only now; the database stores only its digest"
        )


def keys_revoke(name: str) -> None:
    """Revoke an API key; a running service refuses it within two seconds.

    Parameters
    ----------
    name
        The name of the key.
    """
    with opened_database(load_settings()) as engine:
        revoke_key(engine, name, actor=this_user())
    OUT.print(f"the key {name} is revoked")


def _key_line(key: KeyOut) -> str:
    """Return a key as a line."""
    limits = {"profiles": key.profiles, "labels": key.labels, "from": key.networks}
    parts = (
        key.name,
        ", ".join(key.rights),
        *(f"{of} {', '.join(sorted(names))}" for of, names in limits.items() if names),
        key.names_sources and "names sources",
        f"made {_day(key.created_at)}",
        key.expires_at and f"expires {_day(key.expires_at)}",
        f"used {_day(key.last_used_at)}" if key.last_used_at else "never used",
        key.revoked_at and f"revoked {_day(key.revoked_at)}",
    )
    return "  ".join(part for part in parts if part)


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"


def people_list(as_json: AsJson = False) -> None:
    """List the people who may sign in to the pages."""
    with opened_database(load_settings()) as engine:
        listed = PeopleOut.describing(people=list_people(engine))
    lines = map(_person_line, listed.people)
    show(listed, lines, as_json=as_json, otherwise="no people")


def people_add(
    name: str,
    role: Literal["reader", "teacher", "admin"] = "reader",
    profile: Annotated[str | None, Option(metavar="PROFILE")] = None,
    no_password: bool = False,
) -> None:
    """Add a person.

    The password is prompted for, or read from standard input.

    Parameters
    ----------
    name
        The sign-in name of the person.
    role
        What the person may do: a reader reads, a teacher also teaches, an admin also
        undoes, changes policies, and manages keys and people.
    profile
        The only profile that the person sees; all if not given.
    no_password
        Set no password: a proxy (POSTBAYES_SIGN_IN_HEADER) signs the person in.
    """
    password = None if no_password else _password(name)
    with opened_database(load_settings(), make=True) as engine:
        add_person(
            engine,
            name,
            role=role,
            password=password,
            profile=profile,
            actor=this_user(),
        )
    OUT.print(f"{name} can sign in now")


def people_password(name: str) -> None:
    """Set the password of a person, and end the person's sessions within two seconds.

    The password is prompted for, or read from standard input.

    Parameters
    ----------
    name
        The sign-in name of the person.
    """
    password = _password(name)
    with opened_database(load_settings()) as engine:
        set_password(engine, name, password, actor=this_user())
    OUT.print(f"{name} can sign in now")


def people_remove(name: str) -> None:
    """Remove a person, and end the person's sessions within two seconds.

    Parameters
    ----------
    name
        The sign-in name of the person.
    """
    with opened_database(load_settings()) as engine:
        remove_person(engine, name, actor=this_user())
    OUT.print(f"{name} can no longer sign in")


def _person_line(person: PersonOut) -> str:
    """Return a person as a line."""
    return (
        f"{person.name}  {person.role}"
        + (f"  profile {person.profile}" if person.profile else "")
        + ("" if person.has_password else "  no password")
        + f"  added {_day(person.created_at)}"
    )


def _password(name: str) -> str:
    """Read a password from the terminal, without echo, or from a pipe."""
    if not sys.stdin.isatty():
        try:
            password = sys.stdin.buffer.readline().decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InvalidInput("the password is not UTF-8 text") from error
        check_password(password)
        return password
    password = getpass(f"Password of {name}: ")
    check_password(password)
    if getpass("Once more: ") != password:
        raise InvalidInput("the two passwords differ; try again")
    return password


def events(
    last: Annotated[int, Option(min=1, max=MAX_EVENTS)] = 50, as_json: AsJson = False
) -> None:
    """Show the changes outside the ledger and who made them, newest first.

    Keys created and revoked, people added and removed, sign-ins, policies and lists
    changed, correspondents forgotten, undos, and profiles created and deleted.

    Parameters
    ----------
    last
        Number of events to show.
    """
    with opened_database(load_settings()) as engine:
        found = EventsOut.of(list_events(engine, limit=last + 1), last)
    lines = (
        f"{each.time:%Y-%m-%d %H:%M:%S}  {each.who}  {each.act}  {each.object}"
        + ("" if each.details is None else f"  {json.dumps(each.details)}")
        for each in found.events
    )
    show(found, lines, as_json=as_json, otherwise="no events")


_ENTRIES: Final = Argument(metavar="ENTRY", help=f"Entries, each {SAYS}.")


def lists_list(
    entries: Annotated[list[str] | None, _ENTRIES] = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Show the entries of a profile: all, or those that are named.

    An entry adds nats to the log-odds of a sender's messages, and appears among the
    reasons of their verdicts.
    """
    settings = load_settings()
    name = profile or settings.profile
    wanted = {ListSubject.parse(each) for each in entries or ()}
    with opened_database(settings) as engine:
        found = list_entries(engine, name)
    found = [each for each in found if not wanted or each.subject in wanted]
    lines = (each.line() for each in found)
    nothing = f"no {'such ' if wanted else ''}entries in {name}"
    show(ListsOut.of(found), lines, as_json=as_json, otherwise=nothing)


def lists_add(
    entries: Annotated[list[str], _ENTRIES],
    allow: bool = False,
    deny: bool = False,
    nats: Annotated[
        float | None,
        Option(
            help=f"Strength of the entries in nats, up to {MAX_NATS:g}; "
            f"{DEFAULT_NATS:g} if not given."
        ),
    ] = None,
    expires: Annotated[str | None, Option(metavar="DAYS|DATE")] = None,
    note: str = "",
    profile: Profile = None,
) -> None:
    """Allow or deny senders; a running service follows within a second.

    Parameters
    ----------
    allow
        Allow the senders.
    deny
        Deny the senders.
    expires
        When the entries expire: a number of days, or a date such as 2026-12-31.
    note
        A note of one line, for other people.
    """
    if allow == deny:
        raise InvalidInput("give --allow or --deny, and not both")
    verb, actor, time = "allow" if allow else "deny", this_user(), now()
    more: Any = {"nats": nats, "expires": expires, "note": note}
    _add(
        [read_entry(verb, x, source=actor, now=time, **more) for x in entries], profile
    )


def lists_remove(
    entries: Annotated[list[str], _ENTRIES], profile: Profile = None
) -> None:
    """Remove entries; a running service follows within a second."""
    settings = load_settings()
    name, subjects = profile or settings.profile, map(ListSubject.parse, entries)
    with opened_database(settings) as engine:
        for each in [*subjects]:
            remove_entry(engine, name, each, actor=this_user())
            OUT.print(f"the entry {each} of {name} is removed")


def lists_import(file: str, profile: Profile = None) -> None:
    """Add the entries of a file; a running service follows within a second.

    It has lines such as `allow ann@example.org` and `deny 192.0.2.0/24 nats=8
    expires=2026-12-31`, as `list` prints them.

    Parameters
    ----------
    file
        The file; - for standard input.
    """
    _add(_read(file, source=this_user(), time=now()), profile)


def _add(entries: Sequence[ListEntry], profile: str | None) -> None:
    """Add entries to a profile."""
    settings = load_settings()
    name = profile or settings.profile
    with opened_database(settings) as engine:
        add_entries(engine, name, entries, actor=this_user())
    OUT.print(f"entries set for {name}: {len(entries):,}")


def _read(file: str, *, source: str, time: datetime) -> Sequence[ListEntry]:
    """Return the entries of a file."""
    try:
        with opened(file) as given:
            text = given.read().decode()
    except UnicodeDecodeError as error:
        msg = f"{file} is not UTF-8 text, at byte {error.start}"
        raise InvalidInput(msg) from error
    return parse_lists(text, file, source=source, now=time)


def correspondents_list(
    address: Annotated[str | None, Argument()] = None,
    profile: Annotated[str | None, Option(metavar="PROFILE")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the number of correspondents of users, or who has one of them.

    The database has only digests of addresses.

    Parameters
    ----------
    address
        Show only the profiles that know this address, such as ann@example.org.
    profile
        The only profile to show; all if not given.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        found = list_correspondents(engine, settings, address=address, profile=profile)
    documents = [
        {"profile": name, **fields_of(each, "addresses", "messages")}
        | {"last": _day(each.last)}
        for name, each in found
    ]
    lines = (
        f"{name}  "
        + ("" if address else f"{number_of(each.addresses, 'address')}  ")
        + f"{number_of(each.messages, 'message')}  last {_day(each.last)}"
        for name, each in found
    )
    nothing = "no correspondents"
    if address:
        nothing = f"no profile has the correspondent {address}"
    show({"correspondents": documents}, lines, as_json=as_json, otherwise=nothing)


def correspondents_forget(
    address: str,
    profile: Annotated[str | None, Option(metavar="PROFILE")] = None,
    as_json: AsJson = False,
) -> None:
    """Forget a correspondent; a running service does so within a minute.

    Parameters
    ----------
    address
        The address to forget, such as ann@example.org.
    profile
        The only profile that forgets it; all if not given.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        forgot = forget_correspondent(
            engine, settings, address, profile=profile, actor=this_user()
        )
    if not forgot:
        has = "no profile has" if profile is None else f"{profile!r} does not have"
        raise NotFound(f"{has} the correspondent {address}; nothing was forgotten")
    line = f"{address} is forgotten by {', '.join(forgot)}"
    show({"profiles": forgot}, [line], as_json=as_json)
