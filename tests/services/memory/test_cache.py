"""Profiles are loaded when somebody asks for them, and leave when nobody does."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from app.doors.serving.threads import computing
from app.errors import DatabaseUnavailable, ProfileLoading, UnknownProfile
from app.features.observation import parse_id
from app.ledger.undo import Selection
from app.services import cache
from app.services.cache import LiveProfiles
from app.services.profiles import delete_profile, learned
from app.services.startup import specify
from app.settings import Settings
from app.storage import tables
from app.storage.database.engine import reading
from app.storage.fold import folded_revision
from tests.support.application import add_profiles, maintain, running, teach
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

ANN, BOB = "ann@example.org", "bob@example.org"
TAUGHT = 24


def fill(app, *names):
    """Make profiles, and teach each some mail, by other words than the others."""
    add_profiles(app, *names)
    for name in names:
        for n in range(TAUGHT):
            teach(app, ham(n) + name.encode(), "ham", name)
            teach(app, spam(n) + name.encode(), "spam", name)


def in_memory(live):
    """Return the names of the profiles whose counts are in memory."""
    return [each.row.name for each in live if each.live is not None]


def drop(app, name):
    """Have the counts of a profile leave the memory."""
    app.live.find(name).used = -1e9
    app.live.idle = 1.0  # not in an hour: now
    app.live.drop_idle()


def verdict(app, name):
    """Return what a profile answers, as far as it depends on what was learned."""
    found = app.classify(name, spam(99), strongest=3)
    return found.profile, found.revision, found.verdict.log_odds


@pytest.fixture(scope="module")
def taught_site(tmp_path_factory):
    """A database in which two profiles beside the site's have learned."""
    folder = tmp_path_factory.mktemp("site")
    with running(database_url=sqlite_url(folder)) as app:
        fill(app, ANN, BOB)
        known = verdict(app, ANN), verdict(app, BOB)
    return folder, known


@pytest.fixture
def site(taught_site, tmp_path):
    """The URL of a copy of it, and what the two profiles answered."""
    folder, known = taught_site
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.glob("*.db")
    return f"sqlite:///{file}", known


@pytest.fixture
def app(site):
    """An application over that database, whose maintenance is made by hand."""
    url, _ = site
    with running(database_url=url) as app:
        app.scheduler.stop()
        yield app


def test_a_start_loads_the_profile_of_the_site_alone(app):
    """Only the site profile is loaded, but all profiles are known."""
    assert ["default"] == in_memory(app.live)
    assert [ANN, BOB, "default"] == [each.row.name for each in app.live]


def test_a_profile_answers_as_it_did_in_the_memory_of_another_process(app, site):
    """The scores agree bit for bit, and only the requested profile is loaded."""
    assert site[1][0] == verdict(app, ANN)
    assert [ANN, "default"] == in_memory(app.live)


def test_what_was_dropped_answers_as_before(app):
    """The scores agree bit for bit, also after feedback."""
    before = verdict(app, ANN)
    drop(app, ANN)
    without = in_memory(app.live)
    after = verdict(app, ANN)
    teach(app, spam(99), "spam", ANN)
    taught = verdict(app, ANN)
    drop(app, ANN)

    assert ["default"] == without
    assert before == after
    assert before != taught
    assert taught == verdict(app, ANN)


def test_what_comes_and_goes_at_each_request_fills_no_log(app, caplog):
    """Each profile is logged when it comes and when it goes, once a minute."""
    caplog.set_level(logging.INFO)
    for _ in range(3):
        for name in (ANN, BOB):
            verdict(app, name)
            drop(app, name)
    lines = [line for line in caplog.messages if "the profile '" in line]

    assert [ANN, ANN, BOB, BOB] == [line.split("'")[1] for line in lines]
    assert ["was loaded in", "was dropped from"] * 2 == [
        " ".join(line.split()[3:6]) for line in lines
    ]


def test_the_profile_of_the_site_stays(app):
    """It stays loaded, however long it is unused."""
    drop(app, "default")

    assert ["default"] == in_memory(app.live)


