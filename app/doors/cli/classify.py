"""Commands about one message: `classify`, `why` and `feedback`."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from rich.text import Text
from typer import Argument, Option

from app.doors.cli.client import application, ask, loaded, read_messages
from app.doors.cli.console import (
    AsDocument,
    AsJson,
    OneProfile,
    Profile,
    Url,
    plain,
    show,
)
from app.doors.documents.history import MessageHistoryOut
from app.doors.documents.message import FeedbackOut
from app.doors.documents.verdict import MAX_EXPLAINED, ClassifyOut
from app.errors import InvalidInput
from app.features.observation import parse_id
from app.ledger.entry import check_source
from app.services.delivery import Delivered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.classifier.verdict import HistoryLine
    from app.doors.documents.verdict import EntryOut
    from app.ledger.entry import LedgerRow
    from app.services.history import MessageHistory

COLOURS: Final = {"spam": "bold red", "ham": "bold green", "unsure": "bold yellow"}
WIDTH: Final = 36
"""The columns for the text of a reason; a longer text moves its counts aside."""


def classify(
    files: Annotated[list[Path] | None, Argument()] = None,
    explain: Annotated[int, Option(min=0, max=MAX_EXPLAINED)] = 0,
    profile: Profile = None,
    url: Url = None,
    as_json: AsDocument = False,
) -> None:
    """Score messages without learning them, and explain the verdict.

    Parameters
    ----------
    files
        Messages, or mboxes of them; standard input if none, or for -.
    explain
        Number of reasons to show on each side.
    """
    with ExitStack() as stack:
        app = stack.enter_context(application()) if url is None else None
        for name, raw in read_messages(files or []):
            if app is not None:
                found = app.classify(
                    profile or app.settings.profile, raw, strongest=explain
                )
                document = ClassifyOut.of(Delivered.of(found))
            else:
                query = {"explain": explain, "profile": profile}
                document = ask(ClassifyOut, str(url), "/classify", raw, query)
            lines = verdict_lines(name, document, explained=explain > 0)
            show(document, lines, as_json=as_json)


def verdict_lines(
    name: str, document: ClassifyOut, *, explained: bool
) -> Iterator[Text]:
    """Yield a verdict in one line, and its explanation below."""
    line = Text(f"{document.decision:6}", style=COLOURS[document.decision])
    line.append(
        f"  {document.probability:7.2%}  {_signed(document.log_odds)}  ",
        style="default",
    )
    line.append_text(plain(f"{document.id}  {name}", "dim"))
    yield line
    if explained:
        for level in document.levels:
            learned = " · ".join(f"{label} {n}" for label, n in level.messages.items())
            times = f", each as {level.weight}" if level.weight > 1 else ""
            yield _line(level.log_odds or 0.0, level.profile, f"{learned}{times}")
        if document.levels:
            yield Text("        by family", style="dim")
        for family, nats in document.families.items():
            yield _line(nats, family, "")
        share = document.explained_pct
        by_reasons = "" if share is None else f", {share:.0f} % of it by those shown"
        yield Text(f"        by reason{by_reasons}", style="dim")
        for entry in document.explanation:
            # The prior is one of the subtotals.
            if entry.kind != "prior":
                yield _entry_line(entry)


def _entry_line(entry: EntryOut) -> Text:
    if entry.kind == "rest":
        return _line(entry.log_odds, f"({entry.features} other features)", "")
    # Statements are printed in full.
    text = entry.title[:60] if entry.features else entry.title
    seen = entry.parts[0].messages if entry.parts else {}
    counts = " · ".join(f"{label} {n}" for label, n in seen.items())
    more = f"{entry.features} features; " if entry.features > 1 else ""
    first = f"{entry.parts[0].feature}: " if more and counts else ""
    return _line(entry.log_odds, text, f"{more}{first}{counts}")


def _line(nats: float, text: str, more: str) -> Text:
    line = Text(f"        {_signed(nats)}  ", style="red" if nats > 0 else "green")
    cell = plain(text, "default")
    if more:
        # A Chinese character is two columns wide, and a combining mark none.
        cell.pad_right(max(0, WIDTH - cell.cell_len) + 2)
    return line.append_text(cell).append_text(plain(more, "dim"))


def _signed(log_odds: float | None) -> str:
    return "   -inf" if log_odds is None else f"{log_odds:+7.2f}"


def why(
    id: str,  # noqa: A002  the name is shown to users
    explain: Annotated[int, Option(min=0, max=MAX_EXPLAINED)] = 10,
    profile: OneProfile = None,
    as_json: AsJson = False,
) -> None:
    """Show how a message was scored and taught, and explain it.

    First come the verdicts and the feedback of the time, and then the current verdict,
    after all feedback since.

    Parameters
    ----------
    id
        The id of the message, as in its verdict or its log line.
    explain
        Number of features to show on each side.
    """
    digest = parse_id(id)
    with loaded() as app:
        found = app.history.stored(digest, profile=profile, strongest=explain)
    document = {"profiles": [MessageHistoryOut.of(digest, each) for each in found]}
    lines = chain.from_iterable(_lines(x, explained=explain > 0) for x in found)
    show(document, lines, as_json=as_json)


def _lines(found: MessageHistory, *, explained: bool) -> Iterator[str | Text]:
    yield f"profile {found.profile}"
    events = [(row.time, _taught(row)) for row in found.rows]
    events += [(each.line.time, _decided(each.line)) for each in found.entries]
    # The history may be switched off.
    if found.scored is not None and not found.entries:
        events.append((found.scored, "scored"))
    for time, event in sorted(events):
        yield f"{time:%Y-%m-%d %H:%M:%S} UTC  {event}"
    if found.now is None:
        yield (
            "its features are not stored, or no longer: run `postbayes "
            "classify --explain 10` with the message itself"
        )
        return
    document = ClassifyOut.of(Delivered.of(found.now))
    as_of = f"as of revision {document.revision}"
    yield from verdict_lines(as_of, document, explained=explained)


def _decided(line: HistoryLine) -> str:
    """Return a past verdict with its reasons, as a sentence."""
    log_odds = "" if line.log_odds is None else f", {line.log_odds:+.2f} nats"
    reasons = "; ".join(f"{text} {nats:+.2f}" for text, nats in line.reasons or ())
    return f"{line.decision}{log_odds}  (by {line.door})" + (
        f"; reasons: {reasons}" if reasons else ""
    )


def _taught(row: LedgerRow) -> str:
    """Return a row of the ledger as a sentence."""
    did = f"labelled {row.label}" if row.label else "taken back"
    if row.label_before:
        did += f", was {row.label_before}"
    scores = row.scores or {}
    if "decision" in scores:
        did += f"; the filter had decided {scores['decision']}"
        if (nats := scores.get("log_odds")) is not None:
            did += f", {nats:+.2f} nats"
    return f"{did}  (by {row.source})"


def feedback(
    file: Annotated[Path | None, Argument()] = None,
    label: str = "",
    message_id: Annotated[str | None, Option("--id")] = None,
    forget: bool = False,
    source: str = "cli",
    profile: Profile = None,
    url: Url = None,
    as_json: AsDocument = False,
) -> None:
    """Teach one message, or forget one.

    Parameters
    ----------
    file
        One message; standard input if not given, or for -.
    label
        The label of the message, one of the profile's labels.
    message_id
        Id of a scored message, instead of FILE.
    forget
        Forget the message of --id for good.
    source
        The source of the feedback, kept in the ledger.
    """
    if bool(label) == forget:
        msg = "give the label of the message with --label, or --forget one by its --id"
        raise InvalidInput(msg)
    check_source(source)
    if message_id is not None and file is not None:
        raise InvalidInput("give either a FILE or --id, not both")
    if forget and message_id is None:
        raise InvalidInput("--forget needs the --id of the message")
    raw = None
    if message_id is None:
        messages = read_messages([file] if file else [])
        _, raw = next(messages, ("", b""))
        if next(messages, None) is not None:
            raise InvalidInput(
                f"{file} is a mailbox with several messages; `postbayes learn --label "
                f"{label} {file}` teaches all of them"
            )
    if url is None:
        document = _teach(raw, message_id, label, source, profile)
    else:
        asked = partial(ask, FeedbackOut, url)
        query = {"source": source, "profile": profile}
        if raw is not None:
            document = asked("/feedback", raw, {"label": label, **query})
        elif label:
            body = {"id": message_id, "label": label}
            document = asked("/feedback", None, query, body)
        else:
            document = asked(f"/feedback/{message_id}", None, query)
    was = [f"was {document.label_before}"] if document.label_before else []
    labels = ", ".join([document.label, *was] if document.label else was)
    line = (
        f"{document.outcome}: {labels} (id {document.id}, revision {document.revision})"
    )
    show(document, [line], as_json=as_json)


def _teach(
    raw: bytes | None,
    message_id: str | None,
    label: str,
    source: str,
    profile: str | None,
) -> FeedbackOut:
    """Teach through the database, without a service."""
    with application() as app:
        name = profile or app.settings.profile
        if raw is not None:
            taught = app.feedback.teach(name, raw, label=label, source=source)
            return FeedbackOut.of(taught)
        digest = parse_id(message_id or "")
        taught = (
            app.feedback.teach_by_id(name, digest, label=label, source=source)
            if label
            else app.feedback.forget(name, digest, source=source)
        )
        return FeedbackOut.of(taught)
