"""Forgotten messages: nothing of them is left but their digests and labels."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from app.errors import ProfileReplaced
from app.ledger.entry import ScoredRow
from app.ledger.undo import Selection
from app.services.upkeep import erase_some
from app.storage import history, retention, tables, undo_work
from app.storage.database.engine import (
    checkpoint,
    migrate,
    open_engine,
    reading,
    writing,
)
from app.storage.fold import audit, load_by_epoch
from app.storage.ledger import rows_after
from app.storage.scored import get_many, put_many
from tests.support.builders import (
    APRIL,
    MARCH,
    begin_undo,
    digest,
    drop_vectors,
    fold_all,
    named,
    new_profile,
    noted,
    observed,
    rows_of,
    taught,
    teach,
)
from tests.support.eras import finish

NEWEST = 2**62


def scored_row(message, words=("secret",), *, time=MARCH):
    """Return a message as it is stored when it was scored."""
    return ScoredRow.of(observed(message, dict.fromkeys(words, 1)), time=time)


def erase(engine, profile, *, upto=NEWEST):
    """Erase all that can be erased, and return in how many steps."""
    steps = 0
    while erase_some(engine, profile, upto=upto):
        steps += 1
    return steps


def kept(engine, profile):
    """Return the revisions of the rows that have features or words."""
    ledger = tables.ledger
    with reading(engine) as connection:
        return list(
            connection.execute(
                select(ledger.c.revision)
                .where(
                    ledger.c.profile_id == profile.id,
                    ledger.c.vector.is_not(None) | ledger.c.encoded_names.is_not(None),
                )
                .order_by(ledger.c.revision)
            ).scalars()
        )


def sound(engine, profile):
    """Return whether the counts are what the ledger says."""
    with reading(engine) as connection:
        return audit(connection, profile).sound


def words(engine, profile):
    """Return the text of the features."""
    return {
        text for found in named(engine, profile).values() for text in found.values()
    }


def test_a_forgotten_message_is_erased(engine):
    """All of its rows, with those that moved it; the counts are what they were."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"lunch": 1, "noon": 2}))
    teach(engine, profile, taught(2, "spam", {"secret": 3, "noon": 1}))
    teach(engine, profile, taught(2, "ham", time=APRIL), taught(2, None, time=APRIL))
    fold_all(engine, profile)

    assert 1 == erase(engine, profile)
    assert [1] == kept(engine, profile)
    assert {"lunch", "noon"} == words(engine, profile)
    assert sound(engine, profile)
    with reading(engine) as connection:
        assert [202603] == list(load_by_epoch(connection, profile))


def test_the_words_of_a_forgotten_message_go_with_the_answer(engine):
    """Only what the counts still need stays for a while: numbers."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}))
    with writing(engine) as connection:
        put_many(connection, profile.id, [scored_row(1)])
    teach(engine, profile, taught(1, None))

    with reading(engine) as connection:
        names = connection.execute(
            select(tables.ledger.c.encoded_names).where(
                tables.ledger.c.profile_id == profile.id
            )
        ).scalars()

        assert [None, None] == list(names)
    assert [] == rows_of(engine, tables.scored, profile)


def test_what_was_only_scored_is_forgotten(engine):
    """Nothing was learned, and nothing is left to forget a second time."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        put_many(connection, profile.id, [scored_row(1)])

    (outcome,) = teach(engine, profile, taught(1, None))
    (again,) = teach(engine, profile, taught(1, None))

    assert ("forgotten", None) == (outcome.kind, outcome.row)
    assert "unknown" == again.kind
    assert [] == rows_of(engine, tables.scored, profile)


def test_what_is_not_folded_or_followed_is_not_erased(engine):
    """The counts, and other processes, have yet to take it back."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}))
    fold_all(engine, profile)
    teach(engine, profile, taught(1, None))

    assert 0 == erase(engine, profile)
    fold_all(engine, profile)
    assert 0 == erase(engine, profile, upto=1)
    assert [1, 2] == kept(engine, profile)
    assert 1 == erase(engine, profile)


def test_a_message_with_many_rows_is_erased_in_steps(engine):
    """However often it was moved, a step reads no more rows than it may."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}))
    teach(engine, profile, *(taught(1, label) for label in ["ham", "spam"] * 5))
    teach(engine, profile, taught(1, None))
    fold_all(engine, profile)
    steps = []
    while True:
        with reading(engine) as connection:
            found = retention.prepare_erasure(connection, profile, upto=NEWEST, limit=5)
        if found is None:
            break
        with writing(engine) as connection:
            assert retention.write(connection, profile, found)
        assert sound(engine, profile)
        steps.append(len(found.revisions))

    assert [5, 5, 2] == steps
    assert [] == kept(engine, profile)


