"""`postbayes digest`: who gets a mail, since when, and by which server."""

from __future__ import annotations

import itertools
import json
import queue
import socketserver
from datetime import timedelta
from email import message_from_string
from email.policy import default

import pytest

from app.services.clock import now
from app.services.profiles import create_profile
from app.services.startup import open_database
from app.settings import Settings
from tests.support.application import running, teach
from tests.support.command import PATIENCE
from tests.support.messages import ham, spam
from tests.support.service import served

ANN = "ann@example.org"
ZOE = "zoe@example.org"


class Mailbox(socketserver.ThreadingTCPServer):
    """A mail server that keeps what it takes."""

    allow_reuse_address = True

    def __init__(self):
        self.mail = queue.SimpleQueue()
        self.refuses = ""
        self.greeting = []
        self.extensions = []
        self.lines = []
        super().__init__(("127.0.0.1", 0), Conversation)


class Conversation(socketserver.StreamRequestHandler):
    """As much of SMTP as a client needs that hands a mail in."""

    def handle(self):
        """Answer a client to its end."""
        try:
            for line in self.server.greeting:
                self.say(line)
        except ConnectionError:
            return
        self.say("220 mail.example.org")
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            # Commands have no case (RFC 5321 section 2.4), and that of `smtplib` is
            # another one from Python 3.13 on.
            self.server.lines.append(line.lower())
            if verb == "EHLO":
                for extension in ("mail.example.org", *self.server.extensions):
                    self.say(f"250-{extension}")
            if verb == "DATA":
                self.say("354 go on")
                lines = []
                while (text := self.rfile.readline()) != b".\r\n":
                    lines.append(text)
                self.server.mail.put(b"".join(lines).decode())
            refused = self.server.refuses
            if verb == "RCPT" and refused and refused in line:
                self.say("550 nobody here")
                continue
            self.say("221 bye" if verb == "QUIT" else "250 fine")

    def say(self, line):
        """Send a line."""
        self.wfile.write(line.encode() + b"\r\n")


@pytest.fixture
def server():
    """A mail server on this machine."""
    with served(Mailbox()) as found:
        yield found


@pytest.fixture
def digest(run, tmp_path, monkeypatch, server):
    """Run `postbayes digest` for a site where Ann got one spam; return its outcome."""
    (tmp_path / "secret").write_text("0123456789abcdef")
    for name, value in {
        "SMTP": f"127.0.0.1:{server.server_address[1]}",
        "DIGEST_FROM": "filter@example.org",
        "DIGEST_URL": "https://filter.example.org/",
        "DIGEST_SECRET_FILE": str(tmp_path / "secret"),
    }.items():
        monkeypatch.setenv(f"POSTBAYES_{name}", value)
    url = f"sqlite:///{tmp_path}/postbayes.db"
    make(url, ANN)
    with running(database_url=url) as app:
        for n in range(4):
            teach(app, spam(n), "spam", profile=ANN)
            teach(app, ham(n), "ham", profile=ANN)
        score(app, spam(9))

    def again(*arguments):
        return run("digest", *arguments)

    again.url = url
    return again


def make(url, name):
    """Make the profile of an address."""
    engine = open_database(Settings(database_url=url), make=True)
    create_profile(
        engine, name, labels=("ham", "spam"), spam_labels=("spam",), time=now()
    )
    engine.dispose()


def score(app, raw, recipient=ANN):
    """Score a message for somebody, Ann if nothing else is said."""
    addressed = app.delivery.address([recipient])
    app.delivery.answer(addressed, raw, strongest=0, door="http")


def test_an_address_gets_its_digest_once(digest, server):
    """The next one has what came since: nothing, and then one more."""
    first = digest()
    second = digest()
    with running(database_url=digest.url) as app:
        score(app, spam(12))
    third = digest()

    assert [(0, "1 digest\n"), (0, "0 digests\n"), (0, "1 digest\n")] == [
        each[:2] for each in (first, second, third)
    ]
    mails = [server.mail.get(timeout=PATIENCE) for _ in range(2)]
    for each in mails:
        read = message_from_string(each, policy=default)
        assert (ANN, "filter@example.org") == (read["to"], read["from"])
        assert "https://filter.example.org/ui/digest/" in each.replace("=\r\n", "")
        assert "Postbayes: 1 held or unsure" == read["subject"]


def test_a_digest_can_be_printed_and_is_not_remembered(digest, server, tmp_path):
    """As often as one likes."""
    code, out, _ = digest("--stdout")

    assert (0, ANN) == (code, message_from_string(out, policy=default)["to"])
    assert server.mail.empty()
    assert not (tmp_path / "var" / "digest.json").exists()


def test_another_address_can_get_it(digest, server):
    """Of one profile, that is named."""
    code, _, _ = digest("--profile", ANN, "--to", "boss@example.org")
    refused = digest("--to", "boss@example.org")
    nobody = digest("--profile", "default")

    assert 0 == code
    assert "boss@example.org" in server.mail.get(timeout=PATIENCE)
    assert (65, True) == (refused[0], "name it with --profile" in refused[2])
    assert (65, True) == (nobody[0], "with --to" in nobody[2])


def test_what_is_no_address_gets_none(digest):
    """The settings are refused in a sentence."""
    code, _, err = digest("--profile", ANN, "--to", "ann@")

    assert (78, True) == (code, "to 'ann@' cannot be sent" in err)


