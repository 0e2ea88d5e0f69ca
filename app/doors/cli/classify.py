"""`postbayes classify` and `postbayes feedback`: one message at a time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import httpx2
import typer
from pydantic import ValidationError
from rich.text import Text

from app.doors.cli.console import OUT
from app.doors.documents.feedback import FeedbackOut
from app.doors.documents.message import check_source, parse_id
from app.doors.documents.verdict import ClassifyOut, EntryOut
from app.errors import (
    Conflict,
    DatabaseUnavailable,
    EmptyMessage,
    Inconsistent,
    InvalidInput,
    MessageTooLarge,
    NotFound,
    PostbayesError,
    UnreadableMessage,
    UnreadableSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.services.application import Application

COLOURS: Final = {"spam": "bold red", "ham": "bold green", "unsure": "bold yellow"}
RAW: Final = {"Content-Type": "message/rfc822"}
EXAMPLE: Final = "http://127.0.0.1:8025"
_REFUSED: Final[Mapping[int, type[PostbayesError]]] = {
    400: EmptyMessage,
    404: NotFound,
    409: Conflict,
    413: MessageTooLarge,
}
"""What a service says by its status; of a raw message 400 is that it is empty."""
Out = TypeVar("Out", ClassifyOut, FeedbackOut)
Url = Annotated[
    str | None,
    typer.Option(
        help="Ask a running service instead of reading the database, such as "
        f"{EXAMPLE}."
    ),
]
Profile = Annotated[
    str | None, typer.Option(help="Name of the profile. [POSTBAYES_PROFILE]")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the JSON document of the HTTP door.")
]


def classify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of one message each; standard input if none."),
    ] = None,
    explain: Annotated[
        int,
        typer.Option(min=0, max=1000, help="How many features to show, of each side."),
    ] = 0,
    profile: Profile = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Score messages without learning from them, and say why."""
    with ExitStack() as stack:
        app = None if url is not None else stack.enter_context(_application())
        for name, raw in _read(files):
            if app is not None:
                answered = app.classify(
                    profile or app.settings.profile, raw, strongest=explain
                )
                document = ClassifyOut.of_classified(answered)
            else:
                query: dict[str, str | int] = {"explain": explain}
                query |= _given(profile=profile)
                answer = ask(str(url), "/classify", raw, query)
                document = _document(ClassifyOut, str(url), answer)
            if as_json:
                OUT.print(document.model_dump_json(), markup=False)
            else:
                _print_verdict(name, document, explained=explain > 0)


