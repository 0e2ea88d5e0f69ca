"""`postbayes audit`: the counts compared with the ledger."""

from __future__ import annotations

from dataclasses import asdict

import typer

from app.doors.cli.console import OUT, Json, OneProfile, print_json
from app.services import upkeep
from app.services.application import opened_database
from app.settings import load_settings


def audit(profile: OneProfile = None, as_json: Json = False) -> None:
    """Prove that the counts and the ledger agree, to the last message.

    The whole ledger is replayed from nothing and compared with what a start
    of the service would load. Exits with 1 on any difference, or where a
    ledger row is missing or contradicts the one before.
    """
    with opened_database(load_settings()) as engine:
        found = upkeep.audit(engine, profile)
    if as_json:
        difference = sum(each.difference for each in found.values())
        documents = {name: asdict(each) for name, each in found.items()}
        print_json({"difference": difference, "profiles": documents})
    else:
        for name, each in found.items():
            line = f"{name}: difference {each.difference}"
            if each.missing_revisions:
                line += f", {each.missing_revisions} missing revisions"
            if each.broken_rows:
                line += f", {each.broken_rows} rows that contradict the row before"
            OUT.print(line)
    if not all(each.sound for each in found.values()):
        raise typer.Exit(1)
