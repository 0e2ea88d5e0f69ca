"""The ledger: what teaching writes, and what it does not."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from itertools import count

import pytest
from sqlalchemy import text, update

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.errors import CorruptVector, InconsistentCounts, ProfileReplaced, UnknownLabel
from app.features.observation import Observation
from app.ledger import entry
from app.ledger.entry import epoch_of
from app.ledger.teaching import Teaching
from app.storage import scored, tables
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, get_many, latest_of, rows_after
from tests.support.builders import (
    APRIL,
    MARCH,
    digest,
    new_profile,
    observed,
    rows_of,
    sparse,
    taught,
    teach,
)
from tests.support.databases import on_postgresql, on_sqlite


def kinds(outcomes):
    """Return what became of each teaching."""
    return [outcome.kind for outcome in outcomes]


def ledger_of(engine, profile):
    """Return all rows of a profile's ledger."""
    with reading(engine) as connection:
        return rows_after(connection, profile.id, revision=0, limit=10_000)


def test_learning_writes_one_row_that_says_everything(engine):
    """The row comes back as it was written, and tells the vector and its words."""
    profile = new_profile(engine)
    scores = {"words": {"log_odds": 1.25}, "headers": None}
    (outcome,) = teach(
        engine, profile, taught(1, "spam", {"money": 2, "now": 1}, scores=scores)
    )
    (row,) = ledger_of(engine, profile)

    assert row == outcome.row
    assert ("learned", None, "spam") == (
        outcome.kind,
        outcome.label_before,
        outcome.label,
    )
    assert (1, digest(1), None, "spam") == (
        row.revision,
        row.digest,
        row.label_before,
        row.label,
    )
    assert {"words": sparse({"money": 2, "now": 1})} == row.views
    assert {"money", "now"} == set(row.names["words"])
    assert (202603, 1, "anna", MARCH, scores) == (
        row.epoch,
        row.feature_set,
        row.source,
        row.time,
        row.scores,
    )


def test_the_same_message_with_the_same_label_writes_nothing(engine):
    """Not even where its features are others by now."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}))
    (outcome,) = teach(engine, profile, taught(1, "spam", {"money": 1, "more": 1}))

    assert ("unchanged", "spam", "spam", None) == (
        outcome.kind,
        outcome.label_before,
        outcome.label,
        outcome.row,
    )
    assert 1 == len(ledger_of(engine, profile))


def test_another_label_moves_what_was_learned(engine):
    """One row, with the stored vector and in the month of the first learning."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}))
    (outcome,) = teach(
        engine, profile, taught(1, "ham", {"other": 5}, time=APRIL, source="ben")
    )
    row = ledger_of(engine, profile)[-1]

    assert ("relabelled", "spam", "ham") == (
        outcome.kind,
        outcome.label_before,
        outcome.label,
    )
    assert {"words": sparse({"money": 1})} == row.views
    assert {"words": ("money",)} == row.names
    assert (202603, APRIL, "ben") == (row.epoch, row.time, row.source)


def test_forgetting_takes_back_what_was_learned(engine):
    """One row whose label is none, in the month of the first learning."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}))
    (outcome,) = teach(engine, profile, taught(1, None, time=APRIL))
    row = ledger_of(engine, profile)[-1]

    assert ("forgotten", "spam", None) == (
        outcome.kind,
        outcome.label_before,
        outcome.label,
    )
    assert {"words": sparse({"money": 1})} == row.views
    assert 202603 == row.epoch


def test_what_was_not_learned_cannot_be_forgotten(engine):
    """Neither what never was, nor what is forgotten already."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}), taught(1, None))
    outcomes = teach(engine, profile, taught(1, None), taught(2, None))

    assert ["unknown", "unknown"] == kinds(outcomes)
    assert 2 == len(ledger_of(engine, profile))


