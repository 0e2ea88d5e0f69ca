"""`postbayes teachers`: who labelled the mail of a profile."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from app.doors.cli.console import OUT, Profile
from app.doors.cli.figures import loaded, teachers_table
from app.doors.documents.figures import FiguresOut


def teachers(
    profile: Profile = None,
    window: Annotated[
        int,
        typer.Option(
            min=1, max=100_000, help="How many of the newest labelled messages."
        ),
    ] = 5_000,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object for each source, a line each."
        ),
    ] = False,
) -> None:
    """Show who labelled the mail, and who contradicts the filter or others.

    A suspect contradicts verdicts of which the filter was sure, while others teach as
    much. For each of them the command that takes the lessons back is printed.
    """
    with loaded() as app:
        found = app.figures(profile or app.settings.profile, window=window)
    document = FiguresOut.of_figures(found)
    if as_json:
        for each in document.sources:
            OUT.print(each.model_dump_json())
        return
    if not document.sources:
        OUT.print(f"{document.profile}: nobody has labelled a message that was scored")
        return
    OUT.print(teachers_table(document))
    for each in document.sources:
        if each.suspect:
            name, source = map(shlex.quote, (document.profile, each.source))
            OUT.print(
                f"{each.source} contradicts what the filter is sure of. To take all of "
                f"it back, have it shown first: postbayes undo --profile {name} "
                f"--source {source} --dry-run",
                markup=False,
                soft_wrap=True,
            )
