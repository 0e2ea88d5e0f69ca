"""A client of the spamd door, without sockets."""

from __future__ import annotations

import asyncio

from app.doors.spamd.server import Spamd
from tests.support.standin import Application

SPAM = b"From: win@prizes.example\nSubject: Win\n\nfree money\n"


LIMIT = 10_000


class Pieces:
    """A connection that says what it is given, piece by piece."""

    def __init__(self, pieces, host="127.0.0.1"):
        self.pieces = [piece for piece in pieces if piece]
        self.host = host
        self.answer = b""

    async def read(self):
        """Return the next piece; nothing at the end."""
        return self.pieces.pop(0) if self.pieces else b""

    read_between = read

    async def gone(self):
        """Never hang up."""
        await asyncio.Event().wait()

    async def linger(self):
        """Send nothing more."""

    async def write(self, data):
        """Keep what is answered."""
        self.answer += data


def answer(*pieces, application=None, host="127.0.0.1"):
    """Return what the door answers."""
    connection = Pieces(pieces, host)
    door = Spamd(application or Application())
    asyncio.run(door.serve(connection))
    return connection.answer


def request(command, *fields, message=SPAM):
    """Return the bytes of a request."""
    lines = [command, *fields, f"Content-length: {len(message)}", "", ""]
    return "\r\n".join(lines).encode() + message


def feed(session, data, size=65_536):
    """Return what a session makes of bytes that come in pieces of a size."""
    results = (
        session.receive(data[start : start + size])
        for start in range(0, len(data), size)
    )
    return [result for result in results if result is not None]