def test_a_forgotten_message_is_learned_anew_in_the_month_of_now(engine):
    """As what it is then: by its id alone nothing of it is known."""
    profile = new_profile(engine)
    for message in (1, 2):
        teach(engine, profile, taught(message, "spam", {"money": 1}))
        teach(engine, profile, taught(message, None))
    by_id, anew = teach(
        engine,
        profile,
        taught(1, "ham", time=APRIL),
        taught(2, "ham", {"fresh": 1}, time=APRIL),
    )

    assert ["unknown", "learned"] == kinds([by_id, anew])
    assert 202604 == anew.row.epoch
    assert {"words": sparse({"fresh": 1})} == anew.row.views


def test_a_message_is_taught_by_id_after_it_was_scored(engine):
    """The features are those it was scored with, names and all."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        row = entry.ScoredRow.of(observed(1, {"money": 2}), time=MARCH)
        scored.put_many(connection, profile.id, [row])
    known, unknown = teach(
        engine, profile, taught(1, "spam", time=APRIL), taught(2, "spam")
    )

    assert ["learned", "unknown"] == kinds([known, unknown])
    assert {"words": sparse({"money": 2})} == known.row.views
    assert {"words": ("money",)} == known.row.names
    assert (202604, APRIL) == (known.row.epoch, known.row.time)


def test_views_are_moved_and_forgotten_by_what_was_stored(engine):
    """Taught by id after it was scored, then moved and forgotten, all with one vector."""
    profile = new_profile(engine)
    mixed = observed(1, {"money": 2}, {"size": 7, "skew": 3})
    with writing(engine) as connection:
        row = entry.ScoredRow.of(mixed, time=MARCH)
        scored.put_many(connection, profile.id, [row])
    outcomes = [
        *teach(engine, profile, taught(1, "spam")),
        *teach(engine, profile, taught(1, "ham", {"other": 1}, {"size": 9})),
        *teach(engine, profile, taught(1, None)),
    ]
    deltas = [outcome.row.delta(profile.labels) for outcome in outcomes]

    assert ["learned", "relabelled", "forgotten"] == kinds(outcomes)
    for outcome in outcomes:
        assert mixed.views == outcome.row.views
    assert [mixed.names, mixed.names, {}] == [each.row.names for each in outcomes]
    assert {
        "words": FeatureCounts.zero(2),
        "pairs": FeatureCounts.zero(2),
    } == State.sum(deltas)


def test_a_message_may_occur_twice_in_one_batch(engine):
    """Each teaching is decided after the one before it."""
    profile = new_profile(engine)
    outcomes = teach(
        engine,
        profile,
        taught(1, "spam", {"money": 1}),
        taught(1, "spam", {"money": 1}),
        taught(2, None),
        taught(1, "ham"),
        taught(1, None),
        taught(1, "spam", {"money": 2}),
        taught(2, "ham", {"meeting": 1}),
    )

    assert [
        "learned",
        "unchanged",
        "unknown",
        "relabelled",
        "forgotten",
        "learned",
        "learned",
    ] == kinds(outcomes)
    assert [1, 2, 3, 4, 5] == [row.revision for row in ledger_of(engine, profile)]
    assert [None, "spam", "ham", None, None] == [
        row.label_before for row in ledger_of(engine, profile)
    ]


def test_revisions_go_on_where_they_stopped(engine):
    """Consecutive over transactions, and each profile has its own."""
    one, other = new_profile(engine), new_profile(engine)
    for message in range(3):
        teach(engine, one, taught(message, "ham", {"a": 1}))
        teach(engine, other, taught(message, "spam", {"a": 1}))

    assert [1, 2, 3] == [row.revision for row in ledger_of(engine, one)]
    assert ["spam"] * 3 == [row.label for row in ledger_of(engine, other)]


def test_a_batch_larger_than_one_query_finds_every_message(engine):
    """All of 1,100 messages are recognised when they come again."""
    profile = new_profile(engine)
    batch = [taught(message, "ham", {"a": 1}) for message in range(1100)]
    teach(engine, profile, *batch)
    outcomes = teach(engine, profile, *batch)

    assert ["unchanged"] * 1100 == kinds(outcomes)


def test_an_empty_batch_is_no_transaction_to_speak_of(engine):
    """Nothing is written and nothing fails."""
    profile = new_profile(engine)

    assert [] == teach(engine, profile)
    assert [] == ledger_of(engine, profile)


def test_an_unknown_label_refuses_the_whole_batch(engine):
    """The sentence names the label and those that there are."""
    profile = new_profile(engine)

    with pytest.raises(UnknownLabel, match=r"no label 'span'; .* ham, spam"):
        teach(
            engine,
            profile,
            taught(1, "spam", {"money": 1}),
            taught(2, "span", {"money": 1}),
        )
    assert [] == ledger_of(engine, profile)


def test_a_profile_that_is_gone_is_an_error(engine):
    """Its ledger does not grow without it."""
    profile = new_profile(engine)
    with writing(engine) as connection:
        for table in (tables.fold, tables.profile):
            key = "id" if table is tables.profile else "profile_id"
            connection.execute(table.delete().where(table.c[key] == profile.id))

    with pytest.raises(ProfileReplaced, match="send it again"):
        teach(engine, profile, taught(1, "spam", {"money": 1}))


def test_a_vector_that_was_dropped_cannot_be_taken_back(engine):
    """The message is still known, but neither moved nor forgotten."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}))
    with writing(engine) as connection:
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.profile_id == profile.id)
            .values(vector=None)
        )
    outcomes = teach(
        engine,
        profile,
        taught(1, "spam"),
        taught(1, "ham", {"money": 1}),
        taught(1, None),
    )
    (row,) = ledger_of(engine, profile)

    assert ["unchanged", "expired", "expired"] == kinds(outcomes)
    with pytest.raises(CorruptVector, match="row 1 was dropped for its age"):
        row.delta(profile.labels)


