"""What was scored lately is in memory, as long and as much as it may be."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.services import recent as module
from app.services.recent import RecentMessages
from app.storage import scored
from app.storage.database.engine import reading
from tests.support.builders import new_profile, observed

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
FOREVER = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


@pytest.fixture
def profile(engine):
    """A profile that scores."""
    return new_profile(engine)


def add(recent, profile, *names, time=NOON):
    """Leave some messages of three features each, and return their digests."""
    seen = [observed(name, {f"{name}{n}": 1 for n in range(3)}) for name in names]
    for one in seen:
        recent.add(profile.id, one, time)
    return [one.digest for one in seen]


def at_hand(recent, profile, digests):
    """Tell which of some messages are in memory."""
    return [recent.get(profile.id, digest) is not None for digest in digests]


def test_what_is_written_is_the_same_in_memory_and_in_the_database(engine, profile):
    """Features, words and time agree before and after the write."""
    recent = RecentMessages(rows=9, store_words=True)
    (digest,) = add(recent, profile, "a")
    waiting = recent.get(profile.id, digest)
    recent.flush(engine)
    written = recent.get(profile.id, digest)
    with reading(engine) as connection:
        stored = scored.get_many(connection, profile.id, [digest]).get(digest)

    assert stored == waiting == written
    assert written.decoded == waiting.decoded
    assert 0 == recent.flush(engine)


def test_without_words_none_are_in_memory(engine, profile):
    """Memory holds no words, before and after the write."""
    recent = RecentMessages(rows=9, store_words=False)
    (digest,) = add(recent, profile, "a")
    waiting = recent.get(profile.id, digest)
    recent.flush(engine)

    assert waiting.encoded_names is None
    assert recent.get(profile.id, digest).encoded_names is None


def test_no_more_stays_than_the_database_keeps(engine, profile):
    """The limits are number, age, and the existing profiles."""
    recent = RecentMessages(rows=3, store_words=True)
    old = add(recent, profile, "a", "b", time=NOON - timedelta(days=1))
    new = add(recent, profile, "c", "d")
    recent.flush(engine)
    kept_by_number = at_hand(recent, profile, [*old, *new])
    recent.forget(before=NOON, profiles={profile.id})
    kept_by_age = at_hand(recent, profile, [*old, *new])
    recent.forget(before=FOREVER, profiles={profile.id + 1})
    kept_of_others = at_hand(recent, profile, [*old, *new])

    assert [False, True, True, True] == kept_by_number
    assert [False, False, True, True] == kept_by_age
    assert [False] * 4 == kept_of_others


def test_what_waits_for_the_database_is_not_forgotten(profile):
    """It has not been written, so nothing is known of what the database keeps."""
    recent = RecentMessages(rows=9, store_words=True)
    digests = add(recent, profile, "a")
    recent.forget(before=NOON + timedelta(days=1), profiles=())

    assert [True] == at_hand(recent, profile, digests)


def test_while_the_database_is_away_memory_does_not_grow(profile, monkeypatch):
    """The oldest are dropped; a long message replaces many short ones."""
    monkeypatch.setattr(module, "FEATURES", 10)
    recent = RecentMessages(rows=9, store_words=True)
    digests = add(recent, profile, "a", "b", "c", "d")
    some = at_hand(recent, profile, digests)
    recent.add(profile.id, observed("e", {f"e{n}": 1 for n in range(10)}), NOON)

    assert [False, True, True, True] == some
    assert [False] * 4 == at_hand(recent, profile, digests)


def test_what_is_written_has_a_limit_in_bytes(engine, profile, monkeypatch):
    """The newest stay; three features take an id and a count of 8 bytes each."""
    recent = RecentMessages(rows=9, store_words=True)
    (digest,) = add(recent, profile, "a")
    row = recent.get(profile.id, digest)
    size = len(row.vector) + len(row.encoded_names) + 3 * 2 * 8
    monkeypatch.setattr(module, "WRITTEN_BYTES", 2 * size)
    recent = RecentMessages(rows=9, store_words=True)
    digests = add(recent, profile, "a", "b", "c")
    recent.flush(engine)

    assert [False, True, True] == at_hand(recent, profile, digests)


class Slow(dict):
    """Features in whose encoding something else happens."""

    def __iter__(self):
        """Give the names of the views, after that."""
        self.meanwhile()
        return super().__iter__()


def test_what_is_scored_again_while_it_is_written_is_written_again(engine, profile):
    """It is kept, with the later time, by which it expires."""
    recent = RecentMessages(rows=9, store_words=True)
    seen = observed("a", {"x": 1})
    views = Slow(seen.views)
    later = NOON + timedelta(hours=1)
    views.meanwhile = lambda: recent.add(profile.id, seen, later)
    recent.add(profile.id, replace(seen, views=views), NOON)
    flushed = [recent.flush(engine) for _ in range(3)]
    with reading(engine) as connection:
        stored = scored.get_many(connection, profile.id, [seen.digest]).get(seen.digest)

    assert [1, 1, 0] == flushed
    assert later == stored.time


@pytest.mark.parametrize(("features", "parts"), [(6, [2, 2, 1]), (1, [1] * 5)])
def test_large_messages_are_written_a_few_at_a_time(
    engine, profile, monkeypatch, features, parts
):
    """Feedback waits for each transaction; one message is written however large."""
    monkeypatch.setattr(module, "FLUSH_FEATURES", features)
    sizes = []
    put_many = scored.put_many

    def counted(connection, profile_id, rows):
        sizes.append(len(rows))
        put_many(connection, profile_id, rows)

    monkeypatch.setattr(scored, "put_many", counted)
    recent = RecentMessages(rows=9, store_words=True)
    digests = add(recent, profile, *"abcde")
    recent.flush(engine)

    assert parts == sizes
    with reading(engine) as connection:
        assert set(digests) == scored.get_many(connection, profile.id, digests).keys()


def test_what_is_to_be_forgotten_is_dropped_from_memory(engine, profile):
    """It is dropped before and after the write, and other messages stay."""
    recent = RecentMessages(rows=9, store_words=True)
    digests = add(recent, profile, "a", "b", "c")
    recent.drop(profile.id, digests[0])
    recent.flush(engine)
    recent.drop(profile.id, digests[1])

    assert [False, False, True] == at_hand(recent, profile, digests)


def test_what_is_forgotten_while_it_is_written_does_not_come_back(engine, profile):
    """The write that had begun neither stores it nor puts it into memory again."""
    recent = RecentMessages(rows=9, store_words=True)
    seen = observed("a", {"x": 1})
    views = Slow(seen.views)
    views.meanwhile = lambda: recent.drop(profile.id, seen.digest)
    recent.add(profile.id, replace(seen, views=views), NOON)
    recent.flush(engine)
    with reading(engine) as connection:
        stored = scored.get_many(connection, profile.id, [seen.digest])

    assert [False] == at_hand(recent, profile, [seen.digest])
    assert {} == stored


@pytest.mark.parametrize("written", [False, True])
def test_what_another_process_forgets_stays_only_if_scored_later(
    engine, profile, written
):
    """It is forgotten as it was at that time."""
    recent = RecentMessages(rows=9, store_words=True)
    before = add(recent, profile, "a", time=NOON - timedelta(hours=1))
    after = add(recent, profile, "b", time=NOON + timedelta(hours=1))
    if written:
        recent.flush(engine)
    for digest in before + after:
        recent.drop(profile.id, digest, upto=NOON)

    assert [False, True] == at_hand(recent, profile, before + after)
