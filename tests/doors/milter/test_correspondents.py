"""Correspondents at the milter door: mail that leaves, and mail that comes back."""

from __future__ import annotations

import asyncio
import struct
from email import message_from_bytes

import pytest

from app.doors.milter import codec
from app.doors.milter.server import Milter
from tests.support.application import running, teach
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.standin import Application

OPTIONS = codec.packet(b"O", struct.pack("!III", 6, 0x1FF, 0x1FFFFF))
SERVER = "mx.example.org"
VERIFIED = f"{SERVER}; dmarc=pass (p=reject) header.from=friends.example"
ANN, CARL = "<ann@example.org>", "<carl@friends.example>"


class Wire:
    """A connection that gives all at once, and keeps what is answered."""

    peer = "a test"
    host = "127.0.0.1"

    def __init__(self, data):
        self.data = [data]
        self.answer = b""

    async def read(self):
        """Return everything, and nothing after it."""
        return self.data.pop() if self.data else b""

    read_between = read

    async def gone(self):
        """Never hang up."""
        await asyncio.Event().wait()

    async def write(self, data):
        """Keep what is answered."""
        self.answer += data


def conversation(sender, recipients, *headers, body=b"", login=None):
    """Return what a mail server says about a message."""
    macros = b"Mi\0A1\0" + (b"{auth_authen}\0%b\0" % login.encode() if login else b"")
    said = [OPTIONS, codec.packet(b"D", macros)]
    said.append(codec.packet(b"M", f"{sender}\0".encode()))
    said += (codec.packet(b"R", f"{each}\0".encode()) for each in recipients)
    for name, value in headers:
        said.append(codec.packet(b"L", f"{name}\0 {value}\0".encode()))
    return b"".join([*said, codec.packet(b"N"), codec.packet(b"B", body), END])


END = codec.packet(b"E")


def tell(application, *args, **more):
    """Hold a conversation, and return the answer."""
    wire = Wire(conversation(*args, **more))
    asyncio.run(Milter(application).serve(wire))
    return wire.answer


def write(application, *recipients, login="ann@example.org"):
    """Send mail as a user, and return how many people are known then."""
    answer = tell(application, ANN, recipients or (CARL,), login=login)
    assert codec.CONTINUE == answer[-len(codec.CONTINUE) :]
    return len(application.correspondents)


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """An application that has learned a little, and to whose users Carl is known."""
    url = sqlite_url(tmp_path_factory.mktemp("milter"))
    given = {"database_url": url, "authserv_id": (SERVER,)}
    with running(**given) as app:
        for n in range(4):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        for _ in range(4):
            assert 1 == write(app)
        yield app


def incoming(app, *results, author=CARL, more=()):
    """Return the log-odds that a message from Carl gets, and the whole answer."""
    found = message_from_bytes(spam(9))
    headers = [("Authentication-Results", each) for each in results]
    headers += [("From", author), ("Subject", found["Subject"]), *more]
    text = found.get_payload().replace("\n", "\r\n").encode()
    answer = tell(app, "<carl@friends.example>", (ANN,), *headers, body=text)
    marked = answer.replace(b"\r\n", b"\n")
    odds = marked.partition(b"X-Postbayes-Log-Odds\0")[2].partition(b"\0")[0]
    return float(odds), marked


def test_mail_of_somebody_who_was_written_to_is_known_again(app):
    """The author is verified by the mail server, and the headers have the reason."""
    unknown, _ = incoming(app, VERIFIED, author="<dora@friends.example>")
    known, marked = incoming(app, VERIFIED)
    unfolded = marked.replace(b"\n ", b" ").replace(b"\n\t", b" ")

    assert b"has written to this address 4 times" not in incoming(app)[1]
    assert b"this site has written to this address" in unfolded
    assert known < unknown - 3


def test_who_gets_a_reply_is_known_from_then_on(app):
    """Before, the sender was unknown; the quoted id is no evidence."""
    frank = "<frank@partners.example>"
    verified = f"{SERVER}; dmarc=pass header.from=partners.example"
    quoting = ("In-Reply-To", "<1@example.org>")
    first, marked = incoming(app, verified, author=frank, more=[quoting])
    asked = ("In-Reply-To", "<7@partners.example>")
    tell(app, ANN, (frank,), asked, login="ann@example.org")
    then, known = incoming(app, verified, author=frank)

    assert b"written to" not in marked
    assert b"written to this address once" in known.replace(b"\n ", b" ")
    assert then < first - 0.5
    assert b"written to" not in incoming(app, author=frank)[1]


@pytest.mark.parametrize(
    "results",
    [
        (),
        ("mx.evil.example; dmarc=pass header.from=friends.example",),
        (f"{SERVER}; dmarc=pass header.from=evil.example",),
        (f"{SERVER}; dmarc=fail header.from=friends.example", VERIFIED),
        (f"{SERVER}; spf=pass smtp.mailfrom=evil.example",),
    ],
)
def test_a_forged_author_gains_nothing(app, results):
    """A sender can write any header except those of our server."""
    forged, marked = incoming(app, *results)
    honest, _ = incoming(app, *results, author="<eve@friends.example>")

    assert b"written to" not in marked
    assert abs(forged - honest) < 1


def test_mail_without_a_login_makes_no_correspondents(app):
    """The envelope of an unknown client proves nothing."""
    before = len(app.correspondents)
    tell(app, ANN, ("<dora@friends.example>",))

    assert before == len(app.correspondents)


def test_the_mail_of_users_is_counted_where_it_is_read_as_well():
    """Mail that looks like spam is not counted, as a password may be stolen."""
    application = Application(milter_skip_authenticated=False)
    for subject in ("lunch at noon", "money"):
        tell(application, ANN, (CARL,), ("Subject", subject), login="ann")

    assert [("ann", ANN, (CARL,))] == application.correspondents.heard


def test_the_mail_of_users_is_skipped_and_counted_as_such():
    """The counter shows why such a message has no verdict."""
    application = Application()
    tell(application, ANN, (CARL,), ("Subject", "money"), login="ann")

    assert {"skipped": 1, "unmarked": 0} == application.tally.counts(
        "postbayes_actions", "action"
    )