def test_a_dropped_vector_of_a_forgotten_message_is_unknown(engine):
    """By id it cannot be learned; with its features it can."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}), taught(1, None))
    with writing(engine) as connection:
        connection.execute(
            update(tables.ledger)
            .where(tables.ledger.c.profile_id == profile.id)
            .values(vector=None)
        )
    outcomes = teach(engine, profile, taught(1, "ham"), taught(1, "ham", {"money": 1}))

    assert ["unknown", "learned"] == kinds(outcomes)


@on_sqlite
def test_any_number_of_rows_is_read_by_their_revisions(engine):
    """Also more than there may be variables in one statement."""
    profile = new_profile(engine)
    teach(engine, profile, *(taught(n, "ham", {"lunch": 1}) for n in range(3)))
    with reading(engine) as connection:
        driver = connection.connection.driver_connection
        driver.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)
        rows = get_many(connection, profile.id, range(1_200, 1, -1))

    assert [2, 3] == [row.revision for row in rows]


def test_rows_are_followed_a_few_at_a_time(engine):
    """A reader that asks after the last revision it has seen misses none."""
    profile = new_profile(engine)
    teach(engine, profile, *(taught(m, "ham", {"a": 1}) for m in range(5)))
    with reading(engine) as connection:
        seen = [
            [
                row.revision
                for row in rows_after(connection, profile.id, revision=r, limit=2)
            ]
            for r in (0, 2, 4, 5)
        ]

    assert [[1, 2], [3, 4], [5], []] == seen


def test_an_observation_without_names_keeps_none(engine):
    """On a site that stores no words the column is empty."""
    profile = new_profile(engine)
    observation = Observation(digest(1), 1, {"words": sparse({"money": 1})})
    teach(
        engine,
        profile,
        Teaching(
            digest=digest(1),
            label="spam",
            evidence=entry.ScoredRow.of(observation, time=MARCH),
            source="anna",
            time=MARCH,
        ),
    )
    (row,) = ledger_of(engine, profile)

    assert row.encoded_names is None
    assert {} == row.names


def test_a_label_that_the_profile_lacks_is_inconsistent(engine):
    """Its delta has no class to go to."""
    profile = new_profile(engine)
    (outcome,) = teach(engine, profile, taught(1, "spam", {"money": 1}))

    with pytest.raises(InconsistentCounts, match=r"row 1 moves .* None to spam"):
        outcome.row.delta(("ham", "junk"))


def test_an_epoch_is_the_month_in_utc():
    """Not the month on the clock of whoever taught."""
    tokyo = timezone(timedelta(hours=9))

    assert 202512 == epoch_of(datetime(2026, 1, 1, 8, 59, tzinfo=tokyo))
    assert 202601 == epoch_of(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="no time zone"):
        epoch_of(datetime(2026, 1, 1))  # noqa: DTZ001


@on_sqlite
def test_a_person_can_read_the_ledger_with_sqlite3(engine, tmp_path):
    """Labels, source, time and scores are text."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"money": 1}, scores={"words": 0.5}))
    file = sqlite3.connect(tmp_path / "postbayes.db")
    row = file.execute(
        "SELECT label_before, label, epoch, source, time, scores FROM ledger"
    ).fetchone()
    labels = file.execute("SELECT labels FROM profile").fetchone()
    file.close()

    assert (
        None,
        "spam",
        202603,
        "anna",
        "2026-03-14 09:30:00.000000",
        '{"words":0.5}',
    ) == row
    assert ('["ham","spam"]',) == labels


