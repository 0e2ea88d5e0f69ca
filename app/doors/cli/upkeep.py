"""Commands of upkeep: `fold`, `prune`, `audit`, `backup` and `migrate`."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from app.classifier.explain import insignificant
from app.classifier.specification import TEXT_VIEWS
from app.doors.cli.console import (
    OUT,
    Json,
    OneProfile,
    Profile,
    complete_or_absent,
    interruptible,
    located_stage,
    progress,
    show,
    stage,
    undo_of,
)
from app.errors import InvalidInput
from app.services import upkeep
from app.services.clock import now
from app.services.profiles import list_profiles
from app.services.startup import load_profiles, opened_database, upgrade_database
from app.services.upkeep import Criterion, Prune
from app.settings import load_settings


def fold(profile: OneProfile = None, as_json: Json = False) -> None:
    """Bring the counts up to date with the ledger.

    A service does this by itself. Use the command for a ledger that grew without a
    service, to make the next start quick. It can run beside a service, and can be
    interrupted, killed and repeated: nothing is counted twice.
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
                advance = located_stage(bar, f"folding {found.name}", found.behind)
            advance(found.rows)
    documents = {
        name: {
            "rows": found.rows,
            "seconds": round(found.seconds, 3),
            "folded_revision": found.folded_revision,
        }
        for name, found in results.items()
    }
    lines = (
        f"{name}: {found.rows} rows folded in {found.seconds:.1f} s; the counts are at "
        f"revision {found.folded_revision}"
        for name, found in results.items()
    )
    show({"profiles": documents}, lines, as_json=as_json)


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
    """Remove old features that carry almost no information.

    Features of messages that can still be undone are kept: see
    POSTBAYES_VECTOR_DAYS. `postbayes undo --source prune` restores the counts.
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
    would = "would be pruned" if dry_run else "pruned"
    parts = ", ".join(f"{n} of {view}" for view, n in pruned.features.items())
    lines = [
        f"{row.name}: {sum(pruned.features.values())} features {would}"
        f"{f' ({parts})' if parts else ''}, {pruned.rows} rows of counts"
    ]
    if pruned.features and not dry_run:
        lines.append(f"To bring them back: {undo_of('prune', profile=row.name)}")
    document = asdict(pruned) | {"dry_run": dry_run, "profile": row.name}
    show(document, lines, as_json=as_json)


def audit(profile: OneProfile = None, as_json: Json = False) -> None:
    """Check that the counts agree exactly with the ledger.

    The whole ledger is replayed and compared with the counts that a service would
    load. Exits with 1 on any difference, or if a ledger row is missing or contradicts
    the one before.
    """
    with opened_database(load_settings()) as engine:
        found = upkeep.audit(engine, profile)
    lines = []
    for name, each in found.items():
        line = f"{name}: difference {each.difference}"
        if each.missing_revisions:
            line += f", {each.missing_revisions} missing revisions"
        if each.broken_rows:
            line += f", {each.broken_rows} rows that contradict the row before"
        lines.append(line)
    difference = sum(each.difference for each in found.values())
    documents = {name: asdict(each) for name, each in found.items()}
    show({"difference": difference, "profiles": documents}, lines, as_json=as_json)
    if not all(each.sound for each in found.values()):
        raise typer.Exit(1)


def backup(
    file: Annotated[Path, typer.Argument(help="Where the copy goes.", metavar="FILE")],
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Audit the copy too: see `postbayes audit`."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy an SQLite database to a file while the service runs.

    The copy is a checked, consistent snapshot, and is written completely or not at
    all. An existing file is never replaced. For PostgreSQL, use pg_dump.
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
    revisions = {row.name: row.revision for row in rows}
    document = {"file": str(file), "bytes": size, "profiles": revisions}
    result = ""
    if unsound:
        result = f", but counts and ledger disagree in {', '.join(unsound)}"
    elif audit:
        result = ", and all counts agree with their ledgers"
    held = ", ".join(
        f"{name} (revision {revision:,})" if revision else f"{name} (nothing learned)"
        for name, revision in revisions.items()
    )
    line = (
        f"{file}: {size:,} bytes, with the profiles {held}; the file is sound{result}."
    )
    show(document | {"unsound": unsound}, [line], as_json=as_json)
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


def migrate() -> None:
    """Migrate an older database to this version, as `serve` does.

    Make a backup first: older versions then refuse the database. All other commands
    refuse an older database.
    """
    before, after = upgrade_database(load_settings())
    if before == after:
        OUT.print(f"the database is at migration {after}, as this version needs it")
    else:
        OUT.print(f"the database was migrated from {before} to {after}")