def test_a_mail_that_is_refused_comes_again(digest, server):
    """The time of the last digest stays as it was."""
    server.refuses = ANN
    code, _, err = digest()
    server.refuses = ""
    again = digest()

    assert (75, True) == (code, "refused 1 digest; the next run sends" in err)
    assert "1 digest\n" == again[1]


def test_an_address_without_a_mailbox_keeps_no_other_waiting(digest, server):
    """Its own digest is refused, and those behind it are sent."""
    for name in ("x@", ZOE):
        make(digest.url, name)
    with running(database_url=digest.url) as app:
        for name in ("x@", ZOE):
            score(app, spam(12), name)
    server.refuses = ANN
    code, out, err = digest()

    assert (75, "1 digest\n") == (code, out)
    assert f"the digest for {ANN} was refused: " in err
    assert f"To: {ZOE}" in server.mail.get(timeout=PATIENCE)


def test_a_domain_outside_ascii_needs_no_extension(digest, server, monkeypatch):
    """It is sent as every mail server knows it, in the envelope and in the header."""
    monkeypatch.setenv("POSTBAYES_DIGEST_FROM", "Filter <filter@Bücher.テスト>")
    code, out, _ = digest("--profile", ANN, "--to", "ann@例え.テスト")
    mail = server.mail.get(timeout=PATIENCE)

    assert (0, "1 digest\n") == (code, out)
    assert "mail from:<filter@xn--bcher-kva.xn--zckzah>" in server.lines
    assert "rcpt to:<ann@xn--r8jz45g.xn--zckzah>" in server.lines
    assert mail.isascii()
    read = message_from_string(mail, policy=default)
    assert "ann@xn--r8jz45g.xn--zckzah" == read["to"]
    assert read["message-id"].endswith("@xn--bcher-kva.xn--zckzah>")


def test_a_local_part_outside_ascii_needs_an_extension(digest, server):
    """It is in the envelope as it is written."""
    server.extensions = ["SMTPUTF8", "8BITMIME"]
    code, _, _ = digest("--profile", ANN, "--to", "有希@例え.テスト")

    assert 0 == code
    assert "rcpt to:<有希@xn--r8jz45g.xn--zckzah>" in server.lines


def test_what_can_never_be_sent_is_said_once(digest, server):
    """Mail servers without the extension take no such letters, however often asked."""
    asked = ("--profile", ANN, "--to", "有希@例え.テスト")
    code, out, err = digest(*asked)

    assert (65, "0 digests\n") == (code, out)
    assert "the digest for 有希@例え.テスト cannot be sent" in err
    assert "SMTPUTF8" in err
    assert (0, "0 digests\n") == digest(*asked)[:2]
    assert server.mail.empty()


def test_a_sender_outside_ascii_is_a_setting(digest, server, monkeypatch):
    """No digest can be sent, and none is forgotten."""
    monkeypatch.setenv("POSTBAYES_DIGEST_FROM", "filtér@example.org")
    code, _, err = digest()
    monkeypatch.setenv("POSTBAYES_DIGEST_FROM", "filter@example.org")

    assert (78, True) == (code, "POSTBAYES_DIGEST_FROM is 'filtér@" in err)
    assert (0, "1 digest\n") == digest()[:2]


@pytest.mark.parametrize(
    ("patience", "most_bytes"), [(3_600, 4_096), (0.5, 1_000_000_000_000)]
)
def test_a_greeting_without_an_end_is_not_waited_for(
    digest, server, monkeypatch, patience, most_bytes
):
    """Neither for its bytes, nor as long as they come."""
    monkeypatch.setattr("app.doors.cli.digest._PATIENCE", patience)
    monkeypatch.setattr("app.doors.cli.digest._MOST_BYTES", most_bytes)
    server.greeting = itertools.repeat("220-welcome")
    code, _, err = digest()

    assert (75, True) == (code, "did not accept a digest" in err)


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("SMTP", "mail.example.org", "host:port"),
        ("DIGEST_SECRET_FILE", "", "cannot be read"),
        ("DIGEST_URL", "filter", "is not an address"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    digest, monkeypatch, setting, value, says
):
    """And nothing is sent."""
    monkeypatch.setenv(f"POSTBAYES_{setting}", value)
    code, _, err = digest()

    assert (78, True) == (code, says in err)


def test_a_digest_by_a_clock_that_was_ahead_hides_no_message(digest, tmp_path):
    """The next one covers the hours of a first digest."""
    (tmp_path / "var").mkdir()
    ahead = now() + timedelta(days=365)
    (tmp_path / "var" / "digest.json").write_text(json.dumps({ANN: ahead.isoformat()}))
    first = digest()
    second = digest()

    assert [(0, "1 digest\n"), (0, "0 digests\n")] == [first[:2], second[:2]]


def test_without_a_place_for_its_memory_nothing_is_sent(digest, server, monkeypatch):
    """Else every run would send the same mail again."""
    monkeypatch.setenv("POSTBAYES_DIGEST_STATE", "/proc/digest.json")

    code, out, told = digest()

    assert (78, "") == (code, out)
    assert "POSTBAYES_DIGEST_STATE, /proc/digest.json, cannot be written" in told
    assert server.mail.empty()


@pytest.mark.parametrize("text", ["no json", "[1]", json.dumps({ANN: 3})])
def test_a_broken_memory_is_named(digest, tmp_path, text):
    """Rather than a second mail with all of it."""
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "digest.json").write_text(text)
    code, _, err = digest()

    assert (78, True) == (code, "POSTBAYES_DIGEST_STATE" in err)
