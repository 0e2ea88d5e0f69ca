"""A profile of several labels: Sieve files by them, and moves between folders teach."""

from __future__ import annotations

import pytest

from app.classifier.specification import KINDS
from tests.support import mail_site
from tests.support.databases import sqlite_url
from tests.support.mail_site import required
from tests.support.messages import ham, spam
from tests.support.service import Service, more, until

pytestmark = pytest.mark.mail

LABELS, SPAM_LABELS = KINDS["mail"]


def letter(number):
    """Return a newsletter; different numbers give different ones."""
    return (
        b"From: Weekly <news@weekly.example>\nSubject: The weekly edition %d\n\n"
        b"Our edition of this week: columns, essays and letters, volume %d.\n"
    ) % (number, number)


@pytest.fixture(scope="module")
def service():
    """A service that has learned ham, newsletters and spam."""
    required()
    with mail_site.open_folder() as folder:
        service = Service(sqlite_url(folder), folder)
        service.environment |= {
            "POSTBAYES_LABELS": ",".join(LABELS),
            "POSTBAYES_SPAM_LABELS": ",".join(SPAM_LABELS),
        }
        service.milter = service.open_door("milter")
        service.start()
        for n in range(24):
            service.teach(ham(n), "ham")
            service.teach(letter(n), "newsletter")
            service.teach(spam(n), "spam")
        yield service
        service.client.close()
        service.kill()


@pytest.fixture
def mailbox(service):
    """Ann's mail, over IMAP."""
    url, milter = f"http://127.0.0.1:{service.port}", f"inet:127.0.0.1:{service.milter}"
    with (
        mail_site.mail_site(milter=milter, url=url, sieve="labels") as site,
        mail_site.Mailbox(site, f"ann@{mail_site.DOMAIN}") as mailbox,
    ):
        yield mailbox


def test_mail_is_filed_by_its_label_and_moves_teach_it(service, mailbox):
    """Spam as ever; back into the inbox is ham, and from Junk elsewhere that label."""
    mailbox.imap.create("Newsletter")
    mailbox.imap.create("Phishing")
    arrived = [
        mailbox.arrived(mailbox.send(raw), "INBOX", "Junk", "Newsletter")
        for raw in (ham(400), spam(400), b"X-Postbayes-Label: ham\n" + letter(400))
    ]
    assert ["INBOX", "Junk", "Newsletter"] == [folder for folder, _ in arrived]
    assert [["ham"], ["spam"], ["newsletter"]] == [
        message.get_all("X-Postbayes-Label") for _, message in arrived
    ]
    words = [mailbox.send(raw) for raw in (letter(401), spam(401), ham(401))]
    for word in words:
        mailbox.arrived(word, "INBOX", "Junk", "Newsletter")
    expected = more(service, ham=1)
    mailbox.move(words[0], "Newsletter", "INBOX")
    until(service, expected)
    expected = more(service, phishing=1)
    mailbox.move(words[1], "Junk", "Phishing")
    until(service, expected)
    expected = more(service, newsletter=1)
    mailbox.move(words[2], "INBOX", "Newsletter")
    until(service, expected)
    mailbox.move(words[2], "Newsletter", "Archive")
    expected = more(service, newsletter=1, ham=-1)
    mailbox.move(words[0], "INBOX", "Newsletter")
    until(service, expected)

    assert 24 * 3 + 3 == sum(expected.values())
