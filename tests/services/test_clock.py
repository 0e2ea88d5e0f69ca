"""The clock by which mail ages: a jump ahead drops nothing that can be brought back."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from app.ledger.entry import ScoredRow, epoch_of
from app.services import application
from app.services.application import Application
from app.services.clock import JUMP, PROOF, Failures, SteadyClock
from app.services.scheduler import Maintenance
from app.settings import Settings
from app.storage import scored, tables
from app.storage.database.engine import disposing, reading, writing
from app.storage.retention import last_used
from tests.support.application import running, teach
from tests.support.builders import observed
from tests.support.databases import counting
from tests.support.messages import ham, spam

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=200)


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database."""
    return "sqlite"


class Times:
    """A clock and a stopwatch that are set by hand."""

    def __init__(self, used=None, wall=MARCH):
        self.wall, self.ran = wall, 0.0
        self.clock = SteadyClock(used, lambda: self.wall, lambda: self.ran)

    def __call__(self, ahead=timedelta(), ran=timedelta()):
        """Return the time after some time, with the clock set ahead."""
        self.wall += ahead + ran
        self.ran += ran.total_seconds()
        return self.clock()


def test_what_works_again_while_somebody_asks_is_no_error():
    """Several threads ask about one provider; here the clock plays another of them."""
    failures = Failures(lambda: float(failures.resolve("provider")))
    failures.report("provider", "gone")

    assert not failures.pausing("provider")


def test_time_that_passes_is_time():
    """A long pause is not a jump of the clock."""
    assert MARCH + AHEAD == Times()(ran=AHEAD)


def test_a_small_correction_is_believed():
    """The same holds for a correction back."""
    times = Times()

    assert MARCH + JUMP == times(ahead=JUMP)
    assert MARCH - AHEAD == times(ahead=-AHEAD - JUMP)


def test_a_jump_is_believed_after_a_day(caplog):
    """Until then, time continues as before, with one sentence in the log."""
    times = Times()

    assert MARCH == times(ahead=AHEAD)
    assert MARCH + PROOF / 2 == times(ran=PROOF / 2)
    assert MARCH + AHEAD + PROOF == times(ran=PROOF / 2)
    [said] = caplog.messages
    assert "200 days after this service was last used" in said
    assert "Correct the clock" in said


def test_a_clock_that_is_a_month_ahead_is_not_believed():
    """In no month: a whole month of history would be dropped."""
    assert MARCH == Times()(ahead=timedelta(days=28))


def test_a_time_is_proven_by_a_day():
    """After a start, a jump ahead and a jump back."""
    times = Times()
    found = []
    for ahead in (timedelta(), AHEAD, -AHEAD):
        times(ahead=ahead)
        found.append(times.clock.proven)
        times(ran=PROOF)
        found.append(times.clock.proven)

    assert [False, True] * 3 == found


def test_a_clock_that_is_corrected_in_time_has_changed_nothing():
    """Later times are right again."""
    times = Times()
    times(ahead=AHEAD)

    assert MARCH + PROOF / 4 == times(ahead=-AHEAD, ran=PROOF / 4)
    assert MARCH + PROOF * 2 == times(ran=PROOF * 7 / 4)


def test_a_start_with_a_wrong_clock_is_noticed():
    """The newest stored row shows it, but one row from the future does not."""
    assert MARCH - AHEAD == Times(used=MARCH - AHEAD)()
    assert MARCH == Times(used=MARCH + AHEAD)()


def rows(app, table=tables.ledger):
    """Return how many rows have their features."""
    with reading(app.engine) as connection:
        return connection.scalar(select(func.count(table.c.vector)))


def test_a_clock_that_is_ahead_keeps_the_undo_window(database_url, monkeypatch):
    """Nor does a restart change that, though mail was scored and taught meanwhile."""
    with running(database_url=database_url) as app:
        for number in range(3):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
    ahead = datetime.now(UTC) + AHEAD
    monkeypatch.setattr("app.services.clock.now", lambda: ahead)
    monkeypatch.setattr(application, "now", lambda: ahead)
    monkeypatch.setattr(
        SteadyClock.__init__, "__defaults__", (lambda: ahead, time.monotonic)
    )
    for number in (7, 8):
        app = Application(Settings(_env_file=None, database_url=database_url))
        app.start()
        try:
            app.scheduler.stop()
            teach(app, spam(number), "spam")
            for _ in range(3):
                app.maintenance._expire()  # noqa: SLF001
                app.maintenance()
            left = rows(app)
        finally:
            app.stop()

    assert 8 == left


def kept_after(times, seen, database_url):
    """Return the times of the verdicts that stay, at once and after a day."""
    found = []
    with running(database_url=database_url) as app:
        row = app.live.get("default").row
        app.scheduler.stop()
        for ran in (timedelta(), PROOF):
            times(ran=ran)
            with writing(app.engine) as connection:
                new = [
                    ScoredRow.of(observed(n, {"a": 1}), time=time)
                    for n, time in enumerate(seen)
                ]
                scored.put_many(connection, row.id, new)
            upkeep = Maintenance(
                app.engine, app.live, app.recent, app.settings, clock=times.clock
            )
            while upkeep():
                pass
            with reading(app.engine) as connection:
                kept = connection.scalars(select(tables.scored.c.time))
                found.append(sorted(kept))
    return found


def test_verdicts_from_the_future_do_not_stay(database_url):
    """They go once the corrected clock is proven; those of a small error stay."""
    now = datetime.now(UTC)
    seen = [now, now + JUMP, now + AHEAD]

    found = kept_after(Times(wall=now), seen, database_url)

    assert [seen, seen[:2]] == found


