"""Sessions and forms: cookies, protection against forged forms, and form fields.

Of a file, only the bytes that the parser of messages reads are kept
(`app.mail.limits.MAX_BYTES`): many large files at once must not fill the memory.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import inf
from secrets import token_hex
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header

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
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from app.access.rights import Principal
    from app.services.sessions import Sessions

BROWSER: Final = "postbayes_browser"
"""The cookie that identifies a browser without a session."""
_BROWSER: Final = re.compile(r"[0-9a-f]{32}")


def csrf_token(request: Request) -> str:
    """Return the value of the field `csrf` in the forms of a page."""
    return _sessions(request).token(_made_for(request))


def require_csrf(request: Request, form: Mapping[str, object]) -> None:
    """Raise if a form was not posted from a page of this service.

    Browsers send cookies, and their network, by themselves, so these prove nothing
    about a form.  They never send keys by themselves, and the link of a digest is
    itself a proof.

    Raises
    ------
    Forbidden
        If its field `csrf` is not the value of `csrf_token` for the page.
    """
    principal = principal_in(request)
    if principal is NOBODY or principal.kind == "key":
        return
    given = str(form.get("csrf", ""))
    if not _sessions(request).is_token(given, _made_for(request)):
        raise Forbidden(
            "the form has expired, or is not from a page of this service; go back, "
            "reload the page, and send the form again"
        )


def principal_in(request: Request) -> Principal:
    """Return the principal of a page; `NOBODY` if anybody may see it."""
    principal: Principal = request.scope.get("state", {}).get("principal", NOBODY)
    return principal


def signed_in(request: Request) -> str | None:
    """Return the name of the signed-in person; None for clients that need no key."""
    principal = principal_in(request)
    if principal.kind == "local":
        return None
    return principal.name.partition(":")[2]


def keep_cookies(request: Request, response: Response) -> None:
    """Set the cookies of a page."""
    browser = request.scope.get("state", {}).get("browser")
    if browser is not None:
        set_cookie(request, response, BROWSER, browser, seconds=None)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and principal_in(request).kind == "person":
        found = _sessions(request).find(cookie)
        if found is not None and found[1] is not None:
            begin_session(request, response, found[1])


def begin_session(request: Request, response: Response, cookie: str) -> None:
    """Set the cookie of a session."""
    seconds = int(_sessions(request).most)
    set_cookie(request, response, COOKIE, cookie, seconds=seconds)


def set_cookie(
    request: Request, response: Response, name: str, value: str, *, seconds: int | None
) -> None:
    """Set a cookie hidden from scripts and from requests of other sites."""
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
    """Return the identity behind a form: a person or a network, and one browser."""
    state = request.scope.setdefault("state", {})
    browser = request.cookies.get(BROWSER, "")
    if not _BROWSER.fullmatch(browser):
        browser = state.setdefault("browser", token_hex(16))
    return f"{principal_in(request).name} {browser}"


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.application.sessions
    return sessions


FIELDS_BYTES: Final = 64 * 1024
"""Most bytes of a form without a file; an undo of 1,000 ids has 34,000."""
MOST_FIELDS: Final = 64
"""Most fields of a form; the largest on the pages has nine."""
SECRETS: Final = frozenset({"password", "new", "again"})
"""Fields whose text no page shows again."""
FIELDS: Final = "application/x-www-form-urlencoded"
FILE: Final = "multipart/form-data"


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that a page of this service posts, as text.

    NUL, which databases refuse, becomes a question mark.  The fields are kept for the
    page that shows them again if they are refused.

    Raises
    ------
    PostbayesError
        As `read_parts`.
    """
    parts = await read_parts(request)
    fields = {name: _text_of(value) for name, value in parts.items()}
    request.scope.setdefault("state", {})["form"] = request.url.path, fields
    return fields


async def read_parts(request: Request) -> dict[str, bytes]:
    """Return the fields and files of a form that a page of this service posts.

    A file has the name of its field, and is empty if none was chosen.

    Raises
    ------
    Forbidden
        If the form is not from a page of this service.
    UnsupportedContentType, MalformedRequest
        If it is not a form.
    MessageTooLarge, SlowRequest
        As `app.doors.serving.request.take`.
    """
    limit: int = request.app.state.application.settings.max_request_bytes
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == FIELDS.encode():
        body = await take(request, limit=min(limit, FIELDS_BYTES), kept=FIELDS_BYTES)
        found = _fields(body)
    elif kind == FILE.encode() and options.get(b"boundary"):
        kept = MAX_BYTES + FIELDS_BYTES
        body = await take(request, limit=limit, kept=kept)
        found = _parts(body, options[b"boundary"], cut=len(body) == kept)
    else:
        raise UnsupportedContentType(
            f"the content type {kind[:64].decode('latin-1')!r} is not a form; send "
            f"{FIELDS} or {FILE}, or use the JSON interface at /docs"
        )
    require_csrf(request, {name: _text_of(value) for name, value in found.items()})
    return found


def _text_of(value: bytes) -> str:
    return value.decode("utf-8", "replace").replace("\0", "?")


def moment_of(text: str | None) -> datetime | None:
    """Parse a time in a form; without a zone it is in UTC, as on the pages.

    Raises
    ------
    InvalidSelection
        If it is not a time.
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
    """Return the fields of a form without a file; the last one of a name counts."""
    try:
        pairs = parse_qsl(
            body.decode("latin-1"),
            keep_blank_values=True,
            encoding="latin-1",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise MalformedRequest(_too_many()) from error
    # Values are bytes, as in forms with a file; of bytes, `parse_qsl` accepts only
    # ASCII.
    return {_name(name): value.encode("latin-1") for name, value in pairs}


def _name(name: str) -> str:
    return name.encode("latin-1").decode("utf-8", "replace")


def _parts(body: bytes, boundary: bytes, *, cut: bool) -> dict[str, bytes]:
    """Return the fields of a form with a file, which may be cut at the limit."""
    found: list[tuple[str, bytes]] = []

    def keep(part: Field | File) -> None:
        if len(found) == MOST_FIELDS:
            raise MalformedRequest(_too_many())
        if isinstance(part, Field):
            content = part.value or b""
        else:
            part.file_object.seek(0)
            content = part.file_object.read()
        found.append(((part.field_name or b"").decode("utf-8", "replace"), content))

    end = b"--%b--" % boundary
    if end not in body:
        if not cut:
            raise MalformedRequest(
                "the form lacks its last boundary, so a part of it may be missing; "
                "send it again from its page"
            )
        body = b"%b\r\n%b\r\n" % (body, end)
    try:
        parser = FormParser(
            FILE, keep, keep, boundary=boundary, config={"MAX_MEMORY_FILE_SIZE": inf}
        )
        parser.write(body)
    except FormParserError as error:
        msg = f"the form cannot be read: {error}; send it again from its page"
        raise MalformedRequest(msg) from error
    return dict(found)


def _too_many() -> str:
    return f"the form has more than {MOST_FIELDS} fields, more than any page"
