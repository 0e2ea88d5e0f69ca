"""Environment of the pages: templates, their filters, and the headers of an answer.

Contract of this folder: content of mail is only text.  Templates escape it, it never
becomes a link or an image, and `shown` has made its control characters visible.  Pages
work without scripts; `page.js` adds keyboard shortcuts.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from app.access.rights import Right
from app.doors.documents.profile import ThresholdOut
from app.doors.http.guard import Guarded, Strict, asking
from app.doors.http.page.forms import (
    SECRETS,
    csrf_token,
    keep_cookies,
    moment_of,
    principal_in,
    signed_in,
)
from app.doors.serving.process import computing
from app.errors import NotFound
from app.services.log import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi.params import Depends
    from jinja2.runtime import Context
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from app.doors.documents.message import ProblemOut

HERE: Final = Path(__file__).parent
_EMPHASIS: Final = re.compile(r"\*(\w[^*]*)\*")
_BLANKS: Final = re.compile(r"\n(?:[ \t]*\n){2,}")
_PAGE: Final = re.compile(r"https?://[^/]+(/ui/[^#]*)")
SECURITY: Final[Mapping[str, str]] = {
    # No inline styles or scripts: even an empty style attribute would be refused.
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    # Not `no-referrer`: browsers would post the forms of these pages with `Origin:
    # null` (Fetch standard, "append a request Origin header"), which the guard refuses
    # as coming from another site. Other sites get no referrer.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every page and every static file."""
PLACES: Final = (
    ("Overview", "overview", Right.READ),
    ("History", "history", Right.READ),
    ("Review", "review", Right.READ),
    ("Message", "message", Right.CLASSIFY),
    ("Ledger", "ledger", Right.READ),
    ("Words", "words", Right.READ),
    ("Lists", "lists", Right.READ),
    ("Site", "site", Right.READ),
    ("Keys", "keys", Right.MANAGE),
)
"""Navigation: title, path below `/ui`, and required right of each page."""


STATIC: Final = StaticFiles(directory=HERE / "static")
"""The files that pages load."""


class PageResponse(HTMLResponse):
    """A page, which caches must not keep because it shows mail."""

    def __init__(self, content: str, status_code: int) -> None:
        kept = {"Cache-Control": "no-store", **SECURITY}
        super().__init__(content, status_code=status_code, headers=kept)

    def render(self, content: Any) -> bytes:
        """Return the page in UTF-8, with `?` for lone surrogates."""
        return str(content).encode("utf-8", "replace")


def seen_at(time: datetime) -> Markup:
    """Return a time as an element, to the second and in UTC."""
    utc = time.astimezone(UTC)
    text = f"{utc:%Y-%m-%d %H:%M:%S}"
    return Markup('<time datetime="{}Z">{}</time>').format(text.replace(" ", "T"), text)


def mail_text(text: str) -> str:
    r"""Return a text of mail with its line breaks, and hidden characters as escapes.

    Of several blank lines, one is kept: HTML mail has screens of them.

    Examples
    --------
    >>> mail_text("a\u202eb\u00a0c\n \n\n\t\n\x1b[2J")
    'a\\u202eb c\n\n\\x1b[2J'
    """
    if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
        text = "".join([c if c in "\n\t" else _visible(c) for c in text])
    return _BLANKS.sub("\n\n", text)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if character.isspace():
        return " "
    return character.encode("unicode_escape").decode()


def prose(text: str) -> Markup:
    """Return a description, with text between backticks as code, and *so* as emphasis.

    Examples
    --------
    >>> prose("Set `a<b>` first, *then* start.")
    Markup('Set <code>a&lt;b&gt;</code> first, <em>then</em> start.')
    """
    return Markup("").join(
        Markup("<code>{}</code>").format(piece)
        if at % 2
        else Markup(_EMPHASIS.sub(r"<em>\1</em>", str(escape(piece))))  # noqa: S704
        for at, piece in enumerate(text.split("`"))
    )


def nats(value: float | None, digits: int = 1) -> str:
    """Return log-odds with their sign, or a dash for None.

    Examples
    --------
    >>> nats(3.217), nats(-0.04), nats(None)
    ('+3.2', '\N{MINUS SIGN}0.0', '\N{EN DASH}')
    """
    if value is None:
        return "\N{EN DASH}"
    return f"{value:+,.{digits}f}".replace("-", "\N{MINUS SIGN}")


