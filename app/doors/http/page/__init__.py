"""Pages: their templates, links and static files, and the cookies of a browser.

Contract of this folder: content of mail is only text.  Templates escape it, it never
becomes a link or an image, and `shown` has made its control characters visible.  Pages
work without scripts; `page.js` adds keyboard shortcuts, and clears a page that is left.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from datetime import UTC, datetime
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.staticfiles import StaticFiles

from app.access.rights import NOBODY, Right
from app.doors.documents.profile import ThresholdOut
from app.doors.http.guard import Guarded, asking, principal_of
from app.doors.serving.request import COOKIE
from app.doors.serving.threads import computing
from app.drawing import addressed
from app.errors import Forbidden
from app.mail.encoding import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi.params import Depends
    from jinja2.runtime import Context
    from starlette.responses import Response

    from app.services.sessions import Sessions

HERE: Final = Path(__file__).parent
_EMPHASIS: Final = re.compile(r"\*(\w[^*]*)\*")
_BLANK: Final = re.compile(r"[^\S \n\t]")
_BLANKS: Final = re.compile(r"\n(?:[ \t]*\n){2,}")
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
    # Blanks of other languages first, which `shown` would escape.
    lines = _BLANK.sub(" ", text).split("\n")
    return _BLANKS.sub("\n\n", "\n".join(map(_visible, lines)))


def _visible(line: str) -> str:
    return "\t".join(shown(each, len(each)) for each in line.split("\t"))


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


def sentence(text: str) -> str:
    """Return the text of an error with a capital, unless it begins with a name.

    Examples
    --------
    >>> sentence("the disk is full"), sentence("'soon' is no time"), sentence("key:mx1")
    ('The disk is full', "'soon' is no time", 'key:mx1')
    """
    first = text.partition(" ")[0].rstrip(",:;")
    return text[:1].upper() + text[1:] if first.isalpha() else text


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


def see_other(there: str) -> RedirectResponse:
    """Redirect a browser to a page after a form."""
    return RedirectResponse(there, HTTPStatus.SEE_OTHER)


@cache
def static(name: str) -> str:
    """Return the path of a static file, with a digest so that it can be cached."""
    digest = hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest()
    return f"/ui/static/{name}?v={digest[:16]}"


def page_response(text: str, status: int) -> Response:
    """Return a page in UTF-8, with `?` for lone surrogates.

    Caches must not keep it, because it shows mail.
    """
    content = text.encode("utf-8", "replace")
    return HTMLResponse(content, status, {"Cache-Control": "no-store", **SECURITY})


BROWSER: Final = "postbayes_browser"
"""The cookie that identifies a browser without a session."""
_BROWSER: Final = re.compile(r"[0-9a-f]{32}")


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.application.sessions
    return sessions


def _author(request: Request) -> str:
    """Return the identity behind a form: a person or a network, and one browser."""
    state = request.scope.setdefault("state", {})
    browser = request.cookies.get(BROWSER, "")
    if not _BROWSER.fullmatch(browser):
        browser = state.setdefault("browser", token_hex(16))
    return f"{principal_of(request).name} {browser}"


def require_csrf(request: Request, token: str) -> None:
    """Raise if a form was not posted from a page of this service.

    Browsers send cookies, and their network, by themselves, so these prove nothing
    about a form.  They never send keys by themselves, and the link of a digest is
    itself a proof.

    Raises
    ------
    Forbidden
        If its field `csrf` is not that of `csrf_field` on the page.
    """
    principal = principal_of(request)
    if principal is NOBODY or principal.kind == "key":
        return
    if not _sessions(request).is_token(token, _author(request)):
        raise Forbidden(
            "the form has expired, or is not from a page of this service; go back, "
            "reload the page, and send the form again"
        )


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


@pass_context
def csrf_field(context: Context) -> Markup:
    """Return the hidden field of a form."""
    request = context["request"]
    token = _sessions(request).token(_author(request))
    return Markup('<input type="hidden" name="csrf" value="{}">').format(token)


SECRETS: Final[Mapping[str, str]] = {
    "password": "Password",
    "new": "New password",
    "again": "Repeat the new password",
}
"""Fields whose text no page shows again, with their names."""


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


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = addressed, shown, seen_at, mail_text, nats, prose, percent, sentence
    made.filters |= {each.__name__: each for each in filters}
    made.filters["chance"] = lambda log_odds: ThresholdOut.of(log_odds).percent
    functions = link, static, csrf_field, typed
    made.globals |= {each.__name__: each for each in functions}
    made.globals |= {"COOKIE": COOKIE, "PLACES": PLACES, "SECRETS": SECRETS}
    return made


TEMPLATES: Final = _environment()
LARGE: Final = 1 << 20
"""The size of a page with a table for `computing`."""


def render(
    request: Request,
    template: str,
    *,
    here: str | None = None,
    status: int = 200,
    **context: Any,
) -> Response:
    """Return a page.

    Parameters
    ----------
    here : str, optional
        The entry of `PLACES` to mark in the navigation, whose links then keep the
        profile of the query; empty for a page of no profile.  By default, that with the
        name of the template.
    """
    here = template.removesuffix(".html") if here is None else here
    site = request.app.state.application.settings.profile
    profile = (request.query_params.get("profile") if here else None) or site
    refusal = request.scope.get("state", {}).get("refusal")
    text = TEMPLATES.get_template(template).render(
        request=request,
        principal=principal_of(request),
        here=here,
        refusal=refusal,
        profile=profile,
        # The site's profile is the default.
        keep={} if profile == site else {"profile": profile},
        **context,
    )
    response = page_response(text, refusal.status if refusal else status)
    browser = request.scope.get("state", {}).get("browser")
    if browser is not None:
        set_cookie(request, response, BROWSER, browser, seconds=None)
    cookie = request.cookies.get(COOKIE)
    if cookie is not None and principal_of(request).kind == "person":
        found = _sessions(request).find(cookie)
        if found is not None and found[1] is not None:
            begin_session(request, response, found[1])
    return response


async def render_table(request: Request, template: str, **context: Any) -> Response:
    """Return a page with a table, as `render`, which takes 10 ms or more."""
    return await computing(partial(render, request, template, **context), LARGE)


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
_STATIC: Final = StaticFiles(directory=HERE / "static")


@router.get("/ui/static/{name}")
async def static_file(
    request: Request, name: str, v: Annotated[str | None, Query()] = None
) -> Response:
    """Return a static file; with the digest of what it holds, for a year."""
    answer = await _STATIC.get_response(name, request.scope)
    dated = v is not None and f"/ui/static/{name}?v={v}" == static(name)
    kept = "public, max-age=31536000, immutable" if dated else "no-cache"
    answer.headers.update({**SECURITY, "Cache-Control": kept})
    return answer
