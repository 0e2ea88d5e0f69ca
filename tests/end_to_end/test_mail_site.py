"""A real Postfix and a real Dovecot: mail comes in, is marked, filed and taught."""

from __future__ import annotations

import smtplib
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support import mail_site
from tests.support.mail_site import required
from tests.support.messages import ham, spam
from tests.support.service import learned, more, until

pytestmark = pytest.mark.mail

ROOT = Path(__file__).parent.parent.parent
ANN = f"ann@{mail_site.DOMAIN}"


@pytest.fixture(scope="module")
def service(marking):
    """A service that has learned more than the tests change."""
    return marking


@pytest.fixture(scope="module")
def site(service):
    """Postfix and Dovecot beside it."""
    required()
    url = f"http://127.0.0.1:{service.port}"
    milter = f"inet:127.0.0.1:{service.milter}"
    with mail_site.mail_site(milter=milter, url=url) as site:
        yield site


@pytest.fixture
def mailbox(site):
    """Ann's mail, over IMAP."""
    with mail_site.Mailbox(site, ANN) as mailbox:
        yield mailbox


def test_spam_goes_to_junk_and_ham_to_the_inbox(service, mailbox):
    """Each has the headers of its verdict once, and what was forged is gone."""
    forged = b"X-Postbayes: ham\nX-Spam-Flag: NO\nx-postbayes: ham\n"
    bad = mailbox.arrived(mailbox.send(forged + spam(107)))
    good = mailbox.arrived(mailbox.send(b"X-Spam-Flag: YES\n" + ham(107)))

    assert ("Junk", ["spam"], ["YES"]) == (
        bad[0],
        bad[1].get_all("X-Postbayes"),
        bad[1].get_all("X-Spam-Flag"),
    )
    assert ("INBOX", ["ham"], None) == (
        good[0],
        good[1].get_all("X-Postbayes"),
        good[1].get_all("X-Spam-Flag"),
    )
    # The message in the mailbox, with all that was added, has the same id.
    for _, message in (bad, good):
        assert message["X-Postbayes-Id"] == service.classify(bytes(message))["id"]


def test_the_program_that_delivers_files_spam_as_well(site, mailbox):
    """Postfix runs it for users of the system, who are not delivered to by LMTP."""
    subprocess.run(
        ["/usr/lib/dovecot/dovecot-lda", "-c", site.folder / "dovecot.conf", "-d", ANN],
        input=b"X-Postbayes: spam\nSubject: for the program\n\nwordlda\n",
        check=True,
    )

    assert "Junk" == mailbox.arrived("wordlda")[0]


def test_moving_mail_teaches_and_the_next_verdict_is_another(service, mailbox):
    """Into Junk is spam, out of it is ham, and the next one of its kind is judged so."""
    letter = b"From: club@chess.example\nSubject: chess\n\nOpening theory, gambit %d. "
    for n in (100, 101):
        service.teach(letter % n, "ham")
    folders, expected = [], more(service)
    while "Junk" not in folders and len(folders) < 20:
        word = mailbox.send(letter % len(folders))
        folder, message = mailbox.arrived(word)
        folders.append(folder)
        if folder == "INBOX":
            expected["spam"] += 1
            mailbox.move(word, "INBOX", "Junk")
            until(service, expected)
    mailbox.move(word, "Junk", "INBOX")
    until(service, {**expected, "ham": expected["ham"] + 1})
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        row = database.execute(
            "SELECT label, source, lower(hex(digest)) FROM ledger ORDER BY revision DESC"
        ).fetchone()

    assert ("INBOX", "Junk") == (folders[0], folders[-1])
    assert ("ham", ANN, message["X-Postbayes-Id"]) == row


@pytest.mark.parametrize("trash", ["Trash", "Papierkorb"])
def test_throwing_junk_away_teaches_nothing(service, mailbox, trash):
    """Junk to Trash is no vote; the next move shows that nothing was missed."""
    thrown, moved = (mailbox.send(spam(n)) for n in (120, 121))
    for word in (thrown, moved):
        assert "Junk" == mailbox.arrived(word)[0]
    expected = more(service, ham=1)

    mailbox.move(thrown, "Junk", trash)
    mailbox.move(moved, "Junk", "INBOX")

    until(service, expected)
    # What is ham here must not be ham for the test that comes next.
    mailbox.move(moved, "INBOX", "Junk")
    until(
        service, {**expected, "ham": expected["ham"] - 1, "spam": expected["spam"] + 1}
    )


def test_a_message_that_is_put_into_junk_is_taught(service, mailbox):
    """Clients that work offline put a copy there, and the ids stay the same."""
    _, message = mailbox.arrived(mailbox.send(ham(130)))
    expected = more(service, spam=1)

    mailbox.imap.append("Junk", None, None, bytes(message))

    until(service, expected)


