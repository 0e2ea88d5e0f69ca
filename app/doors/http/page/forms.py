"""Forms of the pages: their fields, and the problems with which they are shown again.

Of a file, only the bytes that the parser of messages reads are kept
(`app.mail.limits.MAX_BYTES`): many large files at once must not fill the memory.

A refused form is shown again with what was typed.  Where the session had ended or the
database is away, the fields are kept until the form can be sent again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import UTC
from functools import partial
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Depends, Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import Field, File, FormParser, parse_options_header
from starlette.responses import Response

from app.doors.documents import moment_of
from app.doors.http.guard import Strict
from app.doors.http.page import (
    SECRETS,
    link,
    render,
    require_csrf,
    see_other,
)
from app.doors.serving.request import take
from app.doors.serving.threads import computing
from app.errors import (
    MalformedRequest,
    PostbayesError,
    UnsupportedContentType,
)
from app.mail.limits import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Scope

    from app.doors.documents.message import ProblemOut

FIELDS_BYTES: Final = 64 * 1024
"""Most bytes of a form without a file; an undo of 1,000 ids has 34,000."""
MOST_FIELDS: Final = 64
"""Most fields of a form; the largest on the pages has nine."""
FIELDS: Final = "application/x-www-form-urlencoded"
FILE: Final = "multipart/form-data"


async def read_form(request: Request) -> defaultdict[str, str]:
    """Return the fields of a form that a page of this service posts, as text.

    Fields that were not sent are empty.  Blanks around a text are left out, except of
    passwords and of the fields that are kept for another form.

    All are kept for the page that shows them again if they are refused.

    Raises
    ------
    PostbayesError
        As `read_parts`; it has no file.
    """
    # Strangers may post some: that to sign in, and that of a digest.
    parts = await _posted(request, FIELDS_BYTES)
    fields = {name: _text_of(value) for name, value in parts.items()}
    request.scope.setdefault("state", {})["form"] = request.url.path, fields
    exact = SECRETS.keys() | {name for name in fields if name.startswith(KEPT)}
    return defaultdict(
        str, {n: text if n in exact else text.strip() for n, text in fields.items()}
    )


Form = Annotated[defaultdict[str, str], Depends(read_form)]
"""The fields of a form."""


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
    return await _posted(request, limit)


async def _posted(request: Request, limit: int) -> dict[str, bytes]:
    found = await _read(request, limit)
    require_csrf(request, _text_of(found.get("csrf", b"")))
    return found


async def _read(request: Request, limit: int) -> dict[str, bytes]:
    """Return the fields and files of a form, from whatever page it is."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind == FIELDS.encode():
        body = await take(request, limit=min(limit, FIELDS_BYTES), kept=FIELDS_BYTES)
        return _fields(body)
    if kind == FILE.encode() and options.get(b"boundary"):
        kept = MAX_BYTES + FIELDS_BYTES
        body = await take(request, limit=limit, kept=kept)
        # 4 MiB of beginnings of a boundary take a second.
        split = partial(_parts, body, options[b"boundary"], cut=len(body) == kept)
        return await computing(split, len(body))
    raise UnsupportedContentType(
        f"the content type {kind[:64].decode('latin-1')!r} is not a form; send "
        f"{FIELDS} or {FILE}, or use the JSON interface at /docs"
    )


def _text_of(value: bytes) -> str:
    # NUL, which databases refuse, becomes a question mark.
    return value.decode("utf-8", "replace").replace("\0", "?")


def _fields(body: bytes) -> dict[str, bytes]:
    """Return the fields of a form without a file; the last one of a name counts."""
    text = body.decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise MalformedRequest(_TOO_MANY) from error
    return {name: value.encode() for name, value in pairs}


def _parts(body: bytes, boundary: bytes, *, cut: bool) -> dict[str, bytes]:
    """Return the fields of a form with a file, which may be cut at the limit."""
    found: list[tuple[str, bytes]] = []

    def keep(part: Field | File) -> None:
        if len(found) == MOST_FIELDS:
            raise MalformedRequest(_TOO_MANY)
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


_TOO_MANY: Final = f"the form has more than {MOST_FIELDS} fields, more than any page"
_TIMES: Final = ("from", "until")


class Twin(Strict):
    """A route of a page with the query of its JSON twin, sent by a form.

    Forms send empty fields, and times without a zone, which are in UTC.
    """

    async def ask(self, scope: Scope) -> None:
        """Raise if a guard denies the request; otherwise normalise its query."""
        await super().ask(scope)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        moments = {name: moment_of(given.get(name), UTC) for name in _TIMES}
        given |= {name: at.isoformat() for name, at in moments.items() if at}
        scope["query_string"] = urlencode(given).encode()


