"""Commands of upkeep: `fold`, `prune`, `undo`, `audit`, `backup` and `migrate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer import Argument, Option

from app.classifier.snapshot import insignificant
from app.classifier.specification import TEXT_VIEWS
from app.doors.cli.console import (
    OUT,
    AsDocument,
    AsJson,
    OneProfile,
    Profile,
    complete_or_absent,
    fields_of,
    interruptible,
    located_stage,
    new,
    number_of,
    progress,
    show,
    stage,
    this_user,
    undo_of,
)
from app.doors.documents import moment_of
from app.doors.documents.message import UndoOut
from app.features.observation import parse_id
from app.ledger.undo import Selection
from app.services import upkeep
from app.services.clock import now
from app.services.profiles import list_profiles
from app.services.startup import load_profiles, opened_database, upgrade_database
from app.services.undo import Undo
from app.settings import load_settings

if TYPE_CHECKING:
    from app.doors.documents.figures import ErrorsOut
    from app.services.undo import Undone

_LISTED: Final = 20
"""Profiles that a line names; of more it says how many."""


def fold(profile: OneProfile = None, as_json: AsJson = False) -> None:
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
        name: fields_of(found, "rows", "folded_revision")
        | {"seconds": round(found.seconds, 3)}
        for name, found in results.items()
    }
    lines = (
        f"{name}: {number_of(found.rows, 'row')} folded in {found.seconds:.1f} s; the "
        f"counts are at revision {found.folded_revision}"
        for name, found in results.items()
    )
    show({"profiles": documents}, lines, as_json=as_json)


def prune(
    max_messages: Annotated[int, Option(min=0)] = 1,
    older_than: Annotated[int, Option(min=1, max=1200, metavar="MONTHS")] = 12,
    max_log_odds: Annotated[float, Option(min=0.0, max=1.0, metavar="NATS")] = 0.0,
    dry_run: bool = False,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Remove old features that carry almost no information.

    Features of messages that can still be undone are kept: see
    POSTBAYES_VECTOR_DAYS. `postbayes undo --source prune` restores the counts.

    Parameters
    ----------
    max_messages
        Remove features of at most this many messages.
    older_than
        Keep features that occurred in the last MONTHS.
    max_log_odds
        Also remove features that tell the labels apart by at most NATS, however many
        messages had them; 0 for none.
    dry_run
        Only print what would be pruned.
    """
    settings = load_settings()
    with opened_database(settings) as engine:
        (row,) = list_profiles(engine, profile or settings.profile)
        weak = {}
        if max_log_odds:
            snapshot = load_profiles(engine, settings).get(row.name).snapshot
            weak = insignificant(snapshot, TEXT_VIEWS, max_log_odds=max_log_odds)
        left = "interrupted; run the same command again to prune what is left, if any"
        with interruptible(left), progress() as bar:
            time, step = now(), stage(bar, "pruning")
            pruned = upkeep.prunable(
                engine,
                row,
                max_messages=max_messages,
                months=older_than,
                weak=weak,
                time=time,
                progress=step,
            )
            if not dry_run:
                pruned = upkeep.prune(engine, row, pruned, time=time, progress=step)
    would = "would be pruned" if dry_run else "pruned"
    parts = ", ".join(f"{n:,} of {view}" for view, n in pruned.features.items())
    lines = [
        f"{row.name}: {sum(pruned.features.values()):,} features {would}"
        f"{f' ({parts})' if parts else ''}, {pruned.rows:,} rows of counts"
    ]
    if pruned.features and not dry_run:
        lines.append(f"To bring them back: {undo_of('prune', profile=row.name)}")
    document = {
        **fields_of(pruned, "features", "rows", "revision"),
        "dry_run": dry_run,
        "profile": row.name,
    }
    show(document, lines, as_json=as_json)


def undo(
    ids: Annotated[list[str] | None, Argument(metavar="ID")] = None,
    source: str | None = None,
    since: Annotated[str | None, Option("--from", metavar="TIME")] = None,
    until: Annotated[str | None, Option(metavar="TIME")] = None,
    dry_run: bool = False,
    confirm: Annotated[str | None, Option(metavar="TOKEN")] = None,
    profile: Profile = None,
    as_json: AsDocument = False,
) -> None:
    """Take back feedback exactly.

    With several options, only feedback that matches all of them is taken back. A
    service on the same database follows within a second. An interrupted undo is
    finished by the next one, or by the service.

    Parameters
    ----------
    ids
        Ids of messages.
    source
        Who taught it, import:NAME, or undo:7 to take back an undo.
    since
        Only feedback from this time on: 2026-03-01 or 2026-03-01T14:30, in local time
        unless a time zone is given.
    until
        Only feedback before this time.
    dry_run
        Only print what would change.
    confirm
        The token of --dry-run; needed if more than 20 messages and more than 1 % of
        those learned would change.
    """
    selection = Selection(
        ids=frozenset(parse_id(each) for each in ids or ()),
        source=source,
        since=moment_of(since),
        until=moment_of(until),
    )
    settings = load_settings()
    name = profile or settings.profile
    with opened_database(settings) as engine:
        reverse = Undo(load_profiles(engine, settings))
        if dry_run:
            undone = reverse.forecast(name, selection)
        else:
            undone = _carry_out(reverse, name, selection, confirm)
    document = UndoOut.of(undone)
    lines = _sentences(document)
    if document.undo is not None:
        again = undo_of(document.undo, profile=document.profile)
        lines.append(
            "To have them back, learn the archive again."
            if undone.plan.of_parts
            else "To remove them again, run `postbayes prune` again."
            if undone.plan.of_pruning
            else f"To take that back: {again}"
        )
    show(document, lines, as_json=as_json)


