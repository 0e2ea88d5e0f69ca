"""Lists in the service: whose entries count, for whom, and when all know them."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from app.access.lists import ListEntry, ListSubject
from app.classifier.statement import Origin
from app.errors import InvalidInput, UnknownEntry, UnknownProfile
from app.services import lists as module
from app.services.access import list_events
from app.services.clock import SteadyClock, now
from app.services.lists import LiveLists, list_entries
from app.services.profiles import delete_profile
from app.services.recent import RecentMessages
from app.services.scheduler import Maintenance
from app.settings import Settings
from app.storage.database.engine import reading, writing
from app.storage.retention import ClockMark, put_clock_mark
from app.storage.tables import list_entry
from tests.support.application import add_profiles, running, teach
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

ANN, BOB, SITE = "ann@example.org", "bob@example.org", "default"
DOMAIN = "example.org"
SENDER = "offers@shop.example"
MESSAGE = b"From: Offers <offers@shop.example>\nSubject: hello\n\nwords of the day"


@pytest.fixture
def app(database_url):
    """A service with a profile of the site, of a domain and of one of its users."""
    with running(database_url=database_url) as app:
        add_profiles(app, ANN, DOMAIN)
        yield app


def put(app, profile, text, nats=-5.0, **given):
    """Set an entry."""
    entry = ListEntry(
        subject=ListSubject.parse(text),
        nats=nats,
        source="user:carl",
        created_at=now(),
        **given,
    )
    app.add_list_entries(profile, [entry], actor="user:carl")


def stated(app, profile=SITE, raw=MESSAGE):
    """Return the entries that count for a message, and their nats."""
    found = app.classify(profile, raw, strongest=0)
    return [(each.name, each.nats) for each in found.statements]


def test_a_profile_in_the_place_of_a_deleted_one_has_its_own_lists(app):
    """Here before the service has looked."""
    add_profiles(app, "old")
    put(app, "old", SENDER, -9.0)
    for _ in delete_profile(app.engine, "old"):
        pass
    add_profiles(app, "new")
    put(app, "new", SENDER, 9.0)

    assert [(SENDER, 9.0)] == stated(app, "new")


def test_an_entry_is_a_term_of_the_log_odds(app):
    """The empty filter knows nothing else, and its threshold decides."""
    plain = app.classify(SITE, MESSAGE, strongest=1)
    put(app, SITE, SENDER, 5.0)
    found = app.classify(SITE, MESSAGE, strongest=1)
    (reason,) = found.explanation.reasons

    assert "unsure" == plain.verdict.decision
    assert "spam" == found.verdict.decision
    assert plain.verdict.log_odds + 5.0 == found.verdict.log_odds
    assert f"denied by user:carl on {now():%Y-%m-%d}: {SENDER}" == reason.text


@on_sqlite
def test_overwhelming_evidence_outweighs_an_entry(app):
    """An allowed sender may be forged: no entry is a bypass."""
    for n in range(40):
        teach(app, ham(n), "ham")
        teach(app, spam(n), "spam")
    _, rest = spam(50).split(b"\n", 1)
    raw = b"From: offers@shop.example\n" + rest
    before = app.classify(SITE, raw, strongest=0).verdict
    put(app, SITE, SENDER)
    after = app.classify(SITE, raw, strongest=0).verdict

    assert before.log_odds - 5.0 == after.log_odds > 5.0
    assert "spam" == after.decision


@on_sqlite
def test_the_most_personal_entry_counts(app):
    """The user's before the domain's before the site's, however specific those are."""
    put(app, SITE, SENDER, 1.0)
    site = [stated(app, each) for each in (SITE, DOMAIN, ANN)]
    put(app, DOMAIN, "shop.example", 2.0)
    domain = [stated(app, each) for each in (SITE, DOMAIN, ANN)]
    put(app, ANN, "192.0.2.0/24", -3.0)
    put(app, ANN, "@shop.example", -4.0)

    assert [[(SENDER, 1.0)]] * 3 == site
    assert [[(SENDER, 1.0)], *[[("shop.example", 2.0)]] * 2] == domain
    assert [("shop.example", -4.0)] == stated(app, ANN)
    assert [("shop.example", 2.0)] == stated(app, DOMAIN)


