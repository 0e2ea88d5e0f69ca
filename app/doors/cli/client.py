"""Client of a running service, and the message and application of a command."""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import httpx2
from pydantic import ValidationError

from app.corpora.mailbox import read_mailbox
from app.doors.cli.console import EXAMPLE, STANDARD, opened, read_standard
from app.doors.documents.message import FeedbackOut
from app.doors.documents.verdict import ClassifyOut
from app.doors.serving.sockets import Inet
from app.errors import (
    Conflict,
    DatabaseUnavailable,
    EmptyMessage,
    Forbidden,
    Inconsistent,
    InvalidInput,
    InvalidSetting,
    MessageTooLarge,
    NotFound,
    PostbayesError,
    TooManyRequests,
    Unauthenticated,
    UnreadableMessage,
    reason,
)
from app.mail.limits import MAX_BYTES
from app.services.client import NoAnswer, usable_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from app.services.application import Application
    from app.settings import Settings

API_KEY: Final = "POSTBAYES_API_KEY"
"""The variable with the key for the service at `--url`."""
_REFUSED: Final[Mapping[int, type[PostbayesError]]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: MessageTooLarge,
}
"""The errors of a service by status."""
_EMPTY: Final = "urn:postbayes:problem:empty-message"
Out = TypeVar("Out", ClassifyOut, FeedbackOut)


def url_of(settings: Settings) -> str:
    """Return the address of the service with these settings."""
    return f"http://{Inet(settings.host, settings.port)}"


def ask(
    kind: type[Out],
    url: str,
    path: str,
    raw: bytes | None,
    query: Mapping[str, str | int | None],
    document: dict[str, str | None] | None = None,
) -> Out:
    """Return the document that a running service answers, or raise its error.

    A request without a body forgets a message.  Parameters that are None are left out.
    """
    method = "DELETE" if raw is None and document is None else "POST"
    try:
        with usable_environment():
            client = httpx2.Client(timeout=60)
        with client:
            answer = client.request(
                method,
                url.rstrip("/") + path,
                params={k: value for k, value in query.items() if value is not None},
                content=raw,
                json=document,
                headers=_headers(raw),
            )
    except NoAnswer as error:
        raise InvalidSetting(str(error)) from error
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL) as error:
        msg = f"{url!r} is not the address of a service; write one like {EXAMPLE}"
        raise InvalidInput(msg) from error
    # Also an answer that cannot be decoded.
    except httpx2.RequestError as error:
        msg = f"the service at {url} does not answer: {reason(error)}"
        raise DatabaseUnavailable(msg) from error
    if not answer.is_success:
        raise _refusal(answer, url)
    try:
        return kind.model_validate_json(answer.content)
    except ValidationError as error:
        msg = f"the service at {url} is not Postbayes, or is another version"
        raise InvalidInput(msg) from error


def _refusal(answer: httpx2.Response, url: str) -> PostbayesError:
    """Return the error that an answer stands for."""
    type_ = ""
    try:
        problem = answer.json()
        detail, type_ = str(problem["detail"]), str(problem.get("type", ""))
    except (ValueError, KeyError, TypeError):
        detail = f"the service at {url} answered {answer.status_code}"
        # Not followed: a key goes only to the address that it was given with.
        if answer.next_request is not None:
            detail += (
                f" and redirects to {answer.next_request.url.join('/')}; give the "
                "address of the service itself"
            )
    if answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR and type_:
        # A problem without a type is a defect, and a retry would fail again. A 500
        # without a problem document is from a proxy.
        return (UnreadableMessage if type_ == "about:blank" else Inconsistent)(detail)
    if answer.is_server_error:
        return DatabaseUnavailable(detail)
    # A 400 of a proxy, such as to plain HTTP on a port for TLS, is not about a message.
    if type_ == _EMPTY:
        return EmptyMessage(detail)
    if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        return TooManyRequests(detail, 0.0)
    return _REFUSED.get(answer.status_code, InvalidInput)(detail)


def _headers(raw: bytes | None) -> dict[str, str]:
    """Return the type of a raw message, and the key."""
    headers = {} if raw is None else {"Content-Type": "message/rfc822"}
    if key := os.environ.get(API_KEY, "").strip():
        # The library would quote it in its error, or raise none of its own.
        if not (key.isascii() and key.isprintable()):
            raise InvalidSetting(
                f"{API_KEY} is not a key; write it as `postbayes keys create` prints it"
            )
        headers["Authorization"] = f"Bearer {key}"
    return headers


def read_messages(files: Sequence[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and message of each file, and of each message of an mbox.

    No file, or -, is standard input, which is one message.  No more of one is kept than
    the parser takes, and notes that there is more.
    """
    for file in files or [Path(STANDARD)]:
        if str(file) == STANDARD:
            yield STANDARD, read_standard(MAX_BYTES + 1)
        # A pipe cannot be read from its beginning again, as an mbox is.
        elif file.is_file() and file.stat().st_size:
            found = False
            for message in read_mailbox(file, label=None):
                found = True
                yield message.where, message.raw[: MAX_BYTES + 1]
            if not found:
                # An mbox of separators alone is as empty as a file of no bytes.
                yield str(file), b""
        else:
            with opened(file) as source:
                yield str(file), source.read(MAX_BYTES + 1)


@contextmanager
def loaded(**settings: None) -> Iterator[Application]:
    """Give the application of the settings without its threads; unset those given."""
    # Imported here, since a command that asks a service needs neither.
    from app.services.application import Application  # noqa: PLC0415
    from app.settings import load_settings  # noqa: PLC0415

    # Only the service posts events, and a command that reads needs no secret for them.
    unset = load_settings().model_copy(update={"webhook": None, **settings})
    app = Application(unset, make=False, patience=math.inf)
    try:
        yield app
    finally:
        app.engine.dispose()


@contextmanager
def application() -> Iterator[Application]:
    """Give the application of the settings, started and stopped."""
    # A command learns nothing by itself.
    with loaded(autolearn_from=None) as app:
        try:
            app.start()
            yield app
        finally:
            app.stop()
