"""The rspamd door: what its clients send and read, and whatever else is sent."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.adapters import intake
from app.adapters.rspamd import codec, server
from app.adapters.rspamd.codec import MAX_RECIPIENTS, Ask, Refusal
from app.adapters.rspamd.server import rspamd
from app.adapters.sockets import listen
from app.adapters.web import WebListener
from app.address import Inet, Unix
from app.errors import InvalidSetting, PostbayesError
from app.mail.limits import MAX_BYTES
from tests.golden import transcript
from tests.standin import Application

TRANSCRIPTS = transcript.paths("rspamd")
SPAM = b"From: win@prizes.example\nSubject: Win\n\nfree money\n"
LOOPBACK = Inet("127.0.0.1", 0)


@asynccontextmanager
async def opened(application=None, address=LOOPBACK):
    """Open the door on a real socket, and give a function that connects to it."""
    listening = listen(address, setting="X", shared=False)
    where = listening.socket.getsockname()
    listener = WebListener(rspamd(application or Application()), listening)
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


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_as_it_is_written(path):
    """Real bytes on a real socket get the answer in the file."""
    sent, answer = transcript.load(path)

    async def run():
        async with opened() as connect:
            return await exchange(connect, [sent])

    assert expected(answer) == comparable(*asyncio.run(run()))


@pytest.mark.parametrize("name", ["check-spam", "learn-spam"])
def test_a_conversation_is_the_same_under_every_cut(name):
    """However the network cuts a request, it is answered alike."""
    (path,) = (path for path in TRANSCRIPTS if path.stem == name)
    sent, answer = transcript.load(path)
    door = Application()

    async def run():
        found = []
        async with opened(door) as connect:
            for cut in range(len(sent)):
                door.feedback.learned.clear()
                pieces = [sent[:cut], sent[cut:]]
                found.append(comparable(*await exchange(connect, pieces)))
        return found

    assert [expected(answer)] * len(sent) == asyncio.run(run())


def test_symbols_add_up_and_thresholds_say_what_the_action_is():
    """Who compares numbers does what the action says in words."""
    both = SPAM + b"and pills\n"
    app = Application(quarantine_from=4.0, reject_from=6.0)

    answers = [
        document
        for _, document in ask(
            request("/checkv2"),
            request("/checkv2", message=b"Subject: pills\n\npills\n"),
            request("/checkv2", message=both),
            application=app,
        )
    ]

    assert ["add header", "quarantine", "reject"] == [a["action"] for a in answers]
    assert [{"reject": 15.0, "add header": 6.0}] * 3 == [
        each["thresholds"] for each in answers
    ]
    for each in answers:
        score = sum(symbol["score"] for symbol in each["symbols"].values())
        assert each["score"] == pytest.approx(score)
        assert (each["score"] >= 15.0) == (each["action"] == "reject")
        assert 6.0 <= each["score"]
    assert answers[2]["messages"]["smtp_message"].startswith("This message looks like")
    assert {} == answers[0]["messages"]


def test_nothing_is_rejected_unless_it_is_set():
    """Then add header is the severest action, and its points are required."""
    ((_, answer),) = ask(request("/checkv2", message=SPAM + b"and pills\n"))

    assert ("add header", 6.0) == (answer["action"], answer["required_score"])
    assert {"add header": 6.0} == answer["thresholds"]


def test_headers_are_added_and_forged_ones_taken_out():
    """In the form that rspamd's milter block has."""
    ((_, answer),) = ask(request("/checkv2"))
    milter = answer["milter"]

    assert {"value": "spam", "order": 0} == milter["add_headers"]["X-Postbayes"]
    assert {"value": "YES", "order": 0} == milter["add_headers"]["X-Spam-Flag"]
    assert {0} == set(milter["remove_headers"].values())
    assert {"x-postbayes", "x-spam-flag", "x-spam-status"} <= set(
        milter["remove_headers"]
    )
    assert answer["postbayes"]["id"] == milter["add_headers"]["X-Postbayes-Id"]["value"]


def test_a_message_is_learned_once_and_moved():
    """The second time is 208, as rspamd has it; another label is learned."""
    app = Application()
    told = ask(
        request("/learnspam", "User: ann"),
        request("/learnspam"),
        request("/learnham", "Deliver-To: default"),
        application=app,
    )

    assert [(200, {"success": True}), (200, {"success": True})] == [told[0], told[2]]
    assert 208 == told[1][0]
    assert "has been already learned as spam" in told[1][1]["error"]
    assert ["rspamd:ann", "rspamd", "rspamd:default"] == app.feedback.sources


@pytest.mark.parametrize(
    ("profile", "headers"),
    [
        ("default", []),
        ("bob@example.org", ["User: bob@example.org"]),
        ("bob@example.org", ["Rcpt: <Bob+x@example.org>", "User: ann"]),
        ("bob@example.org", ["Deliver-To: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: ", "Deliver-To:"]),
    ],
)
def test_the_recipients_say_which_profile_learns(profile, headers):
    """The final one, else all of them, else the user."""
    app = Application()
    ask(request("/learnspam", *headers), application=app)

    assert [profile] == [name for name, _ in app.feedback.learned]


