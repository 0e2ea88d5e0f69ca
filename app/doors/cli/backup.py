"""`postbayes backup`: a copy of an SQLite database, while it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from app.doors.cli.console import OUT, interruptible, progress, whole
from app.services.application import open_database
from app.settings import load_settings
from app.storage import profiles
from app.storage.database.engine import open_engine, reading
from app.storage.upkeep import audit as storage_audit
from app.storage.upkeep.backup import backup as copy


def backup(
    file: Annotated[Path, typer.Argument(help="Where the copy goes.", metavar="FILE")],
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Audit the copy too: see `postbayes audit`."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Copy an SQLite database to a file, while the service goes on.

    The copy is of one moment, is checked, and is there whole or not at all.
    For PostgreSQL there is pg_dump.
    """
    engine = open_database(load_settings())
    told = "interrupted; nothing was backed up"
    unsound: list[str] = []
    with interruptible(told), whole(file) as part, progress() as bar:
        task = bar.add_task("copying pages", total=None, rate="")
        copy(
            engine,
            part,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        if audit:
            bar.reset(task, description="auditing", total=None)
            unsound = _unsound(part)
        size = part.stat().st_size
    engine.dispose()
    if as_json:
        result = {"file": str(file), "bytes": size, "unsound": unsound}
        OUT.print(json.dumps(result), markup=False)
    else:
        agrees = ", whose profiles agree with their ledger" if audit else ""
        if unsound:
            agrees = f", but of {', '.join(unsound)} counts and ledger disagree"
        OUT.print(f"{file}: {size:,} bytes, a sound file{agrees}.", markup=False)
    if unsound:
        raise typer.Exit(1)


def _unsound(part: Path) -> list[str]:
    """Return the profiles of a copy that do not agree with their ledger."""
    engine = open_engine(f"sqlite:///{part.resolve()}")
    unsound = []
    try:
        with reading(engine) as connection:
            rows = profiles.list_all(connection)
        for row in rows:
            with reading(engine) as connection:
                if not storage_audit.audit(connection, row).sound:
                    unsound.append(row.name)
    finally:
        # Also when interrupted: else the files of SQLite's log stay beside it.
        engine.dispose()
    return unsound