def test_a_slow_clock_drops_no_verdicts_of_others(database_url):
    """The clock of the database shows that they are not from the future."""
    now = datetime.now(UTC)

    found = kept_after(Times(wall=now - AHEAD), [now], database_url)

    assert [[now], [now]] == found


def few_and_many(engine, live):
    """Yield with ten scored messages of a profile, and again with a thousand."""
    for rows in (range(10), range(10, 1000)):
        times = ((n, MARCH + timedelta(minutes=n)) for n in rows)
        seen = [ScoredRow.of(observed(n, {"a": 1}), time=at) for n, at in times]
        with writing(engine) as connection:
            scored.put_many(connection, live.row.id, seen)
        yield


def test_verdicts_from_the_future_are_found_without_reading_all(database_url):
    """A look each minute costs the same with a full history."""
    with running(database_url=database_url) as app:
        live = app.live.get("default")
    found = []
    with disposing(app.engine) as engine:
        for _ in few_and_many(engine, live):
            with counting(engine) as counted, writing(engine) as connection:
                scored.expire(
                    connection,
                    tables.scored,
                    live.row.id,
                    before=MARCH,
                    ahead=MARCH + AHEAD,
                    upto=None,
                    limit=100,
                )
            found.append(counted.instructions)
    few, many = found

    assert many <= few + 10


def test_rows_from_the_future_do_not_make_mail_weigh_nothing(database_url):
    """Though a clock was a century ahead when they were taught."""
    asked = {"database_url": database_url, "half_life_months": 6.0}
    with running(**asked) as app:
        for number in range(6):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
        before = app.classify("default", spam(70), strongest=0).verdict.log_odds
        with writing(app.engine) as connection:
            newest = tables.ledger.c.revision == 12
            century = datetime(2100, 1, 1, tzinfo=UTC)
            connection.execute(update(tables.ledger).where(newest).values(time=century))
    with running(**asked) as app:
        live = app.live.get("default")
        after = app.classify("default", spam(70), strongest=0).verdict.log_odds

        assert f"{datetime.now(UTC):%Y%m}" == str(live.specification.decay.epoch)
        assert not live.month_began
    assert before == after


@pytest.mark.parametrize("wrong", [datetime(2100, 1, 1, tzinfo=UTC), EPOCH])
def test_ages_are_right_again_once_the_clock_is(database_url, monkeypatch, wrong):
    """No restart is needed, and no further lesson."""
    with running(database_url=database_url, half_life_months=6.0) as app:
        for number in range(6):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
        live = app.live.get("default")
        wall = [wrong]
        monkeypatch.setattr("app.services.live.now", lambda: wall[0])
        app.feedback = replace(app.feedback, clock=lambda: wall[0])
        teach(app, spam(7), "spam")
        app.live.advance_month()
        found = live.specification.decay.epoch
        wall[0] = datetime.now(UTC)
        app.live.advance_month()

        assert epoch_of(wrong) == found
        assert epoch_of(wall[0]) == live.specification.decay.epoch
        assert not live.month_began


@pytest.mark.parametrize("started", [False, True])
def test_a_clock_that_was_a_year_behind_hides_no_month(
    database_url, monkeypatch, started
):
    """Ages count from the newest row that is not in the future, started or not."""
    asked = {"database_url": database_url, "half_life_months": 6.0}
    wall = [MARCH]
    with ExitStack() as stack:
        app = stack.enter_context(running(**asked))
        app.feedback = replace(app.feedback, clock=lambda: wall[0])
        for month in range(12):
            wall[0] = datetime(2026, month + 1, 1, tzinfo=UTC)
            teach(app, spam(month), "spam")
        monkeypatch.setattr("app.services.live.now", lambda: wall[0])
        wall[0] = MARCH
        if started:
            app = stack.enter_context(running(**asked))
        found = []
        for days in (0, 29, 31, 300):
            wall[0] = MARCH + timedelta(days=days)
            app.live.advance_month()
            found.append(app.live.get("default").specification.decay.epoch)

    assert [202603, 202603, 202604, 202612] == found


def test_what_follows_a_long_pause_is_proven_by_a_day(database_url):
    """A wrong clock does not confirm itself."""
    with running(database_url=database_url) as app:
        times = [MARCH, MARCH + AHEAD, MARCH + AHEAD + PROOF / 2]
        for number in range(3):
            teach(app, spam(number), "spam")

        def used(*times):
            with writing(app.engine) as connection:
                for revision, moment in enumerate(times, start=1):
                    row = tables.ledger.c.revision == revision
                    connection.execute(
                        update(tables.ledger).where(row).values(time=moment)
                    )
            now = datetime(2027, 1, 1, tzinfo=UTC)
            with reading(app.engine) as connection:
                return last_used(connection, now=now, gap=JUMP, proof=PROOF)

        assert MARCH == used(*times)
        assert times[1] + PROOF * 2 == used(*times[:2], times[1] + PROOF * 2)


def test_the_last_use_is_found_without_reading_all_rows(database_url):
    """A start costs the same after some years."""
    with running(database_url=database_url) as app:
        live = app.live.get("default")
    found = []
    # Its threads have ended; they would be counted as well.
    with disposing(app.engine) as engine:
        for _ in few_and_many(engine, live):
            with counting(engine) as counted, reading(engine) as connection:
                used = last_used(connection, now=MARCH + AHEAD, gap=JUMP, proof=PROOF)
            found.append((used, counted.instructions))
    (_, few), (last, many) = found

    assert MARCH + timedelta(minutes=999) == last
    assert many <= few + 10