def test_what_the_mail_server_knows_counts(app):
    """The sender of the envelope, and the address of the client."""
    put(app, SITE, "192.0.2.0/24", 3.0)
    put(app, SITE, "bounces.example", 4.0)

    def said(**known):
        found = app.delivery.together(
            [BOB], MESSAGE, strongest=0, door="test", origin=Origin(**known)
        )
        return [each.name for each in found.classified.statements]

    assert [] == said()
    assert ["192.0.2.0/24"] == said(client="192.0.2.9")
    assert ["bounces.example"] == said(client="192.0.2.9", sender="<x@bounces.example>")


@on_sqlite
def test_each_recipient_has_the_own_lists(app):
    """Whichever profile answers for them."""
    put(app, ANN, SENDER, -5.0)
    put(app, SITE, SENDER, 5.0)
    asked = app.delivery.address([ANN, BOB])
    found = app.delivery.answer(asked, MESSAGE, strongest=0, door="test")

    assert {ANN: "ham", BOB: "spam"} == {
        each: answer.verdict.decision for each, answer in found.recipients.items()
    }


HOURS, YEAR, NONE = timedelta(hours=2), timedelta(days=365), timedelta()


@pytest.mark.parametrize("change", ["set", "removed"])
@pytest.mark.parametrize(
    ("clock", "believed", "goes"),
    [(HOURS, HOURS, True), (YEAR, NONE, False), (NONE, YEAR, False)],
)
def test_an_expired_entry_goes_once_its_end_is_believed(
    app, monkeypatch, change, clock, believed, goes
):
    """With a change of the lists; a clock that is ahead removes nothing."""
    begun = now()
    put(app, SITE, SENDER, expires_at=begun + timedelta(hours=1))
    put(app, SITE, BOB)
    with writing(app.engine) as connection:
        put_clock_mark(connection, ClockMark(begun + believed, begun))
    monkeypatch.setattr("app.services.lists.now", lambda: begun + clock)
    if change == "set":
        put(app, SITE, BOB)
    else:
        app.remove_list_entry(SITE, ListSubject.parse(BOB), actor="test")
    with reading(app.engine) as connection:
        left = set(connection.scalars(select(list_entry.c.value)))
    shown = {each.subject.value for each in list_entries(app.engine, SITE)}

    assert goes == (SENDER not in left)
    assert (clock > NONE) == (SENDER not in shown)


def test_an_entry_ends_when_it_expires(app, monkeypatch):
    """No process has to be told."""
    begun = now()
    put(app, SITE, SENDER, expires_at=begun + timedelta(hours=1))
    before = stated(app)
    monkeypatch.setattr("app.services.lists.now", lambda: begun + timedelta(hours=2))

    assert ([(SENDER, -5.0)], []) == (before, stated(app))


def test_another_process_follows(app, database_url):
    """What is set, changed and removed here counts there after a look."""
    with running(database_url=database_url) as other:
        seen = []
        for change in (
            lambda: put(app, SITE, SENDER),
            lambda: put(app, SITE, SENDER, -6.0),
            lambda: app.remove_list_entry(
                SITE, ListSubject.parse(SENDER), actor="user:carl"
            ),
        ):
            change()
            other.lists.refresh()
            seen.append(stated(other))

    assert [[(SENDER, -5.0)], [(SENDER, -6.0)], []] == seen


def test_an_older_reading_does_not_replace_a_newer_one(app, monkeypatch):
    """The maintenance reads what was there before an entry, and ends after it."""
    put(app, SITE, "else@shop.example")
    found, ended = module.lists.versions, threading.Event()

    def set_meanwhile():
        put(app, SITE, SENDER)
        ended.set()

    setter = threading.Thread(target=set_meanwhile)

    def versions(connection):
        read = found(connection)
        if setter.ident is None:
            setter.start()
            # With a lock, the other waits for this one.
            ended.wait(0.2)
        return read

    monkeypatch.setattr(module.lists, "versions", versions)
    put(app, DOMAIN, SENDER)
    setter.join()

    assert [(SENDER, -5.0)] == stated(app)


