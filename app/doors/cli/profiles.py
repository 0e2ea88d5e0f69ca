"""`postbayes profiles` and `postbayes audit`: the profiles, and whether they add up."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from app.classifier.specification import check_name
from app.doors.cli.console import OUT
from app.errors import UnknownProfile
from app.features.extract import FEATURE_SET
from app.services.application import now, open_database
from app.settings import load_settings
from app.storage import profiles as storage_profiles
from app.storage.database.engine import reading, writing
from app.storage.upkeep import audit as storage_audit


def profiles(
    create: Annotated[
        str | None,
        typer.Option(help="Make a profile of this name first.", metavar="NAME"),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Its labels, separated by commas. [POSTBAYES_LABELS]"),
    ] = None,
    spam_labels: Annotated[
        str | None,
        typer.Option(help="Those that stand for spam. [POSTBAYES_SPAM_LABELS]"),
    ] = None,
) -> None:
    """List the profiles, or make one. A running service notices within a second."""
    if create is not None:
        check_name(create)
    settings = load_settings(labels=labels, spam_labels=spam_labels)
    engine = open_database(load_settings())
    if create is not None:
        with writing(engine) as connection:
            storage_profiles.create(
                connection,
                name=create,
                labels=settings.labels,
                spam_labels=settings.spam_labels,
                feature_set=FEATURE_SET,
                created_at=now(),
            )
    with reading(engine) as connection:
        rows = storage_profiles.list_all(connection)
    for row in rows:
        labelled = ", ".join(
            f"{label} (spam)" if label in row.spam_labels else label
            for label in row.labels
        )
        OUT.print(
            f"{row.name}  revision {row.revision}  labels {labelled}  "
            f"feature set {row.feature_set}  made {row.created_at:%Y-%m-%d}",
            markup=False,
        )
    engine.dispose()


def audit(
    profile: Annotated[
        str | None, typer.Option(help="Audit this profile only, not all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Prove that the count tables and the ledger agree, to the last message.

    The whole ledger is replayed from nothing and compared with what a start
    of the service would load. Exits with 1 on any difference, or where a
    ledger row is missing or contradicts the one before.
    """
    engine = open_database(load_settings())
    with reading(engine) as connection:
        rows = storage_profiles.list_all(connection)
    if profile is not None:
        rows = [row for row in rows if row.name == profile]
        if not rows:
            raise UnknownProfile.named(profile)
    results = {}
    for row in rows:
        with reading(engine) as connection:
            results[row.name] = storage_audit.audit(connection, row)
    engine.dispose()
    difference = sum(result.difference for result in results.values())
    sound = all(result.sound for result in results.values())
    if as_json:
        documents = {name: asdict(result) for name, result in results.items()}
        OUT.print(
            json.dumps({"difference": difference, "profiles": documents}), markup=False
        )
    else:
        for name, result in results.items():
            broken = "".join(
                f", {number} {what}"
                for number, what in (
                    (result.missing_revisions, "missing revisions"),
                    (result.broken_rows, "rows that contradict the row before"),
                )
                if number
            )
            OUT.print(f"{name}: difference {result.difference}{broken}", markup=False)
    if not sound:
        raise typer.Exit(1)
