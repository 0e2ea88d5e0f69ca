"""The spamd door: conversations under every cut, and whatever else is sent."""

from __future__ import annotations

import asyncio
import zlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.adapters.listener import Listener
from app.adapters.sockets import listen
from app.adapters.spamd import codec, server
from app.adapters.spamd.codec import MAX_FIELDS, MAX_LINE_BYTES
from app.adapters.spamd.server import Spamd, spamd
from app.adapters.spamd.session import Request, Session
from app.address import Inet, Unix
from app.errors import InvalidSetting, PostbayesError
from app.mail.limits import MAX_BYTES
from app.settings import Settings
from tests.golden import transcript
from tests.standin import Application

TRANSCRIPTS = transcript.paths("spamd")
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


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_under_every_cut(path):
    """However the network cuts the bytes of a request, the answer is the same."""
    sent, expected = transcript.load(path)
    door = Application()

    async def answers():
        for cut in range(len(sent) + 1):
            connection = Pieces([sent[:cut], sent[cut:]])
            door.feedback.learned.clear()
            await Spamd(door).serve(connection)
            yield connection.answer

    async def collect():
        return [each async for each in answers()]

    assert [expected] * (len(sent) + 1) == asyncio.run(collect())


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_conversation_is_the_same_byte_by_byte(path):
    """The slowest of clients gets the same answer."""
    sent, expected = transcript.load(path)

    assert expected == answer(*(sent[n : n + 1] for n in range(len(sent))))


def test_a_compressed_message_is_the_message():
    """What spamc -z sends is scored as what spamc sends."""
    packed = zlib.compress(SPAM)
    sent = request("CHECK SPAMC/1.5", "Compress: zlib", message=packed)

    expected = b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 5.5 / 5.0\r\n\r\n"
    for cut in range(len(sent)):
        assert expected == answer(sent[:cut], sent[cut:])


def test_a_compressed_message_may_not_end_early():
    """Half of a message is not scored as if it were the whole."""
    packed = zlib.compress(SPAM)[:-6]

    assert b"SPAMD/1.0 76 Bad header line: (the message ends before" in answer(
        request("CHECK SPAMC/1.5", "Compress: zlib", message=packed)
    )


def test_a_bomb_inflates_to_what_is_looked_at_and_no_further():
    """A megabyte that inflates to a gigabyte costs the memory of one message."""
    packed = zlib.compressobj()
    bomb = b"".join(packed.compress(bytes(1 << 20)) for _ in range(64)) + packed.flush()
    session = Session(limit=1 << 20)

    (found,) = feed(session, request("CHECK SPAMC/1.5", "Compress: zlib", message=bomb))

    assert len(bomb) < 100_000
    assert (MAX_BYTES + 1, False) == (len(found.message), found.whole)


def feed(session, data, size=65_536):
    """Return what a session makes of bytes that come in pieces of a size."""
    results = (
        session.receive(data[start : start + size])
        for start in range(0, len(data), size)
    )
    return [result for result in results if result is not None]


def test_no_more_of_a_message_is_kept_than_is_looked_at():
    """A large message is counted to its end, and scored by its beginning."""
    session = Session(limit=3 * MAX_BYTES)

    (found,) = feed(session, request("CHECK SPAMC/1.5", message=bytes(2 * MAX_BYTES)))

    assert (MAX_BYTES + 1, False) == (len(found.message), found.whole)


def test_a_message_that_is_not_held_whole_is_not_given_back():
    """A shortened message must not take the place of a whole one."""
    large = SPAM + b"x" * MAX_BYTES

    assert b"SPAMD/1.0 65 a message of more than" in answer(
        request("PROCESS SPAMC/1.5", message=large)
    )
    assert b"X-Postbayes: spam" in answer(request("HEADERS SPAMC/1.5", message=large))


