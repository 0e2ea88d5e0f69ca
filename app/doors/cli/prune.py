"""`postbayes prune`: features that say next to nothing, taken out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from app.classifier.explain import insignificant
from app.classifier.specification import TEXT_VIEWS
from app.doors.cli.console import (
    OUT,
    Json,
    Profile,
    interruptible,
    print_json,
    progress,
    stage,
    undo_of,
)
from app.services.application import load_profiles, opened_database
from app.services.clock import now
from app.services.profiles import list_profiles
from app.services.upkeep import Criterion, Prune
from app.settings import load_settings


def prune(
    max_messages: Annotated[
        int, typer.Option(min=0, help="Prune features of at most so many messages.")
    ] = 1,
    older_than: Annotated[
        int,
        typer.Option(
            min=1,
            max=1200,
            metavar="MONTHS",
            help="Prune no feature of a message of the last MONTHS.",
        ),
    ] = 12,
    max_log_odds: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="NATS",
            help="Prune as well features that tell no label from another by more than "
            "NATS, however many messages had them; 0 for none.",
        ),
    ] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be pruned.")
    ] = False,
    profile: Profile = None,
    as_json: Json = False,
) -> None:
    """Take out old features that say next to nothing.

    Nothing is pruned that the ledger still has the features of, so that they
    can be undone: see POSTBAYES_VECTOR_DAYS. `postbayes undo --source prune`
    brings back what was pruned.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        (row,) = list_profiles(engine, profile or settings.profile)
        weak = {}
        if max_log_odds:
            snapshot = load_profiles(engine, settings).get(row.name).snapshot
            weak = insignificant(snapshot, TEXT_VIEWS, max_log_odds=max_log_odds)
        criterion = Criterion(max_messages=max_messages, months=older_than, weak=weak)
        use_case = Prune(engine, now)
        act = use_case.forecast if dry_run else use_case
        left = "interrupted; run the same command again to prune what is left, if any"
        with interruptible(left), progress() as bar:
            pruned = act(row, criterion, progress=stage(bar, "pruning"))
    if as_json:
        print_json(asdict(pruned) | {"dry_run": dry_run, "profile": row.name})
        return
    would = "would be pruned" if dry_run else "pruned"
    parts = ", ".join(f"{n} of {view}" for view, n in pruned.features.items())
    OUT.print(
        f"{row.name}: {sum(pruned.features.values())} features {would}"
        f"{f' ({parts})' if parts else ''}, {pruned.rows} rows of counts"
    )
    if pruned.features and not dry_run:
        OUT.print(f"To bring them back: {undo_of('prune', profile=row.name)}")
