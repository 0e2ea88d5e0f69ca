"""`postbayes people`: those who may sign in, added, listed and removed."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated, Literal

import typer

from app.doors.cli.console import OUT, Json, print_json, this_user
from app.errors import InvalidInput
from app.services.access import (
    add_person,
    check_password,
    list_people,
    remove_person,
    set_password,
)
from app.services.application import opened_database
from app.settings import load_settings


def people(
    action: Annotated[
        Literal["list", "add", "remove", "password"],
        typer.Argument(help="list, add, remove or password.", metavar="ACTION"),
    ] = "list",
    name: Annotated[
        str | None,
        typer.Argument(help="What the person signs in as.", metavar="NAME"),
    ] = None,
    role: Annotated[
        Literal["reader", "teacher", "admin"],
        typer.Option(
            help="What the person may do: a reader sees, a teacher teaches as well, an "
            "admin also undoes, changes policies, and makes keys.",
            metavar="ROLE",
        ),
    ] = "reader",
    profile: Annotated[
        str | None,
        typer.Option(
            help="The only profile that the person sees; all if not given.",
            metavar="PROFILE",
        ),
    ] = None,
    no_password: Annotated[
        bool,
        typer.Option(
            "--no-password",
            help="A proxy (POSTBAYES_SIGN_IN_HEADER) says who the person is.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Add, list and remove the people who may sign in to the page.

    The password is asked for, or read from standard input. Another password or a
    removal ends the sessions of the person within two seconds.
    """
    if action == "list":
        _list(as_json=as_json)
        return
    if name is None:
        msg = f"give the name of the person: `postbayes people {action} NAME`"
        raise InvalidInput(msg)
    if action == "remove":
        with opened_database(load_settings()) as engine:
            remove_person(engine, name, who=this_user())
        OUT.print(f"{name} may not sign in any more")
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
    OUT.print(f"{name} may sign in")


def _list(*, as_json: bool) -> None:
    with opened_database(load_settings()) as engine:
        found = list_people(engine)
    if as_json:
        names = ("name", "role", "profile")
        print_json({"people": [{n: getattr(p, n) for n in names} for p in found]})
        return
    for each in found:
        OUT.print(
            f"{each.name}  {each.role}"
            + (f"  profile {each.profile}" if each.profile else "")
            + ("" if each.password else "  no password")
            + f"  added {each.created:%Y-%m-%d}"
        )


def _password(name: str) -> str:
    """Return a password from the terminal, where it is not shown, or from a pipe."""
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