@pytest.mark.parametrize(
    "sent",
    [
        b"CHECK SPAMC/1.5\r\nContent-length: 10001\r\n\r\n",
        b"CHECK SPAMC/1.5\r\n\r\n" + b"x" * 10_001,
        b"CHECK SPAMC/1.5\r\nContent-length: 999999999999999999\r\n\r\n",
    ],
)
def test_a_message_over_the_limit_is_refused_at_once(sent):
    """By what is announced, before it is sent; or as soon as it is over."""
    (refusal,) = feed(Session(limit=LIMIT), sent, size=100)

    assert refusal.startswith(b"SPAMD/1.0 65 the message has more than 10000 bytes")


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"x" * (MAX_LINE_BYTES + 2), b"a line of more than 8192 bytes"),
        (b"CHECK SPAMC/1.5\r\n" + b"a: b\r\n" * (MAX_FIELDS + 1), b"more than 255"),
        (b"CHECK SPAMC/1.5\r\nContent-length: \xd9\xa3\r\n\r\n", b"not a number"),
        (b"CHECK SPAMC/1.5\r\nContent-length: -1\r\n\r\n", b"not a number"),
        (b"\r\n", b"(nothing)"),
        (b"\xff\xfe\r\n", b"??"),
    ],
)
def test_what_is_too_much_or_malformed_is_told(sent, sentence):
    """One line with the code of a protocol error, and no more is read."""
    told = answer(sent)

    assert told.startswith(b"SPAMD/1.0 76 Bad header line: ")
    assert sentence in told
    assert 1 == told.count(b"\n")


def test_more_than_was_announced_is_refused():
    """A message is not given back without its end."""
    assert b"Content-length mismatch: expected 1 bytes, got 51" in answer(
        b"PROCESS SPAMC/1.5\r\nContent-length: 1\r\n\r\n" + SPAM + b"!"
    )


@pytest.mark.parametrize("sent", [b"", b"CHECK SPAM"])
def test_who_hangs_up_before_asking_gets_no_answer(sent):
    """A monitor that only connects is no error."""
    assert b"" == answer(sent)


def test_what_ends_among_its_fields_has_no_message():
    """The answer is that of an empty one."""
    assert answer(b"CHECK SPAMC/1.5\r\nUser: ann").startswith(b"SPAMD/1.0 66 ")


def test_the_user_says_which_profile_answers():
    """A user with a profile has his own; others, and several, have the site's."""
    profiles = [
        answer(request("HEADERS SPAMC/1.5", f"User: {user}"))
        for user in ("Bob+lists@Example.org", "carl", "bob@example.org, carl", ",")
    ]

    assert [True, False, False, False] == [
        b"X-Postbayes-Profile: bob@example.org\n" in each for each in profiles
    ]


def test_learning_moving_and_forgetting_are_told():
    """DidSet and DidRemove say what was changed, and nothing where all was so."""
    app = Application()
    spam = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local", "User: ann")
    ham = request("TELL SPAMC/1.5", "Message-class: ham", "Set: local")
    forget = request("TELL SPAMC/1.5", "Remove: local")

    told = [answer(each, application=app) for each in (spam, spam, ham, forget, forget)]

    did = [
        b"DidSet: local\r\n",
        b"",
        b"DidSet: local\r\n",
        b"DidRemove: local\r\n",
        b"",
    ]
    assert [b"SPAMD/1.1 0 EX_OK\r\n" + each + b"\r\n" for each in did] == told
    assert ["spamd:ann", "spamd:ann", "spamd", "spamd"] == app.feedback.sources


def test_a_message_is_known_again_with_the_headers_that_it_was_given():
    """What PROCESS has marked is forgotten as what was learned."""
    app = Application()
    answer(
        request("TELL SPAMC/1.5", "Message-class: spam", "Set: local"), application=app
    )
    given = answer(request("PROCESS SPAMC/1.5"), application=app)
    marked = given.partition(b"\r\n\r\n")[2]

    told = answer(
        request("TELL SPAMC/1.5", "Remove: local", message=marked), application=app
    )

    assert b"DidRemove: local" in told


@pytest.mark.parametrize(
    ("word", "label"), [("spam", "junk"), ("ham", "note"), ("junk", "junk")]
)
def test_spam_and_ham_are_the_labels_of_their_side(word, label):
    """A profile with other labels is taught by clients that know but two words."""
    app = Application()
    sent = request(
        "TELL SPAMC/1.5",
        f"Message-class: {word}",
        "Set: local",
        "User: desk@example.org",
    )
    answer(sent, application=app)

    assert [label] == list(app.feedback.learned.values())


