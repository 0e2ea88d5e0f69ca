"""Clients of the benchmarks: just enough HTTP, and the times they measured.

A whole HTTP client takes more time per request than the service does.  One client
alone is a socket that blocks: with an event loop on its side 4.8 and 3.8 ms at the
median became 5.0 and 4.4.
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Event

HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Load:
    """What some clients saw.

    Parameters
    ----------
    seconds : sequence of float
        How long each request took.
    elapsed : float
        How long all of them took together. Unit: seconds.
    """

    seconds: Sequence[float]
    elapsed: float

    def quantile(self, share: float) -> float:
        """Return the time that this share of the requests kept to. Unit: ms."""
        return 1e3 * float(np.quantile(self.seconds, share))

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.elapsed


def request(
    path: str, body: bytes, content_type: str = "message/rfc822", **headers: str
) -> bytes:
    """Return a POST request as it goes over the wire; `_` in a header stands for -."""
    fields = {
        "Host": "localhost",
        "Content-Type": content_type,
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    lines = [f"POST {path} HTTP/1.1", *map(": ".join, fields.items())]
    return "\r\n".join(lines).encode() + HEAD_END + body


class Connection:
    """A connection that waits for each answer.

    Parameters
    ----------
    port : int
        Where the service listens.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        """Return the connection."""
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self._socket.close()

    def ask(self, sent: bytes) -> bytes:
        """Send a request and return the body of the answer.

        Raises
        ------
        RuntimeError
            If the answer is not one of success.
        """
        self._socket.sendall(sent)
        head, end, body = b"", b"", b""
        while not end:
            head, end, body = self._more(head).partition(HEAD_END)
        length = content_length(head)
        while len(body) < length:
            body = self._more(body)
        require_success(head, body)
        return body

    def _more(self, seen: bytes) -> bytes:
        received = self._socket.recv(65536)
        if not received:
            raise RuntimeError(f"the service hung up after {seen[:40]!r}")
        return seen + received


def content_length(head: bytes) -> int:
    """Return how long the body is that follows a head."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])


def require_success(head: bytes, body: bytes) -> None:
    """Raise RuntimeError if an answer is not one of success."""
    if not head.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"{head[:40]!r} {body[:200]!r}")


def run_one(port: int, requests: Sequence[bytes]) -> Load:
    """Send requests over one connection, each after the answer to the last."""
    seconds: list[float] = []
    with Connection(port) as connection:
        start = time.perf_counter()
        for sent in requests:
            begun = time.perf_counter()
            connection.ask(sent)
            seconds.append(time.perf_counter() - begun)
        return Load(seconds, time.perf_counter() - start)


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: bytes
) -> bytes:
    """Send a request and return the body of the answer.

    Raises
    ------
    RuntimeError
        If the answer is not one of success.
    """
    writer.write(sent)
    head = await reader.readuntil(HEAD_END)
    body = await reader.readexactly(content_length(head))
    require_success(head, body)
    return body


async def client(port: int, requests: Iterable[bytes], seconds: list[float]) -> None:
    """Send requests over one connection, each after the answer to the last."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for sent in requests:
        begun = time.perf_counter()
        await ask(reader, writer, sent)
        seconds.append(time.perf_counter() - begun)
    writer.close()


def run_clients(port: int, requests: Sequence[bytes], clients: int) -> Load:
    """Share requests among some clients, in this process."""

    async def run() -> Load:
        seconds: list[float] = []
        waiting = iter(requests)
        begun = time.perf_counter()
        await asyncio.gather(*(client(port, waiting, seconds) for _ in range(clients)))
        return Load(seconds, time.perf_counter() - begun)

    return asyncio.run(run())


def teach_until(port: int, requests: Sequence[bytes], stop: Event) -> int:
    """Teach without a pause until told to stop, and return how many requests."""
    sent = 0
    with Connection(port) as connection:
        for one in cycle(requests):
            if stop.is_set():
                break
            connection.ask(one)
            sent += 1
    return sent
