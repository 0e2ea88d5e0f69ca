"""A real Dovecot without IMAPSieve: `postbayes imap` follows a mailbox there."""

from __future__ import annotations

import json
import logging
import os
import signal
import time

import pytest

from app.doors.cli import main as cli
from tests.support import mail_site
from tests.support.command import PATIENCE, Command
from tests.support.mail_site import required
from tests.support.messages import ham, spam
from tests.support.service import learned, more, until

pytestmark = pytest.mark.mail

ANN = f"ann@{mail_site.DOMAIN}"


@pytest.fixture(scope="module")
def service(marking):
    """A service that has learned more than the tests change."""
    return marking


@pytest.fixture(scope="module")
def site(service):
    """Postfix and Dovecot beside it; spam is filed, and nothing is taught."""
    required()
    url = f"http://127.0.0.1:{service.port}"
    milter = f"inet:127.0.0.1:{service.milter}"
    with mail_site.mail_site(milter=milter, url=url, sieve="filing") as site:
        yield site


@pytest.fixture
def follow(service, site, tmp_path):
    """Starts `postbayes imap` for Ann's mailbox, by TLS."""
    secret = tmp_path / "password"
    secret.write_text(f"{mail_site.PASSWORD}\n")
    environment = {
        **service.environment,
        "SSL_CERT_FILE": str(site.certificate),
        "POSTBAYES_IMAP_HOST": "127.0.0.1",
        "POSTBAYES_IMAP_PORT": str(site.imaps),
        "POSTBAYES_IMAP_USER": ANN,
        "POSTBAYES_IMAP_PASSWORD_FILE": str(secret),
        "POSTBAYES_IMAP_STATE": str(tmp_path / "imap.json"),
        # Where Sieve files; the server marks another folder as junk.
        "POSTBAYES_IMAP_JUNK": "Junk",
    }
    started = []

    def start(*arguments, **settings):
        log = tmp_path / "log"
        process = Command(
            ["imap", *arguments],
            environment={**environment, **settings},
            folder=tmp_path,
            out=log,
            err=log,
        )
        started.append(process)
        return process

    start.environment = environment
    start.log = tmp_path / "log"
    start.state = tmp_path / "imap.json"
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.fixture
def mailbox(site):
    """Ann's mail, over IMAP."""
    with mail_site.Mailbox(site, ANN) as mailbox:
        yield mailbox


def wait_for(ready):
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_moving_mail_teaches_while_it_is_followed(service, mailbox, follow):
    """Into Junk and out of it; what our filter filed and what is thrown away, not."""
    wanted = mailbox.send(ham(200))
    filed, thrown = (mailbox.send(spam(n)) for n in (200, 201))
    assert ["INBOX", "Junk", "Junk"] == [
        mailbox.arrived(word)[0] for word in (wanted, filed, thrown)
    ]
    before = learned(service)
    process = follow()
    wait_for(lambda: follow.state.exists() and '"Junk"' in follow.state.read_text())

    mailbox.move(wanted, "INBOX", "Junk")
    until(service, more_than(before, spam=1))
    mailbox.move(wanted, "Junk", "INBOX")
    until(service, more_than(before, ham=1))
    # With the id, which `postbayes why` and `undo` take.
    wait_for(lambda: "relabelled as ham: message " in follow.log.read_text())
    mailbox.move(thrown, "Junk", "Trash")
    new = mailbox.send(spam(202))
    assert "Junk" == mailbox.arrived(new)[0]
    mailbox.move(filed, "Junk", "Archive")
    until(service, more_than(before, ham=2))
    process.send_signal(signal.SIGTERM)

    assert -signal.SIGTERM == process.wait(PATIENCE)
    assert "Traceback" not in follow.log.read_text()


def more_than(before, **numbers):
    """Return numbers of learned messages with some more."""
    return {label: n + numbers.get(label, 0) for label, n in before.items()}


@pytest.fixture
def look(follow, monkeypatch, capsys):
    """Runs `postbayes imap --once` in this process, which starts faster."""

    def run(**settings):
        for name, value in (follow.environment | settings).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            cli.main(["imap", "--once"])
        printed = capsys.readouterr()
        return ended.value.code, printed.out + printed.err

    return run


