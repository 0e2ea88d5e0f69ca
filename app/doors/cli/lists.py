"""Commands of known senders: `lists` and `correspondents`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from app.access.lists import (
    DEFAULT_NATS,
    SAYS,
    ListEntry,
    ListSubject,
    expiry_of,
    nats_of,
    parse_lists,
)
from app.classifier.verdict import MAX_NATS
from app.doors.cli.console import (
    OUT,
    STANDARD,
    Json,
    Profile,
    argument,
    number_of,
    option,
    read_bytes,
    show,
    this_user,
)
from app.doors.documents.access import ListEntryOut
from app.errors import InvalidInput
from app.services.clock import now
from app.services.correspondents import (
    forget_correspondent,
    list_correspondents,
)
from app.services.lists import add_entries, list_entries, remove_entry
from app.services.startup import opened_database
from app.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Engine

    from app.settings import Settings


def lists(
    action: Literal["list", "add", "remove", "import"] = argument(
        "list, add, remove or import.", metavar="ACTION", default="list"
    ),
    what: list[str] | None = argument(
        f"Entries to add or remove, each {SAYS}; or the file to import (- "
        "for standard input).",
        metavar="ENTRY",
    ),
    profile: Profile = None,
    allow: bool | None = option(
        "Whether the entries to add allow or deny.", "--allow/--deny"
    ),
    nats: float | None = option(
        f"Strength of the entries in nats, up to {MAX_NATS:g}; "
        f"{DEFAULT_NATS:g} if not given."
    ),
    expires: str | None = option(
        "When they expire: a number of days, or a date such as 2026-12-31.",
        metavar="DAYS|DATE",
    ),
    note: str = option("A note of one line, for other people.", default=""),
    as_json: Json = False,
) -> None:
    """Show, set and remove the allow and deny entries of a profile.

    An entry adds nats to the log-odds of a sender's messages, and appears among the
    reasons of their verdicts. A file to import has lines such as
    `allow ann@example.org` and `deny 192.0.2.0/24 nats=8 expires=2026-12-31`, as
    `list` prints them. A running service follows within a second.
    """
    settings, who, time = load_settings(), this_user(), now()
    name, given = profile or settings.profile, what or []
    if action == "list":
        _list_entries(name, given, as_json=as_json)
        return
    if not given or (action == "import" and len(given) != 1):
        some = "the file" if action == "import" else "the entries"
        msg = f"give {some} to {action}; `postbayes lists --help` has an example"
        raise InvalidInput(msg)
    if action == "remove":
        subjects = [ListSubject.parse(each) for each in given]
        with opened_database(settings) as engine:
            for each in subjects:
                remove_entry(engine, name, each, who=who)
                OUT.print(f"the entry {each} of {name} is removed")
        return
    if action == "import":
        entries = _read(given[0], source=who, time=time)
    else:
        if allow is None:
            msg = "give --allow or --deny"
            raise InvalidInput(msg)
        entries = [
            ListEntry(
                subject=ListSubject.parse(each),
                nats=nats_of("allow" if allow else "deny", nats),
                source=who,
                created_at=time,
                expires_at=None if expires is None else expiry_of(expires, time),
                note=note,
            )
            for each in given
        ]
    with opened_database(settings) as engine:
        add_entries(engine, name, entries, who=who)
    OUT.print(f"entries set for {name}: {len(entries):,}")


def _read(file: str, *, source: str, time: datetime) -> Sequence[ListEntry]:
    """Return the entries of a file."""
    content = sys.stdin.buffer.read() if file == STANDARD else read_bytes(Path(file))
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        msg = f"{file} is not UTF-8 text, at byte {error.start}"
        raise InvalidInput(msg) from error
    return parse_lists(text, file, source=source, now=time)


def _list_entries(name: str, wanted: Sequence[str], *, as_json: bool) -> None:
    subjects = {ListSubject.parse(each) for each in wanted}
    with opened_database(load_settings()) as engine:
        found = list_entries(engine, name)
    found = [each for each in found if not subjects or each.subject in subjects]
    entries = [ListEntryOut.of(each).model_dump(mode="json") for each in found]
    lines = (each.line() for each in found)
    show({"profile": name, "entries": entries}, lines, as_json=as_json)


def correspondents(
    action: Literal["list", "forget"] = argument(
        "list or forget.", metavar="ACTION", default="list"
    ),
    address: str | None = argument(
        "The address to look up or forget, such as ann@example.org.", metavar="ADDRESS"
    ),
    profile: str | None = option(
        "The only profile to show or change; all if not given.", metavar="PROFILE"
    ),
    as_json: Json = False,
) -> None:
    """Show the number of correspondents of users, and forget one of them.

    The database has only digests of addresses: with an address, list shows the
    profiles that know it. A running service forgets it within a minute.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        if action == "list":
            _list_correspondents(
                engine, settings, address, profile=profile, as_json=as_json
            )
            return
        if address is None:
            msg = "give the address: `postbayes correspondents forget ADDRESS`"
            raise InvalidInput(msg)
        forgot = forget_correspondent(
            engine, settings, address, profile=profile, who=this_user()
        )
    line = f"{address} is forgotten by {', '.join(forgot) or 'no profile'}"
    show({"profiles": forgot}, [line], as_json=as_json)


def _list_correspondents(
    engine: Engine,
    settings: Settings,
    address: str | None,
    *,
    profile: str | None,
    as_json: bool,
) -> None:
    found: list[dict[str, Any]] = [
        {
            "profile": name,
            "addresses": each.addresses,
            "messages": each.messages,
            "last": f"{each.last:%Y-%m-%d}",
        }
        for name, each in list_correspondents(
            engine, settings, address=address, profile=profile
        )
    ]
    lines = (
        f"{each['profile']}  "
        + (f"{number_of(each['addresses'], 'address')}  " if address is None else "")
        + f"{number_of(each['messages'], 'message')}  last {each['last']}"
        for each in found
    )
    show({"correspondents": found}, lines, as_json=as_json)