def test_a_message_that_was_learned_again_keeps_what_it_has_now(engine):
    """Only what was before it was forgotten goes."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    teach(engine, profile, taught(1, "ham", {"public": 1}, time=APRIL))
    fold_all(engine, profile)

    assert 1 == erase(engine, profile)
    assert [3] == kept(engine, profile)
    assert {"public"} == words(engine, profile)
    assert sound(engine, profile)


def test_what_an_undo_took_back_can_be_forgotten(engine):
    """It is not learned, but its features were kept for an undo of the undo."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}))
    with writing(engine) as connection:
        begin_undo(
            connection, profile, Selection(source="anna"), source="boss", time=APRIL
        )
    finish(engine, profile)

    (outcome,) = teach(engine, profile, taught(1, None, time=APRIL))
    fold_all(engine, profile)

    assert ("forgotten", None) == (outcome.kind, outcome.label_before)
    assert 1 == erase(engine, profile)
    assert [] == kept(engine, profile)
    assert sound(engine, profile)


@pytest.mark.parametrize("asked", [{"source": "anna"}, {"source": "ben"}])
@pytest.mark.parametrize("erased", [False, True])
def test_nothing_brings_a_forgotten_message_back(engine, asked, erased):
    """Nor does it keep the rest of a source from being undone."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}))
    teach(engine, profile, taught(2, "spam", {"other": 1}, source=asked["source"]))
    teach(engine, profile, taught(1, None, source="ben"))
    fold_all(engine, profile)
    if erased:
        erase(engine, profile)
    with writing(engine) as connection:
        found = begin_undo(
            connection, profile, Selection(**asked), source="boss", time=APRIL
        )
    finish(engine, profile)
    fold_all(engine, profile)

    assert {("spam", None): 1} == found.messages
    assert sound(engine, profile)
    assert set() == words(engine, profile)


def test_an_undo_of_a_forgotten_message_alone_is_empty(engine):
    """It is said that nothing is to be undone, not that it is too old."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    fold_all(engine, profile)
    erase(engine, profile)
    with reading(engine) as connection:
        found = undo_work.plan(
            connection,
            profile,
            Selection(ids=frozenset({digest(1)})),
            source="boss",
            time=APRIL,
        )

    assert found.empty


def test_an_undo_that_is_under_way_is_waited_for(engine):
    """It was planned with the rows that there are."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    teach(engine, profile, taught(2, "spam", {"other": 1}, source="ben"))
    fold_all(engine, profile)
    with writing(engine) as connection:
        begin_undo(
            connection, profile, Selection(source="ben"), source="boss", time=APRIL
        )

    assert 0 == erase(engine, profile)
    assert [1, 2, 3] == kept(engine, profile)
    finish(engine, profile)
    assert 1 == erase(engine, profile)


def test_what_was_sealed_before_stays_in_balance(engine):
    """A row whose vector was dropped for its age has its part in the sealed sums."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}, time=MARCH))
    teach(engine, profile, taught(1, "ham", time=APRIL))
    fold_all(engine, profile)
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=APRIL, limit=9)
    teach(engine, profile, taught(1, None, time=APRIL))
    fold_all(engine, profile)

    assert [2, 3] == kept(engine, profile)
    assert 1 == erase(engine, profile)
    assert [] == kept(engine, profile)
    assert sound(engine, profile)


def test_of_two_processes_one_erases(engine):
    """What the other has read is not there any more."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    fold_all(engine, profile)
    with reading(engine) as connection:
        found = retention.prepare_erasure(connection, profile, upto=NEWEST, limit=9)
    erase(engine, profile)
    with writing(engine) as connection:
        assert not retention.write(connection, profile, found)


def test_what_another_process_stored_late_is_erased(engine):
    """It had scored the message before; what was scored since stays."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    teach(engine, profile, taught(2, "spam", {"secret": 1}), taught(2, None))
    fold_all(engine, profile)
    with writing(engine) as connection:
        late = scored_row(1, time=MARCH - timedelta(seconds=1))
        again = scored_row(2, time=MARCH + timedelta(days=1))
        put_many(connection, profile.id, [late, again])
        lines = [noted(1, time=late.time), noted(2, time=again.time)]
        history.put_lines(connection, profile.id, lines)
    erase(engine, profile)
    with reading(engine) as connection:
        found = get_many(connection, profile.id, [digest(1), digest(2)])

    assert {digest(2)} == found.keys()
    assert 1 == len(rows_of(engine, tables.history, profile))


