"""Following another site: what it answers, and what a follower makes of it."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import cycle

import httpx2
import pytest
from sqlalchemy import select, update

from app.errors import InvalidSetting, OtherProfile
from app.exchange import format as layout
from app.exchange.blocks import BlockReader, BlockWriter
from app.exchange.format import (
    LEDGER,
)
from app.features.extract import FEATURE_SET
from app.ledger.undo import Selection
from app.services.follow import SiteFollower, followed_sites, offered_page
from app.settings import Settings
from app.storage import follow, profiles, tables
from app.storage.database.engine import open_engine, reading, writing
from app.storage.profiles import create
from tests.support.builders import begin_undo, taught, teach
from tests.support.databases import sqlite_url
from tests.support.eras import finish

NOW = datetime(2026, 5, 1, tzinfo=UTC)
BERLIN = "http://berlin.example/profiles/default"


class Berlin:
    """A site with a database of its own, reached without a network."""

    def __init__(self, folder):
        folder.mkdir()
        self.engine = open_engine(sqlite_url(folder))
        self.profile = made(self.engine)
        self.answer = None
        self.asked = []

    def __call__(self, request):
        """Answer as the route does, or as a test says."""
        self.asked.append(request)
        said = self.answer or self.page(request.url.params["after"])
        # As from a network, it is read once.
        stream = httpx2.ByteStream(said.content)
        return httpx2.Response(said.status_code, headers=said.headers, stream=stream)

    def page(self, after):
        """Return the page behind a cursor."""
        try:
            content, headers = offered_page(self.engine, "default", after=after)
        except OtherProfile as error:
            return httpx2.Response(409, text=str(error))
        return httpx2.Response(200, content=content, headers=headers)


def made(engine, *, labels=("ham", "spam")):
    """Return a profile."""
    with writing(engine) as connection:
        return create(
            connection,
            name="default",
            labels=labels,
            spam_labels=("spam",),
            feature_set=FEATURE_SET,
            created_at=NOW,
        )


@pytest.fixture
def database():
    """No rule here is about a database."""
    return "sqlite"


@pytest.fixture
def berlin(tmp_path):
    """Another site, that has taught one message."""
    site = Berlin(tmp_path / "berlin")
    teach(site.engine, site.profile, taught(1, "spam", {"pills": 1}, time=NOW))
    yield site
    site.engine.dispose()


@pytest.fixture
def here(engine):
    """The profile of this site."""
    return made(engine)


@pytest.fixture
def follower(engine, berlin, here):
    """What follows the other site."""
    settings = Settings(follow=(f"berlin={BERLIN}",), profile="default")
    now = lambda: NOW + timedelta(hours=1)  # noqa: E731
    return SiteFollower(engine, settings, now, httpx2.MockTransport(berlin))


def labels_of(engine, profile):
    """Return label and source of each row."""
    query = select(tables.ledger).order_by(tables.ledger.c.revision)
    with reading(engine) as connection:
        rows = connection.execute(
            query.where(tables.ledger.c.profile_id == profile.id)
        ).all()
    return [(row.label_before, row.label, row.source) for row in rows]


def state(follower):
    """Return the state of the one site."""
    (found,) = follower
    return found


def test_labels_of_another_site_are_learned_without_words_and_teachers(
    follower, engine, here
):
    """The source is the site, and the text stays where it is."""
    follower.attempt("berlin")

    assert [(None, "spam", "site:berlin")] == labels_of(engine, here)
    with reading(engine) as connection:
        assert [None] == connection.scalars(select(tables.ledger.c.encoded_names)).all()
    assert (1, 0, None) == (
        state(follower).words,
        state(follower).left,
        state(follower).failure,
    )


def test_a_damaged_lesson_of_a_site_is_passed_over(follower, engine, berlin, here):
    """No site would learn a page with it, nor any lesson after it."""
    with writing(berlin.engine) as connection:
        vector = connection.scalars(select(tables.ledger.c.vector)).one()
        connection.execute(update(tables.ledger).values(vector=vector[:-1]))
    teach(berlin.engine, berlin.profile, taught(2, "ham", {"lunch": 1}, time=NOW))
    follower.attempt("berlin")

    assert [(None, "ham", "site:berlin")] == labels_of(engine, here)
    assert None is state(follower).failure


def test_what_came_from_a_site_goes_to_no_other(follower, engine):
    """A circle of sites tells nobody the own labels again."""
    follower.attempt("berlin")

    with reading(engine) as connection:
        profile = profiles.find(connection, "default")
        assert () == follow.offer(connection, profile, after="").words


def test_one_undo_takes_back_all_that_a_site_taught(follower, engine, berlin, here):
    """It stays taken back, though the site is read from its first row again."""
    teach(engine, here, taught(1, "ham", {"pills": 1}, time=NOW - timedelta(days=1)))
    follower.attempt("berlin")
    with writing(engine) as connection:
        asked = Selection(source="site:berlin")
        begin_undo(connection, here, asked, source="boss", time=NOW)
    finish(engine, here)
    with writing(engine) as connection:
        follow.restart(connection, here, "berlin")
    follower.attempt("berlin")

    assert ("ham", "undo:1") == labels_of(engine, here)[-1][1:]


def test_a_restored_site_is_read_from_its_first_row(follower, engine, berlin, caplog):
    """It is logged, and what is known counts once."""
    follower.attempt("berlin")
    with writing(berlin.engine) as connection:
        connection.execute(tables.ledger.update().values(source="somebody else"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            follower.attempt("berlin")

    assert [True] == [
        "it is read from its first row" in text for text in caplog.messages
    ]
    assert ["", "some", "", "some"] == [
        request.url.params["after"] and "some" for request in berlin.asked
    ]
    assert 1 == state(follower).words


def test_an_address_that_leads_to_two_ledgers_in_turn_is_logged_once(
    engine, berlin, here, tmp_path, caplog
):
    """It refuses each cursor, and a new beginning comes no sooner than a next page."""
    hamburg = Berlin(tmp_path / "hamburg")
    teach(hamburg.engine, hamburg.profile, taught(2, "ham", {"ships": 1}, time=NOW))
    turns = cycle([berlin, hamburg])

    def answer(request):
        site = next(turns)
        return site(request)

    follower = SiteFollower(
        engine,
        Settings(follow=(f"berlin={BERLIN}",)),
        lambda: NOW,
        httpx2.MockTransport(answer),
    )
    with caplog.at_level(logging.WARNING):
        more = [follower.attempt("berlin") for _ in range(8)]
    hamburg.engine.dispose()

    assert [False] * 8 == more
    assert [""] * 4 == [request.url.params["after"] for request in berlin.asked]
    assert 1 == len(caplog.messages)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            httpx2.Response(403, text="key:x may not replicate"),
            "answered 403 .*may not",
        ),
        (httpx2.Response(200, text="<html>"), "answered 200 instead of a page"),
        (
            httpx2.Response(
                200,
                text="<html>",
                headers={"Postbayes-Cursor": "1.0.0.a", "Postbayes-Left": "0"},
            ),
            "not an export",
        ),
        (httpx2.Response(302, headers={"Location": "http://x"}), "answered 302"),
    ],
)
def test_an_answer_that_is_no_page_is_logged_once(
    follower, engine, berlin, here, caplog, answer, sentence
):
    """Nothing is learned, and the next good page is."""
    berlin.answer = answer
    with caplog.at_level(logging.INFO):
        assert not follower.attempt("berlin")
        assert not follower.attempt("berlin")
        assert [] == labels_of(engine, here)
        assert state(follower).failure is not None
        berlin.answer = None
        follower.attempt("berlin")

    failed, again = (
        record.getMessage() for record in caplog.records if "follow" in record.name
    )
    assert failed.startswith("the site 'berlin' is not followed")
    assert re.search(sentence, failed)
    assert "the site 'berlin' is followed again" == again
    assert 1 == len(labels_of(engine, here))


def test_what_is_of_the_future_waits(follower, engine, berlin, here):
    """A clock that is far ahead is reported; a moment is waited for, without haste."""
    ahead = NOW + timedelta(hours=1, seconds=30)
    teach(berlin.engine, berlin.profile, taught(2, "ham", {"minutes": 1}, time=ahead))

    assert 0 == follower()
    assert state(follower).failure is None
    far = ahead + timedelta(days=1)
    teach(berlin.engine, berlin.profile, taught(3, "ham", {"minutes": 1}, time=far))
    assert not follower.attempt("berlin")
    assert "in the future: none of this page is learned" in state(follower).failure
    assert [] == labels_of(engine, here)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"labels": ["ham", "spam", "phishing"]},
            "the other site has the labels ham, spam (spam), phishing, but the "
            "profile 'default' has ham, spam (spam). Follow it with a profile that has "
            "the same labels",
        ),
        (
            {"feature_set": 10_000},
            "the other site has feature set 10000, but this Postbayes has feature set "
            f"{FEATURE_SET}, so its counts are of other features. Upgrade the older of "
            "the two",
        ),
    ],
    ids=["labels", "features"],
)
def test_a_profile_of_another_kind_is_not_learned(
    follower, berlin, here, change, sentence
):
    """The error has the way out for sites, not that for a file that is imported."""
    with writing(berlin.engine) as connection:
        connection.execute(tables.profile.update().values(change))

    assert not follower.attempt("berlin")
    assert sentence == state(follower).failure


def test_rows_that_no_site_offers_are_refused(follower, berlin, engine, here):
    """Such a row has a teacher or an earlier score."""
    page, headers = offered_page(berlin.engine, "default", after="")
    reader = BlockReader(BytesIO(page))
    ((_, content),) = reader
    (word,) = layout.surveyed_rows(content)
    file = BytesIO()
    writer = BlockWriter(file, reader.header)
    writer.write(
        LEDGER, layout.write_rows([replace(word, label_before="ham")], words=False)
    )
    writer.close()
    berlin.answer = httpx2.Response(200, content=file.getvalue(), headers=headers)

    assert not follower.attempt("berlin")
    assert "that no site offers" in state(follower).failure
    assert [] == labels_of(engine, here)


def test_keys_are_read_before_each_request(engine, berlin, here, tmp_path):
    """A key can be replaced while the service runs."""
    keys = tmp_path / "keys"
    keys.write_text("# of others\nberlin: one\n")
    settings = Settings(follow=(f"berlin={BERLIN}",), follow_key_file=keys)
    follower = SiteFollower(engine, settings, lambda: NOW, httpx2.MockTransport(berlin))
    follower.attempt("berlin")
    keys.write_text("berlin: two\n")
    follower.attempt("berlin")

    assert ["Bearer one", "Bearer two"] == [
        request.headers["Authorization"] for request in berlin.asked
    ]


@pytest.mark.parametrize(
    "given",
    [
        "berlin",
        "Berlin=http://x/profiles/a",
        "b=ftp://x/profiles/a",
        "b=http://x/a",
        "b=http://[x/profiles/a",
    ],
)
def test_a_site_without_name_and_address_ends_the_start(given):
    """The error shows what to write."""
    with pytest.raises(
        InvalidSetting, match=r"letters, digits, dots and.*berlin=https"
    ):
        followed_sites(Settings(follow=(given,)))


def test_a_key_for_a_site_that_is_not_followed_is_reported(engine, tmp_path, caplog):
    """It is probably misspelt, and the site refuses the request without a key."""
    keys = tmp_path / "keys"
    keys.write_text("berlim: one\n")
    SiteFollower(
        engine,
        Settings(follow=(f"berlin={BERLIN}",), follow_key_file=keys),
        lambda: NOW,
    )

    assert [
        f"{keys} has a key for the site 'berlim', which POSTBAYES_FOLLOW does not name"
    ] == caplog.messages


def test_a_line_without_a_key_ends_the_start(tmp_path):
    """The error names the line, but not the key."""
    keys = tmp_path / "keys"
    keys.write_text("secret\n")

    with pytest.raises(InvalidSetting, match="line 1, is not of the form"):
        followed_sites(Settings(follow=(), follow_key_file=keys))
