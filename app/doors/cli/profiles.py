"""`postbayes profiles`: the profiles listed, and one created."""

from __future__ import annotations

from typing import Annotated

import typer

from app.classifier.specification import check_name
from app.doors.cli.console import OUT
from app.services.application import now, opened_database
from app.services.profiles import create_profile, list_profiles
from app.settings import load_settings


def profiles(
    create: Annotated[
        str | None,
        typer.Option(help="Create a profile of this name first.", metavar="NAME"),
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
    """List the profiles, or create one. A running service notices within a second."""
    if create is not None:
        check_name(create)
    settings = load_settings(labels=labels, spam_labels=spam_labels)
    with opened_database(load_settings()) as engine:
        if create is not None:
            create_profile(
                engine,
                create,
                labels=settings.labels,
                spam_labels=settings.spam_labels,
                time=now(),
            )
        rows = list_profiles(engine)
    for row in rows:
        labelled = ", ".join(
            f"{label} (spam)" if label in row.spam_labels else label
            for label in row.labels
        )
        OUT.print(
            f"{row.name}  revision {row.revision}  labels {labelled}  "
            f"feature set {row.feature_set}  made {row.created_at:%Y-%m-%d}"
        )
