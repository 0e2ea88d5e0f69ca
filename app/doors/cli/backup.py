"""`postbayes backup`: a copy of an SQLite database, while it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.doors.cli.console import (
    OUT,
    Json,
    interruptible,
    print_json,
    progress,
    stage,
    whole,
)
from app.services import upkeep
from app.services.application import opened_database
from app.settings import load_settings


def backup(
    file: Annotated[Path, typer.Argument(help="Where the copy goes.", metavar="FILE")],
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Audit the copy too: see `postbayes audit`."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy an SQLite database to a file, while the service goes on.

    The copy is of one moment, is checked, and is there whole or not at all.
    For PostgreSQL there is pg_dump.
    """
    unsound: list[str] = []
    with (
        opened_database(load_settings()) as engine,
        interruptible("interrupted; nothing was backed up"),
        whole(file) as part,
        progress() as bar,
    ):
        task = bar.add_task("copying pages", total=None, rate="")
        upkeep.backup(
            engine,
            part,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        if audit:
            stage(bar, "auditing")
            unsound = upkeep.audit_copy(part)
        size = part.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size, "unsound": unsound})
    else:
        result = ""
        if unsound:
            result = f", but counts and ledger disagree in {', '.join(unsound)}"
        elif audit:
            result = ", and all counts agree with their ledgers"
        OUT.print(f"{file}: {size:,} bytes; the file is sound{result}.")
    if unsound:
        raise typer.Exit(1)
