"""Messages and answers in zstd: read as far as is looked at, and no further."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.rspamd import codec
from app.doors.rspamd.codec import Refusal, unpacked
from app.mail.limits import MAX_BYTES
from app.zstd import MAGIC, WINDOW_LOG, zstd
from tests.support.rspamd import SPAM, ask, exchange, opened, request
from tests.support.standin import Application

PACKED = zstd.compress(SPAM)


def test_a_packed_message_is_the_message():
    """By the header of rspamc, that of HTTP, and by its first bytes alone."""
    plain, *packed = ask(
        request("/checkv2"),
        request("/checkv2", "Compression: zstd", message=PACKED),
        request("/checkv2", "Content-Encoding: ZSTD", message=PACKED),
        request("/checkv2", message=PACKED),
    )

    assert 200 == plain[0]
    assert [plain[1]["postbayes"]] * 3 == [
        document["postbayes"] for _, document in packed
    ]


def test_a_packed_message_is_learned():
    """As the message that it is: the same once more is known."""
    app = Application()
    told = ask(
        request("/learnspam", "Compression: zstd", message=PACKED),
        request("/learnspam"),
        application=app,
    )

    assert [200, 208] == [status for status, _ in told]


@pytest.mark.parametrize(
    "wish", ["Flags: body_block,zstd", "Accept-Encoding: gzip, zstd;q=0.5"]
)
def test_a_verdict_is_packed_for_who_wants_it(wish):
    """It is the same document, and two headers say what it is packed in."""

    async def run():
        async with opened() as connect:
            reader, writer = await connect()
            writer.write(request("/checkv2", wish))
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return told, (await exchange(connect, [request("/checkv2")]))[2]

    told, plain = asyncio.run(run())
    head, _, body = told.partition(b"\r\n\r\n")

    assert {b"compression: zstd", b"content-encoding: zstd"} <= set(
        head.lower().split(b"\r\n")
    )
    assert (
        json.loads(plain)["postbayes"] == json.loads(zstd.decompress(body))["postbayes"]
    )


@pytest.mark.parametrize(
    "wish", ["Flags: body_block", "Accept-Encoding: gzip, zstd;q=0", "Flags: zstdx"]
)
def test_who_does_not_want_it_gets_it_plain(wish):
    """Clients get compressed answers only on request."""
    name, _, value = wish.partition(": ")

    assert not codec.read(
        "POST", "/checkv2", [(name.lower().encode(), value.encode())]
    ).packs


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"Subject: not packed\n\n", "cannot be decompressed"),
        (MAGIC + b"\x20\x05\xff\xff\xff", "cannot be decompressed"),
        (PACKED[:-3], "compressed message is incomplete"),
        (PACKED + PACKED, "there is data after"),
        (PACKED + b"x", "there is data after"),
    ],
)
def test_what_is_no_packed_message_is_refused(message, says):
    """It would be scored as the garbage that it looks like."""
    ((status, answer),) = ask(request("/checkv2", "Compression: zstd", message=message))

    assert 400 == status
    assert says in answer["error"]


def test_a_bomb_is_unpacked_to_what_is_looked_at():
    """Of a gigabyte in 33 kB, only some 4 MiB are unpacked."""
    packer = zstd.ZstdCompressor(level=1)
    pieces = [packer.compress(bytes(1 << 24)) for _ in range(64)]
    bomb = b"".join([*pieces, packer.flush()])

    assert len(bomb) < 100_000
    assert MAX_BYTES + 1 == len(unpacked(bomb, cut=False))


def test_a_large_frame_is_unpacked_beside_the_event_loop(monkeypatch):
    """In 4 MiB, a million blocks of one byte each take 0.1 s."""
    threads = []

    def noted(*given, **named):
        threads.append(threading.current_thread().name)
        return unpacked(*given, **named)

    monkeypatch.setattr(codec, "unpacked", noted)
    # What follows a frame is refused, but only once it was unpacked.
    ask(request("/checkv2", message=PACKED + bytes(1 << 17)))

    assert ["AnyIO worker thread"] == threads


def test_a_frame_that_asks_for_much_memory_is_refused():
    """Before it is given: the window is announced at the beginning."""
    window = {zstd.CompressionParameter.window_log: WINDOW_LOG + 1}
    greedy = zstd.compress(bytes(1 << (WINDOW_LOG + 2)), options=window)

    with pytest.raises(Refusal, match="too much memory"):
        unpacked(greedy, cut=False)


def test_a_large_message_is_scored_by_its_beginning():
    """Also if the mail is incompressible and its end was dropped."""
    noise = bytes(range(256)) * 64
    message = SPAM + b"".join(
        bytes(b ^ (n * 37 & 255) for b in noise) for n in range(MAX_BYTES // len(noise))
    )
    packed = zstd.compress(message, level=-50)

    ((status, answer),) = ask(request("/checkv2", message=packed))

    assert (200, "add header") == (status, answer["action"])
    assert unpacked(packed[: MAX_BYTES // 2], cut=True).startswith(SPAM)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_message_or_refused(rest, cut):
    """Nothing that follows the first bytes raises otherwise."""
    try:
        found = unpacked(MAGIC + rest, cut=cut)
    except Refusal:
        return

    assert len(found) <= MAX_BYTES + 1
