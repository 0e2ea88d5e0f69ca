"""`postbayes fold`: the ledger added to the counts, now and all of it."""

from __future__ import annotations

from app.doors.cli.console import (
    OUT,
    Json,
    OneProfile,
    interruptible,
    located_stage,
    print_json,
    progress,
)
from app.services import upkeep
from app.services.application import opened_database
from app.settings import load_settings


def fold(profile: OneProfile = None, as_json: Json = False) -> None:
    """Add to the counts what was taught since they were last brought up to date.

    A service does so by itself. This is for a ledger that grew without one, so
    that the next start is quick. It may run beside a service, may be
    interrupted or killed, and may be run again: nothing is counted twice. What
    is taught meanwhile is left to the service.
    """
    results = {}
    with (
        opened_database(load_settings()) as engine,
        interruptible("interrupted; run the same command again to fold the rest"),
        progress() as bar,
    ):
        for found in upkeep.fold(engine, profile):
            if found.name not in results:
                results[found.name] = found
                show = located_stage(bar, f"folding {found.name}", found.behind)
            show(found.rows)
    if as_json:
        documents = {
            name: {
                "rows": found.rows,
                "seconds": round(found.seconds, 3),
                "folded_revision": found.folded_revision,
            }
            for name, found in results.items()
        }
        print_json({"profiles": documents})
        return
    for name, found in results.items():
        OUT.print(
            f"{name}: {found.rows} rows folded in {found.seconds:.1f} s; the "
            f"counts are at revision {found.folded_revision}"
        )
