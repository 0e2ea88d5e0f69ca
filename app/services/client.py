"""HTTP client for the other servers that the service asks.

Contract of this file: an answer is read within bounds of bytes and time, and redirects
are not followed.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from app import __version__
from app.errors import reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx2


class NoAnswer(Exception):
    """A server that does not answer, or without an end; says why."""


class Answer(NamedTuple):
    """An answer, with its body as it was sent."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    most_bytes: int,
    silent: float,
    within: float,
    transport: httpx2.AsyncBaseTransport | None = None,
    **given: Any,
) -> Answer:
    """Ask a server, and return its answer.

    Parameters
    ----------
    method, url, headers, **given
        Of the request, as `httpx2` takes them.
    most_bytes : int
        Of the body.
    silent : float
        How long the server may send nothing.  Unit: seconds.
    within : float
        How long it may take for all of its answer.  Resolving its name has the limits
        of the resolver.  Unit: seconds.
    transport : httpx2.AsyncBaseTransport or None
        How it is reached; None for the network.

    Raises
    ------
    NoAnswer
        If it does not answer within these bounds.
    """
    # What is counted below is what comes.
    sent = {"Accept-Encoding": "identity", **headers}

    async def answered() -> Answer:
        # The time limits of the client begin again with each byte: a server that sends
        # its header byte by byte would hold the thread, and the end of the service.
        async with (
            asyncio.timeout(within),
            open_client(silent, transport) as client,
            client.stream(method, url, headers=sent, **given) as answer,
        ):
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > most_bytes:
                    raise NoAnswer(f"the answer has more than {most_bytes:,} bytes")
            return Answer(answer.status_code, answer.headers, bytes(content))

    with answering(within):
        return asyncio.run(answered())


def open_client(
    silent: float, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    """Return a client; see `ask`.

    Raises
    ------
    NoAnswer
        If the environment has certificates or a proxy that cannot be used.
    """
    # Here, since most services ask no other server.
    import httpx2  # noqa: PLC0415

    with usable_environment():
        return httpx2.AsyncClient(
            headers={"User-Agent": f"Postbayes/{__version__}"},
            timeout=silent,
            follow_redirects=False,
            transport=transport,
        )


@contextmanager
def usable_environment() -> Iterator[None]:
    """Raise `NoAnswer` if a client cannot use what the environment tells it to."""
    try:
        yield
    # ImportError: a SOCKS proxy needs a library that is not among the dependencies.
    except (ImportError, OSError, ValueError) as error:
        raise NoAnswer(
            "SSL_CERT_FILE, SSL_CERT_DIR or a proxy of the environment cannot be used: "
            f"{reason(error)}"
        ) from error


@contextmanager
def answering(within: float) -> Iterator[None]:
    """Raise `NoAnswer` if a server cannot be reached, or takes too many seconds."""
    import httpx2  # noqa: PLC0415  as in `open_client`

    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NoAnswer(_cause(error)) from error
    except TimeoutError as error:
        raise NoAnswer(f"the answer took longer than {within:g} s") from error


def _cause(error: BaseException) -> str:
    """Return why a server cannot be reached.

    The library says of a refused connection that all attempts failed.
    """
    first = error
    while found := first.__cause__ or first.__context__:
        first = found
    if isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    if isinstance(first, ConnectionError) and first.errno:
        return os.strerror(first.errno)
    return reason(error)
