"""Correspondents: who is counted, who is known, and what stays unknown."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b

import pytest

from app.access.rights import Principal, Right
from app.classifier.statement import UNKNOWN, identity_digest
from app.errors import DatabaseUnavailable, Forbidden, InvalidInput, InvalidSetting
from app.mail.authentication import VerifiedSender
from app.mail.parse import parse
from app.services import correspondents
from app.services.access import list_events
from app.services.application import Application
from app.services.clock import now
from app.services.correspondents import (
    CAPACITY,
    MOST_NEW,
    MOST_RECIPIENTS,
    Correspondents,
    forget_correspondent,
    list_correspondents,
)
from app.services.profiles import delete_profile
from app.settings import Settings
from app.storage import lists as storage
from tests.support.application import add_profiles, running

SERVER = "mx.example.org"
ANN = "ann@example.org"
CARL = VerifiedSender("carl@friends.example", "friends.example")


@pytest.fixture
def app(database_url):
    """An application that believes one server, with a profile of Ann's."""
    with running(database_url=database_url, authserv_id=(SERVER,)) as app:
        add_profiles(app, ANN)
        yield app


def another(app, **more):
    """Return the correspondents of another process on the database."""
    given = {"believed": (SERVER,), "clock": now, **more}
    return Correspondents(app.live, app.recipients, **given)


def write(known, *recipients, sender=ANN, **more):
    """Send a message, and return for how many people it counts."""
    return known.sent(sender, recipients or (CARL.address,), **more)


def statement(known, sender, profile):
    """Return what is stated about a sender; None if nothing is."""
    return next(iter(known.statements(sender, profile)), None)


def nats(known, profile=ANN, sender=CARL):
    """Return the nats of what is known."""
    found = statement(known, sender, profile)
    return 0.0 if found is None else found.nats


def test_a_verdict_of_a_domain_names_it_as_the_writer(app):
    """Its reader may not have written to the sender."""
    add_profiles(app, "example.org")
    write(app.correspondents)

    found = statement(app.correspondents, CARL, "example.org")

    assert "example.org has written to this address once" == found.text


def test_whom_a_user_writes_to_is_known(app):
    """The user's mail counts in full, and that of other users half."""
    known = app.correspondents
    for _ in range(4):
        assert 1 == write(known)
    own, of_site = (statement(known, CARL, each) for each in (ANN, "default"))

    assert ("people", CARL.address) == (own.kind, own.name)
    assert "you have written to this address 4 times" == own.text
    assert "this site has written to this address 4 times" == of_site.text
    assert own.nats == of_site.nats == pytest.approx(-3.219, abs=1e-3)
    assert 2 == len(known)
    # Bob's own profile, where he has none, is the site's.
    write(known, "dora@friends.example", sender="bob@example.org")
    dora = VerifiedSender("dora@friends.example", "friends.example")
    assert nats(known, ANN, dora) == pytest.approx(-0.693, abs=1e-3)


@pytest.mark.parametrize("domain", ["bücher.example", "xn--bcher-kva.example"])
def test_a_correspondent_has_one_domain_in_both_spellings(app, domain):
    """Mail servers report either, and so do their results."""
    known = app.correspondents
    assert 1 == write(known, f"JOSE\u0301@{domain}")
    author = b"From: jos\xc3\xa9@b\xc3\xbccher.example\n\nhi"
    result = f"Authentication-Results: {SERVER}; dmarc=pass header.from={domain}\n"
    found = known(parse(result.encode() + author), UNKNOWN)(ANN)

    assert ["josé@bücher.example"] == [each.name for each in found]
    known.flush()
    assert [ANN] == forget_correspondent(
        app.live.engine, app.settings, f"josé@{domain}", profile=ANN, actor="test"
    )


def test_the_digest_of_a_domain_is_that_of_its_encoded_form():
    """Rows from before other letters were read have it."""
    old = blake2b(b"ann@xn--bcher-kva.example", digest_size=16, person=b"correspondent")

    assert old.digest() == identity_digest("ann@bücher.example", None)


def test_nobody_is_known_who_was_not_written_to(app):
    """Another address of the same domain is unknown, too."""
    write(app.correspondents)

    evil = VerifiedSender("evil@friends.example", "friends.example")
    assert statement(app.correspondents, evil, ANN) is None


