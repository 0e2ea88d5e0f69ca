"""Undo: the ledger without some of its rows."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given
from sqlalchemy import delete, insert, select, update

from app.errors import (
    Expired,
    InconsistentCounts,
    Irreversible,
    UnknownMessage,
    UnknownSource,
)
from app.features.observation import Observation
from app.ledger import sums
from app.ledger.entry import ScoredRow
from app.ledger.undo import Selection
from app.storage import ledger, pruning, tables, undo_records, undo_work
from app.storage.database.engine import open_engine, reading, writing
from tests.support.builders import (
    APRIL,
    MARCH,
    digest,
    drop_vectors,
    fold_all,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.databases import on_sqlite, sqlite_url
from tests.support.ledger import (
    add,
    audited,
    begin,
    contents,
    finish,
    labels_of,
    learned,
    loaded,
    noted,
    planned,
)
from tests.support.stories import (
    stories,
    tell,
)


def undo(engine, profile, *, limit=256, time=APRIL, **asked):
    """Undo and return the plan."""
    plan = begin(engine, profile, Selection(**asked), time=time)
    finish(engine, profile, limit=limit)
    return plan


def test_an_undone_source_was_never_there(engine):
    """Its messages are forgotten, what it had moved goes back, the rest stays."""
    profile, other = new_profile(engine), new_profile(engine)
    kept = [taught(1, "spam", {"a": 1}), taught(2, "ham", {"b": 1}, {"size": 3})]
    teach(engine, profile, kept[0])
    teach(engine, profile, taught(1, "ham", source="ben"))
    teach(engine, profile, taught(3, "spam", {"a": 2, "c": 1}, source="ben"))
    teach(engine, profile, kept[1])
    plan = undo(engine, profile, source="ben")
    teach(engine, other, *kept)

    assert {("ham", "spam"): 1, ("spam", None): 1} == dict(plan.messages)
    assert [None, "spam", "ham", None] == labels_of(engine, profile)
    assert contents(engine, other) == contents(engine, profile)
    assert (True, 6) == audited(engine, profile)


def test_the_newest_word_is_kept_when_an_older_one_is_undone(engine):
    """Ann's label stays though Ben, who said another before, is undone."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
    teach(engine, profile, taught(1, "ham", source="ann"))
    plan = undo(engine, profile, source="ben")

    assert ({}, 1, ()) == (dict(plan.messages), len(plan.undo.revisions), plan.work)
    assert ["ham"] == labels_of(engine, profile, [1])


def test_the_order_of_undos_does_not_matter(engine):
    """Ben first or Ann first: what neither said was never learned."""
    both = []
    for order in (("ben", "ann"), ("ann", "ben")):
        profile = new_profile(engine)
        teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
        teach(engine, profile, taught(1, "ham", source="ann"))
        for source in order:
            undo(engine, profile, source=source)
        both.append(labels_of(engine, profile, [1]))

    assert [[None], [None]] == both