def test_many_first_requests_load_a_profile_once(app, monkeypatch):
    """All requests get an answer from the one profile."""
    loads, answers, go = [], [], threading.Event()

    def load(engine, row, *rest):
        loads.append(row.name)
        go.wait()
        return loaded(engine, row, *rest)

    loaded = cache.load
    monkeypatch.setattr(cache, "load", load)
    asking = [
        threading.Thread(target=lambda: answers.append(verdict(app, ANN)))
        for _ in range(8)
    ]
    for each in asking:
        each.start()
    go.set()
    for each in asking:
        each.join()

    assert [ANN] == loads
    assert 8 == len(answers)
    assert 1 == len(set(answers))


def test_what_somebody_still_uses_is_not_loaded_beside_it(app):
    """A lesson on its way learns in the profile that the next request gets."""
    used = app.live.get(ANN)
    drop(app, ANN)
    again = app.live.get(ANN)
    teach(app, spam(99), "spam", ANN)

    assert used is again
    assert 2 * TAUGHT + 1 == used.revision


def test_what_is_dropped_while_it_is_used_follows_the_ledger(app, site):
    """Another process may teach it in the meantime."""
    used = app.live.get(ANN)
    drop(app, ANN)
    with running(database_url=site[0]) as other:
        teach(other, spam(99), "spam", ANN)
    app.live.refresh()

    assert 2 * TAUGHT + 1 == used.revision


def test_feedback_to_a_profile_that_was_dropped_is_learned(app):
    """It is scored first by what the profile knew, and nothing is lost."""
    before = verdict(app, ANN)
    drop(app, ANN)
    taught = teach(app, spam(99), "spam", ANN)
    maintain(app)
    with reading(app.engine) as connection:
        folded = folded_revision(connection, app.live.find(ANN).row.id)

    assert before[2] == taught.verdict_before.log_odds
    assert 2 * TAUGHT + 1 == taught.revision == folded
    assert TAUGHT + 1 == learned(app.live.find(ANN))["spam"]


def test_profiles_have_a_bound_of_memory(app):
    """The least recently used are unloaded, but not the site's or the last one."""
    live = LiveProfiles(app.engine, specify(app.settings), site="default", most_bytes=1)
    live.refresh()
    found = []
    for name in ("default", ANN, BOB, ANN):
        live.load(name)
        found.append(in_memory(live))
    # Two profiles of as many messages differ by a few features.
    one = live.nbytes + 1000
    roomy = LiveProfiles(
        app.engine, specify(app.settings), site="default", most_bytes=one
    )
    roomy.refresh()
    for name in ("default", ANN, BOB):
        roomy.load(name)

    assert [["default"], [ANN, "default"], [BOB, "default"], [ANN, "default"]] == found
    assert [BOB, "default"] == in_memory(roomy)
    assert one >= roomy.nbytes > 0
    live.close()
    roomy.close()


class Library:
    """A C library that counts how often free memory is returned."""

    returned = 0

    def malloc_trim(self, pad):
        """Return it."""
        assert 0 == pad
        self.returned += 1


def test_memory_that_a_load_made_free_is_returned(app, monkeypatch):
    """Once, at the next look for idle profiles, though that drops none."""
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    app.live.most_bytes = 1
    returned = []
    for name in (ANN, BOB):
        app.live.load(name)
        for _ in range(2):
            app.live.drop_idle()
        returned.append(library.returned)

    assert [0, 1] == returned


def test_what_grows_over_the_bound_leaves_too(app):
    """By what it learns, not by a request."""
    live = app.live
    live.get_all([ANN, BOB])
    live.most_bytes = live.nbytes - 1  # as if both had learned more
    live.drop_idle()

    assert [BOB, "default"] == in_memory(live)