def percent(value: float | None, digits: int = 2) -> str:
    """Return a percentage, or a dash if it is undefined."""
    return "\N{EN DASH}" if value is None else f"{value:,.{digits}f} %"


def size(value: float) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size(812), size(48_300), size(3_400_000)
    ('812 B', '48 kB', '3.4 MB')
    """
    for unit, step in (("GB", 1e9), ("MB", 1e6)):
        if value >= step:
            return f"{value / step:,.1f} {unit}"
    return f"{value / 1e3:,.0f} kB" if value >= 1e3 else f"{value:,.0f} B"  # noqa: PLR2004


def link(
    path: str, query: Mapping[str, object] | None = None, /, **more: object
) -> str:
    """Return a path with the parameters that have a value.

    Examples
    --------
    >>> link("/ui/history", {"verdict": "spam", "door": None}, search="a&b")
    '/ui/history?verdict=spam&search=a%26b'
    """
    given = {**(query or {}), **more}
    used = [(key, value) for key, value in given.items() if value not in (None, "")]
    return f"{path}?{urlencode(used)}" if used else path


def see_other(
    path: str,
    query: Mapping[str, object] | None = None,
    /,
    *,
    fragment: str = "",
    **more: object,
) -> RedirectResponse:
    """Redirect a browser to a page after a form; the arguments are those of `link`."""
    there = link(path, query, **more) + (fragment and f"#{fragment}")
    return RedirectResponse(there, HTTPStatus.SEE_OTHER)


@cache
def static(name: str) -> str:
    """Return the path of a static file, with a digest so that it can be cached."""
    digest = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()
    return f"/ui/static/{name}?v={digest[:16]}"


@pass_context
def csrf_field(context: Context) -> Markup:
    """Return the hidden field of a form."""
    token = csrf_token(context["request"])
    return Markup('<input type="hidden" name="csrf" value="{}">').format(token)


@pass_context
def typed(context: Context, action: str) -> defaultdict[str, str]:
    """Return the fields of the form to an action, if it was refused and is shown again.

    The others, and passwords, are empty.
    """
    state = context["request"].scope.get("state", {})
    posted, fields = state.get("form", ("", {}))
    if "refusal" not in state or posted != action:
        return defaultdict(str)
    return defaultdict(str, {n: each for n, each in fields.items() if n not in SECRETS})


@pass_context
def may(context: Context, right: str) -> bool:
    """Return whether whoever looks at a page has a right."""
    return principal_in(context["request"]).may(Right(right))


@pass_context
def places(context: Context) -> list[tuple[str, str]]:
    """Return the pages that whoever looks at a page may open."""
    principal = principal_in(context["request"])
    return [
        (title, path)
        for title, path, right in PLACES
        if principal.may(right) and (path != "keys" or principal.profiles is None)
    ]


def is_person(request: Request) -> bool:
    """Return whether a person has signed in."""
    return principal_in(request).kind == "person"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = shown, seen_at, mail_text, nats, prose, percent, size
    made.filters |= {each.__name__: each for each in filters}
    made.filters["chance"] = lambda log_odds: ThresholdOut.of(log_odds).percent
    functions = (
        *(may, places, link, static, csrf_field, csrf_token, typed),
        *(signed_in, is_person),
    )
    made.globals |= {each.__name__: each for each in functions}
    return made


TEMPLATES: Final = _environment()
UNAVAILABLE: Final = HTTPStatus.SERVICE_UNAVAILABLE
LARGE: Final = 1 << 20
"""The size of a page with a table for `computing`."""


def render(
    request: Request,
    template: str,
    *,
    here: str,
    profile: str | None = None,
    status: int = 200,
    **context: Any,
) -> Response:
    """Return a page.

    Parameters
    ----------
    here : str
        The entry of `PLACES` to mark in the navigation.
    profile : str, optional
        The profile of the page, kept in the links of the navigation.
    """
    application = request.app.state.application
    site = application.settings.profile
    refusal = request.scope.get("state", {}).get("refusal")
    text = TEMPLATES.get_template(template).render(
        request=request,
        here=here,
        refusal=refusal,
        profile=profile or site,
        # The site's profile is the default.
        keep={} if profile in (None, site) else {"profile": profile},
        **context,
    )
    response = PageResponse(text, refusal.status if refusal else status)
    keep_cookies(request, response)
    return response


async def render_table(request: Request, template: str, **context: Any) -> Response:
    """Return a page with a table, as `render`, which takes 10 ms or more."""
    return await computing(partial(render, request, template, **context), LARGE)


def _form_page(path: str) -> str:
    """Return the page of a form, from its action, which may be one of the page.

    Examples
    --------
    >>> _form_page("/ui/ledger/undo"), _form_page("/ui/keys")
    ('/ui/ledger', '/ui/keys')
    """
    return path.rpartition("/")[0] if path.count("/") > 2 else path  # noqa: PLR2004


class FormAgain(Response):
    """The page of a refused form, with what was typed, and with the problem on top.

    It is asked for like any page, by a request within the request.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the page to which the form belongs."""
        path = _form_page(scope["path"])
        page = {**scope, "method": "GET", "path": path, "raw_path": path.encode()}
        await scope["app"].router(page, receive, send)


def problem_page(request: Request, problem: ProblemOut) -> Response:
    """Return the page of a problem, or a redirect to the sign-in page.

    A refused form is shown again.  If its page fails as well, or the database is away,
    the page of the problem is shown.
    """
    state = request.scope.setdefault("state", {})
    posted, fields = state.get("form", ("", {}))
    if posted and "refusal" not in state and problem.status != UNAVAILABLE:
        state["refusal"] = problem
        return FormAgain()
    problem = state.get("refusal", problem)
    asked = request.method == "GET" and not posted
    away = problem.status == UNAVAILABLE
    came = str(request.url) if asked else request.headers.get("referer", "")
    page = _PAGE.match(came)
    there = page[1] if page else "/ui/overview"
    if posted:
        there = link(_form_page(posted), request.query_params)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        return see_other("/ui/sign-in", next=there, ended=None if asked else "1")
    return render(
        request,
        "problem.html",
        here="",
        status=problem.status,
        problem=problem,
        back="/ui/overview" if asked and not away else there,
        # The same form can be sent again once the database is back.
        again=away and posted and link(posted, request.query_params),
        fields=fields,
        passwords=SECRETS,
    )


_TIMES: Final = ("from", "until")
_UTC: Final = "+00:00"


class Twin(Strict):
    """A route of a page with the query of its JSON twin, sent by a form.

    Forms send empty fields, and times without a zone, which are in UTC.
    """

    async def ask(self, scope: Scope) -> None:
        """Raise if a guard denies the request; otherwise normalise its query."""
        await super().ask(scope)
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        moments = {name: moment_of(given.get(name)) for name in _TIMES}
        given |= {name: at.isoformat() for name, at in moments.items() if at}
        scope["query_string"] = urlencode(given).encode()


def asked(request: Request, *names: str) -> dict[str, str]:
    """Return some parameters of a page as values for the fields of its form."""
    given = {name: request.query_params.get(name, "") for name in names}
    return given | {name: given[name].removesuffix(_UTC) for name in _TIMES}


def pages(
    route_class: type[Guarded], dependencies: Sequence[Depends] = ()
) -> APIRouter:
    """Return a router of pages that require a right."""
    return APIRouter(
        prefix="/ui",
        route_class=route_class,
        dependencies=dependencies,
        include_in_schema=False,
    )


router = APIRouter(route_class=asking(None, Guarded), include_in_schema=False)
missing = APIRouter(route_class=asking(Right.READ, Guarded), include_in_schema=False)
"""The last of the pages: those that do not exist."""


@router.get("/")
async def home(request: Request) -> Response:
    """Redirect a browser to the pages; return 404 to a program."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return RedirectResponse("/ui", HTTPStatus.SEE_OTHER, {"Vary": "Accept"})


@router.get("/ui")
@router.get("/ui/")
async def first_page() -> Response:
    """Redirect a browser to the first page."""
    return see_other("/ui/overview")


@missing.get("/ui/{path:path}")
async def no_page(path: str) -> Response:
    """Answer with a page that has the navigation, unlike that of the framework."""
    raise NotFound(f"there is no page /ui/{path[:80]}; the address may be mistyped")


@router.get("/ui/static/{name}")
async def static_file(
    request: Request, name: str, v: Annotated[str | None, Query()] = None
) -> Response:
    """Return a static file; with the digest of what it holds, for a year."""
    answer = await STATIC.get_response(name, request.scope)
    dated = v is not None and f"/ui/static/{name}?v={v}" == static(name)
    kept = "public, max-age=31536000, immutable" if dated else "no-cache"
    answer.headers.update({**SECURITY, "Cache-Control": kept})
    return answer
