"""Stories of teachings, imports and undos, and the test's own book of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from app.ledger.undo import Selection
from tests.support.builders import (
    digest,
    taught,
    teach,
)
from tests.support.ledger import (
    MAIL,
    add,
    finish,
    learned,
    noted,
    planned,
)


@dataclass
class Event:
    """Something that was taught or undone, in the test's own book."""

    source: str
    time: datetime
    row: object = None
    sums: object = None
    takes: list = field(default_factory=list)
    in_force: bool = True


def settle(events):
    """Say which events are in force: the newest decides."""
    for event in events:
        event.in_force = True
    for event in reversed(events):
        if event.in_force:
            for taken in event.takes:
                taken.in_force = False


teachings = st.tuples(
    st.just("teach"),
    st.integers(0, 2),
    st.sampled_from(["ham", "spam", None]),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), min_size=1),
    st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(1, 3)),
    st.sampled_from(["ann", "ben"]),
    st.integers(0, 1),
)


imports = st.tuples(st.just("import"), st.integers(1, 3), st.sampled_from("IJ"))


by_source = st.tuples(st.just("source"), st.integers(0, 8))


by_time = st.tuples(st.just("time"), st.integers(0, 12), st.integers(1, 6))


by_id = st.tuples(st.just("id"), st.integers(0, 2))


stories = st.lists(
    teachings | teachings | teachings | imports | by_source | by_time | by_id,
    max_size=12,
)


def selected(verb, rest, events, start):
    """Return what an undo asks for, and the events that it takes back."""
    if verb == "source":
        names = sorted({event.source for event in events})
        if not names:
            return None, []
        name = names[rest[0] % len(names)]
        return Selection(source=name), taken(events, lambda e: e.source == name)
    if verb == "time":
        since = start + timedelta(hours=rest[0])
        until = since + timedelta(hours=rest[1])
        return Selection(since=since, until=until), taken(
            events, lambda e: since <= e.time < until
        )
    wanted = digest(rest[0])
    if not any(e.row is not None and e.row.digest == wanted for e in events):
        return None, []
    return Selection(ids=frozenset([wanted])), taken(
        events, lambda e: e.row is not None and e.row.digest == wanted
    )


def taken(events, unwanted):
    """Return what is taken back so that nothing unwanted is in force."""
    found, gone = [], []
    for event in reversed(events):
        if event in gone:
            continue
        if unwanted(event):
            found.append(event)
        else:
            gone += event.takes
    for_good = [e for e in events if e not in gone and e not in found and not e.takes]
    before = [e for e in events if e.in_force and not e.takes]
    return [] if before == for_good else found


def book(events, source, outcome):
    """Enter what was said; nobody takes back what is forgotten."""
    if outcome.kind == "forgotten":
        events[:] = [
            e for e in events if e.row is None or e.row.digest != outcome.digest
        ]
    elif outcome.row is not None:
        events.append(Event(source, outcome.row.time, row=outcome.row))


def tell(engine, profile, story):
    """Teach and undo as a story says, and return what is in the test's book."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    events = []

    def say(n, message, label, words, pairs, source, month):
        given = taught(
            message,
            label,
            words,
            pairs,
            time=start + timedelta(hours=n, days=31 * month),
            source=source,
        )
        (outcome,) = teach(engine, profile, given)
        book(events, source, outcome)

    said = -1
    for n, (verb, *rest) in enumerate(story):
        now = start + timedelta(hours=n)
        settle(events)
        if verb == "teach":
            if n != said:
                say(n, *rest)
            continue
        if verb == "import":
            size, name = rest
            sums = {202603: learned(MAIL[:size])}
            add(engine, profile, sums, source=name, time=now)
            events.append(Event(name, now, sums=sums))
            continue
        asked, takes = selected(verb, rest, events, start)
        if asked is None:
            continue
        plan = planned(engine, profile, asked, time=now)
        # What comes next may be said before the plan is noted.
        if story[n + 1 : n + 2] and story[n + 1][0] == "teach":
            said = n + 1
            say(said, *story[said][1:])
        assert noted(engine, profile, plan)
        finish(engine, profile, limit=1 + n % 3)
        assert plan.empty == (not takes)
        if takes:
            events.append(Event(plan.undo.name, now, takes=takes))
    settle(events)
    return events