def test_a_domain_is_known_from_three_addresses_on(app):
    """The evidence is small, and domains of providers do not count."""
    known = app.correspondents
    stranger = VerifiedSender("x@mail.friends.example", "friends.example")
    for number, name in enumerate(("a", "b", "c")):
        assert 0.0 == nats(known, ANN, stranger), number
        write(known, f"{name}@friends.example", f"{name}@gmail.com")
        write(known, f"{name}@friends.example")

    found = statement(known, stranger, ANN)
    assert "friends.example" == found.name
    assert found.nats == pytest.approx(-0.693, abs=1e-3)
    assert "you have written to 3 addresses of friends.example" == found.text
    customer = VerifiedSender("x@gmail.com", "gmail.com")
    assert statement(known, customer, ANN) is None


def test_what_is_written_is_stored_and_other_processes_follow(app):
    """Tables hold digests, and name nobody."""
    other = another(app)
    known = app.correspondents
    write(known)
    known.flush()
    assert 0.0 == nats(other)
    other.follow()

    assert nats(known) == nats(other) == nats(another(app)) < 0
    write(known)
    known.flush()
    known.flush()
    other.follow()
    assert nats(known) == nats(other)
    with app.engine.connect() as connection:
        rows = connection.exec_driver_sql("select * from correspondent").all()
    assert [2, 2] == [row.messages for row in rows]
    assert all(len(row.address) == len(row.domain) == 16 for row in rows)
    assert "carl" not in repr(rows)


def test_what_waits_is_known_after_a_look_at_the_database(app):
    """A count is not lost between two writes."""
    known, other = app.correspondents, another(app)
    write(known)
    known.flush()
    write(known)
    before = nats(known)
    known.follow()
    known.load()

    assert before == nats(known)
    write(other)
    other.flush()
    known.follow()
    known.flush()
    other.follow()
    assert nats(other) == nats(known) < before


def test_a_database_that_is_away_loses_nothing(app, monkeypatch):
    """Counts wait, up to a limit."""
    known = app.correspondents

    def away(*_):
        msg = "it is away"
        raise DatabaseUnavailable(msg)

    with monkeypatch.context() as patch:
        patch.setattr("app.storage.lists.add_correspondents", away)
        write(known)
        with pytest.raises(DatabaseUnavailable):
            known.flush()
    known.flush()
    assert nats(known) == nats(another(app)) < 0
    monkeypatch.setattr(correspondents, "CAPACITY", 1)
    assert 0 == write(known)
    assert CAPACITY > 1


def test_the_writing_of_a_deleted_profile_goes_with_it(app):
    """Its waiting counts are dropped."""
    known = app.correspondents
    write(known)
    for _ in delete_profile(app.engine, ANN):
        pass
    known.flush()
    assert [("default", 1)] == [
        (name, each.addresses)
        for name, each in list_correspondents(app.engine, app.settings)
    ]
    app.live.refresh()
    assert 1 == write(known)
    known.flush()


def test_a_profile_that_is_gone_knows_nobody(app, monkeypatch):
    """A message is scored without it, and mail that leaves counts for the others."""
    known = app.correspondents
    raw = f"Authentication-Results: {SERVER}; dmarc=pass header.from=friends.example"
    stated = known(parse(f"{raw}\nFrom: {CARL.address}\n\n".encode()), UNKNOWN)
    with monkeypatch.context() as patch:
        patch.setattr(app.recipients, "line", lambda _: ("gone", "default"))
        assert 1 == write(known)
        patch.setattr(app.recipients, "line", lambda _: ("gone",))
        assert 0 == write(known)

    assert () == stated("gone")
    assert [CARL.address] == [each.name for each in stated("default")]


def test_what_is_counted_while_others_are_stored_waits(app, monkeypatch):
    """For the next time; it is neither lost nor stored twice."""
    known, add = app.correspondents, storage.add_correspondents

    def adding(connection, rows):
        monkeypatch.setattr(storage, "add_correspondents", add)
        write(known)
        add(connection, rows)

    write(known)
    monkeypatch.setattr(storage, "add_correspondents", adding)
    known.flush()
    known.flush()
    counted = [
        each.messages for _, each in list_correspondents(app.engine, app.settings)
    ]

    assert [2, 2] == counted
    assert nats(known) == nats(another(app))


@pytest.mark.parametrize("reading", ["follow", "load"])
def test_what_is_stored_while_others_are_read_is_not_forgotten(
    app, monkeypatch, reading
):
    """What was read before it was stored is older than what is known."""
    known, every = app.correspondents, storage.correspondents_in_parts
    storing = threading.Thread(target=known.flush)

    def while_stored(connection, **since):
        rows = [*every(connection, **since)]
        if storing.ident is None:
            write(known)
            storing.start()
            # It waits for what is read, or is stored by then.
            storing.join(0.5)
        return rows

    write(known)
    known.flush()
    monkeypatch.setattr(storage, "correspondents_in_parts", while_stored)
    getattr(known, reading)()
    storing.join()

    assert nats(known) == nats(another(app))