def feedback(
    file: Annotated[
        Path | None, typer.Argument(help="One message; standard input if not given.")
    ] = None,
    label: Annotated[
        str, typer.Option(help="What the message is: a label of the profile.")
    ] = "",
    message_id: Annotated[
        str | None, typer.Option("--id", help="Id of a scored message, instead of it.")
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Take the message of --id back.")
    ] = False,
    source: Annotated[
        str, typer.Option(help="Who says so; kept in the ledger.")
    ] = "cli",
    profile: Profile = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Teach one message, durably; or take one back."""
    if bool(label) == forget:
        msg = "say what the message is with --label, or --forget one by its --id"
        raise InvalidInput(msg)
    check_source(source)
    if message_id is not None and file is not None:
        msg = "give either a FILE or --id, not both"
        raise InvalidInput(msg)
    if forget and message_id is None:
        msg = "--forget needs the --id of the message"
        raise InvalidInput(msg)
    raw = None if message_id is not None else next(_read([file] if file else None))[1]
    document = (
        _teach_here(raw, message_id, label, source, profile)
        if url is None
        else _teach_there(url, raw, message_id, label, source, profile)
    )
    if as_json:
        OUT.print(document.model_dump_json(), markup=False)
        return
    was = [f"was {document.label_before}"] if document.label_before else []
    labels = ", ".join([document.label, *was] if document.label else was)
    OUT.print(
        f"{document.outcome}: {labels} (id {document.id}, revision {document.revision})"
    )


def _teach_here(
    raw: bytes | None,
    message_id: str | None,
    label: str,
    source: str,
    profile: str | None,
) -> FeedbackOut:
    with _application() as app:
        name = profile or app.settings.profile
        if raw is not None:
            taught = app.feedback.teach(name, raw, label=label, source=source)
        elif label:
            taught = app.feedback.teach_by_id(
                name, parse_id(message_id or ""), label=label, source=source
            )
        else:
            digest = parse_id(message_id or "")
            taught = app.feedback.forget(name, digest, source=source)
        return FeedbackOut.of(taught)


def _teach_there(
    url: str,
    raw: bytes | None,
    message_id: str | None,
    label: str,
    source: str,
    profile: str | None,
) -> FeedbackOut:
    query = {"source": source, **_given(profile=profile)}
    if raw is not None:
        answer = ask(url, "/feedback", raw, {"label": label, **query})
    elif label:
        answer = ask(url, "/feedback", None, query, {"id": message_id, "label": label})
    else:
        answer = ask(url, f"/feedback/{message_id}", None, query)
    return _document(FeedbackOut, url, answer)


@contextmanager
def _application() -> Iterator[Application]:
    # Here, since who asks a service needs neither.
    from app.services.application import Application  # noqa: PLC0415
    from app.settings import load_settings  # noqa: PLC0415

    # In a command nothing is learned that nobody says.
    app = Application(load_settings().model_copy(update={"autolearn_from": None}))
    app.start()
    try:
        yield app
    finally:
        app.stop()


def _read(files: list[Path] | None) -> Iterator[tuple[str, bytes]]:
    if not files:
        yield "-", sys.stdin.buffer.read()
    for file in files or ():
        try:
            yield str(file), file.read_bytes()
        except OSError as error:
            msg = f"{file} cannot be read: {error.strerror}"
            raise UnreadableSource(msg) from error


def _given(**options: str | None) -> dict[str, str]:
    return {name: value for name, value in options.items() if value is not None}


def ask(
    url: str,
    path: str,
    raw: bytes | None,
    query: Mapping[str, str | int],
    document: dict[str, str | None] | None = None,
) -> bytes:
    """Return the answer of a running service, or raise what it said.

    A request without a body takes a message back.
    """
    method = "DELETE" if raw is None and document is None else "POST"
    try:
        answer = httpx2.request(
            method,
            url.rstrip("/") + path,
            params=query,
            content=raw,
            json=document,
            headers=RAW if raw is not None else None,
            timeout=60,
        )
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        msg = f"{url!r} is no address of a service; write one like {EXAMPLE}"
        raise InvalidInput(msg) from error
    except httpx2.TransportError as error:
        msg = f"the service at {url} does not answer: {error}"
        raise DatabaseUnavailable(msg) from error
    if answer.is_success:
        return answer.content
    kind = ""
    try:
        document = answer.json()
        detail, kind = str(document["detail"]), str(document.get("type", ""))
    except (ValueError, KeyError, TypeError):
        detail = f"the service at {url} answered {answer.status_code}"
    if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and kind:
        # An error of no type is one that nobody raised on purpose: the request is
        # answered so each time. A proxy answers 500 without a problem document.
        raise (UnreadableMessage if kind == "about:blank" else Inconsistent)(detail)
    if answer.is_server_error:
        raise DatabaseUnavailable(detail)
    raise _REFUSED.get(answer.status_code, InvalidInput)(detail)


def _document(kind: type[Out], url: str, answer: bytes) -> Out:
    """Return the document that a service answered with."""
    try:
        return kind.model_validate_json(answer)
    except ValidationError as error:
        msg = f"what answers at {url} is not Postbayes, or another version of it"
        raise InvalidInput(msg) from error


def _print_verdict(name: str, document: ClassifyOut, *, explained: bool) -> None:
    line = Text(f"{document.decision:6}", style=COLOURS[document.decision])
    line.append(
        f"  {document.probability:7.2%}  {_signed(document.log_odds)}  ",
        style="default",
    )
    line.append(f"{document.id}  {name}", style="dim")
    OUT.print(line)
    if explained:
        for entry in document.explanation:
            OUT.print(_entry_line(entry))


def _entry_line(entry: EntryOut) -> Text:
    colour = "red" if entry.log_odds > 0 else "green"
    line = Text(f"        {_signed(entry.log_odds)}  ", style=colour)
    what = entry.feature
    if entry.kind == "rest":
        what = f"({entry.features} other features)"
    line.append(f"{what:32.60}  ", style="default")
    counts = " · ".join(f"{label} {n}" for label, n in entry.messages.items())
    line.append(counts, style="dim")
    return line


def _signed(log_odds: float | None) -> str:
    return "   -inf" if log_odds is None else f"{log_odds:+7.2f}"