def test_an_undo_can_be_undone_and_that_too(engine):
    """By the name that its rows have."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
    before = contents(engine, profile)
    first = undo(engine, profile, source="ben")
    nothing = contents(engine, profile)
    second = undo(engine, profile, source=first.undo.name)
    again = contents(engine, profile)
    undo(engine, profile, source=second.undo.name)

    assert ("undo:1", "undo:2") == (first.undo.name, second.undo.name)
    assert before == again
    assert [{}, [], []] == nothing == contents(engine, profile)
    assert {"undo:1", "undo:2", "undo:3", "ben"} == {
        row[8] for row in rows_of(engine, tables.ledger, profile)
    }
    assert (True, 4) == audited(engine, profile)


def test_what_was_undone_in_a_time_does_not_come_back_with_it(engine):
    """Ann taught and was taken back, both since then: nothing of it remains."""
    profile = new_profile(engine)
    hour = timedelta(hours=1)
    teach(engine, profile, taught(1, "ham", {"a": 1}, source="ben"))
    before = contents(engine, profile)
    teach(engine, profile, taught(2, "spam", {"a": 1}, time=MARCH + hour))
    first = undo(engine, profile, source="anna", time=MARCH + 2 * hour)
    range_ = undo(engine, profile, since=MARCH + hour, time=MARCH + 3 * hour)
    undo(engine, profile, source=first.undo.name, time=MARCH + 4 * hour)
    learned_again = labels_of(engine, profile, [2])
    both = undo(engine, profile, since=MARCH + hour, time=MARCH + 5 * hour)

    assert range_.empty
    assert ["spam"] == learned_again
    assert (1, {1, 2}) == (len(both.undo.revisions), both.undo.takes)
    assert before == contents(engine, profile)


def test_what_was_undone_and_given_back_in_a_time_stays_as_it_was(engine):
    """What was taught before it is not touched."""
    profile = new_profile(engine)
    hour = timedelta(hours=1)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    first = undo(engine, profile, source="anna", time=MARCH + hour)
    undo(engine, profile, source=first.undo.name, time=MARCH + 2 * hour)
    nothing = undo(engine, profile, since=MARCH + hour, time=MARCH + 3 * hour)
    teach(engine, profile, taught(2, "ham", {"b": 1}, time=MARCH + hour))
    plan = undo(engine, profile, since=MARCH + hour, time=MARCH + 4 * hour)

    assert nothing.empty
    assert {1, 2} == plan.undo.takes
    assert {("ham", None): 1} == dict(plan.messages)
    assert ["ham", None] == labels_of(engine, profile, [1, 2])
    assert (True, 0) == audited(engine, profile)


def test_a_time_is_undone_from_its_begin_to_before_its_end(engine):
    """And only where the other conditions are true as well."""
    profile = new_profile(engine)
    hour = timedelta(hours=1)
    for n in range(4):
        source = "ann" if n % 2 else "ben"
        teach(
            engine,
            profile,
            taught(n, "spam", {"a": 1}, time=MARCH + n * hour, source=source),
        )
    undo(engine, profile, since=MARCH + hour, until=MARCH + 3 * hour, source="ben")
    by_both = labels_of(engine, profile)
    undo(engine, profile, since=MARCH + hour, until=MARCH + 3 * hour)
    by_time = labels_of(engine, profile)
    undo(engine, profile, ids=frozenset([digest(0)]), time=APRIL + hour)

    assert ["spam", "spam", None, "spam"] == by_both
    assert ["spam", None, None, "spam"] == by_time
    assert [None, None, None, "spam"] == labels_of(engine, profile)


def test_undoing_a_time_undoes_the_undos_in_it(engine):
    """A bad afternoon in which somebody undid the morning."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
    undo(engine, profile, source="ben", time=APRIL)
    plan = undo(engine, profile, since=APRIL, time=APRIL + timedelta(hours=1))

    assert (frozenset([1]), ()) == (plan.undo.takes, plan.undo.revisions)
    assert ["spam"] == labels_of(engine, profile, [1])


def test_what_is_undone_already_is_not_undone_twice(engine):
    """Nothing is left of it, so nothing is noted."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
    undo(engine, profile, source="ben")
    plan = undo(engine, profile, source="ben")

    assert plan.empty
    assert 1 == len(rows_of(engine, tables.undo, profile))


def test_an_import_is_undone_and_done_again(engine, monkeypatch):
    """Row by row, the messages last; and with the text of its words."""
    monkeypatch.setattr(sums, "FEATURES_PER_ROW", 1)
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}, {"size": 2}))
    before = contents(engine, profile)
    features = sum(x.ids.size for x in learned().values())
    texts = {"words": dict.fromkeys(learned()["words"].ids.tolist(), "text")}
    add(engine, profile, {202603: learned(), 202604: learned()}, names=texts)
    full = contents(engine, profile)
    plan = undo(engine, profile, source="import:test", limit=1)
    without = contents(engine, profile)
    undo(engine, profile, source=plan.undo.name, limit=1)

    assert features * 2 == len(plan.undo.revisions)
    assert {"ham": -2, "spam": -4} == dict(plan.summed)
    assert before == without
    assert full == contents(engine, profile)
    assert (True, 1 + 6 * features) == audited(engine, profile)


def test_what_something_else_has_taken_away_is_not_taken_twice(engine):
    """The sentence says so, and nothing is noted."""
    profile = new_profile(engine)
    add(engine, profile, {202603: learned()})
    add(engine, profile, {202603: -learned()}, source="prune")
    refused = Selection(source="import:test")

    with pytest.raises(Irreversible, match="would become negative"):
        begin(engine, profile, refused)
    undo(engine, profile, source="prune")
    with pytest.raises(Irreversible, match="removes counts"):
        begin(engine, profile, Selection(source="undo:1"))
    assert 1 == len(rows_of(engine, tables.undo, profile))


def test_what_never_was_cannot_be_undone(engine):
    """A message, a source, an undo: each by its name, and nothing is noted."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))

    with pytest.raises(UnknownMessage, match=digest(2).hex()):
        begin(engine, profile, Selection(ids=frozenset([digest(1), digest(2)])))
    for name in ("anna", "undo:1"):
        with pytest.raises(UnknownSource, match=f"never taught by '{name}'"):
            begin(engine, profile, Selection(source=name))
    assert [] == rows_of(engine, tables.undo, profile)