def test_a_circular_makes_no_correspondents(app):
    """Mail to many recipients proves nothing about each of them."""
    many = [f"u{n}@lists.example" for n in range(MOST_RECIPIENTS + 1)]

    assert 0 == write(app.correspondents, *many)
    assert MOST_RECIPIENTS == write(app.correspondents, *many[1:])


@pytest.mark.parametrize("sender", ["", "<>", " <> "])
def test_the_answer_of_a_program_makes_no_correspondents(app, sender):
    """A receipt or a vacation notice has no sender, and may answer spam."""
    assert 0 == write(app.correspondents, sender=sender, login=ANN)


def test_a_stolen_password_makes_few_friends(app):
    """The number per day is limited; known correspondents still count."""
    known = app.correspondents
    counted = sum(
        write(known, f"v{n}@victims.example", sender="x@example.org", login=ANN)
        for n in range(MOST_NEW + 5)
    )

    assert MOST_NEW == counted
    assert 1 == write(known, "v1@victims.example", login=ANN)
    assert 1 == write(known, "v99@others.example", sender="bob@example.org")
    tomorrow = another(app, clock=lambda: now() + timedelta(days=1))
    assert 1 == write(tomorrow, "w@others.example", login=ANN)


@pytest.mark.parametrize("field", ["login", "sender"])
def test_the_spellings_of_a_user_share_a_day(app, field):
    """A key for one profile may state any sender that has this profile."""
    spellings = (ANN, ANN.upper(), f"<{ANN}>", ANN.replace("@", "+x@"))
    counted = sum(
        write(app.correspondents, f"v{n}@victims.example", **{field: spellings[n % 4]})
        for n in range(MOST_NEW + 5)
    )

    assert MOST_NEW == counted


def test_each_recipient_counts_once(app):
    """The sender does not count, nor does an invalid address."""
    known = app.correspondents
    count = write(
        known, "<Carl@Friends.example>", CARL.address, ANN, "postmaster", sender=ANN
    )

    assert 1 == count
    assert "you have written to this address once" == statement(known, CARL, ANN).text


def test_a_login_counts_for_its_own_profiles(app):
    """The sender that a user states does not matter."""
    write(app.correspondents, login=ANN, sender="boss@example.org")
    write(app.correspondents, "dora@friends.example", login="u17", sender=ANN)
    dora = VerifiedSender("dora@friends.example", "friends.example")

    assert nats(app.correspondents) == nats(app.correspondents, ANN, dora) < -1


def test_time_takes_what_is_known_away(app):
    """Half of the count in half a year; a clock that went back adds nothing."""
    write(app.correspondents)
    app.correspondents.flush()
    later, earlier = (
        another(app, clock=lambda days=days: now() + timedelta(days=days))
        for days in (180, -9)
    )

    assert nats(later) == pytest.approx(-0.811, abs=1e-3)
    assert nats(earlier) == nats(app.correspondents)


def test_the_oldest_go_where_there_are_too_many(app, monkeypatch):
    """A tenth more than needed is removed, and all processes follow."""
    monkeypatch.setattr(correspondents, "MOST_KNOWN", 10)
    known, other = app.correspondents, another(app)
    old = another(app, clock=lambda: now() - timedelta(days=9))
    write(old)
    old.flush()
    for n in range(10):
        write(known, f"u{n}@friends.example")
    known.flush()
    known.follow()
    other.follow()

    assert 18 == len(known) == len(other)
    assert statement(known, CARL, ANN).name == CARL.domain


def test_the_oldest_go_after_a_failure_too(app, monkeypatch):
    """Even if nobody writes to anybody meanwhile."""
    app.scheduler.stop()
    monkeypatch.setattr(correspondents, "MOST_KNOWN", 10)
    known, drop = app.correspondents, storage.drop_oldest_correspondents

    def fail(*given, **named):
        monkeypatch.setattr(storage, "drop_oldest_correspondents", drop)
        msg = "the database is away"
        raise DatabaseUnavailable(msg)

    for n in range(11):
        write(known, f"u{n}@friends.example")
    known.flush()
    monkeypatch.setattr(storage, "drop_oldest_correspondents", fail)
    with pytest.raises(DatabaseUnavailable):
        known.follow()
    known.follow()

    assert 18 == len(known)