def test_a_profile_that_is_gone_has_nothing_to_erase(engine):
    """An import has put another in its place."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"secret": 1}), taught(1, None))
    fold_all(engine, profile)
    with reading(engine) as connection:
        found = retention.prepare_erasure(connection, profile, upto=NEWEST, limit=9)
    with writing(engine) as connection:
        for table in (tables.ledger, tables.fold, tables.profile):
            key = table.c.id if table is tables.profile else table.c.profile_id
            connection.execute(table.delete().where(key == profile.id))
    with pytest.raises(ProfileReplaced), writing(engine) as connection:
        retention.write(connection, profile, found)


@pytest.fixture
def file(tmp_path):
    """Return the path of an SQLite database, beside whose engine nothing is open."""
    return tmp_path / "site.db"


@pytest.fixture
def alone(file):
    """Return an engine of a database of its own."""
    engine = open_engine(f"sqlite:///{file}")
    migrate(engine)
    yield engine
    engine.dispose()


def some_ids(row):
    """Return the ids of some features as the vector of a row has them."""
    return row.vector[64:128]


def test_no_byte_of_a_forgotten_message_is_in_the_files(alone, file):
    """Neither in free pages nor in the log of SQLite."""
    profile = new_profile(alone)
    marks = [f"mark{n}x" for n in range(400)]
    teach(alone, profile, taught(1, "ham", {f"word{n}": 1 for n in range(400)}))
    with writing(alone) as connection:
        put_many(connection, profile.id, [scored_row(2, marks)])
    teach(alone, profile, taught(2, "spam", dict.fromkeys(marks, 1)))
    fold_all(alone, profile)
    with reading(alone) as connection:
        kept, row = rows_after(connection, profile.id, revision=0, limit=2)
    # Names are compressed; of the numbers, some are as good as all.
    traces = [row.encoded_names[-64:], some_ids(row), b"mark7x"]
    found = [each in b"".join(contents(file)) for each in traces]
    teach(alone, profile, taught(2, None))
    fold_all(alone, profile)
    erase(alone, profile)

    assert found[:2] == [True, True]
    assert checkpoint(alone, emptied=True)
    assert some_ids(kept) in b"".join(contents(file))
    assert not any(each in read for read in contents(file) for each in traces)


def contents(file):
    """Return the bytes of the files of a database."""
    return [path.read_bytes() for path in sorted(file.parent.glob(f"{file.name}*"))]


def test_a_log_that_a_reader_needs_is_emptied_later(alone):
    """The next look does it."""
    profile = new_profile(alone)
    teach(alone, profile, taught(1, "spam", {"secret": 1}))
    with reading(alone) as connection:
        connection.execute(select(func.count()).select_from(tables.ledger)).one()
        teach(alone, profile, taught(2, "spam", {"secret": 1}))

        assert not checkpoint(alone, emptied=True)
    assert checkpoint(alone, emptied=True)


def test_nobody_else_may_read_the_database(alone, file, tmp_path):
    """Nor its log, which has the same words, nor a copy."""
    before = os.umask(0)
    try:
        copy = tmp_path / "other.db"
        other = open_engine(f"sqlite:///{copy}")
        migrate(other)
        other.dispose()
    finally:
        os.umask(before)
    new_profile(alone)
    files = [*Path(file.parent).glob("site.db*"), copy]

    assert {"site.db", "site.db-wal", "site.db-shm", "other.db"} == {
        path.name for path in files
    }
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in files}


def test_what_is_learned_again_in_the_same_transaction_keeps_its_words(engine):
    """Only the rows up to where it was forgotten lose theirs."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "spam", {"secret": 1}),
        taught(1, None),
        taught(1, "ham", {"public": 1}),
    )
    fold_all(engine, profile)

    assert {"public"} == words(engine, profile)