def _carry_out(
    reverse: Undo, name: str, selection: Selection, confirm: str | None
) -> Undone:
    """Record an undo and carry it out, with a progress bar."""
    with interruptible(
        "interrupted; the undo may have been recorded: run the same command again to "
        "finish it or to see that nothing is left"
    ):
        undone = reverse.begin(name, selection, source=this_user(), confirm=confirm)
    with (
        interruptible(
            "interrupted; the undo is recorded, and the service or the same command "
            "finishes it"
        ),
        progress() as bar,
    ):
        advance = located_stage(bar, "undoing", len(undone.plan.work))
        revision = undone.revision
        for revision in reverse.finish(undone):
            advance(revision - undone.revision)
    return replace(undone, revision=revision)


def _sentences(document: UndoOut) -> list[str]:
    """Return the undo as lines for people."""
    lines = [
        f"{document.profile}: {name} was left unfinished, and is carried out now; "
        f"to take it back: {undo_of(name, profile=document.profile)}"
        for name in document.finished
    ]
    if not document.rows and not document.undos:
        more = "more " if lines else ""
        return [
            *lines,
            f"nothing {more}to take back: no feedback matches, or what matches is "
            "taken back already or forgotten",
        ]
    would = "would take" if document.dry_run else "took"
    back = list(document.undos)
    # An undo of an undo takes back no taught row.
    if document.rows:
        back.insert(0, f"{number_of(document.rows, 'row')} of the ledger")
    lines.append(f"{document.profile}: {would} back {', '.join(back)}")
    lines += [
        f"  {number_of(moved.messages, 'message')}: "
        f"{moved.label_before or 'not learned'} -> {moved.label or 'not learned'}"
        for moved in document.messages
    ]
    lines += [
        f"  {messages:+d} messages of imports: {label}"
        for label, messages in document.summed.items()
        if messages
    ]
    if document.features is not None:
        lines.append(f"  {document.features:,} features change their counts")
    if document.figures_before is not None and document.figures_after is not None:
        lines.append(f"  errors now: {_errors(document.figures_before)}")
        lines.append(f"  errors after: {_errors(document.figures_after)}")
    if document.confirm is not None:
        lines.append(f"To do it, repeat this with: --confirm {document.confirm}")
    return lines


def _errors(figures: ErrorsOut) -> str:
    return (
        f"{figures.ham_lost:,} of {figures.ham:,} ham lost, "
        f"{figures.spam_missed:,} of {figures.spam:,} spam missed"
    )


def audit(profile: OneProfile = None, as_json: AsJson = False) -> None:
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
    show({"difference": difference, "profiles": found}, lines, as_json=as_json)
    if not all(each.sound for each in found.values()):
        raise typer.Exit(1)


def backup(file: Path, audit: bool = False, as_json: AsJson = False) -> None:
    """Copy an SQLite database to a file while the service runs.

    The copy is a checked, consistent snapshot, and is written completely or not at
    all. An existing file is never replaced. For PostgreSQL, use pg_dump.

    Parameters
    ----------
    file
        Where the copy goes.
    audit
        Audit the copy too: see `postbayes audit`.
    """
    unsound: list[str] = []
    with (
        opened_database(load_settings()) as engine,
        interruptible("interrupted; nothing was backed up"),
        complete_or_absent(new(file)) as part,
        progress() as bar,
    ):
        task = bar.add_task("copying pages", total=None, rate="")
        rows = upkeep.backup(
            engine,
            part,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        damaged = upkeep.damaged_in(part)
        if audit and not damaged:
            stage(bar, "auditing")
            unsound = upkeep.audit_copy(part)
        size = part.stat().st_size
    revisions = {row.name: row.revision for row in rows}
    result = ""
    if damaged:
        result = (
            f", but stored features in {', '.join(damaged)} are damaged: keep older "
            "backups, and repair them as docs/troubleshooting.md shows (Damaged "
            "features)"
        )
        unsound = damaged
    elif unsound:
        result = f", but counts and ledger disagree in {', '.join(unsound)}"
    elif audit:
        result = ", and all counts agree with their ledgers"
    # Those that learned most.
    listed = sorted(revisions, key=revisions.__getitem__, reverse=True)[:_LISTED]
    held = ", ".join(
        f"{name} (revision {revisions[name]:,})"
        if revisions[name]
        else f"{name} (nothing learned)"
        for name in listed
    )
    if len(revisions) > _LISTED:
        held += f" and {len(revisions) - _LISTED:,} more"
    line = (
        f"{file}: {size:,} bytes, with the profiles {held}; the file is sound{result}."
    )
    document = {"file": str(file), "bytes": size, "profiles": revisions}
    show(document | {"unsound": unsound}, [line], as_json=as_json)
    if unsound:
        raise typer.Exit(1)


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
