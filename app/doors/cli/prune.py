"""`postbayes prune`: do without features that say next to nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from app.classifier.explain import insignificant
from app.classifier.specification import TEXT_VIEWS
from app.doors.cli.console import OUT, interruptible, progress, undo_of
from app.services.application import Specify, now, open_database
from app.services.memory.live import LiveProfiles
from app.services.prune import Criterion, Prune
from app.settings import load_settings
from app.storage import profiles
from app.storage.database.engine import reading


def prune(
    max_messages: Annotated[
        int, typer.Option(min=0, help="Prune what at most so many messages had.")
    ] = 1,
    older_than: Annotated[
        int,
        typer.Option(
            min=1, max=1200, metavar="MONTHS", help="And none of the last MONTHS."
        ),
    ] = 12,
    max_log_odds: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="NATS",
            help="Prune as well what tells no label from another by more than NATS, "
            "however many messages had it; 0 for none.",
        ),
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be pruned.")
    ] = False,
    profile: Annotated[
        str | None, typer.Option(help="Whose counts. [POSTBAYES_PROFILE]")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Take features out that say next to nothing, all of it long ago.

    Nothing is pruned that the ledger still has the features of, so that they
    can be undone: see POSTBAYES_VECTOR_DAYS. `postbayes undo --source prune`
    brings back what was pruned.
    """
    settings = load_settings()
    engine = open_database(settings)
    with reading(engine) as connection:
        row = profiles.find(connection, profile or settings.profile)
    criterion = Criterion(max_messages=max_messages, months=older_than)
    if max_log_odds:
        live = LiveProfiles(engine, Specify(settings))
        live.refresh()
        weak = insignificant(
            live.get(row.name).snapshot, TEXT_VIEWS, max_log_odds=max_log_odds
        )
        criterion = replace(criterion, weak=weak)
    use_case = Prune(engine, now)
    act = use_case.forecast if dry_run else use_case
    told = "interrupted; it is pruned or not: the same command prunes what is left"
    with interruptible(told), progress() as bar:
        task = bar.add_task("pruning", total=None, rate="")
        pruned = act(row, criterion, progress=lambda rows: bar.advance(task, rows))
    engine.dispose()
    if as_json:
        document = asdict(pruned) | {"dry_run": dry_run, "profile": row.name}
        OUT.print(json.dumps(document), markup=False)
        return
    would = "would be pruned" if dry_run else "pruned"
    parts = ", ".join(f"{n} of {view}" for view, n in pruned.features.items())
    OUT.print(
        f"{row.name}: {sum(pruned.features.values())} features {would}"
        f"{f' ({parts})' if parts else ''}, {pruned.rows} rows of counts",
        markup=False,
    )
    if pruned.features and not dry_run:
        back = undo_of("prune", profile=row.name)
        OUT.print(f"To bring them back: {back}", markup=False)
