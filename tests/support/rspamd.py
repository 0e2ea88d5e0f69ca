"""A client of the rspamd door, over real sockets."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from app.doors.rspamd.server import Rspamd
from app.doors.serving.http1 import WebListener
from app.doors.serving.sockets import Inet, listen
from tests.support.standin import Application

SPAM = b"From: win@prizes.example\nSubject: Win\n\nfree money\n"


LOOPBACK = Inet("127.0.0.1", 0)


@asynccontextmanager
async def opened(application=None, address=LOOPBACK):
    """Open the door on a real socket, and give a function that connects to it."""
    listening = listen(address, setting="X", shared=False)
    where = listening.socket.getsockname()
    listener = WebListener(Rspamd(application or Application()), listening)
    listener.start()

    async def connect():
        if isinstance(where, str):
            return await asyncio.open_unix_connection(where)
        return await asyncio.open_connection(*where)

    try:
        yield connect
    finally:
        await listener.stop()


async def exchange(connect, pieces):
    """Send some bytes, and return status, media type and body of the answer."""
    reader, writer = await connect()
    for piece in pieces:
        if piece:
            writer.write(piece)
            await writer.drain()
            # Pieces that are sent one at a time arrive one at a time.
            await asyncio.sleep(0)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    media_type = headers.get("content-type", "").partition(";")[0]
    return int(lines[0].split()[1]), media_type, body


def request(path, *headers, message=SPAM, method="POST"):
    """Return the bytes of a request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Connection: close",
        *headers,
        f"Content-Length: {len(message)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + message


def ask(*sent, application=None, address=LOOPBACK):
    """Return status and document of the answers to some requests, in order."""

    async def run():
        async with opened(application, address) as connect:
            return [await exchange(connect, [each]) for each in sent]

    return [(status, json.loads(body)) for status, _, body in asyncio.run(run())]


def comparable(status, media_type, body):
    """Return an answer without what the clock has a part in."""
    if media_type != "application/json":
        return status, media_type, body
    content = json.loads(body)
    return (
        status,
        media_type,
        content | {key: 0 for key in ("time_real", "uptime") if key in content},
    )


def expected(text):
    """Return the answer that a transcript shows."""
    head, _, body = text.partition(b"\r\n")
    status, media_type = head.decode().split()
    return comparable(int(status), media_type, body)
