"""Forms: the fields and the file that a page posts, within the limits of a body.

A file is as long as the parser reads of a message (`app.mail.limits.MAX_BYTES`): the
rest of a larger one is let go, so that many large ones at once do not fill the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.doors.http.page.session import require_csrf
from app.doors.serving.asgi import take
from app.errors import InvalidSelection, MalformedRequest, UnsupportedContentType
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

FIELDS_BYTES: Final = 64 * 1024
"""Bytes of all fields of a form without a file; an undo of 1,000 ids has 34,000."""
MOST_FIELDS: Final = 64
"""Fields of a form; the largest of the pages has nine."""
FIELDS: Final = "application/x-www-form-urlencoded"
FILE: Final = "multipart/form-data"


@dataclass
class FormPart:
    """One field or file of a form while it is read."""

    name: str = ""
    content: bytearray = field(default_factory=bytearray)


async def read_form(request: Request) -> dict[str, bytes]:
    """Return the fields of a form that a page of this service posts.

    A file stands under the name of its field; one that was not chosen is empty.

    Raises
    ------
    Forbidden
        If no page of this service made the form.
    UnsupportedContentType, MalformedRequest
        If it is no form.
    MessageTooLarge, SlowRequest
        As `app.doors.serving.asgi.take`.
    """
    limit: int = request.app.state.application.settings.max_request_bytes
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == FIELDS.encode():
        body = await take(request, limit=min(limit, FIELDS_BYTES), kept=FIELDS_BYTES)
        found = _fields(body)
    elif kind == FILE.encode() and options.get(b"boundary"):
        body = await take(request, limit=limit, kept=MAX_BYTES + FIELDS_BYTES)
        found = _parts(body, options[b"boundary"])
    else:
        msg = (
            f"the content type {kind[:64].decode('latin-1')!r} is not that of a form; "
            f"send {FIELDS} or {FILE}, or use the JSON interface at /docs"
        )
        raise UnsupportedContentType(msg)
    require_csrf(request, {name: text_of(value) for name, value in found.items()})
    return found


def text_of(value: bytes) -> str:
    """Return a field as text: NUL, which no database takes, as a question mark."""
    return value.decode("utf-8", "replace").replace("\0", "?")


def moment_of(text: str | None) -> datetime | None:
    """Return a time as a form has it: without a zone it is in UTC, as pages show it.

    Raises
    ------
    InvalidSelection
        If it is no time.
    """
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{text[:40]!r} is not a time; write 2026-03-01, or 2026-03-01T14:30"
        raise InvalidSelection(msg) from error


def _fields(body: bytes) -> dict[str, bytes]:
    """Return the fields of a form without a file; the last of a name counts."""
    try:
        pairs = parse_qsl(
            body.decode("latin-1"),
            keep_blank_values=True,
            encoding="latin-1",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise MalformedRequest(_too_many()) from error
    # Bytes in and out, as of a form with a file: of bytes `parse_qsl` takes ASCII.
    return {_name(name): value.encode("latin-1") for name, value in pairs}


def _name(name: str) -> str:
    return name.encode("latin-1").decode("utf-8", "replace")


def _parts(body: bytes, boundary: bytes) -> dict[str, bytes]:
    """Return the fields of a form with a file, of which the end may be cut off."""
    parts: list[FormPart] = []
    header: list[bytearray] = [bytearray(), bytearray()]

    def begin() -> None:
        if len(parts) == MOST_FIELDS:
            raise MalformedRequest(_too_many())
        parts.append(FormPart())

    def add_to(place: int) -> Callable[[bytes, int, int], None]:
        def add(data: bytes, start: int, end: int) -> None:
            header[place] += data[start:end]

        return add

    def end_header() -> None:
        if header[0].strip().lower() == b"content-disposition":
            _, options = parse_options_header(bytes(header[1]))
            parts[-1].name = options.get(b"name", b"").decode("utf-8", "replace")
        header[:] = [bytearray(), bytearray()]

    def add_data(data: bytes, start: int, end: int) -> None:
        parts[-1].content += data[start:end]

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_header_field": add_to(0),
                "on_header_value": add_to(1),
                "on_header_end": end_header,
                "on_part_data": add_data,
            },
        )
        parser.write(body)
    except FormParserError as error:
        msg = f"the form cannot be read: {error}; send it again from its page"
        raise MalformedRequest(msg) from error
    return {part.name: bytes(part.content) for part in parts}


def _too_many() -> str:
    return f"the form has more than {MOST_FIELDS} fields; no page has as many"