def test_what_is_too_old_is_refused_as_a_whole(engine):
    """The sentence says how far one can go back."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    teach(engine, profile, taught(2, "spam", {"a": 1}, time=APRIL))
    ledger = tables.ledger
    with writing(engine) as connection:
        connection.execute(
            update(ledger)
            .where(ledger.c.profile_id == profile.id, ledger.c.revision == 1)
            .values(vector=None)
        )

    with pytest.raises(
        Expired, match=r"row 1 .* only feedback from 2026-04-02T18:00:01Z on"
    ):
        begin(engine, profile, Selection(source="anna"))
    assert [None, "spam", "spam", None] == labels_of(engine, profile)


def test_a_label_goes_back_though_the_row_that_gave_it_is_too_old(engine):
    """The relabelling has the same vector."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    teach(engine, profile, taught(1, "ham", time=APRIL, source="ben"))
    ledger = tables.ledger
    fold_all(engine, profile)
    with writing(engine) as connection:
        connection.execute(
            update(ledger)
            .where(ledger.c.profile_id == profile.id, ledger.c.revision == 1)
            .values(vector=None)
        )
    undo(engine, profile, source="ben")

    assert ["spam"] == labels_of(engine, profile, [1])


def test_an_undo_that_was_cut_short_is_finished_first(engine):
    """Whoever comes next carries it out; on the way every row adds up."""
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "spam", {"a": 1}) for n in range(4)))
    begin(engine, profile, Selection(source="anna"))
    with writing(engine) as connection:
        undo_work.step(connection, profile, limit=3)
        left = undo_work.rows_left(connection, profile.id)
    with reading(engine) as connection:
        waiting = undo_work.profiles_pending(connection)
    halfway = labels_of(engine, profile)
    refused = begin(engine, profile, Selection(source="undo:1"))
    rows = finish(engine, profile)

    assert (1, {profile.id}, None, 1) == (left, waiting, refused, rows)
    assert [None] * 3 + ["spam"] == sorted(halfway, key=bool)
    assert [None] * 4 == labels_of(engine, profile)
    assert (True, 0) == audited(engine, profile)


def test_a_step_takes_few_large_rows(engine, monkeypatch):
    """Of messages and of sums: 256 messages can have 64 MB."""
    monkeypatch.setattr(ledger, "BYTES_AT_ONCE", 1)
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "spam", {"a": 1}) for n in range(2)))
    for _ in range(2):
        add(engine, profile, {202603: learned()}, source="anna")
    begin(engine, profile, Selection(source="anna"))
    left = []
    for _ in range(4):
        with writing(engine) as connection:
            undo_work.step(connection, profile, limit=256)
            left.append(undo_work.rows_left(connection, profile.id))

    assert [3, 2, 1, 0] == left
    assert (True, 0) == audited(engine, profile)


def count_features(connection, profile):
    """Read the rows of a plan."""
    undo_records.features_of(connection, profile, range(1, 61))


def look_for_rare_features(connection, profile):
    """Read all rows that have features."""
    asked = {"views": {"words"}, "max_messages": 100, "before_epoch": 203001}
    pruning.find(connection, profile, **asked, weak={})


@on_sqlite
@pytest.mark.parametrize("read", [count_features, look_for_rare_features])
def test_few_large_rows_are_held_at_once(engine, monkeypatch, read):
    """As many as one query of the fold reads."""
    profile = new_profile(engine)
    words = {f"word{n}": 1 for n in range(2000)}
    teach(engine, profile, *(taught(n, "spam", words) for n in range(60)))
    fold_all(engine, profile)
    peaks = []
    for rows in (3, 3, 60):
        monkeypatch.setattr(ledger, "ROWS_OF_QUERY", rows)
        with reading(engine) as connection:
            tracemalloc.start()
            read(connection, profile)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        peaks.append(peak)

    # The first call also fills caches.
    assert 2 * peaks[1] < peaks[2]


