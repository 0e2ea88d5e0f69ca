"""The clock by which mail ages: a jump ahead drops nothing that can be brought back."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, update

from app.ledger.entry import ScoredRow, epoch_of
from app.services.clock import JUMP, PROOF, Failures, SteadyClock
from app.services.scheduler import Maintenance
from app.storage import scored, tables
from app.storage.database.engine import disposing, reading, writing
from app.storage.retention import ClockMark
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

    def __init__(self, mark=None, wall=MARCH):
        self.wall, self.ran = wall, 0.0
        self.clock = self.started(mark)

    def started(self, mark):
        """Return the clock of a process that starts now."""
        # Each machine counts from its own start.
        begun = self.ran
        return SteadyClock(mark, lambda: self.wall, lambda: self.ran - begun)

    def restart(self, *, off=timedelta()):
        """Start the next process, some time after the end of this one."""
        mark = self.clock.mark
        self.wall += off
        self.clock = self.started(mark)

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


def test_errors_that_alternate_are_new_once():
    """A disk that is full for a night names one file after another."""
    failures = Failures()
    night = [failures.report("disk", f"file {n % 3} is full") for n in range(100)]

    assert ([True] * 3, 3) == (night[:3], sum(night))


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
    """The mark of the process before shows it, but one from the future does not."""
    past, future = MARCH - AHEAD, MARCH + AHEAD

    assert past == Times(ClockMark(past, past))()
    assert MARCH == Times(ClockMark(future, future))()


@pytest.mark.parametrize("off", [timedelta(), timedelta(hours=6)])
def test_restarts_delay_no_proof(off):
    """Neither of a clock that is ahead, nor of one that was: a day is a day."""
    times = Times()
    for ahead in (AHEAD, -AHEAD):
        times(ahead=ahead)
        found = []
        for _ in range(4):
            times(ran=PROOF / 4 - off)
            found.append((times.wall - times() < JUMP, times.clock.proven))
            times.restart(off=off)
        times()

        assert [(ahead < timedelta(), False)] * 3 == found[:3]
        assert times.clock.proven
        assert times.wall == times()


def test_each_jump_has_to_be_proven_again():
    """Also one while no process runs, or between two of another clock that is wrong."""
    for off in (AHEAD, -AHEAD):
        times = Times()
        times(ran=PROOF)
        times.restart(off=off)
        times()
        found = [times.clock.proven]
        times.restart(off=AHEAD)
        times()

        assert [False, False] == [*found, times.clock.proven]
        assert times.wall != times()


def test_a_clock_that_was_corrected_while_no_process_ran_is_believed(caplog):
    """With a line in the log if it was less than a month ahead."""
    caplog.set_level("INFO")
    times = Times()
    times(ahead=timedelta(days=40))
    times.restart(off=timedelta(days=-20))

    assert MARCH + timedelta(days=20) == times()
    assert "the clock shows the expected time again" == caplog.messages[-1]


def rows(app):
    """Return how many rows have their features."""
    with disposing(app.engine) as engine, reading(engine) as connection:
        return connection.scalar(select(func.count(tables.ledger.c.vector)))


@contextmanager
def started(database_url, wall):
    """Give a service whose clock shows a time and whose old data have gone."""
    with running(clock=lambda: wall, database_url=database_url) as app:
        app.scheduler.stop()
        yield app
        upkeep = Maintenance(
            app.live, app.recent, app.settings, clock=app.maintenance.clock
        )
        while upkeep():
            pass


def test_a_clock_that_is_ahead_keeps_the_undo_window(database_url):
    """Nor does a restart change that, though mail was scored and taught meanwhile."""
    right = datetime.now(UTC)
    with started(database_url, right) as app:
        for number in range(3):
            teach(app, ham(number), "ham")
            teach(app, spam(number), "spam")
    for number in (7, 8):
        with started(database_url, right + AHEAD) as app:
            teach(app, spam(number), "spam")

    assert 8 == rows(app)


def test_a_service_that_is_restarted_each_day_drops_what_is_old(database_url):
    """Though it gets mail twice a year, and was off until then."""
    begun = datetime.now(UTC)
    with started(database_url, begun) as app:
        teach(app, ham(1), "ham")
    found = []
    for ran in (timedelta(), PROOF, 2 * PROOF):
        with started(database_url, begun + AHEAD + ran) as app:
            pass
        found.append(rows(app))

    assert [1, 0, 0] == found


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
            upkeep = Maintenance(app.live, app.recent, app.settings, clock=times.clock)
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
                kept = scored.Kept(tables.scored, MARCH, 100)
                ahead, mine = MARCH + AHEAD, live.row.id
                scored.expire(connection, kept, mine, ahead=ahead, upto=None, limit=100)
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
    """Ages count from this month while the newest row is in the future."""
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
