"""`postbayes correspondents`: whom users have written to, counted and forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.doors.cli.console import OUT, Json, print_json, this_user
from app.errors import InvalidInput
from app.services.application import opened_database
from app.services.correspondents import (
    forget_correspondent,
    list_correspondents,
)
from app.settings import load_settings

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from app.settings import Settings


def correspondents(
    action: Annotated[
        Literal["list", "forget"],
        typer.Argument(help="list or forget.", metavar="ACTION"),
    ] = "list",
    address: Annotated[
        str | None,
        typer.Argument(
            help="The address to look up or to forget, such as ann@example.org.",
            metavar="ADDRESS",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="The only profile to show, or that forgets it; all if not given.",
            metavar="PROFILE",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how many people users have written to, and forget one of them.

    The database has digests of addresses and names nobody: with an address, list
    shows which profiles know it. A running service forgets it within a minute.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        if action == "list":
            _list(engine, settings, address, profile=profile, as_json=as_json)
            return
        if address is None:
            msg = "give the address: `postbayes correspondents forget ADDRESS`"
            raise InvalidInput(msg)
        forgot = forget_correspondent(
            engine, settings, address, profile=profile, who=this_user()
        )
    if as_json:
        print_json({"profiles": forgot})
    else:
        OUT.print(f"{address} is forgotten by {', '.join(forgot) or 'no profile'}")


def _list(
    engine: Engine,
    settings: Settings,
    address: str | None,
    *,
    profile: str | None,
    as_json: bool,
) -> None:
    found = [
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
    if as_json:
        print_json({"correspondents": found})
        return
    for each in found:
        addresses = f"{each['addresses']} addresses  " if address is None else ""
        OUT.print(
            f"{each['profile']}  {addresses}{each['messages']} messages  "
            f"last {each['last']}"
        )