def test_who_teaches_meanwhile_has_the_last_word(engine):
    """An undo is carried out on what a message is then."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}, source="ben"))
    begin(engine, profile, Selection(source="ben"))
    teach(engine, profile, taught(1, "ham", time=APRIL))
    rows = finish(engine, profile)

    assert (0, ["ham"]) == (rows, labels_of(engine, profile, [1]))


def test_a_plan_holds_whatever_is_taught_before_it_is_noted(engine):
    """Who teaches then has the last word, and is not asked to be taken back."""
    profile = new_profile(engine)
    for each in (1, 2, 3):
        teach(engine, profile, taught(each, "spam", {"a": 1}, source="ben"))
    plan = planned(engine, profile, Selection(source="ben"))
    teach(engine, profile, taught(1, "ham", time=APRIL))
    teach(engine, profile, taught(4, "ham", {"a": 1}, source="ben"))
    there = noted(engine, profile, plan)
    finish(engine, profile)

    assert there
    assert ["ham", None, None, "ham"] == labels_of(engine, profile, [1, 2, 3, 4])
    assert (True, 0) == audited(engine, profile)


@pytest.mark.parametrize("change", ["sum", "undo", "dropped", "pending"])
def test_a_plan_does_not_hold_once_what_it_needs_may_be_gone(engine, change):
    """Nothing is noted; a new plan says what holds then."""
    profile = new_profile(engine)
    for time in (MARCH, APRIL):
        teach(engine, profile, taught(str(time), "spam", {"a": 1}, time=time))
    teach(engine, profile, taught("ben's", "ham", {"a": 1}, source="ben", time=APRIL))
    fold_all(engine, profile)
    plan = planned(engine, profile, Selection(source="anna"))
    if change == "sum":
        add(engine, profile, {202603: learned()})
    elif change == "dropped":
        with writing(engine) as connection:
            drop_vectors(connection, profile, before=APRIL, limit=9)
    elif change == "undo":
        undo(engine, profile, source="ben")
    else:
        begin(engine, profile, Selection(source="ben"))
    before = rows_of(engine, tables.undo, profile)

    assert not noted(engine, profile, plan)
    assert before == rows_of(engine, tables.undo, profile)


def test_a_plan_holds_while_vectors_are_dropped_that_it_does_not_need(engine):
    """They go by their time, and those of its messages are younger."""
    profile = new_profile(engine)
    for each in (1, 2):
        teach(engine, profile, taught(each, "spam", {"a": 1}, source="old"))
    teach(engine, profile, taught(3, "spam", {"a": 1}, time=APRIL))
    fold_all(engine, profile)
    plan = planned(engine, profile, Selection(source="anna"))
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=APRIL, limit=1)
    assert noted(engine, profile, plan)
    finish(engine, profile)

    assert ["spam", "spam", None] == labels_of(engine, profile, [1, 2, 3])


@pytest.mark.parametrize("appended", ["before", "after"])
def test_a_plan_sees_what_is_dropped_beside_rows_of_an_earlier_time(engine, appended):
    """A ledger that is joined has such rows: they are the oldest from then on."""
    profile = new_profile(engine)
    earlier = taught(1, "ham", {"b": 1}, source="ben", time=MARCH - timedelta(days=40))
    teach(engine, profile, taught(0, "spam", {"a": 1}))
    fold_all(engine, profile)
    if appended == "before":
        teach(engine, profile, earlier)
    plan = planned(engine, profile, Selection(source="anna"))
    with writing(engine) as connection:
        dropped = drop_vectors(connection, profile, before=APRIL, limit=64)
    if appended == "after":
        teach(engine, profile, earlier)

    assert (appended == "before") == (dropped == 0) == noted(engine, profile, plan)


def test_an_undo_whose_features_are_gone_says_so(engine):
    """Nobody drops them before it is done; if they are gone, it is not done."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    begin(engine, profile, Selection(source="anna"))
    with writing(engine) as connection:
        connection.execute(update(tables.ledger).values(vector=None))

    with (
        pytest.raises(InconsistentCounts, match=r"undo:1 .* Restore a backup"),
        writing(engine) as connection,
    ):
        undo_work.step(connection, profile, limit=9)


