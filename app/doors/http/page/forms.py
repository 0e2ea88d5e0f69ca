"""Sessions and forms: cookies, the proof against forged forms, and their fields.

A file is as long as the parser reads of a message (`app.mail.limits.MAX_BYTES`): the
rest of a larger one is let go, so that many large ones at once do not fill the memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.access.rights import NOBODY
from app.doors.serving.request import COOKIE, take
from app.errors import (
    Forbidden,
    InvalidSelection,
    MalformedRequest,
    UnsupportedContentType,
)
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from app.access.rights import Principal
    from app.services.sessions import Sessions

BROWSER: Final = "postbayes_browser"
"""The cookie that tells a browser from others, for clients that sign in nowhere."""
_BROWSER: Final = re.compile(r"[0-9a-f]{32}")


def csrf_token(request: Request) -> str:
    """Return what the forms of a page post in their field `csrf`."""
    return _sessions(request).token(_made_for(request))


def require_csrf(request: Request, form: Mapping[str, object]) -> None:
    """Raise if a form was not posted from a page of this service.

    A browser of its own accord sends a cookie, and comes from a network that needs no
    key; it never sends a key, and who holds the link of a digest has proved that.

    Raises
    ------
    Forbidden
        If its field `csrf` is not what `csrf_token` gave the page.
    """
    principal = principal_in(request)
    if principal is NOBODY or principal.kind == "key":
        return
    given = str(form.get("csrf", ""))
    if not _sessions(request).is_token(given, _made_for(request)):
        msg = (
            "the form has expired, or is not from a page of this service; go back, "
            "reload the page, and send the form again"
        )
        raise Forbidden(msg)


def principal_in(request: Request) -> Principal:
    """Return whom a page is for; `NOBODY` where anybody may see it."""
    principal: Principal = request.scope.get("state", {}).get("principal", NOBODY)
    return principal


def signed_in(request: Request) -> str | None:
    """Return the name of whom a page is for; None for a client that needs no key."""
    principal = principal_in(request)
    if principal.kind == "local":
        return None
    return principal.name.partition(":")[2]


def keep_cookies(request: Request, response: Response) -> None:
    """Have a browser keep the cookies of a page."""
    browser = request.scope.get("state", {}).get("browser")
    if browser is not None:
        set_cookie(request, response, BROWSER, browser, seconds=None)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and principal_in(request).kind == "person":
        found = _sessions(request).find(cookie)
        if found is not None and found[1] is not None:
            begin_session(request, response, found[1])


def begin_session(request: Request, response: Response, cookie: str) -> None:
    """Have a browser keep the cookie of a session."""
    seconds = int(_sessions(request).most)
    set_cookie(request, response, COOKIE, cookie, seconds=seconds)


def end_session(response: Response) -> None:
    """Have a browser forget the cookie of a session."""
    response.delete_cookie(COOKIE, path="/")


def set_cookie(
    request: Request, response: Response, name: str, value: str, *, seconds: int | None
) -> None:
    """Set a cookie that no script reads, and that no other site has a browser send."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def _made_for(request: Request) -> str:
    """Return whom a form is made for: a person or a network, and one browser."""
    state = request.scope.setdefault("state", {})
    browser = request.cookies.get(BROWSER, "")
    if not _BROWSER.fullmatch(browser):
        browser = state.setdefault("browser", token_hex(16))
    return f"{principal_in(request).name} {browser}"


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.application.sessions
    return sessions


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


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this service posts, as text.

    NUL, which no database takes, becomes a question mark.

    Raises
    ------
    PostbayesError
        As `read_parts`.
    """
    parts = await read_parts(request)
    return {name: _text_of(value) for name, value in parts.items()}


async def read_parts(request: Request) -> dict[str, bytes]:
    """Return the fields and files of a form that a page of this service posts.

    A file stands under the name of its field; one that was not chosen is empty.

    Raises
    ------
    Forbidden
        If no page of this service made the form.
    UnsupportedContentType, MalformedRequest
        If it is no form.
    MessageTooLarge, SlowRequest
        As `app.doors.serving.request.take`.
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
            f"the content type {kind[:64].decode('latin-1')!r} is not a form; send "
            f"{FIELDS} or {FILE}, or use the JSON interface at /docs"
        )
        raise UnsupportedContentType(msg)
    require_csrf(request, {name: _text_of(value) for name, value in found.items()})
    return found


def _text_of(value: bytes) -> str:
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
    return f"the form has more than {MOST_FIELDS} fields, more than any page"