@pytest.mark.parametrize("path", ["/learnspam", "/learnham", "/stat", "/metrics"])
def test_who_is_not_of_the_networks_needs_the_password(path):
    """Right or wrong; scanning and health are for everybody."""
    method = "POST" if path.startswith("/learn") else "GET"
    guarded = Application(teach_from=("192.0.2.0/24",), rspamd_password="sesame")  # noqa: S106

    async def run():
        async with opened(guarded) as connect:
            return [
                (await exchange(connect, [request(path, *each, method=method)]))[0]
                for each in ([], ["Password: open"], ["Password: sesame"])
            ] + [(await exchange(connect, [request("/checkv2")]))[0]]

    assert [401, 401, 200, 200] == asyncio.run(run())


def test_an_empty_password_opens_nothing():
    """A variable that is set to nothing is not set."""
    guarded = Application(teach_from=(), rspamd_password="")

    assert [(401, {"error": "Unauthorized"})] == ask(
        request("/learnspam", "Password: "), application=guarded
    )


def test_a_proxy_lets_nobody_teach_without_the_password():
    """Everybody comes from its address."""
    app = Application(rspamd_password="sesame")  # noqa: S106
    proxied = "X-Forwarded-For: 127.0.0.1"
    told = ask(
        request("/learnspam", proxied),
        request("/learnspam", proxied, "Password: sesame"),
        application=app,
    )

    assert [401, 200] == [status for status, _ in told]


def test_who_may_write_to_the_unix_socket_may_teach(tmp_path):
    """Its clients have no address."""
    app = Application(teach_from=())
    address = Unix(f"{tmp_path}/rspamd")

    assert [200] == [
        status
        for status, _ in ask(request("/learnspam"), application=app, address=address)
    ]


def test_who_is_gone_before_he_is_known_may_not_teach():
    """A port's client without an address is not one of this machine."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/learnspam",
        "headers": [],
        "query_string": b"",
        "client": None,
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": SPAM, "more_body": False}

    async def send(message):
        sent.append(message)

    app = Application()
    asyncio.run(rspamd(app).create(local=False)(scope, receive, send))

    assert 401 == sent[0]["status"]
    assert {} == app.feedback.learned


def test_while_the_database_is_away_scanning_goes_on():
    """Learning and readiness are 503, and nothing is learned."""
    app = Application()
    app.feedback.away = True
    told = ask(
        request("/checkv2"),
        request("/learnspam"),
        request("/ready", method="GET", message=b""),
        request("/healthy", method="GET", message=b""),
        application=app,
    )

    assert [200, 503, 503, 200] == [status for status, _ in told]
    assert {"error"} == set(told[1][1])


def test_what_was_done_is_counted():
    """And shown by rspamc stat."""
    stat = request("/stat", method="GET", message=b"")
    ham = b"Subject: lunch\n\nat noon\n"
    told = ask(
        request("/checkv2"),
        request("/checkv2", message=ham),
        request("/checkv2", message=ham),
        request("/learnspam"),
        request("/learnspam"),
        stat,
    )
    document = told[-1][1]

    assert (3, 1, 1, 2) == (
        document["scanned"],
        document["learned"],
        document["spam_count"],
        document["ham_count"],
    )
    assert (1, 2) == (
        document["actions"]["add header"],
        document["actions"]["no action"],
    )
    assert [("BAYES_HAM", 0), ("BAYES_SPAM", 1)] == [
        (each["symbol"], each["revision"]) for each in document["statfiles"]
    ]
    assert 1 == document["total_learns"]
    assert 3 == len([each for each in document["scan_times"] if each is not None])


def test_a_message_that_zstd_packed_is_refused_without_a_header():
    """It would be scored as the garbage that it looks like."""
    ((status, answer),) = ask(request("/checkv2", message=codec.ZSTD + b"rest"))

    assert 415 == status
    assert "rspamc without -z" in answer["error"]


def test_a_message_over_the_limit_is_refused():
    """By what is announced, or as soon as it is over."""
    app = Application(max_request_bytes=1024)
    chunked = request("/checkv2", "Transfer-Encoding: chunked", message=b"").replace(
        b"Content-Length: 0\r\n", b""
    )
    told = ask(
        request("/checkv2", message=b"x" * 1025),
        chunked + b"800\r\n" + b"x" * 2048 + b"\r\n0\r\n\r\n",
        application=app,
    )

    assert [413, 413] == [status for status, _ in told]


def test_a_large_message_is_scored_by_its_beginning():
    """Of it no more is held than is looked at."""
    ((status, answer),) = ask(request("/checkv2", message=SPAM + bytes(MAX_BYTES)))

    assert (200, "add header") == (status, answer["action"])


def test_a_network_that_is_none_stops_the_start():
    """Before anything listens."""
    with pytest.raises(InvalidSetting, match="POSTBAYES_TEACH_FROM"):
        rspamd(Application(teach_from=("nowhere",)))


def test_every_error_has_a_status():
    """An error that is added to the tree is answered somehow."""
    assert PostbayesError in server.STATUS


headers = st.lists(
    st.tuples(
        st.sampled_from(
            ["rcpt", "user", "deliver-to", "class", "password", "compression", "file"]
        )
        | st.text(max_size=10),
        st.text(max_size=20),
    ),
    max_size=8,
)


@given(
    st.sampled_from(["GET", "POST", "HEAD", "PUT"]),
    st.sampled_from(["/checkv2", "/learnclass", "/learnspam", "/stat", "/"])
    | st.text(max_size=10),
    headers,
)
def test_any_request_is_something_or_refused(method, path, given_headers):
    """Nothing that stands in a request line or a header raises otherwise."""
    found: Ask | Refusal
    try:
        found = codec.read(method, path, given_headers)
    except Refusal as refusal:
        found = refusal

    assert isinstance(found, Ask) or 400 <= found.status < 500


@given(st.binary(max_size=300))
def test_a_message_id_is_one_word(raw):
    """Whatever stands in the header, the answer's field is plain."""
    found = codec.message_id(b"Message-ID: " + raw)

    assert found.isascii()
    assert found.isprintable()


