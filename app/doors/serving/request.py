"""Requests over HTTP: their caller, site and body, and the status of errors.

Contract of this file: headers about the client count only if a configured proxy sends
them.  From anybody else, they show that an unknown proxy relayed the request.  It then
always needs a key, as one from a configured proxy that does not name its client.

A web page can make a browser send requests to services that only its machine or network
can reach.  Two headers reveal such requests:

- `Host` has the name under which the page knows the service.  If the page's own name
  resolves to this machine (DNS rebinding), the browser treats both as the same site and
  lets the page read answers; only the name reveals it.
- `Origin` names the site of the page in every request that may change something (Fetch
  standard, section 3.1).  Clients other than browsers do not send it.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect, cookie_parser

from app import errors
from app.access.networks import client_behind
from app.access.rights import PREFIX
from app.doors.serving.http1 import BODY_SECONDS, CROWDED
from app.errors import Forbidden, MessageTooLarge, Overloaded, SlowRequest
from app.mail.limits import MAX_BYTES
from app.services.access import Caller

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from starlette.requests import Request

    from app.access.networks import Networks

_PREFIX: Final = PREFIX.encode()
_CHAIN: Final = b"x-forwarded-for"
_SCHEME: Final = b"x-forwarded-proto"
KEYS: Final = (b"authorization", b"x-api-key")
"""The headers that may contain a key."""
# Headers that proxies add: `Via` by caching proxies, the others by nginx, Apache,
# HAProxy, Traefik and according to RFC 7239.
_RELAYED: Final = frozenset(
    {
        _CHAIN,
        _SCHEME,
        *(b"forwarded", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip"),
        *(b"x-forwarded-server", b"via"),
    }
)
COOKIE: Final = "postbayes_session"
"""The cookie of a session."""


def caller_of(
    scope: Any,
    proxies: Networks,
    *,
    keys: Collection[bytes] = KEYS,
    sign_in: bytes | None = None,
) -> Caller:
    """Return the caller of a request.

    Behind a configured proxy, the scope gets the address and the scheme of the client.

    Parameters
    ----------
    keys : collection of bytes
        The headers that may contain a key, in lower case.
    sign_in : bytes or None
        The header with the name of the person whom a proxy has signed in.
    """
    client = scope["client"]
    host: str | None
    if client is not None:
        host = client[0]
    else:
        # A Unix socket, which has a path and no port; or the client hung up.
        server = scope["server"]
        host = None if server is not None and server[1] is None else ""
    headers = scope["headers"]
    key, cookie = _key(headers, keys), _cookie(headers)
    trusted = bool(proxies) and proxies.holds(host)
    # The first of each name.
    given = dict(reversed(headers))
    person = None
    if trusted and sign_in is not None:
        # A proxy that adds its header leaves one that the client sent beside it: both
        # together are one value (RFC 9110 section 5.2), and the name of nobody.
        named = b", ".join([value for name, value in headers if name == sign_in])
        person = named.strip().decode("latin-1") or None
    if _RELAYED.isdisjoint(given):
        return Caller(host, key=key, cookie=cookie, person=person)
    chain = [
        text
        for name, value in headers
        if name == _CHAIN
        for text in value.decode("latin-1").split(",")
    ]
    behind = client_behind(proxies, chain) if trusted else None
    if behind is None:
        return Caller(host, relayed=True, key=key, cookie=cookie, person=person)
    scope["client"] = (behind, 0)
    if any(name == _SCHEME and value.strip() == b"https" for name, value in headers):
        scope["scheme"] = "https"
    return Caller(behind, key=key, cookie=cookie, person=person)


def _key(
    headers: Iterable[tuple[bytes, bytes]], names: Collection[bytes]
) -> str | None:
    """Return the key: a token, a password, or the value of a separate header."""
    for name, value in headers:
        if name in names:
            given = _credential(value) if name == b"authorization" else value.strip()
            # A proxy with passwords of its own forwards them in this header too.
            if given.startswith(_PREFIX):
                return given.decode("latin-1")
    return None


def _cookie(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the session cookie."""
    # In several headers, as clients of HTTP/2 may send them (RFC 9113 section 8.2.3).
    cookies = b";".join([value for name, value in headers if name == b"cookie"])
    return cookie_parser(cookies.decode("latin-1")).get(COOKIE)


def _credential(value: bytes) -> bytes:
    """Return the token or the password of an `Authorization` header."""
    kind, _, rest = value.strip().partition(b" ")
    if kind.lower() == b"bearer":
        return rest.strip()
    if kind.lower() == b"basic":
        with suppress(ValueError):
            return b64decode(rest.strip(), validate=True).partition(b":")[2]
    return b""


SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# RFC 1035 section 2.3.4: 255 octets for a name; a port adds six.
_LONGEST: Final = 262
# An address or a name, and a port: in "localhost:80@page.example", which sign-in at a
# provider would make an address of, it is the end that names the site.
_HOST: Final = re.compile(r"(?:\[([^]]*)\]|([^][:@/]*))(?::[0-9]*)?")


