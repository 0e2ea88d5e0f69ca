"""The digest: what it lists, what its mail says, and whose links it trusts."""

from __future__ import annotations

from datetime import timedelta
from email import message_from_bytes
from email.policy import default

import pytest
from itsdangerous import TimestampSigner

from app.errors import Forbidden, InvalidSetting
from app.services.clock import now
from app.services.digest import DigestLinks, collect, links_of, mail, sending_of
from app.settings import Settings
from tests.support.application import running, teach
from tests.support.messages import ham, spam

SECRET = b"0123456789abcdef"
LINKS = DigestLinks(SECRET, days=7)
HOSTILE = (
    b'From: "<script>alert(1)</script>" <x@spam.example>\n'
    b"Subject: =?utf-8?q?=E2=80=AE=3Ca_href=3D'http://evil.example'=3Efree=0D=0ABcc=3A_you=40spam.example?=\n\n"
    b"claim your free money now"
)


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


@pytest.fixture
def app(database_url):
    """A service that was taught mail of both sides."""
    with running(database_url=database_url) as app:
        for n in range(8):
            teach(app, spam(n), "spam")
            teach(app, ham(n), "ham")
        yield app


def scored(app, *messages):
    """Score messages, and wait until the history has them; return their ids."""
    asked = app.delivery.address([])
    found = [
        app.delivery.answer(asked, raw, strongest=3, door="http") for raw in messages
    ]
    app.recent.flush(app.engine)
    return [each.classified.observation.digest for each in found]


def listed(app, **more):
    """Return the digest of this hour."""
    until = now() + timedelta(minutes=1)
    given = {"since": until - timedelta(hours=1), "until": until} | more
    return collect(app.history, "default", **given)


def sent(digest):
    """Return the mail of a digest as a reader gets it: headers, text and HTML."""
    made = mail(
        digest,
        LINKS,
        sender="filter@example.org",
        recipient="ann@example.org",
        url="https://filter.example.org",
    )
    read = message_from_bytes(made.as_bytes(), policy=default)
    text, html = read.iter_parts()
    return read, text.get_content(), html.get_content()


def test_spam_and_unsure_that_nobody_taught_are_listed_once(app):
    """The newest comes first, and a message that was scored twice is listed once."""
    strange = b"Subject: qwert\n\nzuiop asdf"
    ids = scored(app, spam(20), spam(20), strange, ham(20), spam(21))
    app.feedback.teach("default", spam(21), label="spam", source="ann")
    found = listed(app)

    assert [ids[2], ids[0]] == [entry.line.digest for entry in found.entries]
    assert 0 == found.more


def test_only_the_time_of_a_digest_is_listed(app):
    """Earlier messages were in the previous digest."""
    scored(app, spam(20))

    assert () == listed(app, until=now() - timedelta(minutes=5)).entries


def test_a_long_digest_says_how_many_there_are_beside(app, monkeypatch):
    """The newest are listed, and the number of the others."""
    monkeypatch.setattr("app.services.digest.MOST_LISTED", 2)
    ids = scored(app, *map(spam, range(20, 25)))
    found = listed(app)
    read, text, html = sent(found)

    assert {*ids[3:]} == {entry.line.digest for entry in found.entries}
    assert 3 == found.more
    assert "not listed: 3" in text
    assert "not listed: 3" in html
    assert "Postbayes: 5 held or unsure" == read["subject"]


def test_a_mail_names_each_message_with_a_link_that_opens(app):
    """In its text and in its HTML."""
    (id_,) = scored(app, spam(21))
    digest = listed(app)
    read, text, html = sent(digest)
    (link,) = [each.strip() for each in text.split() if "/ui/digest/" in each]

    assert ("default", id_) == LINKS.open(link.rpartition("/")[2])
    assert f'href="{link}"' in html
    assert "win@prizes.example" in text
    assert "You are a WINNER" in html
    assert "Postbayes: 1 held or unsure" == read["subject"]
    assert "UTC: 1\n" in text
    assert "auto-generated" == read["auto-submitted"]
    assert digest.until.replace(microsecond=0) == read["date"].datetime


def test_a_long_subject_is_broken_and_an_empty_one_is_named(app):
    """A phone shows the mail without scrolling to the side."""
    scored(app, b"From: a@b.example\nSubject: %b\n\nfree money" % (b"W" * 300))
    scored(app, b"Subject:\n\nfree money now")
    _, text, html = sent(listed(app))

    assert "overflow-wrap: anywhere" in html
    assert "<table" not in html
    assert ["(no subject)" in each for each in (text, html)] == [True, True]
    assert ["(not stored)" in each for each in (text, html)] == [False, False]


def test_nothing_of_a_mail_acts_in_a_digest(app):
    """It makes no element, link or header, and does not turn text around."""
    scored(app, HOSTILE)
    read, text, html = sent(listed(app))

    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<a href='" not in html
    assert "\u202e" not in text + html
    assert read["bcc"] is None
    assert ["filter.example.org"] == sorted(
        {each.split("/")[2] for each in html.split('"') if each.startswith("http")}
    )


def test_an_address_that_is_none_is_refused(app):
    """A line end could add a header."""
    with pytest.raises(InvalidSetting, match="cannot be sent"):
        mail(
            listed(app),
            LINKS,
            sender="filter@example.org",
            recipient="ann@example.org\nBcc: eve@example.org",
            url="https://filter.example.org",
        )


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        LINKS.token("default", bytes(16))[:-1],
        DigestLinks(b"another secret..", days=7).token("default", bytes(16)),
    ],
    ids=["empty", "short", "cut", "of another secret"],
)
def test_a_link_of_somebody_else_is_refused(token):
    """A truncated link is refused, too."""
    with pytest.raises(Forbidden):
        LINKS.open(token)


def signed(monkeypatch, ago):
    """Return a link signed some seconds ago."""
    then = TimestampSigner("x").get_timestamp() - ago
    with monkeypatch.context() as patch:
        patch.setattr(TimestampSigner, "get_timestamp", lambda _: then)
        return LINKS.token("default", bytes(16))


def test_a_link_expires(monkeypatch):
    """It expires after POSTBAYES_DIGEST_DAYS, also if it was signed in the future."""
    week = 7 * 86_400
    for ago in (week + 1, -week - 60):
        with pytest.raises(Forbidden, match="expired"):
            LINKS.open(signed(monkeypatch, ago))


def test_a_link_from_a_host_whose_clock_is_ahead_is_open(monkeypatch):
    """Its time may be that of another zone."""
    link = signed(monkeypatch, -2 * 3600)

    assert "default" == LINKS.open(link)[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"digest_from": None}, "POSTBAYES_DIGEST_FROM"),
        ({"digest_url": None}, "POSTBAYES_DIGEST_URL"),
        ({"digest_url": "filter.example.org"}, "is not an address"),
    ],
)
def test_what_is_missing_is_named(given, says):
    """Nothing is sent then."""
    good = {"digest_from": "a@example.org", "digest_url": "https://f.example"}

    with pytest.raises(InvalidSetting, match=says):
        sending_of(Settings(**good | given))


def test_links_need_a_secret():
    """Without a secret, anybody could make links."""
    with pytest.raises(InvalidSetting, match="openssl"):
        links_of(Settings())
