"""Memory follows the ledger, and differences are reported."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from sqlalchemy import event, select, update

from app.bayes.table import FeatureTable
from app.classifier.snapshot import Snapshot, score
from app.services import live as memory
from app.services.live import LiveProfile
from app.services.profiles import delete_profile, rename_profile
from app.storage import ledger, profiles, tables
from app.storage.database.engine import writing
from app.storage.ledger import append
from tests.support.application import add_profiles
from tests.support.builders import taught


@pytest.fixture
def database():
    """SQLite alone: no rule here is about a database; storage's tests run on both."""
    return "sqlite"


@pytest.fixture(autouse=True)
def still(app):
    """Stop the thread that would follow the ledger between two statements of a test."""
    app.scheduler.stop()


def test_a_row_that_cannot_be_read_is_told_once(app, caplog):
    """It is logged once until it is repaired, and then again."""

    def change(vector):
        with writing(app.engine) as connection:
            connection.execute(update(tables.ledger).values(vector=vector))
        for _ in range(3):
            app.live.refresh()
        return caplog.text.count(
            "cannot follow its ledger: A stored vector has version"
        )

    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        append(connection, row, [taught(1, "spam", {"money": 1})])
        vector = connection.execute(select(tables.ledger.c.vector)).scalar_one()

    assert [1, 1] == [change(b"nonsense"), change(vector)]
    with writing(app.engine) as connection:
        append(connection, row, [taught(2, "spam", {"money": 1})])
    assert 2 == change(b"nonsense")


class Starved(FeatureTable):
    """A table in a process that has no memory left."""

    def apply(self, *_):
        """Add nothing."""
        raise MemoryError


@pytest.mark.parametrize("known", [0, 1])
def test_what_was_learned_in_part_is_read_anew(app, known):
    """One view has it and the next has not, when there is no memory any more."""
    live = app.live.get("default")
    rows = [taught(n, "spam", {"money": 1}, {"a b": 1}) for n in range(known + 1)]
    for row in rows:
        with writing(app.engine) as connection:
            append(connection, live.row, [row])
        if row is not rows[-1]:
            live.follow(app.engine)
    live.snapshot.tables["pairs"] = Starved(2)
    with pytest.raises(MemoryError):
        live.follow(app.engine)
    learned = live.snapshot.tables["words"].messages.tolist()
    app.live.refresh()
    found = {view: x.flatten() for view, x in live.snapshot.tables.items()}
    stored = memory.load(app.engine, live.row, live.specification).snapshot

    assert [0, len(rows)] == learned
    assert len(rows) == live.revision
    assert {view: x.flatten() for view, x in stored.tables.items()} == found


def test_a_row_that_takes_back_what_was_not_learned_is_told(app, caplog):
    """The error is logged, and the counts in memory stay."""
    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        append(connection, row, [taught(1, "spam", {"money": 1})])
        append(connection, row, [taught(1, "ham")])
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.revision == 2)
            .values(label_before="ham", label="spam")
        )
    known = app.live.get("default").snapshot

    app.live.refresh()

    assert (
        "cannot follow its ledger: a count of messages would be negative: -1"
        in caplog.text
    )
    assert known is app.live.get("default").snapshot
    assert (0, [0, 0]) == (known.revision, known.messages.tolist())


@pytest.mark.parametrize("at_once", range(10, 22))
def test_rows_are_followed_to_the_last_however_many_are_read_at_once(
    app, monkeypatch, at_once
):
    """And where fewer are found than are read at once, the ledger is read once."""
    app.scheduler.stop()
    live = app.live.get("default")
    rows, asked = 11, []
    with writing(app.engine) as connection:
        append(connection, live.row, [taught(n, "ham", {"a": 1}) for n in range(rows)])
    monkeypatch.setattr(memory, "CATCH_UP_ROWS", at_once)
    event.listen(app.engine, "before_cursor_execute", lambda *a: asked.append(a[2]))

    live.follow(app.engine)

    assert rows == live.revision
    read = sum("FROM ledger" in statement for statement in asked)
    assert (1 if at_once >= rows + ledger.WEIGHT_OF_SUM else 2) == read


def test_a_profile_that_is_renamed_or_deleted_is_followed(app):
    """The old name is unknown at once, and the new one has the counts."""
    add_profiles(app, "old", "gone")
    before = {live.row.name for live in app.live}

    rename_profile(app.engine, "old", "new")
    steps = sum(delete_profile(app.engine, "gone"))
    app.live.refresh()

    assert {"default", "old", "gone"} == before
    assert {"default", "new"} == {live.row.name for live in app.live}
    assert steps > 0


@pytest.mark.usefixtures("impatient")
def test_a_verdict_is_of_one_revision(app):
    """Another thread learns meanwhile: no verdict mixes what is before and after."""
    text = {f"word{n}": 1 for n in range(200)}
    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        rows = [
            outcome.row
            for n in range(150)
            for label in (("spam", "ham")[n % 3 == 0],)
            for outcome in append(
                connection, row, [taught(n, label, {**text, label: 1})]
            )
        ]
    made_of = app.live.get("default").specification
    views = rows[0].views
    alone, expected = LiveProfile(row, Snapshot.empty(made_of)), {}
    for each in rows:
        alone.apply([each])
        expected[each.revision] = score(alone.snapshot, views).log_odds
    shared, seen = LiveProfile(row, Snapshot.empty(made_of)), []
    shared.apply(rows[:1])

    def learn():
        for each in rows[1:]:
            shared.apply([each])

    other = threading.Thread(target=learn)
    other.start()
    while other.is_alive() or not seen:
        with shared.scoring() as snapshot:
            seen.append((snapshot.revision, score(snapshot, views).log_odds))
    other.join()

    assert len(set(expected.values())) > 10
    assert [] == [each for each in seen if each[1] != expected[each[0]]]


def test_who_has_an_answer_sees_what_it_says(app):
    """A reader of the counts waits until they have learned it."""
    with writing(app.engine) as connection:
        row = profiles.find(connection, "default")
        (outcome,) = append(connection, row, [taught(1, "spam", {"prize": 1})])
    live = LiveProfile(row, Snapshot.empty(app.live.get("default").specification))
    with ThreadPoolExecutor(1) as reader:
        asked = []

        def answer():
            asked.append(reader.submit(lambda: live.revision))
            # As long as it takes to see older counts, if they could be seen.
            wait(asked, timeout=0.1)

        live.apply([outcome.row], answer=answer)

    assert [1] == [each.result() for each in asked]