class Site:
    """The names of a service, and the check of requests against them.

    Parameters
    ----------
    names : iterable of str
        Names of the service in addition to IP addresses, `localhost` and names without
        a dot, which pages on the internet cannot have.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {name.lower().rstrip(".") for name in names}

    def check(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise if a request comes from a page of another site.

        Raises
        ------
        Forbidden
            If its host is not one of the names, or its origin differs from the host.
        """
        host: bytes | None = None
        origin: bytes | None = None
        for name, value in headers:
            if name == b"host":
                host = value
                if len(host) > _LONGEST or not self._knows(host):
                    raise Forbidden(
                        f"the service does not know the name {_shown(host)!r}; use "
                        "its address, or add the name to POSTBAYES_HOST_NAMES"
                    )
            elif name == b"origin":
                origin = value
        if origin is not None and method not in SAFE_METHODS:
            page = _shown(origin).partition("://")[2]
            if host is None or page.lower() != _shown(host).lower():
                raise Forbidden(
                    f"requests from pages of {_shown(origin)!r} are refused; send them "
                    "from the server of that site or, if the pages are those of this "
                    "service, make its proxy pass the Host header unchanged"
                )

    def _knows(self, host: bytes) -> bool:
        found = _HOST.fullmatch(_shown(host).lower())
        if found is None:
            return False
        address, name = found[1], found[2]
        if name is None:
            return _is_address(address)
        name = name.rstrip(".")
        return (
            "." not in name
            or name in self._names
            or name.endswith(".localhost")
            or _is_address(name)
        )


def _shown(value: bytes) -> str:
    return value[:_LONGEST].decode("latin-1")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def require_place(scope: Any) -> None:
    """Raise if a request came while all places were taken.

    Raises
    ------
    Overloaded
        If it did.
    """
    if CROWDED in scope.get("state", ()):
        raise Overloaded(
            "the service is answering as many requests as it can; send the request "
            "again in a moment"
        )


STATUS: Final[Mapping[type[errors.PostbayesError], HTTPStatus]] = {
    errors.EmptyMessage: HTTPStatus.BAD_REQUEST,
    errors.MalformedRequest: HTTPStatus.BAD_REQUEST,
    errors.MessageTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.BatchTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.SlowRequest: HTTPStatus.REQUEST_TIMEOUT,
    errors.UnsupportedContentType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.InvalidInput: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Forbidden: HTTPStatus.FORBIDDEN,
    errors.TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Conflict: HTTPStatus.CONFLICT,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.PostbayesError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""The status of an error over HTTP; the nearest ancestor of its class decides."""
MAX_DIGITS: Final = 18


async def take(request: Request, *, limit: int, kept: int) -> bytes:
    """Return the body of a request, or stop as soon as it is too large.

    Parameters
    ----------
    request : Request
        The request, its body not read yet.
    limit : int
        Largest size of the body.  Unit: bytes.
    kept : int
        Bytes of it to keep; the rest is counted and discarded.

    Raises
    ------
    MessageTooLarge
        If it is over the limit; the rest is not read.
    SlowRequest
        If it does not arrive in time, or before the service stops.
    """
    # Python refuses to parse thousands of digits, including leading zeros.
    announced = request.headers.get("content-length", "").lstrip("0")
    digits = len(announced)
    if announced.isdecimal() and (digits > MAX_DIGITS or int(announced) > limit):
        raise MessageTooLarge(_too_large(limit))
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise MessageTooLarge(_too_large(limit))
                body += chunk[: kept - len(body)]
    except ClientDisconnect as error:
        # The answer is not read; it only prevents a hang-up from being logged as a
        # crash.
        msg = f"the client hung up after {size} bytes of the body"
        raise SlowRequest(msg) from error
    except TimeoutError as error:
        raise SlowRequest(
            f"the body did not arrive within {BODY_SECONDS:g} s "
            f"({size} bytes did); send it again"
        ) from error
    except asyncio.CancelledError as error:
        # uvicorn says why it cancels what is left when the service stops.  Anybody else
        # who cancels wants no answer.
        if "shutdown" not in str(error):
            raise
        # A 500, and its traceback, would report a defect, and have clients drop it.
        raise SlowRequest(
            f"the service stops, and the body has not arrived ({size} bytes did); send "
            "it again"
        ) from error
    return bytes(body)


async def hung_up(request: Request) -> None:
    """Return when the client hangs up; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _too_large(limit: int) -> str:
    return (
        f"the body is larger than {limit} bytes; send each message raw, as "
        f"message/rfc822; its first {MAX_BYTES} bytes are enough, and "
        "POSTBAYES_MAX_REQUEST_BYTES sets the limit, up to 8 MiB for JSON"
    )
