"""`postbayes profiles`: the profiles listed; one created, renamed or deleted."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.classifier.specification import KINDS, check_name
from app.doors.cli.console import OUT, interruptible, progress, run_stage, this_user
from app.errors import InvalidInput
from app.services.application import opened_database
from app.services.clock import now
from app.services.profiles import (
    count_messages,
    create_profile,
    delete_profile,
    id_key_of_new,
    list_profiles,
    rename_profile,
)
from app.settings import load_settings

if TYPE_CHECKING:
    from sqlalchemy import Engine


def profiles(
    create: Annotated[
        str | None,
        typer.Option(help="Create a profile of this name first.", metavar="NAME"),
    ] = None,
    rename: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Give the profile OLD the name NEW.", metavar="OLD NEW"),
    ] = None,
    delete: Annotated[
        str | None,
        typer.Option(
            help="Delete the profile of this name, and all that it has learned.",
            metavar="NAME",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before deleting.")
    ] = False,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels of the new profile, separated by commas. [POSTBAYES_LABELS]"
        ),
    ] = None,
    spam_labels: Annotated[
        str | None,
        typer.Option(help="Those that stand for spam. [POSTBAYES_SPAM_LABELS]"),
    ] = None,
    kind: Annotated[
        Literal["mail"] | None,
        typer.Option(
            help="Labels by a name, in place of both. mail: ham, newsletter, "
            "notification, phishing and spam, of which the last two stand for spam.",
            metavar="KIND",
        ),
    ] = None,
) -> None:
    """List the profiles, or create, rename or delete one.

    A running service notices within a second. The profile of the site
    (POSTBAYES_PROFILE) answers where no other does, so it keeps its name.
    """
    if create is not None:
        check_name(create)
    if kind is not None:
        if create is None or labels or spam_labels:
            msg = (
                "--kind gives a new profile its labels: give --create NAME as well, "
                "and leave --labels and --spam-labels out"
            )
            raise InvalidInput(msg)
        labels, spam_labels = (",".join(names) for names in KINDS[kind])
    settings = load_settings(labels=labels, spam_labels=spam_labels)
    _require_not_of_the_site(delete or (rename and rename[0]), settings.profile)
    with opened_database(load_settings(), make=create is not None) as engine:
        if create is not None:
            create_profile(
                engine,
                create,
                labels=settings.labels,
                spam_labels=settings.spam_labels,
                time=now(),
                id_key=id_key_of_new(engine, settings),
                who=this_user(),
            )
        if rename is not None:
            rename_profile(engine, *rename)
        if delete is not None:
            _delete(engine, delete, yes=yes)
        rows, counted = list_profiles(engine), count_messages(engine)
    for row in rows:
        messages = counted[row.id]
        labelled = ", ".join(
            f"{messages.get(label, 0):,} {label}"
            + (" (spam)" if label in row.spam_labels else "")
            for label in row.labels
        )
        OUT.print(
            f"{row.name}  revision {row.revision}  learned {labelled}  "
            f"feature set {row.feature_set}  made {row.created_at:%Y-%m-%d}"
            + (f"  key {row.id_key}" if row.id_key else "")
        )


def _require_not_of_the_site(name: str | None, site: str) -> None:
    if name == site:
        msg = (
            f"the profile {name!r} is that of the site; name another one in "
            "POSTBAYES_PROFILE first"
        )
        raise InvalidInput(msg)


def _delete(engine: Engine, name: str, *, yes: bool) -> None:
    """Delete a profile, once somebody has agreed."""
    (row,) = list_profiles(engine, name)
    if not yes:
        if not sys.stdin.isatty():
            msg = (
                f"--delete forgets what the profile {name!r} has learned in "
                f"{row.revision} revisions, and cannot be undone; give --yes as well"
            )
            raise InvalidInput(msg)
        typer.confirm(
            f"Forget what {name!r} has learned in {row.revision} revisions?",
            abort=True,
            err=True,
        )
    left = "interrupted; the profile is gone, and a running service removes the rest"
    with interruptible(left), progress() as bar:
        run_stage(bar, "deleting", delete_profile(engine, name, who=this_user()))
