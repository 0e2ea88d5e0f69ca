"""The lines of the history: found, bounded and forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from threading import Thread

import pytest
from sqlalchemy import text

from app.classifier.verdict import HistoryFilter
from app.ledger.entry import ScoredRow
from app.storage import history, scored, tables
from app.storage.database.engine import reading, writing
from tests.support.builders import (
    MARCH,
    digest,
    new_profile,
    noted,
    observed,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import on_postgresql

ALL = HistoryFilter()


def line(message, minutes=None, **more):
    """Return the line of a message that was scored some minutes after the first."""
    late = timedelta(minutes=message if minutes is None else minutes)
    return noted(message, time=MARCH + late, **more)


def put(engine, profile, *lines):
    """Write lines in a transaction of their own."""
    with writing(engine) as connection:
        history.put_lines(connection, profile.id, lines)


def found(engine, profile, asked=ALL, *, before=None, limit=100, depth=1000):
    """Return the messages of a page, and where to go on."""
    numbers = {digest(n): n for n in range(100)}
    with reading(engine) as connection:
        lines, further = history.page(
            connection, profile.id, asked, before=before, limit=limit, depth=depth
        )
    return [numbers[each.digest] for each in lines], further


def test_a_line_comes_back_as_it_was(engine):
    """With its text, its reasons and its time; numbers alone are fine too."""
    profile = new_profile(engine)
    whole = line(
        1,
        sender="Ann",
        subject="Grüße 🐞",
        recipients="bob",
        envelope="a@b",
        reasons=[["free money", 2.5]],
    )
    bare = line(2, log_odds=None)
    put(engine, profile, whole, bare)
    put(engine, profile, whole)
    with reading(engine) as connection:
        page = history.page(connection, profile.id, ALL, before=None, limit=9, depth=9)

    assert ([bare, whole], None) == page


def test_pages_follow_each_other_without_gap_or_overlap(engine):
    """Also where messages were scored at one moment, and one that came twice."""
    profile = new_profile(engine)
    put(engine, profile, *(line(n, minutes=n // 4) for n in range(10)))
    put(engine, profile, line(3, minutes=50))
    pages, before = [], None
    while True:
        numbers, before = found(engine, profile, before=before, limit=3)
        pages += numbers
        if before is None:
            break

    assert 11 == len(pages)
    assert sorted([*range(10), 3]) == sorted(pages)
    assert 3 == pages[0]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"search": "FREE"}, [4]),
        ({"search": "100%"}, [3]),
        ({"search": "a_b"}, [2]),
        ({"search": "ann@example.org"}, [1]),
        ({"search": "bounce@"}, [5]),
        ({"search": "\\"}, [6]),
        ({"search": "ПРИЗ"}, [7]),
        ({"search": "άννα"}, [7]),
        ({"search": "\u0131ş\u0131l"}, [8]),
        ({"search": "IŞIL"}, [8]),
        ({"search": "ikramiye"}, [8]),
        ({"search": "IKRAMIYE"}, [8]),
        ({"search": "cafe\u0301"}, [9]),
        ({"search": "CAFE"}, [9]),
        ({"search": "أحمد"}, [9]),
        ({"search": "احمد"}, [9]),
        ({"search": "\uff21\uff22\uff23"}, [9]),
        ({"search": "カード"}, [9]),
        ({"search": "ギ"}, []),
        ({"search": "\u0301"}, []),
        ({"search": "ann@bücher"}, [9]),
        ({"search": "ann@XN--bcher-kva"}, [9]),
        ({"decision": "spam"}, [4]),
        ({"door": "http"}, [3]),
        ({"taught": True}, [2]),
        ({"taught": False}, [9, 8, 7, 6, 5, 4, 3, 1]),
        ({"since": MARCH + timedelta(minutes=5)}, [9, 8, 7, 6, 5]),
        ({"until": MARCH + timedelta(minutes=2)}, [1]),
        ({"search": "free", "decision": "ham"}, []),
    ],
)
def test_lines_are_found_by_what_is_asked(engine, asked, expected):
    """Wildcards of the database are plain characters of a search."""
    profile = new_profile(engine)
    put(
        engine,
        profile,
        line(1, sender="Ann <ann@example.org>"),
        line(2, subject="the file a_b is here"),
        line(3, subject="100% sure", door="http"),
        line(4, subject="free money", decision="spam"),
        line(5, envelope="bounce@lists.example"),
        line(6, recipients="C:\\bob", subject="acb 1000"),
        line(7, sender="ΆΝΝΑ", subject="Ваш приз"),
        line(8, sender="Iş\u0131l", subject="İKRAMİYE"),
        line(
            9,
            sender="أحمد Café",
            subject="abc \uff76\uff70\uff84\uff9e キ",
            recipients="<ann@xn--bcher-kva.example>",
        ),
    )
    teach(engine, profile, taught(2, "ham", {"file": 1}))

    assert expected == found(engine, profile, HistoryFilter(**asked))[0]


def test_a_search_finds_what_is_far_below(engine):
    """It reads some lines at a time, and begins the next where the last one ended."""
    profile = new_profile(engine)
    many = (
        replace(line(0, minutes=n), subject="far" if n in {0, 1, 4400} else "near")
        for n in range(4500)
    )
    put(engine, profile, *many)
    asked = HistoryFilter(search="FAR")
    with reading(engine) as connection:
        first, place = history.page(
            connection, profile.id, asked, before=None, limit=2, depth=9000
        )
        rest, end = history.page(
            connection, profile.id, asked, before=place, limit=2, depth=9000
        )

    minutes = [(each.time - MARCH) // timedelta(minutes=1) for each in first + rest]
    assert [4400, 1, 0] == minutes
    assert end is None


def test_a_search_ends_after_so_many_lines_and_can_go_on(engine):
    """A search reads a bounded number of lines; the next page continues."""
    profile = new_profile(engine)
    put(engine, profile, *(line(n, subject="x" if n else "rare") for n in range(10)))
    rare = HistoryFilter(search="rare")
    numbers, before = found(engine, profile, rare, depth=6)

    assert ([], (MARCH + timedelta(minutes=4), digest(4))) == (numbers, before)
    assert ([0], None) == found(engine, profile, rare, before=before, depth=6)
    until = HistoryFilter(search="rare", until=MARCH + timedelta(minutes=5))
    assert ([0], None) == found(engine, profile, until, depth=6)


def test_what_is_too_old_or_too_much_goes_a_few_at_a_time(engine):
    """The newest stay, exactly as many as are to be kept."""
    profile = new_profile(engine)
    put(engine, profile, *(line(n) for n in range(8)))

    def expire(*, minutes, keep, limit=100):
        since = MARCH + timedelta(minutes=minutes)
        kept = scored.Kept(tables.history, since, keep)
        with writing(engine) as connection:
            upto = scored.last_over(connection, kept, profile.id)
            return scored.expire(connection, kept, profile.id, upto=upto, limit=limit)

    assert 2 == expire(minutes=2, keep=100)
    assert 2 == expire(minutes=2, keep=3, limit=2)
    assert 1 == expire(minutes=2, keep=3)
    assert 0 == expire(minutes=2, keep=3)
    assert [7, 6, 5] == found(engine, profile)[0]
    assert 3 == expire(minutes=2, keep=0)


def test_a_message_that_is_forgotten_leaves_no_line(engine):
    """All its lines go, in the transaction that forgets it; others stay."""
    profile = new_profile(engine)
    put(engine, profile, line(1), line(1, minutes=9), line(2))
    teach(engine, profile, taught(1, "spam", {"x": 1}), taught(1, None))

    assert [2] == found(engine, profile)[0]


def test_lines_up_to_a_time_are_forgotten(engine):
    """A message that is scored again afterwards has a line again."""
    profile = new_profile(engine)
    put(engine, profile, line(1), line(1, minutes=9))
    with writing(engine) as connection:
        scored.forget(
            connection,
            profile.id,
            [digest(1)],
            upto={digest(1): MARCH + timedelta(minutes=5)},
        )

    assert 1 == len(rows_of(engine, tables.history, profile))


def test_lines_are_copied_to_another_profile_in_steps(engine):
    """An import takes the history of the profile in whose place it comes."""
    profile, other = new_profile(engine), new_profile(engine)
    put(engine, profile, *(line(n) for n in range(5)))
    with writing(engine) as connection:
        after, steps = None, 0
        while last := scored.copy(
            connection,
            tables.history,
            profile.id,
            to=other.id,
            after=after,
            limit=2,
        ):
            after, steps = last, steps + 1

    assert 3 == steps
    assert [4, 3, 2, 1, 0] == found(engine, other)[0]


def test_untaught_messages_are_looked_for_among_the_newest(engine):
    """Neither one that was taught, nor one that is no longer stored."""
    profile = new_profile(engine)
    put(engine, profile, *(line(n) for n in range(6)))
    teach(engine, profile, taught(4, "ham", {"x": 1}))
    with writing(engine) as connection:
        rows = [ScoredRow.of(observed(n, {"x": 1}), time=MARCH) for n in (1, 2, 4, 5)]
        scored.put_many(connection, profile.id, rows)
    with reading(engine) as connection:
        found = history.untaught(connection, profile.id, depth=4)
        places = [(each.time, each.digest) for each in found[::-1]]
        lines = history.lines_at(connection, profile.id, places)

    assert [digest(n) for n in (5, 2)] == [each.digest for each in found]
    assert [line(2), line(5)] == lines


def test_other_lines_of_a_message_are_not_read(engine, monkeypatch):
    """Whoever sends one message again and again makes no page slow."""
    profile = new_profile(engine)
    put(engine, profile, *(line(1, minutes=n) for n in range(30)), line(2))
    places = [(MARCH + timedelta(minutes=n), digest(m)) for n, m in ((7, 1), (2, 2))]
    read = []
    real = history._read_line  # noqa: SLF001
    monkeypatch.setattr(history, "_read_line", lambda row: read.append(1) or real(row))
    with reading(engine) as connection:
        lines = history.lines_at(connection, profile.id, places)

    assert [line(1, minutes=7), line(2)] == lines
    # With the line of the first message at the time of the second.
    assert 3 == len(read)


def test_verdicts_are_counted_by_time_decision_and_door(engine):
    """An hour begins at the full hour in UTC."""
    profile = new_profile(engine)
    hour = int(MARCH.timestamp()) // 3600 * 3600
    put(
        engine,
        profile,
        line(1, minutes=0),
        line(2, minutes=1),
        line(3, minutes=2, decision="spam"),
        line(4, minutes=61, door="http"),
        line(5, minutes=-300),
    )
    with reading(engine) as connection:
        counted = history.counts(
            connection, profile.id, since=MARCH - timedelta(minutes=1), step=3600
        )

    assert [
        (hour, "spam", "milter", 1),
        (hour, "unsure", "milter", 2),
        (hour + 3600, "unsure", "http", 1),
    ] == sorted(counted)


@on_postgresql
@pytest.mark.parametrize("forgets", [True, False])
def test_writers_lock_messages_and_lines_in_one_order(engine, forgets):
    """All messages before all lines, each by digest, or two wait for one another."""
    profile = new_profile(engine)
    first, second = sorted([1, 2], key=digest)
    message = ScoredRow.of(observed(second, {"a": 1}), time=MARCH)
    if forgets:
        put(engine, profile, line(first))
        with writing(engine) as connection:
            scored.put_many(connection, profile.id, [message])

    def other():
        if not forgets:
            put(engine, profile, line(second), line(first))
            return
        with writing(engine) as connection:
            scored.forget(connection, profile.id, [digest(first), digest(second)])

    thread = Thread(target=other)
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with writing(engine) as connection:
        scored.put_many(connection, profile.id, [message] if forgets else [])
        history.put_lines(connection, profile.id, [] if forgets else [line(first)])
        thread.start()
        while thread.is_alive() and not connection.scalar(waits):
            pass
        again = line(first if forgets else second)
        history.put_lines(connection, profile.id, [again])
    thread.join()

    assert (0 if forgets else 2) == len(rows_of(engine, tables.history, profile))