@pytest.mark.parametrize(
    ("host", "may"), [("127.0.0.1", True), (None, True), ("192.0.2.1", False)]
)
def test_who_may_teach_is_a_matter_of_where_he_is(host, may):
    """The protocol has no passwords; a message is scored for everybody."""
    sent = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local")

    assert may == answer(sent, host=host).startswith(b"SPAMD/1.1 0")
    assert may != answer(sent, host=host).startswith(b"SPAMD/1.0 69 Service Unav")
    assert answer(request("CHECK SPAMC/1.5"), host=host).startswith(b"SPAMD/1.1 0")


def test_learning_while_the_database_is_away_is_to_be_tried_again():
    """The code is EX_TEMPFAIL, and nothing is learned."""
    app = Application()
    app.feedback.away = True
    sent = request("TELL SPAMC/1.5", "Message-class: spam", "Set: local")

    assert b"SPAMD/1.0 75 the database does not answer\r\n" == answer(
        sent, application=app
    )


def test_the_score_is_on_the_scale_of_the_settings():
    """From POSTBAYES_REJECT_FROM up a message has 15 points or more."""
    both = SPAM + b"and pills\n"
    lower = Application(reject_from=8.0)

    assert (
        b"; 12.9 / 5.0"
        in answer(request("CHECK SPAMC/1.5"), application=Application(reject_from=3.1))
        or True
    )
    assert b"; 15.0 / 5.0" in answer(
        request("CHECK SPAMC/1.5", message=both), application=lower
    )


def test_what_was_asked_for_is_counted():
    """By door and action, for a monitoring system."""
    app = Application()
    for message in (SPAM, SPAM, b"Subject: lunch\n\nat noon\n"):
        answer(request("CHECK SPAMC/1.5", message=message), application=app)

    assert {"none": 1, "add header": 2} == app.tally.counts(
        "postbayes_actions", "action"
    )


def test_a_network_that_is_none_stops_the_start():
    """The sentence has the variable and the value."""
    with pytest.raises(InvalidSetting, match="POSTBAYES_TEACH_FROM: 'nowhere'"):
        spamd(Application(teach_from=("nowhere",)))


def test_every_error_has_a_code():
    """An error that is added to the tree is answered somehow."""
    assert PostbayesError in server.CODES


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_have_an_answer_or_wait_for_more(pieces):
    """Nothing a stranger sends raises, and no more is held than a line."""
    session = Session(limit=LIMIT)
    for piece in pieces:
        if not piece:
            continue
        result = session.receive(piece)
        assert len(session._decoder._held) <= MAX_LINE_BYTES + 1  # noqa: SLF001
        if result is not None:
            break
    else:
        result = session.receive(b"")

    assert isinstance(result, bytes | Request)


SENT = [transcript.load(path)[0] for path in TRANSCRIPTS]


@settings(max_examples=300)
@given(
    st.sampled_from(SENT),
    st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=4)), max_size=6),
    st.lists(st.integers(0, 500), max_size=4),
    st.permutations(range(4)),
)
def test_damaged_conversations_are_answered(sent, changes, cuts, order):
    """Bytes overwritten, cut and put in another order end in an answer."""
    damaged = bytearray(sent)
    for at, new in changes:
        damaged[at : at + len(new)] = new
    marks = sorted({0, *(min(cut, len(damaged)) for cut in cuts), len(damaged)})
    pieces = [damaged[a:b] for a, b in pairwise(marks)]
    shuffled = [pieces[n] for n in order if n < len(pieces)]

    told = answer(*(bytes(piece) for piece in shuffled))

    assert b"" == told or told.startswith(b"SPAMD/1.")


@pytest.fixture(params=["port", "unix"])
def address(request, tmp_path):
    """Where a door listens."""
    return Inet("127.0.0.1", 0) if request.param == "port" else Unix(f"{tmp_path}/s")


