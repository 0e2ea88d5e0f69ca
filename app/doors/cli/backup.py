"""`postbayes backup`: a copy of an SQLite database, while it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from app.doors.cli.console import (
    OUT,
    Json,
    complete_or_absent,
    interruptible,
    print_json,
    progress,
    stage,
)
from app.errors import InvalidInput
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

    The copy is of one moment, is checked, and is there whole or not at all. A
    file that exists is never replaced. For PostgreSQL there is pg_dump.
    """
    unsound: list[str] = []
    with (
        opened_database(load_settings()) as engine,
        interruptible("interrupted; nothing was backed up"),
        complete_or_absent(_new(file)) as part,
        progress() as bar,
    ):
        task = bar.add_task("copying pages", total=None, rate="")
        rows = upkeep.backup(
            engine,
            part,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        if audit:
            stage(bar, "auditing")
            unsound = upkeep.audit_copy(part)
        size = part.stat().st_size
    if as_json:
        revisions = {row.name: row.revision for row in rows}
        print_json(
            {
                "file": str(file),
                "bytes": size,
                "profiles": revisions,
                "unsound": unsound,
            }
        )
    else:
        result = ""
        if unsound:
            result = f", but counts and ledger disagree in {', '.join(unsound)}"
        elif audit:
            result = ", and all counts agree with their ledgers"
        held = ", ".join(
            f"{row.name} (revision {row.revision:,})"
            if row.revision
            else f"{row.name} (nothing learned)"
            for row in rows
        )
        OUT.print(
            f"{file}: {size:,} bytes, with the profiles {held}; "
            f"the file is sound{result}."
        )
    if unsound:
        raise typer.Exit(1)


def _new(file: Path) -> Path:
    """Return a file that is not there yet.

    Raises
    ------
    InvalidInput
        If it is there: it may be the database in use, or the only good copy.
    """
    # Also the log of a database in use, which exists while it is open.
    if os.path.lexists(file):
        msg = f"{file} exists, and a backup replaces no file: give another name"
        raise InvalidInput(msg)
    return file