def test_features_are_counted_once_however_many_rows_have_them(engine, monkeypatch):
    """Also where they are sorted several times on the way."""
    monkeypatch.setattr("app.storage.database.dialect.PER_QUERY", 2)
    profile = new_profile(engine)
    for each in range(9):
        teach(engine, profile, taught(each, "spam", {"a": 1, f"b{each // 2}": 1}))
    plan = planned(engine, profile, Selection(source="anna"))
    with reading(engine) as connection:
        features = undo_records.features_of(connection, profile, plan.vectors)

    assert 6 == features


def test_a_plan_counts_features_and_changes_nothing(engine):
    """Each feature once, however many messages have it."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "spam", {"a": 1, "b": 2}, {"size": 3}),
        taught(2, "spam", {"a": 1, "c": 2}),
    )
    with reading(engine) as connection:
        plan = undo_work.plan(
            connection, profile, Selection(source="anna"), source="x", time=APRIL
        )
        features = undo_records.features_of(connection, profile, plan.vectors)

    assert 4 == features
    assert [None, "spam", "spam", None] == labels_of(engine, profile)


@on_sqlite
def test_a_plan_is_linear_in_the_moves_of_one_message(engine):
    """Instructions of the database: four times the rows take four times the work."""

    def instructions(moves):
        profile = new_profile(engine)
        labels = ("spam", "ham") * (moves // 2)
        teach(engine, profile, *[taught("moved", label, {"a": 1}) for label in labels])
        counted = 0

        def count():
            nonlocal counted
            counted += 1

        with reading(engine) as connection:
            database = connection.connection.driver_connection
            database.set_progress_handler(count, 100)
            undo_work.plan(
                connection, profile, Selection(source="anna"), source="x", time=APRIL
            )
            database.set_progress_handler(None, 0)
        return counted

    assert 0 < instructions(800) < 6 * instructions(200)


@given(stories)
def test_the_state_is_that_of_a_ledger_without_what_is_undone(tmp_path_factory, story):
    """Taught, imported, undone in any order: only what is in force counts."""
    folder = tmp_path_factory.mktemp("story")
    engine = open_engine(sqlite_url(folder))
    profile, other = new_profile(engine), new_profile(engine)
    for event in tell(engine, profile, story):
        if not event.in_force:
            continue
        if event.sums is not None:
            add(engine, other, event.sums)
        elif event.row is not None:
            year, month = divmod(event.row.epoch, 100)
            words = event.row.views
            again = taught(
                0, event.row.label, {}, time=datetime(year, month, 1, tzinfo=UTC)
            )
            seen = Observation(event.row.digest, 1, words, event.row.names)
            teach(
                engine,
                other,
                type(again)(
                    digest=event.row.digest,
                    label=again.label,
                    evidence=ScoredRow.of(seen, time=again.time),
                    source="again",
                    time=again.time,
                ),
            )

    assert labels_of(engine, other) == labels_of(engine, profile)
    assert contents(engine, other) == contents(engine, profile)
    assert loaded(engine, other) == loaded(engine, profile)
    with reading(engine) as connection:
        revision = connection.execute(
            select(tables.profile.c.revision).where(tables.profile.c.id == profile.id)
        ).scalar_one()
    assert (True, revision) == audited(engine, profile)
    engine.dispose()


@on_sqlite
def test_a_step_reads_its_rows_and_not_what_is_left(engine):
    """Otherwise the steps of a large undo would take the square of its rows."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"a": 1}))
    begin(engine, profile, Selection(source="anna"))
    key = {"profile_id": profile.id, "number": 1, "sign": 0}
    cost = []
    for left in (1_000, 20_000):
        with writing(engine) as connection:
            connection.execute(delete(tables.undo_work))
            connection.execute(
                insert(tables.undo_work),
                [key | {"revision": revision} for revision in range(1, left)],
            )
        ticks = count()
        with writing(engine) as connection:
            driver = connection.connection.driver_connection
            driver.set_progress_handler(lambda ticks=ticks: next(ticks) < 0, 1)
            undo_work.step(connection, profile, limit=9)
            driver.set_progress_handler(None, 0)
        cost.append(next(ticks))

    assert cost[1] < 2 * cost[0]