def test_more_recipients_than_any_message_has_are_refused():
    """Each costs a look-up, and perhaps another profile to score with."""
    many = [("rcpt", "a@example.org")] * (MAX_RECIPIENTS + 1)

    with pytest.raises(Refusal, match="more than 1000"):
        codec.read("POST", "/checkv2", many)


@settings(max_examples=15)
@given(
    st.lists(
        st.binary(min_size=1, max_size=400)
        | st.tuples(st.integers(0, 150), st.binary(max_size=6)).map(
            lambda change: (
                request("/checkv2")[: change[0]]
                + change[1]
                + request("/checkv2")[change[0] + 3 :]
            )
        ),
        max_size=4,
    )
)
def test_garbage_on_the_wire_leaves_the_door_open(garbage):
    """Whatever somebody sends, and hangs up, the next client is served."""

    async def throw(connect, sent):
        _, writer = await connect()
        writer.write(sent)
        writer.write_eof()
        await writer.drain()
        writer.transport.abort()

    async def run():
        async with opened() as connect:
            for sent in garbage:
                await throw(connect, sent)
            return await exchange(connect, [request("/checkv2")])

    assert 200 == asyncio.run(run())[0]


@pytest.mark.parametrize("unix", [False, True])
def test_two_hundred_clients_are_served_at_once(unix, tmp_path):
    """Half of them wait in the middle of their request for the others."""
    address = Unix(f"{tmp_path}/s") if unix else LOOPBACK
    sent = request("/checkv2")

    async def run():
        async with opened(address=address) as connect:
            slow = [await connect() for _ in range(100)]
            for _, writer in slow:
                writer.write(sent[:60])
            told = await asyncio.gather(
                *(exchange(connect, [sent]) for _ in range(100))
            )
            statuses = [status for status, _, _ in told]
            for reader, writer in slow:
                writer.write(sent[60:])
                statuses.append(int((await reader.read()).split()[1]))
                writer.close()
                await writer.wait_closed()
            return statuses

    assert [200] * 200 == asyncio.run(run())


def test_a_body_that_drips_costs_one_connection(monkeypatch):
    """It is told that it took too long; meanwhile others are served."""
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.1)

    async def run():
        async with opened() as connect:
            reader, writer = await connect()
            writer.write(request("/checkv2")[:-5])
            other = await exchange(connect, [request("/checkv2")])
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return int(told.split()[1]), other[0]

    assert (408, 200) == asyncio.run(run())


def test_closing_finishes_the_request_that_was_begun():
    """Half a message may be sent to its end, and is answered."""

    async def run():
        sent = request("/checkv2")
        listening = listen(LOOPBACK, setting="X", shared=False)
        where = listening.socket.getsockname()
        listener = WebListener(rspamd(Application()), listening)
        listener.start()
        reader, writer = await asyncio.open_connection(*where)
        writer.write(sent[:-5])
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(listener.stop())
        await asyncio.sleep(0.2)
        writer.write(sent[-5:])
        told = await reader.read()
        await stopping
        writer.close()
        await writer.wait_closed()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*where)
        return int(told.split()[1])

    assert 200 == asyncio.run(run())


def test_a_door_that_is_closed_at_once_is_closed():
    """A service that fails at its start does not hang."""

    async def run():
        listening = listen(LOOPBACK, setting="X", shared=False)
        listener = WebListener(rspamd(Application()), listening)
        listener.start()
        await listener.stop()
        return listening.socket.fileno()

    assert -1 == asyncio.run(run())