def test_no_lesson_is_lost_where_profiles_come_and_go(app):
    """Each request drops the profile of the other one, and the sums are the same."""
    app.live.most_bytes = 1

    def act(first):
        for n in range(first, first + 20):
            for name in (ANN, BOB):
                teach(app, spam(n), "spam", name)
                verdict(app, name)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(act, (100, 200, 300)))
    fresh = LiveProfiles(app.engine, specify(app.settings))
    fresh.refresh()
    for name in (ANN, BOB):
        here, there = app.live.load(name).snapshot, fresh.load(name).snapshot

        assert 2 * TAUGHT + 60 == here.revision == there.revision
        assert here.messages.tolist() == there.messages.tolist()
        assert here.tables["words"].flatten() == there.tables["words"].flatten()
    fresh.close()


def away(monkeypatch):
    """Have no profile loaded, as if the database were away."""

    def load(*_):
        msg = "the database is unavailable"
        raise DatabaseUnavailable(msg)

    monkeypatch.setattr(cache, "load", load)


def asked_in_a_loop(app, *recipients):
    """Return the profile that answers about a message at a door."""

    def together():
        found = app.delivery.together(recipients, spam(99), strongest=1, door="test")
        return found.classified.profile

    def answer():
        asked = app.delivery.address(recipients)
        found = app.delivery.answer(asked, spam(99), strongest=1, door="test")
        return found.classified.profile

    async def ask():
        return await computing(together, 0), await computing(answer, 0)

    return asyncio.run(ask())


def test_the_profile_of_the_site_answers_while_one_cannot_be_loaded(app, monkeypatch):
    """Requests for recipients are answered; those that name the profile fail."""
    with monkeypatch.context() as outage:
        away(outage)
        answered = asked_in_a_loop(app, ANN)
        for act in (verdict, lambda *_: teach(app, ham(1), "ham", ANN)):
            with pytest.raises(DatabaseUnavailable, match="is unavailable"):
                act(app, ANN)
    still = asked_in_a_loop(app, ANN)
    app.live.refresh()

    assert ("default", "default") == answered == still
    assert (ANN, ANN) == asked_in_a_loop(app, ANN)


def test_nobody_waits_for_ever_for_a_profile(app, monkeypatch):
    """The profile is loaded after the request gave up, and then answers."""
    go = threading.Event()

    def load(*given):
        go.wait()
        return loaded(*given)

    loaded = cache.load
    monkeypatch.setattr(cache, "load", load)
    app.live.patience = 0.0  # not five seconds
    with pytest.raises(ProfileLoading, match="is being loaded; try again"):
        verdict(app, ANN)
    late = asked_in_a_loop(app, ANN)
    go.set()
    app.live.load(ANN)

    assert ("default", "default") == late
    assert (ANN, ANN) == asked_in_a_loop(app, ANN)


def test_a_service_that_stops_lets_nobody_wait_for_a_profile(app, monkeypatch):
    """Neither who waits for one that is not begun, nor who comes later."""
    go, begun = threading.Event(), threading.Event()

    def load(*given):
        begun.set()
        go.wait()
        return loaded(*given)

    def shutdown(self, *, cancel_futures):
        # The first profile is still loading when the second is cancelled.
        ended(self, wait=False, cancel_futures=cancel_futures)
        go.set()
        ended(self)

    loaded, ended = cache.load, ThreadPoolExecutor.shutdown
    monkeypatch.setattr(cache, "load", load)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    app.live.patience = 0.0  # not five seconds
    waiting = []
    for name in (ANN, BOB):
        with pytest.raises(ProfileLoading) as raised:
            app.live.get(name)
        waiting.append(raised.value.ended)
    begun.wait()
    app.live.close()

    assert [True, True] == [each.done() for each in waiting]
    assert ANN == waiting[0].result().row.name
    assert waiting[1].result() is None
    with pytest.raises(DatabaseUnavailable, match="is stopping"):
        app.live.get(BOB)


def test_no_profile_is_loaded_in_an_event_loop(app):
    """The caller gets a future, for which `computing` waits."""

    async def ask():
        with pytest.raises(ProfileLoading) as raised:
            app.live.get(ANN)
        await computing(partial(app.live.get, ANN), 0)
        return raised.value.ended.result()

    assert asyncio.run(ask()) is app.live.get(ANN)