def test_the_maintenance_looks_for_changes(app, database_url):
    """A change by any process is found within half a second."""
    with running(database_url=database_url) as other:
        lists = LiveLists(other.live, other.recipients.levels)
        upkeep = Maintenance(
            other.live,
            RecentMessages(rows=0, store_words=True),
            Settings(scored_days=1, scored_rows=1, vector_days=0),
            clock=SteadyClock(None),
            on_follow=[lists.refresh],
        )
        put(app, SITE, SENDER)
        upkeep()

    assert 1 == len(lists)


def test_lists_are_there_after_a_start(app, database_url):
    """They are read before the first message."""
    put(app, SITE, SENDER)
    with running(database_url=database_url) as again:
        assert [(SENDER, -5.0)] == stated(again)


def test_lists_go_with_their_profile(app):
    """A profile of the same name begins with none."""
    put(app, ANN, SENDER)
    for _ in delete_profile(app.engine, ANN):
        pass
    app.live.refresh()
    add_profiles(app, ANN)
    app.lists.refresh()

    assert [] == stated(app, ANN)
    assert [] == list_entries(app.engine, ANN)


def test_an_entry_replaces_that_of_its_subject(app):
    """With its note, its expiry, and who set it."""
    put(app, SITE, SENDER, note="new", expires_at=now() + timedelta(days=9))
    put(app, SITE, SENDER.upper(), 7.0)
    (only,) = list_entries(app.engine, SITE)

    assert (7.0, "", None) == (only.nats, only.note, only.expires_at)


def test_entries_are_listed_from_a_place_on(app):
    """By kind and value."""
    texts = ("b@example.org", "a@example.org", "example.net", "192.0.2.1")
    for each in texts:
        put(app, SITE, each)
    first = list_entries(app.engine, SITE, limit=2)
    rest = list_entries(app.engine, SITE, after=first[-1].subject)

    assert ["a@example.org", "b@example.org"] == [str(x.subject) for x in first]
    assert ["example.net", "192.0.2.1/32"] == [str(x.subject) for x in rest]


def test_too_many_entries_are_refused_whole(app, monkeypatch):
    """Nothing of them is stored."""
    monkeypatch.setattr("app.access.lists.MAX_ENTRIES", 1)
    put(app, SITE, SENDER)
    with pytest.raises(InvalidInput, match="1 entries at most"):
        put(app, SITE, BOB)

    assert [SENDER] == [str(each.subject) for each in list_entries(app.engine, SITE)]


def test_what_is_not_there_cannot_be_removed(app):
    """Nor has an unknown profile lists."""
    with pytest.raises(UnknownEntry, match="have no entry"):
        app.remove_list_entry(SITE, ListSubject.parse(SENDER), actor="x")
    with pytest.raises(UnknownProfile):
        put(app, "nobody", SENDER)
    with pytest.raises(UnknownProfile):
        list_entries(app.engine, "nobody")


@pytest.mark.parametrize("spoilt", [{"nats": 0.0}, {"value": "192.0.2.x"}])
def test_a_spoilt_list_counts_for_nothing(app, caplog, spoilt):
    """Those of the others count, and mail is scored."""
    put(app, DOMAIN, SENDER)
    put(app, ANN, "192.0.2.1")
    with writing(app.engine) as connection:
        ours = list_entry.c.kind == "network"
        connection.execute(update(list_entry).where(ours).values(**spoilt))
    put(app, ANN, SENDER, 5.0)

    assert [(SENDER, -5.0)] == stated(app, ANN)
    assert "cannot be read and are ignored" in caplog.text


@on_sqlite
def test_changes_are_events(app):
    """With who made them."""
    put(app, ANN, SENDER)
    app.remove_list_entry(ANN, ListSubject.parse(SENDER), actor="user:dora")
    removed, put_ = list_events(app.engine, limit=2)

    assert ("list entry removed", "user:dora", ANN) == (
        removed.act,
        removed.who,
        removed.object,
    )
    assert ("list entries set", "user:carl", {"number": 1}) == (
        put_.act,
        put_.who,
        {"number": put_.details["number"]},
    )
    assert [f"allow {SENDER} -5"] == put_.details["entries"]
