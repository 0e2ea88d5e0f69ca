"""HTTP client: the whole answer of another server, within bounds of bytes and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from app import __version__
from app.errors import reason

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Ask a server, and return its answer; redirects are not followed.

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
    # Here, since most services ask no other server.
    import httpx2  # noqa: PLC0415

    sent = {
        # What is counted below is what comes.
        "Accept-Encoding": "identity",
        "User-Agent": f"Postbayes/{__version__}",
        **headers,
    }

    async def answered() -> Answer:
        # The time limits of the client begin again with each byte: a server that sends
        # its header byte by byte would hold the thread, and the end of the service.
        async with (
            asyncio.timeout(within),
            httpx2.AsyncClient(
                timeout=silent, follow_redirects=False, transport=transport
            ) as client,
            client.stream(method, url, headers=sent, **given) as answer,
        ):
            content = bytearray()
            async for piece in answer.aiter_raw():
                content += piece
                if len(content) > most_bytes:
                    raise NoAnswer(f"the answer has more than {most_bytes:,} bytes")
            return Answer(answer.status_code, answer.headers, bytes(content))

    try:
        return asyncio.run(answered())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NoAnswer(reason(error)) from error
    except TimeoutError as error:
        raise NoAnswer(f"the answer took longer than {within:g} s") from error
