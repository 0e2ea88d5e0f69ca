"""`postbayes fold`: the ledger into the counts, now and all of it."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from app.doors.cli.console import OUT, interruptible, progress
from app.errors import UnknownProfile
from app.services.application import open_database
from app.services.fold import Folding
from app.settings import load_settings
from app.storage import profiles
from app.storage.database.engine import reading
from app.storage.fold.state import folded_revision


def fold(
    profile: Annotated[
        str | None, typer.Option(help="Fold this profile only, not all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Add to the counts what was taught since they were last brought up to date.

    A service does so by itself. This is for a ledger that grew without one, so
    that the next start is quick. It may run beside a service, may be
    interrupted or killed, and may be run again: nothing is counted twice. What
    is taught meanwhile is left to the service.
    """
    engine = open_database(load_settings())
    with reading(engine) as connection:
        rows = profiles.list_all(connection)
        behind = {
            row.name: row.revision - folded_revision(connection, row.id) for row in rows
        }
    if profile is not None:
        rows = [row for row in rows if row.name == profile]
        if not rows:
            raise UnknownProfile.named(profile)
    folding = Folding(engine)
    results: dict[str, dict[str, int | float]] = {}
    told = "interrupted; what was folded is, and the same command goes on"
    with interruptible(told), progress() as bar:
        for row in rows:
            begun = time.perf_counter()
            task = bar.add_task(f"folding {row.name}", total=behind[row.name], rate="")
            folded = 0
            for some in folding.all(row):
                folded += some
                bar.update(task, completed=folded)
            bar.remove_task(task)
            with reading(engine) as connection:
                mark = folded_revision(connection, row.id)
            results[row.name] = {
                "rows": folded,
                "seconds": round(time.perf_counter() - begun, 3),
                "folded_revision": mark,
            }
    engine.dispose()
    if as_json:
        OUT.print(json.dumps({"profiles": results}), markup=False)
        return
    for name, result in results.items():
        OUT.print(
            f"{name}: {result['rows']} rows folded in {result['seconds']:.1f} s; the "
            f"counts are at revision {result['folded_revision']}",
            markup=False,
        )
