"""A real service with all its doors open, and clients that mean it harm."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import struct
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import packets, transcript
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service

DOORS = ("http", "rspamd", "spamd", "milter")
CLIENTS = 200
GARBAGE = 150
# Of one process that has looked at one message, some 75 MB; and then holds eight as far
# as they are looked at, of which two threads read one each: 64 to 115 MB.
MOST_OF_ONE_KB = 100 * 1024
MOST_OF_EIGHT_KB = 150 * 1024


def packet(command, data=b""):
    """Return a packet of the milter protocol."""
    return struct.pack("!I", 1 + len(data)) + command + data


def asked(door, raw):
    """Return the bytes in which a door is asked about a message."""
    if door == "milter":
        head, _, body = raw.partition(b"\n\n")
        fields = [line.partition(b":") for line in head.split(b"\n")]
        return b"".join(
            [
                packet(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF)),
                packet(b"M", b"<a@b.example>\0"),
                *(
                    packet(b"L", name + b"\0" + value + b"\0")
                    for name, _, value in fields
                ),
                packet(b"N"),
                *(
                    packet(b"B", body[n : n + 65_535])
                    for n in range(0, len(body), 65_535)
                ),
                packet(b"E"),
                packet(b"Q"),
            ]
        )
    length = b"Content-length: %d\r\n\r\n" % len(raw)
    if door == "spamd":
        return b"HEADERS SPAMC/1.5\r\n" + length + raw
    path, kind = {
        "http": (b"/classify", b"message/rfc822"),
        "rspamd": (b"/checkv2", b"text/plain"),
    }[door]
    return (
        (
            b"POST %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: %b\r\n"
            % (path, kind)
        )
        + length
        + raw
    )


def heard(door, answer):
    """Return the decision that an answer holds."""
    written = {
        "http": rb'"decision":"(\w+)"',
        "rspamd": rb'"decision":"(\w+)"',
        "spamd": rb"\nX-Postbayes: (\w+)",
        "milter": rb"X-Postbayes\0 (\w+)",
    }[door]
    found = re.search(written, answer)
    return answer[:200] if found is None else found[1].decode()


@contextmanager
def opened(folder):
    """Run a service with every door open, that has learned forty messages."""
    service = Service(sqlite_url(folder), folder)
    service.ports = {"http": service.port} | {
        door: service.open_door(door) for door in DOORS[1:]
    }
    try:
        service.start()
        for n in range(10, 30):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service
    finally:
        service.client.close()
        if service.process.poll() is None:
            service.kill()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service of this module: none of what is done to it may end it."""
    with opened(tmp_path_factory.mktemp("hostile")) as service:
        yield service


async def ask(port, sent):
    """Return the answer to some bytes, once the door hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return await finish(reader, writer, sent)


async def finish(reader, writer, sent):
    """Send the rest of a request, and return the answer."""
    writer.write(sent)
    try:
        return await reader.read()
    finally:
        writer.close()


def verdicts(service):
    """Return what each door says of a message of either side."""

    async def run():
        return {
            door: [
                heard(door, await ask(port, asked(door, raw)))
                for raw in (ham(9), spam(9))
            ]
            for door, port in service.ports.items()
        }

    return asyncio.run(run())


SOUND = {door: ["ham", "spam"] for door in DOORS}


@pytest.mark.parametrize("door", DOORS)
def test_two_hundred_clients_of_a_door_are_served_at_once(service, door):
    """Half of them stand still in the middle of a request; nobody gets another's."""
    port, sent = service.ports[door], [asked(door, raw) for raw in (ham(9), spam(9))]

    async def run():
        slow = [
            await asyncio.open_connection("127.0.0.1", port)
            for _ in range(CLIENTS // 2)
        ]
        for n, (_, writer) in enumerate(slow):
            writer.write(sent[n % 2][:40])
        quick = await asyncio.gather(
            *(ask(port, sent[n % 2]) for n in range(CLIENTS // 2))
        )
        rest = await asyncio.gather(
            *(finish(*each, sent[n % 2][40:]) for n, each in enumerate(slow))
        )
        return [heard(door, answer) for answer in (*quick, *rest)]

    assert ["ham", "spam"] * (CLIENTS // 2) == asyncio.run(run())


def damaged(chance):
    """Yield conversations of all doors: cut, reordered, overwritten, or no such."""
    whole = [packets.load(path)[1] for path in packets.paths()]
    for protocol in ("rspamd", "spamd"):
        whole += [transcript.load(path)[0] for path in transcript.paths(protocol)]
    for _ in range(GARBAGE):
        sent = bytearray(chance.choice(whole))
        for _ in range(chance.randrange(6)):
            at = chance.randrange(len(sent))
            sent[at : at + chance.randrange(5)] = chance.randbytes(chance.randrange(5))
        cuts = sorted(chance.randrange(len(sent) + 1) for _ in range(3))
        pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
        if chance.random() < 0.5:
            chance.shuffle(pieces)
        yield chance.choice(
            [b"".join(pieces), chance.randbytes(chance.randrange(5000))]
        )


async def throw(port, sent, *, ends):
    """Send some bytes, and hang up in one way or the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if ends:
            writer.write_eof()
            await asyncio.wait_for(reader.read(), PATIENCE)
    except ConnectionError:
        return
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("door", DOORS)
def test_garbage_leaves_the_doors_open(service, door):
    """Random, truncated and reordered requests: every door answers as before."""
    chance = random.Random(door)  # noqa: S311

    async def run():
        for sent in damaged(chance):
            await throw(service.ports[door], sent, ends=chance.random() < 0.5)

    asyncio.run(run())

    assert SOUND == verdicts(service)


def memory(service):
    """Return the most memory that the service has had. Unit: kB."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


@pytest.mark.parametrize("door", DOORS)
def test_many_large_messages_at_once_cost_what_is_looked_at(service, door):
    """Eight of 40 MB: they are counted, and scored by their beginning."""
    large = asked(door, spam(9) + b"money " * (40_000_000 // 6))

    async def run(together):
        return await asyncio.gather(
            *(ask(service.ports[door], large) for _ in range(together))
        )

    start = memory(service)
    asyncio.run(run(1))
    before = memory(service)
    answers = asyncio.run(run(8))

    assert ["spam"] * 8 == [heard(door, answer) for answer in answers]
    assert before - start < MOST_OF_ONE_KB
    assert memory(service) - before < MOST_OF_EIGHT_KB


def test_closing_finishes_what_every_door_holds(tmp_path):
    """No door takes more, while HTTP still answers; what was begun may be sent whole."""

    async def run(service):
        held, sent = {}, {door: asked(door, spam(9)) for door in DOORS}
        for door, port in service.ports.items():
            held[door] = await asyncio.open_connection("127.0.0.1", port)
            held[door][1].write(sent[door][:-30])
        # Each door has read the beginning once it answers somebody who came later.
        for door, port in service.ports.items():
            await ask(port, asked(door, ham(9)))
        service.process.send_signal(signal.SIGTERM)
        for port in service.ports.values():
            await closed(port)
        # HTTP last: the others wait for less long.
        answers = {
            door: await finish(*held[door], sent[door][-30:]) for door in DOORS[::-1]
        }
        return {door: heard(door, answer) for door, answer in answers.items()}

    with opened(tmp_path) as service:
        answers = asyncio.run(run(service))
        code = service.process.wait(PATIENCE)

    assert dict.fromkeys(DOORS, "spam") == answers
    assert -signal.SIGTERM == code


async def closed(port):
    """Wait until a door takes no more connections."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                return
            writer.close()
            await asyncio.sleep(0.02)