def test_two_profiles_of_one_message_are_there_together(app):
    """Though there is room for one: what was loaded for it stays until it is done."""
    app.live.most_bytes = 1
    asked = app.delivery.address([ANN, BOB])
    answer = partial(app.delivery.answer, asked, spam(9), strongest=1, door="test")
    found = asyncio.run(computing(answer, 0))

    assert [ANN, BOB] == [each.profile for each in found.recipients.values()]


def test_the_profiles_that_may_object_are_there_before_a_message_is_counted(app):
    """A message that is asked again after they are loaded is one message still."""
    for name in ("default", ANN, BOB):
        app.change_policy(name, {"quarantine_from": 3.0})
    for n in range(TAUGHT):
        teach(app, ham(n), "ham")
        teach(app, spam(n), "spam")
    before = app.tally.counts("postbayes_classified", "decision").get("spam", 0)
    together = partial(
        app.delivery.together, [ANN, BOB], spam(99), strongest=1, door="test"
    )
    found = asyncio.run(computing(together, 0))

    assert "quarantine" == found.action
    assert 3 == app.tally.counts("postbayes_classified", "decision")["spam"] - before


def test_a_message_is_found_by_its_id_without_the_counts(app):
    """They are loaded once it is explained."""
    digest = parse_id(spam_id(app))
    stored = app.recall.look_up(ANN, digest)
    without = in_memory(app.live)
    explained = app.history.stored(digest, profile=ANN, strongest=1)

    assert stored.learned
    assert stored.evidence is not None
    assert ["default"] == without
    assert 1 == len(explained)
    assert ANN == explained[0].now.profile


def spam_id(app):
    """Return the id of a message that Ann's profile has learned."""
    with reading(app.engine) as connection:
        key = tables.ledger.c.profile_id == app.live.find(ANN).row.id
        row = connection.execute(tables.ledger.select().where(key)).first()
    return row.digest.hex()


def test_an_undo_needs_no_counts(app):
    """What is in memory follows, and what is not is right when it is loaded."""
    verdict(app, BOB)
    for name in (ANN, BOB):
        ids = frozenset({parse_id(spam_id(app))}) if name == ANN else frozenset()
        asked = Selection(ids=ids, source=None if ids else "test")
        confirm = app.undo.forecast(name, asked).confirm
        app.undo(name, asked, source="test", confirm=confirm)

    assert [BOB, "default"] == in_memory(app.live)
    assert 2 * TAUGHT - 1 == sum(learned(app.live.find(ANN)).values())
    assert 0 == sum(learned(app.live.find(BOB)).values())
    assert 2 * TAUGHT - 1 == app.live.get(ANN).snapshot.messages.sum()


def test_a_profile_that_is_gone_is_unknown_while_it_is_loaded(app, monkeypatch):
    """Nobody finds it after the loading either."""

    def load(*_):
        raise UnknownProfile.named(ANN)

    monkeypatch.setattr(cache, "load", load)
    with pytest.raises(UnknownProfile):
        verdict(app, ANN)


@pytest.mark.parametrize("loaded", [True, False])
def test_a_profile_in_the_place_of_a_deleted_one_is_another(app, loaded):
    """Even if the process has not noticed its end."""
    app.create_profile("new", labels=("ham", "spam"), spam_labels=("spam",))
    if loaded:
        app.live.get("new")
    list(delete_profile(app.engine, "new"))
    app.create_profile("new", labels=("ham", "list", "spam"), spam_labels=("spam",))

    assert ("ham", "list", "spam") == app.live.find("new").row.labels
    assert 3 == app.live.get("new").specification.n_classes


def test_settings_that_are_read_again_count_for_all(app):
    """They apply to loaded profiles, and to those loaded later."""
    app.live.get(BOB)
    strict = Settings(ham_cost=1e6)
    app.live.respecify(specify(strict))
    thresholds = {
        round(app.live.find(name).specification.verdict.spam_threshold, 3)
        for name in (ANN, BOB, "default")
    }
    loaded = app.live.get(ANN).specification.verdict.spam_threshold

    assert {13.816} == thresholds
    assert 13.816 == round(loaded, 3)