def test_a_marked_message_that_is_put_into_the_inbox_is_taught(service, mailbox):
    """Offline clients move it out of Junk so; other mail may come from anywhere."""
    folder, message = mailbox.arrived(mailbox.send(spam(131)))
    assert "Junk" == folder
    expected = more(service, ham=1)

    for raw in (spam(132), b"X-Postbayes: ham\n" + spam(133), bytes(message)):
        mailbox.imap.append("INBOX", None, None, raw)
    mailbox.imap.append("Trash", None, None, b"X-Postbayes: spam\n" + spam(134))
    until(service, expected)
    # The next lesson shows that none was missed, and that what is spam here stays spam.
    mailbox.imap.append("Junk", None, None, bytes(message))

    until(
        service, {**expected, "ham": expected["ham"] - 1, "spam": expected["spam"] + 1}
    )


@contextmanager
def restarted(service, **settings):
    """Run the service with other settings for a while."""
    service.stop()
    service.environment |= settings
    service.start()
    try:
        yield
    finally:
        service.stop()
        for name in settings:
            del service.environment[name]
        service.start()


def test_spam_is_refused_where_that_is_set(service, mailbox):
    """The sending server gets a 550 with the id, and nothing is delivered."""
    with (
        restarted(service, POSTBAYES_REJECT_FROM="3"),
        pytest.raises(
            smtplib.SMTPDataError, match=r"5\.7\.1 This message looks like"
        ) as got,
    ):
        mailbox.send(spam(131))

    assert 550 == got.value.smtp_code


def test_spam_is_held_where_that_is_set(service, site, mailbox):
    """Postfix keeps it on hold until the postmaster decides."""
    with restarted(service, POSTBAYES_QUARANTINE_FROM="3"):
        mailbox.send(spam(132))
        good = mailbox.arrived(mailbox.send(ham(132)))[0]
        (held,) = site.held()

    assert ("INBOX", "someone@example.net") == (good, held)


def test_results_are_written_under_the_name_of_the_server(service, mailbox):
    """Above the others; what came under that name is gone, and the id is the same."""
    forged = b"Authentication-Results: MX.example.org; x-postbayes=ham\n"
    others = b"Authentication-Results: relay.example.net; spf=pass\n"
    with restarted(service, POSTBAYES_MILTER_AUTHSERV_ID="mx.example.org"):
        raw = forged + others + forged + ham(133)
        _, message = mailbox.arrived(mailbox.send(raw))

    ours, theirs = message.get_all("Authentication-Results")
    assert "mx.example.org;\r\n\tx-postbayes=ham policy.log-odds=-" in ours
    assert "relay.example.net; spf=pass" == theirs
    assert message["X-Postbayes-Id"] == service.classify(bytes(message))["id"]


def test_mail_passes_unmarked_while_the_service_is_away(service, mailbox):
    """Killed in the middle of everything: mail arrives, without our headers."""
    service.kill()
    try:
        folder, message = mailbox.arrived(mailbox.send(spam(140)))
    finally:
        service.start()
    again, marked = mailbox.arrived(mailbox.send(spam(141)))

    assert ("INBOX", None) == (folder, message["X-Postbayes"])
    assert ("Junk", "spam") == (again, marked["X-Postbayes"])


def test_mail_that_is_taught_while_the_service_is_away_is_not_lost(service, mailbox):
    """The moves are done at once, and learned in their order once it is back."""
    words = [mailbox.send(ham(150 + n)) for n in range(3)]
    assert {"INBOX"} == {mailbox.arrived(word)[0] for word in words}
    expected = more(service, spam=1, ham=2)
    service.kill()
    try:
        for word in words:
            mailbox.move(word, "INBOX", "Junk")
        for word in words[1:]:
            mailbox.move(word, "Junk", "INBOX")
    finally:
        service.start()

    until(service, expected)


@pytest.mark.parametrize("words", [("$Junk", "$NotJunk"), ("Junk", "NonJunk")])
def test_marking_mail_teaches(service, mailbox, words):
    """What the junk button sets, with and without a move; other flags say nothing."""
    junk, not_junk = words
    letters = [mailbox.send(ham(160 + n)) for n in range(2)]
    assert {"INBOX"} == {mailbox.arrived(letter)[0] for letter in letters}
    other, word = letters
    before = learned(service)

    mailbox.mark(other, "INBOX", r"+FLAGS (\Seen \Flagged Junky Unjunk)")
    mailbox.mark(word, "INBOX", f"+FLAGS ({junk})")
    until(service, {**before, "spam": before["spam"] + 1})
    mailbox.move(word, "INBOX", "Junk")
    mailbox.mark(word, "Junk", f"+FLAGS ({not_junk})")
    mailbox.mark(word, "Junk", f"-FLAGS ({junk})")

    until(service, {**before, "ham": before["ham"] + 1})


def test_the_demonstration_shows_mail_marked_filed_and_taught():
    """`make demo-mail`, which the documents recommend, runs to its end."""
    required()
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo-mail"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "Spam by SMTP: delivered to Junk" in done.stdout
    assert "Ann moves it to Junk; learned are now" in done.stdout
