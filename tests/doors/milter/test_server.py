"""The milter door on its bytes and on real sockets, its failures included."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from types import SimpleNamespace

import miltertest
import pytest
from hypothesis import given
from hypothesis import strategies as st
from miltertest import constants

from app.classifier.statement import Origin
from app.doors.milter import codec, server
from app.doors.milter.server import Milter, milter
from app.doors.serving.listener import Listener
from app.doors.serving.sockets import Inet, listen
from app.errors import DatabaseUnavailable, InvalidSetting
from tests.support import packets
from tests.support.standin import Application, classified

CONVERSATIONS = packets.paths()
OPTIONS = codec.packet(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF))


class Pieces:
    """A connection that says what it is given, piece by piece."""

    peer = "a test"

    host = "127.0.0.1"

    def __init__(self, *pieces):
        self.pieces = [piece for piece in pieces if piece]
        self.answer = b""

    async def read(self):
        """Return the next piece; nothing at the end."""
        return self.pieces.pop(0) if self.pieces else b""

    read_between = read

    async def gone(self):
        """Never hang up."""
        await asyncio.Event().wait()

    async def write(self, data):
        """Keep what is answered."""
        self.answer += data


def answer(*pieces, application=None, **given):
    """Return what the door answers to some pieces."""
    connection = Pieces(*pieces)
    door = Milter(application or Application(**given))
    asyncio.run(door.serve(connection))
    return connection.answer


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_under_every_cut(path):
    """Any split of the bytes gives the same answers."""
    given, sent, expected = packets.load(path)
    door = Milter(Application(**given))

    async def answers():
        for cut in range(len(sent) + 1):
            connection = Pieces(sent[:cut], sent[cut:])
            await door.serve(connection)
            yield connection.answer

    async def different():
        return [cut async for cut in answers() if cut != expected]

    assert [] == asyncio.run(different())


@pytest.mark.parametrize("path", CONVERSATIONS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_byte_by_byte(path):
    """Single bytes give the same answers."""
    given, sent, expected = packets.load(path)

    assert expected == answer(*(sent[n : n + 1] for n in range(len(sent))), **given)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_end_the_connection_and_nothing_else(pieces):
    """A client of another protocol is disconnected."""
    answer(OPTIONS, *pieces)


def message(subject):
    """Return the packets of a message with a subject."""
    return b"".join(
        [
            OPTIONS,
            codec.packet(b"M", b"<a@b.example>\0"),
            codec.packet(b"L", b"X-Postbayes\0 ham\0"),
            codec.packet(b"L", b"Subject\0 " + subject + b"\0"),
            codec.packet(b"N"),
            codec.packet(b"E"),
        ]
    )


def test_the_mail_server_says_who_sends():
    """Lists match the envelope sender and the client address."""
    application, origins = Application(), []
    each = application.classify.each

    def classify(profiles, raw, *, origin, **others):
        origins.append(origin)
        return each(profiles, raw, origin=origin, **others)

    application.classify.each = classify
    client = struct.pack("!H", 4711) + b"192.0.2.7\0"
    connect = codec.packet(b"C", b"mx.example\0004" + client)
    packets_ = message(b"lunch").replace(OPTIONS, OPTIONS + connect)
    answer(packets_, application=application)

    assert [Origin("<a@b.example>", "192.0.2.7")] == origins


def test_what_was_asked_for_is_counted():
    """The counter has the door and the action."""
    application = Application()
    for subject in (b"lunch at noon", b"money"):
        answer(message(subject), application=application)

    assert {"none": 1, "add header": 1, "unmarked": 0} == application.tally.counts(
        "postbayes_actions", "action"
    )


def test_the_words_of_a_message_can_be_kept_out_of_its_header():
    """The setting removes the explanation, and keeps the other headers."""
    said, silent = (
        answer(message(b"money"), explain_mail=explains) for explains in (True, False)
    )

    assert b"X-Postbayes-Explanation" in said
    assert b"X-Postbayes-Explanation" not in silent
    assert b"X-Postbayes-Profile" in silent
    assert b"money +3.00" not in silent


def failing(error):
    """Return an application whose scoring fails."""

    def classify(profiles, raw, *, strongest, taught, **others):
        raise error

    application = Application()
    application.classify.each = classify
    return application


UNMARKED = codec.delete_header(b"x-postbayes", 1) + codec.CONTINUE


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DatabaseUnavailable("it is away"), "passed unmarked: it is away"),
        (ZeroDivisionError("a defect"), "ZeroDivisionError"),
    ],
)
def test_mail_passes_unmarked_where_the_door_fails(error, says, caplog):
    """A defect does not stop mail, and forged headers are still removed."""
    application = failing(error)
    answered = answer(message(b"money pills"), application=application)

    assert answered.endswith(UNMARKED)
    assert says in caplog.text
    assert {"unmarked": 1} == application.tally.counts("postbayes_actions", "action")


def test_mail_passes_unmarked_where_scoring_takes_too_long(caplog, monkeypatch):
    """The answer comes within the limit, whatever the thread does."""
    monkeypatch.setattr(server, "PATIENCE", 0.01)

    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(server, "computing", never)

    assert answer(message(b"money")).endswith(UNMARKED)
    assert "scoring took more than 0 s" in caplog.text


def test_the_classifier_sees_where_the_message_comes_from():
    """The header that the mail server hides is added above the others."""
    seen = []

    def classify(profiles, raw, *, strongest, taught, **others):
        seen.extend((profile, raw) for profile in profiles)
        return {profile: classified(raw, profile) for profile in profiles}

    application = Application()
    application.classify.each = classify
    answer(
        OPTIONS,
        codec.packet(b"D", b"Cj\0mx.example.org\0v\0Postfix 3.7.11\0"),
        codec.packet(b"C", b"client.example.net\0" + b"4\0\x19192.0.2.1\0"),
        codec.packet(b"H", b"evil\xff\r\nX: y\0"),
        codec.packet(b"D", b"Mi\0A1\0{tls_version}\0TLSv1.3\0"),
        codec.packet(b"M", b"<a@b.example>\0"),
        codec.packet(b"R", b"<bob@example.org>\0"),
        codec.packet(b"E", b"at noon\r\n"),
        application=application,
    )

    ((profile, raw),) = seen
    received, _, rest = raw.partition(b"; ")
    assert "bob@example.org" == profile
    assert (
        b"Received: from evil???X:?y (client.example.net [192.0.2.1]) "
        b"by mx.example.org (Postfix) with ESMTPS id A1" == received
    )
    assert rest.endswith(b"\r\n\r\nat noon\r\n")


@asynccontextmanager
async def opened(application=None, **given):
    """Open the door, and yield its port and its listener."""
    door = milter(application or Application(**given))
    listening = listen(Inet("127.0.0.1", 0), setting="X", shared=False)
    listener = Listener(door, listening)
    port = listening.socket.getsockname()[1]
    listener.start()
    try:
        yield port, listener
    finally:
        await listener.stop()


def test_miltertest_is_served():
    """An independent client sends options, headers and body over a socket."""

    def converse(port):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            server_ = miltertest.MilterConnection(connection)
            server_.optneg_mta()
            server_._send(constants.SMFIC_MAIL, args=["<win@prizes.example>"])  # noqa: SLF001
            for name, value in (("Subject", " Win"), ("X-Postbayes", " ham")):
                server_._send(constants.SMFIC_HEADER, name=name, value=value)  # noqa: SLF001
            server_._send(constants.SMFIC_EOH)  # noqa: SLF001
            server_.send_body("free money pills\r\n" * 5000)
            return server_.send_eom()

    async def heard():
        async with opened() as (port, _):
            return await asyncio.to_thread(converse, port)

    answers = asyncio.run(heard())
    added = {
        fields["name"]: fields["value"]
        for command, fields in answers
        if command == constants.SMFIR_ADDHEADER
    }
    assert (constants.SMFIR_CHGHEADER, constants.SMFIR_CONTINUE) == (
        answers[0][0],
        answers[-1][0],
    )
    assert (" spam", " YES") == (added["X-Postbayes"], added["X-Spam-Flag"])


def test_a_mail_server_that_stops_in_a_message_costs_one_connection(monkeypatch):
    """After a timeout it is disconnected, and others are served."""
    monkeypatch.setattr(server, "IDLE", 0.05)

    async def heard():
        async with opened() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(message(b"noon")[:-7])
            await reader.readexactly(len(codec.negotiated(6, 0, 0)))
            rest = await reader.read()
            writer.close()
            await writer.wait_closed()
            return rest

    assert b"" == asyncio.run(heard())


def test_a_message_that_was_begun_is_answered_when_the_door_closes():
    """Idle connections are closed, but a message in progress is finished."""

    async def heard():
        async with opened() as (port, listener):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = message(b"at noon")
            writer.write(sent[:-5])
            await reader.readexactly(len(codec.negotiated(6, 0, 0)))
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(listener.stop())
            await asyncio.sleep(0.05)
            writer.write(sent[-5:])
            rest = await reader.read()
            await stopping
            writer.close()
            await writer.wait_closed()
            return rest

    assert asyncio.run(heard()).endswith(codec.CONTINUE)


def test_a_header_for_spam_that_is_none_is_refused():
    """The error shows the form."""
    with pytest.raises(InvalidSetting, match="such as X-Spam-Flag: YES"):
        milter(SimpleNamespace(settings=Application(spam_header="Spam").settings))


def to(*recipients):
    """Return the packets of spam for some recipients."""
    return b"".join(
        [
            OPTIONS,
            codec.packet(b"M", b"<a@b.example>\0"),
            *(codec.packet(b"R", b"<%b>\0" % each) for each in recipients),
            codec.packet(b"L", b"Subject\0 money pills\0"),
            codec.packet(b"N"),
            codec.packet(b"E"),
        ]
    )


def test_the_policy_of_the_recipient_decides():
    """The same message is refused for one recipient and marked for another."""
    application = Application()
    application.decide("bob@example.org", reject_from=7.0)

    assert b"550 5.7.1" in answer(to(b"bob@example.org"), application=application)
    assert b"550" not in answer(to(b"ann@example.org"), application=application)


def test_the_mildest_policy_of_several_recipients_decides():
    """A message is refused, or held, only where all of them have it so."""
    application = Application(reject_from=7.0)
    both = to(b"bob@example.org", b"ann@example.org")
    refused = answer(both, application=application)
    application.decide("bob@example.org", quarantine_from=6.0, reject_from="never")
    application.decide("default", quarantine_from=5.0)
    held = answer(both, application=application)
    application.decide("bob@example.org", quarantine_from="never")
    marked = answer(both, application=application)

    assert b"550 5.7.1" in refused
    assert codec.quarantine("spam, log-odds +8.00") in held
    assert marked.endswith(codec.CONTINUE)
    assert b"X-Spam-Flag" in marked
    assert b"spam, log-odds" not in marked


def test_who_is_not_of_the_networks_is_not_answered():
    """The protocol carries no key, and the mail server lets the message pass."""
    connection = Pieces(OPTIONS)
    connection.host = "192.0.2.1"
    asyncio.run(Milter(Application()).serve(connection))

    assert b"" == connection.answer