def test_looking_once_learns_what_happened_since(service, mailbox, look):
    """From cron: the first look remembers, the next ones teach; reads change nothing."""
    word = mailbox.send(ham(210))
    assert "INBOX" == mailbox.arrived(word)[0]
    assert (0, "0 messages\n") == look()
    mailbox.move(word, "INBOX", "Junk")
    expected = more(service, spam=1)

    assert (0, "1 message\n") == look()
    assert (0, "0 messages\n") == look()

    assert expected == learned(service)
    mailbox.imap.select("Junk")
    assert b"Seen" not in mailbox.imap.fetch("1:*", "(FLAGS)")[1][-1]


def test_the_folder_that_the_server_marks_as_junk_is_followed(
    service, mailbox, follow, look, caplog
):
    """Without a name for it, whatever its name is; cron has nothing to mail of it."""
    del follow.environment["POSTBAYES_IMAP_JUNK"]
    word = mailbox.send(ham(220))
    assert "INBOX" == mailbox.arrived(word)[0]
    look()
    caplog.set_level(logging.INFO, "app")
    mailbox.move(word, "INBOX", "Unerw&APw-nscht")
    expected = more(service, spam=1)

    assert (0, "1 message\n") == look()

    assert expected == learned(service)
    assert "following" not in caplog.text


def test_further_folders_and_marks_teach_where_that_is_set(service, mailbox, look):
    """Junk to a folder of ham is ham; ``$Junk`` is spam, and ``$NotJunk`` ham, in place."""
    settings = {"POSTBAYES_IMAP_FOLDERS": "Kept=ham", "POSTBAYES_IMAP_MARKS": "true"}
    mailbox.imap.create("Kept")
    filed, kept, read = (mailbox.send(raw) for raw in (spam(230), ham(230), ham(231)))
    assert ["Junk", "INBOX", "INBOX"] == [
        mailbox.arrived(word)[0] for word in (filed, kept, read)
    ]
    before = learned(service)

    assert (0, "0 messages\n") == look(**settings)
    mailbox.move(filed, "Junk", "Kept")
    mailbox.move(read, "INBOX", "Kept")
    mailbox.mark(kept, "INBOX", "+FLAGS ($Junk)")
    assert (0, "2 messages\n") == look(**settings)
    assert more_than(before, ham=1, spam=1) == learned(service)
    mailbox.mark(kept, "INBOX", "-FLAGS ($Junk)")
    mailbox.mark(kept, "INBOX", "+FLAGS ($NotJunk)")
    assert (0, "1 message\n") == look(**settings)
    assert more_than(before, ham=2) == learned(service)
    assert (0, "0 messages\n") == look(**settings)


def marks_of(state, folder):
    """Return what was remembered of the marks of a folder."""
    if not state.exists():
        return {}
    return json.loads(state.read_text()).get("marked", {}).get(folder, {})


def test_a_mark_is_seen_while_the_inbox_is_followed(service, mailbox, follow):
    """The server notifies of flags of the open folder, too."""
    word = mailbox.send(ham(240))
    assert "INBOX" == mailbox.arrived(word)[0]
    expected = more(service, spam=1)
    process = follow(POSTBAYES_IMAP_MARKS="true")
    # Of the inbox, and not of a folder before it: what it knows is no news then.
    wait_for(lambda: "ham" in marks_of(follow.state, "INBOX"))

    mailbox.mark(word, "INBOX", "+FLAGS ($Junk)")
    until(service, expected)
    process.send_signal(signal.SIGTERM)

    assert -signal.SIGTERM == process.wait(PATIENCE)


@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        ({"POSTBAYES_IMAP_FOLDERS": "News"}, 78, "write FOLDER=LABEL"),
        ({"POSTBAYES_IMAP_FOLDERS": "INBOX=spam"}, 78, "'INBOX' is named twice"),
        (
            {"POSTBAYES_IMAP_USER": ""},
            78,
            "login of '': [AUTH",
        ),
        ({"POSTBAYES_IMAP_JUNK": "Spam"}, 78, "no folder 'Spam'"),
        (
            {"POSTBAYES_IMAP_PASSWORD_FILE": "/proc/sys/kernel/ostype"},
            78,
            "login of 'ann@example.org': [AUTH",
        ),
        ({"POSTBAYES_IMAP_PASSWORD_FILE": "/nowhere"}, 78, "cannot be read"),
        ({"POSTBAYES_IMAP_PORT": "1"}, 75, "does not answer"),
        ({"SSL_CERT_FILE": os.devnull}, 75, "certificate"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(look, settings, code, says):
    """Settings end with 78, a server that is away with 75."""
    ended, printed = look(**settings)

    assert code == ended
    assert says in printed
    assert 1 == printed.count("\n")
