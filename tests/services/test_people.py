"""People: passwords, sessions and their end, by a clock that the test sets."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from app.access.rights import ALL_RIGHTS, LOCAL, Principal, Right
from app.errors import (
    DatabaseUnavailable,
    Forbidden,
    InvalidInput,
    NameTaken,
    TooManyRequests,
    Unauthenticated,
    UnknownPerson,
)
from app.services.access import LiveKeys, list_events
from app.services.sessions import (
    LONGEST_PASSWORD,
    SKEW,
    Sessions,
    add_person,
    list_people,
    remove_person,
    set_password,
)
from app.storage import access
from app.storage.database.engine import migrate, open_engine
from tests.support.application import running
from tests.support.databases import sqlite_url

pytestmark = pytest.mark.usefixtures("hashed_at_once")
PASSWORD = "correct horse"  # noqa: S105  of a test
HOUR = 3600.0


class Clock:
    """A clock that stands until it is moved."""

    now = 1_000_000.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def engine(tmp_path):
    """A migrated database."""
    engine = open_engine(sqlite_url(tmp_path))
    migrate(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def clock():
    """The time of the sessions."""
    return Clock()


@pytest.fixture
def keys(engine):
    """People in memory, of whom there is ann."""
    add_person(
        engine, "ann", role="teacher", password=PASSWORD, profile="ann", actor="test"
    )
    keys = LiveKeys(engine)
    keys.refresh()
    return keys


@pytest.fixture
def sessions(engine, keys, clock):
    """Sessions of an hour, and of a day in all."""
    return Sessions(keys, idle=HOUR, most=24 * HOUR, clock=clock, steady=clock)


def name(found):
    """Return who asks, and whether the cookie is to be replaced."""
    return None if found is None else (found[0].name, found[1] is not None)


def test_whoever_knows_the_password_has_a_session(sessions):
    """With the rights of the role, and those to the lists of the only profile."""
    principal, _ = sessions.find(sessions.sign_in("ann", PASSWORD, host="192.0.2.1"))

    assert "user:ann" == principal.name
    assert "person" == principal.kind
    assert {"classify", "lists", "read", "teach"} == principal.rights
    assert {"ann"} == principal.profiles


@pytest.mark.parametrize(
    ("who", "password"), [("ann", "wrong"), ("ann", ""), ("bob", PASSWORD), ("", "")]
)
def test_nobody_else_has_one(sessions, who, password):
    """The sentence does not say which of the two is wrong."""
    with pytest.raises(Unauthenticated, match="the name or the password is wrong"):
        sessions.sign_in(who, password, host="192.0.2.1")


def test_a_longer_password_is_another(engine, keys, sessions):
    """Only its beginning is hashed, so that a page of text costs no more."""
    longest = "a" * LONGEST_PASSWORD
    add_person(engine, "eve", role="reader", password=longest, actor="test")
    keys.refresh()

    assert sessions.sign_in("eve", longest, host=None)
    with pytest.raises(Unauthenticated):
        sessions.sign_in("eve", longest + "a", host=None)


@pytest.fixture
def costlier(monkeypatch):
    """A later version, whose hashes cost more."""
    hasher = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    return lambda: monkeypatch.setattr("app.services.sessions._HASHER", hasher)


def test_a_hash_of_another_cost_is_renewed_once(engine, sessions, costlier):
    """The password stays, and the session that renews it is valid."""
    before = sessions.sign_in("ann", PASSWORD, host=None)
    costlier()
    cookies = [sessions.sign_in("ann", PASSWORD, host=None) for _ in "12"]
    (ann,) = list_people(engine)

    assert [None, *[("user:ann", False)] * 2] == [
        name(sessions.find(cookie)) for cookie in (before, *cookies)
    ]
    assert "t=2" in ann.password
    assert 2 == ann.revision


def test_a_hash_is_not_renewed_over_another_password(engine, keys, sessions, costlier):
    """Another process may have changed it a moment ago, which ends the session."""
    set_password(engine, "ann", "another horse", actor="test")
    costlier()
    cookie = sessions.sign_in("ann", PASSWORD, host=None)
    keys.refresh()

    assert sessions.find(cookie) is None
    assert sessions.sign_in("ann", "another horse", host=None)


def test_a_hash_that_cannot_be_renewed_keeps_nobody_out(
    sessions, costlier, monkeypatch
):
    """A disk may be full while people look for the reason."""

    def full(*_):
        raise DatabaseUnavailable("the disk is full")

    costlier()
    monkeypatch.setattr(access, "renew_password", full)
    cookie = sessions.sign_in("ann", PASSWORD, host=None)

    assert ("user:ann", False) == name(sessions.find(cookie))


def test_somebody_without_a_password_signs_in_elsewhere(engine, keys, sessions):
    """A proxy vouches for them; no password is theirs."""
    add_person(engine, "eve", role="reader", password=None, actor="test")
    keys.refresh()

    with pytest.raises(Unauthenticated):
        sessions.sign_in("eve", "", host=None)
    assert "user:eve" == sessions.named("eve").name
    assert sessions.named("nobody") is None


def test_a_session_ends_when_nothing_comes_and_after_a_day(sessions, clock):
    """A page in between gives it another cookie."""
    cookie = sessions.sign_in("ann", PASSWORD, host=None)
    begun = clock.now
    clock.now += 60
    young = name(sessions.find(cookie))
    clock.now += HOUR - 60
    old = sessions.find(cookie)
    clock.now += 1
    gone = sessions.find(cookie)
    later = old[1]
    while clock.now + HOUR / 2 < begun + 24 * HOUR:
        clock.now += HOUR / 2
        later = sessions.find(later)[1]
    clock.now = begun + 24 * HOUR

    assert ("user:ann", False) == young
    assert ("user:ann", True) == name(old)
    assert gone is None
    assert sessions.find(later) is None


@pytest.mark.parametrize("end", ["password", "removal", "change of the role"])
def test_a_change_of_the_person_ends_the_session(engine, keys, sessions, end):
    """In each process, as soon as it follows."""
    cookie = sessions.sign_in("ann", PASSWORD, host=None)
    if end == "password":
        set_password(engine, "ann", "another horse", actor="test")
    else:
        remove_person(engine, "ann", actor="test")
    if end == "change of the role":
        add_person(engine, "ann", role="admin", password=PASSWORD, actor="test")
    keys.refresh()

    assert sessions.find(cookie) is None


def test_another_password_of_ones_own_ends_all_sessions_but_a_new_one(
    engine, keys, sessions
):
    """Who knows the present one; another process follows."""
    cookies = [sessions.sign_in("ann", PASSWORD, host=None) for _ in range(2)]
    ann, _ = sessions.find(cookies[0])
    with pytest.raises(Unauthenticated):
        sessions.change_password(ann, "wrong", "another horse", host=None)
    with pytest.raises(InvalidInput, match="got 5"):
        sessions.change_password(ann, PASSWORD, "short", host=None)
    before = [sessions.find(each) is None for each in cookies]
    new = sessions.change_password(ann, PASSWORD, "another horse", host=None)
    elsewhere = LiveKeys(engine)
    elsewhere.refresh()
    with pytest.raises(Unauthenticated):
        sessions.sign_in("ann", PASSWORD, host=None)

    assert [False, False] == before
    assert [None, None] == [sessions.find(each) for each in cookies]
    assert ("user:ann", False) == name(sessions.find(new))
    assert keys.people == elsewhere.people
    assert ("user:ann", "password changed") in [
        (each.who, each.act) for each in list_events(engine, before=None, limit=9)
    ]


@pytest.mark.parametrize("who", ["a key", "a client without one", "one of a proxy"])
def test_a_password_is_a_persons(engine, keys, sessions, who):
    """And of one who signs in with it."""
    add_person(engine, "eve", role="admin", password=None, actor="test")
    keys.refresh()
    principal = {
        "a key": Principal("key:ann", ALL_RIGHTS),
        "a client without one": LOCAL,
        "one of a proxy": sessions.named("eve"),
    }[who]

    with pytest.raises(Forbidden, match="does not sign in with a password"):
        sessions.change_password(principal, PASSWORD, "another horse", host=None)


def test_guesses_of_the_present_password_are_slowed(sessions):
    """As those of who signs in: a browser that was left open gives no more of them."""
    ann, _ = sessions.find(sessions.sign_in("ann", PASSWORD, host=None))
    for _ in range(4):
        with pytest.raises(Unauthenticated):
            sessions.change_password(ann, "wrong", "another horse", host=None)

    with pytest.raises(TooManyRequests):
        sessions.change_password(ann, PASSWORD, "another horse", host=None)


@pytest.mark.parametrize("cookie", ["", "x", "a.b.c", "é", "." * 99])
def test_what_is_no_cookie_of_ours_is_nobodys(sessions, cookie):
    """Also one with a changed letter."""
    ours = sessions.sign_in("ann", PASSWORD, host=None)

    assert sessions.find(cookie) is None
    # The last letter has bits that no signature has.
    assert (
        sessions.find(ours[:-2] + ("A" if ours[-2] != "A" else "B") + ours[-1]) is None
    )
    assert sessions.find("x" + ours) is None


def test_a_cookie_of_a_host_whose_clock_is_ahead_counts(sessions, clock):
    """By minutes, not by more."""
    cookie = sessions.sign_in("ann", PASSWORD, host=None)
    form = sessions.token("ann")
    clock.now -= SKEW

    assert sessions.find(cookie) is not None
    assert sessions.is_token(form, "ann")
    clock.now -= 2
    assert sessions.find(cookie) is None
    assert not sessions.is_token(form, "ann")


def test_an_address_without_tries_takes_none_of_a_person(sessions):
    """Whoever guesses passwords from there keeps nobody out."""
    for number in range(10):
        with pytest.raises(Unauthenticated):
            sessions.sign_in(f"bob{number}", "wrong", host="192.0.2.1")
    for _ in range(9):
        with pytest.raises(TooManyRequests):
            sessions.sign_in("ann", "wrong", host="192.0.2.1")

    assert sessions.sign_in("ann", PASSWORD, host="198.51.100.1")


def test_tries_are_slowed_by_name_and_by_address(sessions, clock):
    """A right password waits as well; other names from elsewhere do not."""
    for number in range(5):
        with pytest.raises(Unauthenticated):
            sessions.sign_in("ann", "wrong", host=f"192.0.2.{number}")
    with pytest.raises(TooManyRequests, match="wait 30 s"):
        sessions.sign_in("ann", PASSWORD, host="198.51.100.1")
    for number in range(9):
        with pytest.raises(Unauthenticated):
            sessions.sign_in(f"bob{number}", "wrong", host="198.51.100.1")
    with pytest.raises(TooManyRequests):
        sessions.sign_in("carl", "wrong", host="198.51.100.1")
    clock.now += 29.8
    with pytest.raises(TooManyRequests, match="wait 1 s"):
        sessions.sign_in("ann", PASSWORD, host="203.0.113.2")
    clock.now += 1.2

    assert sessions.sign_in("ann", PASSWORD, host="203.0.113.1")


def test_a_form_is_of_the_page_that_was_made_for_somebody(sessions, clock):
    """Of another person or browser it is not."""
    sessions.keys.make_secret()
    token = sessions.token("user:ann 1")

    assert sessions.is_token(token, "user:ann 1")
    assert not sessions.is_token(token, "user:ann 2")
    assert not sessions.is_token("", "user:ann 1")
    assert not sessions.is_token(token[:-1], "user:ann 1")
    clock.now += 24 * HOUR + 1
    assert not sessions.is_token(token, "user:ann 1")


def test_two_processes_sign_with_one_secret(engine, keys, sessions):
    """Whichever makes it, and one that starts later as well."""
    others, later = LiveKeys(engine), LiveKeys(engine)
    other = Sessions(others, idle=HOUR, most=HOUR)
    token = sessions.token("x")
    keys.make_secret()
    others.make_secret()
    others.refresh()
    later.refresh()

    assert "" == token
    assert other.is_token(sessions.token("x"), "x") is False
    assert keys.secret == others.secret == later.secret
    assert 32 == len(keys.secret)


def test_a_secret_that_is_made_during_a_look_for_it_stays(keys, monkeypatch):
    """The look began before it was stored, and must not take it away."""
    look = access.secret

    def before(connection, name):
        found = look(connection, name)
        monkeypatch.setattr(access, "secret", look)
        keys.make_secret()
        return found

    monkeypatch.setattr(access, "secret", before)
    keys.refresh()

    assert 32 == len(keys.secret)


def test_people_are_added_once_and_with_a_role(engine, keys):
    """The sentences say what can be given."""
    given = {"role": "reader", "password": PASSWORD, "actor": "test"}
    with pytest.raises(NameTaken):
        add_person(engine, "ann", **given)
    with pytest.raises(InvalidInput, match="reader, teacher, admin"):
        add_person(engine, "eve", **given | {"role": "boss"})
    with pytest.raises(InvalidInput, match="from 8 to 1,024 characters, got 5"):
        add_person(engine, "eve", **given | {"password": "short"})
    with pytest.raises(InvalidInput, match="a person must have a name"):
        add_person(engine, "e v e", **given)
    with pytest.raises(UnknownPerson):
        remove_person(engine, "eve", actor="test")
    with pytest.raises(UnknownPerson):
        set_password(engine, "eve", PASSWORD, actor="test")

    assert ["ann"] == [each.name for each in list_people(engine)]


@pytest.mark.parametrize(
    ("act", "given", "done"),
    [
        ("add_person", {"role": "reader", "password": None, "actor": "t"}, "is added"),
        ("set_password", {"password": PASSWORD, "principal": LOCAL}, "is set"),
        ("remove_person", {"actor": "t"}, "is removed"),
    ],
)
def test_a_change_that_is_stored_is_told_where_the_database_then_goes_away(
    tmp_path, monkeypatch, act, given, done
):
    """Otherwise the client would take it for undone."""

    def refresh():
        msg = "the database is away"
        raise DatabaseUnavailable(msg)

    with running(database_url=sqlite_url(tmp_path)) as app:
        if act != "add_person":
            app.add_person("zoe", role="reader", password=PASSWORD, actor="t")
        monkeypatch.setattr(app.keys, "refresh", refresh)

        with pytest.raises(DatabaseUnavailable, match=f"{done}, and"):
            getattr(app, act)("zoe", **given)
        monkeypatch.undo()


def test_a_password_of_somebody_who_was_just_added_takes_their_rights(tmp_path):
    """By another process, so that this one does not know them yet."""
    manager = Principal("key:desk", frozenset({Right.MANAGE}))
    with running(database_url=sqlite_url(tmp_path)) as app:
        app.scheduler.stop()
        add_person(app.engine, "zoe", role="admin", password=PASSWORD, actor="test")

        with pytest.raises(Forbidden, match="cannot give the right"):
            app.set_password("zoe", "another horse", principal=manager)