def test_what_fails_halfway_leaves_nothing(engine):
    """Rows, revision and all are rolled back with the transaction."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    before = rows_of(engine, tables.ledger, profile)

    class PowerCutError(Exception):
        """Something that happens before the commit."""

    def cut():
        with writing(engine) as connection:
            append(connection, profile, [taught(2, "spam", {"b": 1})])
            raise PowerCutError

    with pytest.raises(PowerCutError):
        cut()

    assert before == rows_of(engine, tables.ledger, profile)
    assert ["learned"] == kinds(teach(engine, profile, taught(2, "spam", {"b": 1})))
    assert [1, 2] == [row.revision for row in ledger_of(engine, profile)]


@on_sqlite
def test_the_newest_row_of_a_message_is_found_without_the_others(engine):
    """Whoever moves one message again and again must not make each lesson slower."""

    def instructions(moves):
        profile = new_profile(engine)
        labels = ("spam", "ham") * (moves // 2)
        teach(engine, profile, *(taught("moved", each, {"a": 1}) for each in labels))
        counted = count()
        with reading(engine) as connection:
            database = connection.connection.driver_connection
            database.set_progress_handler(lambda: next(counted) < 0, 1)
            found = latest_of(connection, profile.id, {digest("moved")})
            database.set_progress_handler(None, 0)
        assert [moves] == [row.revision for row in found.values()]
        return next(counted)

    assert instructions(400) < 2 * instructions(4)


@on_postgresql
def test_a_plan_of_a_young_ledger_serves_it_later(engine):
    """PostgreSQL keeps one until it analyses the table, which may take minutes."""
    profile = new_profile(engine)

    def scanned(connection):
        """Return how often the ledger was looked into, in this session."""
        return connection.execute(
            text(
                "SELECT seq_scan + idx_scan FROM pg_stat_xact_user_tables"
                " WHERE relid = 'ledger'::regclass"
            )
        ).scalar_one()

    def scans():
        with reading(engine) as connection:
            before = scanned(connection)
            latest_of(connection, profile.id, {digest(1)})
            return scanned(connection) - before

    # Prepared at the sixth time, and planned for good five times later.
    for _ in range(12):
        scans()
    teach(engine, profile, *(taught(n, "ham", {"a": 1}) for n in range(300)))

    assert scans() < 10
