"""`postbayes why`: what was said of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.doors.cli.classify import print_verdict
from app.doors.cli.console import OUT, OneProfile, print_json
from app.doors.cli.figures import loaded
from app.doors.documents.verdict import MAX_EXPLAINED, ClassifyOut
from app.features.observation import parse_id
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from app.ledger.entry import LedgerRow
    from app.services.history import MessageHistory


def why(
    id: Annotated[  # noqa: A002  the name is shown to users
        str,
        typer.Argument(help="Of the message, as its verdict or its log line has it."),
    ],
    explain: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_EXPLAINED, help="How many features to show, of each side."
        ),
    ] = 10,
    profile: OneProfile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Show what was said of a message, and what explains it.

    The verdict is that of now: it knows what was taught since. The verdict of then is
    in the log, and beside each feedback.
    """
    digest = parse_id(id)
    with loaded() as app:
        found = app.history(digest, profile=profile, strongest=explain)
    if as_json:
        print_json({"id": digest.hex(), "profiles": [_document(x) for x in found]})
        return
    for each in found:
        _print(each, explained=explain > 0)


def _print(found: MessageHistory, *, explained: bool) -> None:
    OUT.print(f"profile {found.profile}")
    if found.scored is not None:
        OUT.print(f"{found.scored:%Y-%m-%d %H:%M:%S} UTC  scored")
    for row in found.rows:
        OUT.print(f"{row.time:%Y-%m-%d %H:%M:%S} UTC  {_taught(row)}")
    if found.now is None:
        OUT.print(
            "its features are not stored, or no longer: ask `postbayes classify "
            "--explain 10` with the message itself"
        )
        return
    document = ClassifyOut.of(Delivered.of(found.now))
    print_verdict(f"as of revision {document.revision}", document, explained=explained)


def _taught(row: LedgerRow) -> str:
    """Return a row of the ledger as a sentence."""
    did = f"labelled {row.label}" if row.label else "taken back"
    if row.label_before:
        did += f", was {row.label_before}"
    said = _said(row)
    if said:
        did += f"; the filter had said {said['decision']}"
        if said["log_odds"] is not None:
            did += f", {said['log_odds']:+.2f} nats"
    return f"{did}  (by {row.source})"


def _said(row: LedgerRow) -> dict[str, Any] | None:
    """Return the verdict before a feedback; None where there was none."""
    if not row.scores or "decision" not in row.scores:
        return None
    return {name: row.scores.get(name) for name in ("decision", "log_odds")}


def _document(found: MessageHistory) -> dict[str, object]:
    now = found.now and ClassifyOut.of(Delivered.of(found.now)).model_dump(mode="json")
    return {
        "profile": found.profile,
        "scored": found.scored and found.scored.isoformat(),
        "feedback": [
            {
                "revision": row.revision,
                "time": row.time.isoformat(),
                "label": row.label,
                "label_before": row.label_before,
                "source": row.source,
                "verdict_before": _said(row),
            }
            for row in found.rows
        ],
        "now": now,
    }
