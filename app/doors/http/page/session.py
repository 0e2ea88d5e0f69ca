"""Session: the cookies of a browser, and the proof that a page of ours made a form."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from app.access.rights import NOBODY
from app.doors.serving.caller import COOKIE
from app.errors import Forbidden

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from app.access.rights import Principal
    from app.services.access import Sessions

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
            "the form is too old, or not from a page of this service; go back, load "
            "the page again, and send it once more"
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