def test_an_address_can_be_forgotten(app):
    """It is forgotten everywhere, and the event does not name it."""
    known = app.correspondents
    write(known, CARL.address, "dora@friends.example")
    known.flush()
    found = list_correspondents(
        app.engine, app.settings, address="Carl@friends.example"
    )
    assert [ANN, "default"] == [name for name, _ in found]
    forgot = forget_correspondent(
        app.engine, app.settings, CARL.address, profile=None, actor="test"
    )
    known.follow()

    assert [ANN, "default"] == forgot
    assert 0.0 == nats(known)
    assert 2 == len(known)
    assert [] == list_correspondents(app.engine, app.settings, address=CARL.address)
    one = forget_correspondent(
        app.engine, app.settings, "dora@friends.example", profile=ANN, actor="test"
    )
    assert [ANN] == one
    acts = [(e.act, e.object) for e in list_events(app.engine, limit=9)]
    assert 3 == acts.count(("correspondent forgotten", ANN)) + acts.count(
        ("correspondent forgotten", "default")
    )
    assert "carl" not in repr(list_events(app.engine, limit=9))


def test_forgetting_is_noticed_while_others_are_counted(app, monkeypatch):
    """A busy service forgets as well, and reads all only where it has to."""
    # Without the scheduler, which would store what waits.
    known = another(app)
    write(known)
    known.flush()
    write(known, CARL.address, "dora@friends.example")
    with monkeypatch.context() as patch:
        patch.setattr(known, "load", lambda: pytest.fail("it is read whole"))
        known.follow()
    forget_correspondent(
        app.engine, app.settings, CARL.address, profile=None, actor="test"
    )
    known.follow()

    assert "you have written to this address once" == statement(known, CARL, ANN).text
    known.flush()
    assert [1, 1] == [
        row.messages
        for _, row in list_correspondents(
            app.engine, app.settings, address=CARL.address
        )
    ]


def test_what_is_no_address_is_refused(app):
    """The error is a sentence."""
    with pytest.raises(InvalidInput, match="'carl' is not an address"):
        list_correspondents(app.engine, app.settings, address="carl")


def test_a_key_counts_for_its_profiles(app):
    """The key counts for the profiles that it may teach."""
    known = app.correspondents
    own = Principal("key:ann", frozenset({Right.TEACH}), frozenset({ANN}))
    stranger = Principal("key:eve", frozenset({Right.TEACH}), frozenset({"eve"}))
    write(known, principal=own)

    assert nats(known) < 0.0 == nats(known, "default")
    with pytest.raises(Forbidden, match="may not use the profile"):
        write(known, principal=stranger)
    trap = replace(own, labels=frozenset({"spam"}))
    with pytest.raises(Forbidden, match="limited to some labels, and may not report"):
        write(known, principal=trap)


@pytest.mark.parametrize("off", [{"authserv_id": ()}, {"correspondents": False}])
def test_nothing_is_counted_where_nobody_is_verified(database_url, off):
    """Nothing would use the counts."""
    given = {"authserv_id": (SERVER,), **off}
    with running(database_url=database_url, **given) as app:
        assert 0 == write(app.correspondents)
        app.correspondents.follow()
        assert 0 == len(app.correspondents)
        raw = b"Authentication-Results: mx.example.org; dmarc=pass header.from=b.example\n"
        message = parse(raw + b"From: a@b.example\n\n")
        assert app.correspondents(message, UNKNOWN) is None


def test_a_server_needs_a_name(tmp_path):
    """The start fails, and the error names the setting."""
    url = f"sqlite:///{tmp_path}/p.db"
    with pytest.raises(
        InvalidSetting, match="POSTBAYES_AUTHSERV_ID contains 'mx example'"
    ):
        Application(Settings(database_url=url, authserv_id="mx example"))


def test_digests_are_keyed_where_feature_ids_are(tmp_path):
    """Without the key, nobody can look up an address in the table."""
    given = {
        "database_url": f"sqlite:///{tmp_path}/p.db",
        "store_words": False,
        "authserv_id": (SERVER,),
    }
    stored = []
    for name in ("one", "two"):
        given["database_url"] = f"sqlite:///{tmp_path}/{name}.db"
        with running(key_file=tmp_path / f"{name}.key", **given) as app:
            write(app.correspondents)
            app.correspondents.flush()
            given_back = list_correspondents(
                app.engine, app.settings, address=CARL.address
            )
            assert [1] == [each.addresses for _, each in given_back]
            with app.engine.connect() as connection:
                asked = "select address from correspondent"
                stored.append(connection.exec_driver_sql(asked).scalar())

    assert stored[0] != stored[1]