def asked(request: Request, *names: str) -> dict[str, str]:
    """Return some parameters of a page as values for the fields of its form."""
    given = {name: request.query_params.get(name, "") for name in names}
    return given | {name: given[name].removesuffix("+00:00") for name in _TIMES}


SIGN_IN: Final = "/ui/sign-in"
KEPT: Final = "kept-"
"""Prefix of the fields on the page to sign in that belong to another form."""
_ENDED: Final = (
    "nothing was changed, because your session had ended. Sign in, and what you sent "
    "can be sent again"
)
_TITLES: Final = {403: "Not allowed", 404: "Not found", 503: "Not available"}
_PAGE: Final = re.compile(r"https?://[^/]+(/ui/[^#]*)")


def _form_page(path: str) -> str:
    """Return the page of a form, from its action, which may be one of the page.

    Examples
    --------
    >>> _form_page("/ui/ledger/undo"), _form_page("/ui/keys")
    ('/ui/ledger', '/ui/keys')
    """
    parent = path.rpartition("/")[0]
    # The link of a digest is itself a page.
    return path if parent in {"/ui", "/ui/digest"} else parent


async def _again(request: Request, page: str, problem: ProblemOut) -> Response:
    """Return the page of a refused form, with what was typed and the problem on top.

    It is asked for like any page, by a request within the request.
    """
    request.scope["state"]["refusal"] = problem
    asked = {"method": "GET", "path": page, "raw_path": page.encode()}
    sent: list[Message] = []

    async def keep(event: Message) -> None:
        sent.append(event)

    await request.app.router({**request.scope, **asked}, request.receive, keep)
    start, *pieces = sent
    answer = Response(b"".join(each["body"] for each in pieces), start["status"])
    answer.raw_headers = [*start["headers"]]
    return answer


async def problem_page(request: Request, problem: ProblemOut) -> Response:
    """Return the page of a problem, or the way to the sign-in page.

    A refused form is shown again.  If its page fails as well, or the database is away,
    the page of the problem is shown.
    """
    state = request.scope.setdefault("state", {})
    posted, fields = state.get("form", ("", {}))
    asked = request.method == "GET" and not posted
    away = problem.status == HTTPStatus.SERVICE_UNAVAILABLE
    came = str(request.url) if asked else request.headers.get("referer", "")
    page = _PAGE.match(came)
    there = page[1] if page else "/ui/overview"
    if "refusal" not in state and posted and not away:
        return await _again(request, _form_page(posted), problem)
    problem = state.get("refusal", problem)
    if problem.status == HTTPStatus.UNAUTHORIZED and asked:
        return see_other(link(SIGN_IN, next=there))
    if problem.status == HTTPStatus.UNAUTHORIZED and not posted:
        kept = await _unsent(request)
        state["form"] = SIGN_IN, {"next": there, **kept}
        ended = problem.model_copy(update={"detail": _ENDED})
        return await _again(request, SIGN_IN, ended)
    if posted:
        there = link(_form_page(posted), request.query_params)
    return render(
        request,
        "problem.html",
        here="",
        status=problem.status,
        title=_TITLES.get(problem.status, "That did not work"),
        text=problem.detail,
        back="/ui/overview" if asked and not away else there,
        # The same form can be sent again once the database is back.
        again=away and posted and link(posted, request.query_params),
        fields=fields,
    )


async def _unsent(request: Request) -> dict[str, str]:
    """Return the fields of a form without a session, for the page to sign in.

    It is from a stranger, and may be from any page: it is shown before it is sent.
    """
    try:
        found = await _read(request, FIELDS_BYTES)
    except PostbayesError:
        return {}
    kept = {
        f"{KEPT}{name}": "" if name in SECRETS else _text_of(value)
        for name, value in found.items()
        if name not in {"csrf", "file"}
    }
    kept["to"] = link(request.url.path, request.query_params)
    # Otherwise nobody could sign in with them.
    return kept if len(urlencode(kept)) < FIELDS_BYTES // 2 else {}


def unsent_page(request: Request, form: Mapping[str, str]) -> Response:
    """Return the page that sends the form that was kept while a person signed in."""
    to = form["to"]
    return render(
        request,
        "problem.html",
        here="",
        title="Signed in",
        text="what you sent has changed nothing yet, because your session had ended",
        back=_form_page(to.partition("?")[0]),
        again=to,
        fields={
            name.removeprefix(KEPT): text
            for name, text in form.items()
            if name.startswith(KEPT)
        },
    )
