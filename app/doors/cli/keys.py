"""`postbayes keys`: API keys made, listed and revoked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from app.access.rights import MEANINGS, Right
from app.doors.cli.console import ERR, OUT, Json, print_json, this_user
from app.doors.documents.access import KeyOut, NewKeyOut
from app.errors import InvalidInput
from app.services.access import add_key, list_keys, made_key, revoke_key
from app.services.application import opened_database
from app.services.clock import now
from app.settings import load_settings

if TYPE_CHECKING:
    from datetime import datetime

    from app.access.people import AccessKey

_RIGHTS: Final = " ".join(f"{right}: {text}" for right, text in MEANINGS.items())


def keys(
    action: Annotated[
        Literal["list", "create", "revoke"],
        typer.Argument(help="list, create or revoke.", metavar="ACTION"),
    ] = "list",
    name: Annotated[
        str | None,
        typer.Argument(
            help="The name of the key to create or revoke, such as mx1.",
            metavar="NAME",
        ),
    ] = None,
    right: Annotated[
        list[Right] | None,
        typer.Option(
            help=f"A right of the new key, may be repeated. {_RIGHTS}",
            metavar="RIGHT",
        ),
    ] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option(
            help="The only profile that it may use, may be repeated; @example.org "
            "stands for that of the domain and those of its addresses.",
            metavar="PROFILE",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            help="The only label that it may teach, may be repeated.", metavar="LABEL"
        ),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            help="The only address or network that it may come from, may be repeated.",
            metavar="NETWORK",
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(min=0, help="It expires after so many days; never if not given."),
    ] = None,
    names_sources: Annotated[
        bool,
        typer.Option(
            "--names-sources",
            help="Let it say who teaches, as a mail server that knows its users.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make, list and revoke API keys.

    A new key is printed this once: it goes to standard output, and what is said of it
    to standard error. A running service knows a key within a second, and refuses a
    revoked one within two.
    """
    if action == "list":
        _list(as_json=as_json)
    elif name is None:
        msg = f"give the name of the key to {action}"
        raise InvalidInput(msg)
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
            expires=None if days is None else now() + timedelta(days=days),
        )
        with opened_database(load_settings(), make=True) as engine:
            add_key(engine, key, who=this_user())
        if as_json:
            print_json(NewKeyOut.of(key, key=text).model_dump(mode="json"))
            return
        OUT.print(text)
        ERR.print(f"the key {name} is shown this once; only its digest is stored")


def _list(*, as_json: bool) -> None:
    with opened_database(load_settings()) as engine:
        found = list_keys(engine)
    if as_json:
        documents = [KeyOut.of(each).model_dump(mode="json") for each in found]
        print_json({"keys": documents})
        return
    for each in found:
        OUT.print(_line(each))


def _line(key: AccessKey) -> str:
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
    parts.append(f"made {_day(key.created)}")
    if key.expires is not None:
        parts.append(f"expires {_day(key.expires)}")
    parts.append(
        "never used" if key.last_used is None else f"used {_day(key.last_used)}"
    )
    if key.revoked is not None:
        parts.append(f"revoked {_day(key.revoked)}")
    return "  ".join(parts)


def _day(time: datetime) -> str:
    return f"{time:%Y-%m-%d}"