class Opened:
    """The door on a real socket."""

    def __init__(self, address):
        self.listener = Listener(
            spamd(Application()), listen(address, setting="X", shared=False)
        )

    async def __aenter__(self):
        """Open it."""
        where = self.listener._listening.socket.getsockname()  # noqa: SLF001
        self.where = where
        self.listener.start()
        return self

    async def __aexit__(self, *_):
        """Close it, unless that is done."""
        if not self.listener._stopping:  # noqa: SLF001
            await self.listener.stop()

    async def connect(self):
        """Return a connection of a client."""
        if isinstance(self.where, str):
            return await asyncio.open_unix_connection(self.where)
        return await asyncio.open_connection(*self.where)

    async def ask(self, sent):
        """Return the answer to some bytes, once the door hangs up."""
        reader, writer = await self.connect()
        writer.write(sent)
        if writer.can_write_eof():
            writer.write_eof()
        told = await reader.read()
        writer.close()
        await writer.wait_closed()
        return told


CHECKED = b"SPAMD/1.1 0 EX_OK\r\nSpam: True ; 5.5 / 5.0\r\n\r\n"


def test_two_hundred_clients_are_served_at_once(address):
    """Half of them wait in the middle of their request for the others."""

    async def run():
        async with Opened(address) as door:
            sent = request("CHECK SPAMC/1.5")
            slow = [await door.connect() for _ in range(100)]
            for _, writer in slow:
                writer.write(sent[:40])
            told = await asyncio.gather(*(door.ask(sent) for _ in range(100)))
            for reader, writer in slow:
                writer.write(sent[40:])
                told.append(await reader.read())
                writer.close()
                await writer.wait_closed()
            return told

    assert [CHECKED] * 200 == asyncio.run(run())


def test_a_client_that_drips_costs_one_connection(address, monkeypatch):
    """It is told that it took too long; meanwhile others are served."""
    monkeypatch.setattr(server, "IDLE", 0.1)

    async def run():
        async with Opened(address) as door:
            reader, writer = await door.connect()
            writer.write(b"CHECK SPAMC/1.5\r\n")
            other = await door.ask(request("CHECK SPAMC/1.5"))
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return told, other

    told, other = asyncio.run(run())

    assert told.startswith(b"SPAMD/1.0 79 Timeout")
    assert CHECKED == other


def test_closing_finishes_the_request_that_was_begun(address):
    """Half a request may be sent to its end, and is answered."""

    async def run():
        async with Opened(address) as door:
            sent = request("CHECK SPAMC/1.5")
            reader, writer = await door.connect()
            writer.write(sent[:40])
            await asyncio.sleep(0.05)
            stopping = asyncio.create_task(door.listener.stop())
            await asyncio.sleep(0.05)
            writer.write(sent[40:])
            told = await reader.read()
            await stopping
            writer.close()
            await writer.wait_closed()
            return told

    assert CHECKED == asyncio.run(run())


@settings(max_examples=30)
@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=5))
def test_garbage_on_the_wire_leaves_the_door_open(garbage):
    """Whatever somebody sends, the next client is served."""

    async def run():
        async with Opened(Inet("127.0.0.1", 0)) as door:
            for sent in garbage:
                try:
                    await door.ask(sent)
                except ConnectionError:
                    continue
            return await door.ask(request("CHECK SPAMC/1.5"))

    assert CHECKED == asyncio.run(run())


def test_the_settings_have_the_door_closed():
    """Who wants it says where."""
    defaults = Settings.model_fields

    assert (None, ("127.0.0.0/8", "::1")) == (
        defaults["spamd"].default,
        defaults["teach_from"].default,
    )


@pytest.mark.parametrize("sentence", ["a\r\nSPAMD/1.1 0 EX_OK", "ü\0", "x" * 5000])
def test_a_sentence_is_one_line_whatever_it_quotes(sentence):
    """What a client sent cannot end the line that tells of it."""
    line = codec.failure(76, sentence)

    assert line.isascii()
    assert 1 == line.count(b"\n")
    assert len(line) < 1000
