"""Feedback: learned once, moved exactly, taken back without a trace."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from app.classifier.snapshot import score
from app.errors import (
    DatabaseUnavailable,
    EmptyMessage,
    UnknownLabel,
    UnknownMessage,
    UnknownProfile,
)
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.services.classify import observe
from app.services.clock import now
from app.services.writer import Writer
from app.storage import fold as folding
from app.storage import hidden, profiles
from app.storage.database.engine import reading, writing
from app.storage.fold import folded_revision
from app.storage.ledger import append
from tests.support.application import maintain, running, teach
from tests.support.builders import fold as fold_some
from tests.support.databases import on_sqlite, sqlite_url
from tests.support.messages import HAM, SPAM, ham, spam


def state(app):
    """Return what the default profile knows: bit for bit comparable."""
    return app.live.get("default").snapshot.tables["words"].flatten()


def log_odds(app, raw):
    """Return the log-odds of a message now."""
    return app.classify("default", raw, strongest=0).verdict.log_odds


def fold(app):
    """Fold all of the ledger into the count tables."""
    folded = 1
    while folded:
        with writing(app.engine) as connection:
            folded = fold_some(connection, app.live.get("default").row, limit=2)


def difference(app):
    """Return what an audit of the default profile finds."""
    with reading(app.engine) as connection:
        return folding.audit(connection, app.live.get("default").row).difference


def put_in_its_place(engine, old, **other):
    """Replace a profile by one that has learned nothing, as an import does."""
    made_of = {
        "labels": old.labels,
        "spam_labels": old.spam_labels,
        "feature_set": old.feature_set,
    }
    with writing(engine) as connection:
        new = profiles.create(
            connection,
            name=hidden.hidden_name(old.name),
            created_at=old.created_at,
            **(made_of | other),
        )
        hidden.show(
            connection,
            new,
            instead_of=old,
            created_at=old.created_at,
            policy=old.policy,
        )


def test_what_is_taught_changes_the_next_score(app):
    """A message taught as spam scores higher than before."""
    teach(app, HAM[0], "ham")
    before = log_odds(app, SPAM[0])

    taught = teach(app, SPAM[0], "spam")

    assert ("learned", 2) == (taught.outcome.kind, taught.revision)
    assert taught.verdict_before.log_odds == before
    assert log_odds(app, SPAM[0]) > before


@on_sqlite
def test_a_profile_that_was_replaced_is_taught_as_soon_as_it_is_loaded(app):
    """Whoever teaches waits for it, whether the house-keeping has seen it or not."""
    app.scheduler.stop()
    teach(app, HAM[0], "ham")
    app.classify("default", SPAM[1], strongest=0)
    digest = app.feedback.identify("default", SPAM[1])
    old = app.live.get("default").row
    put_in_its_place(app.engine, old)
    taught = [
        app.feedback.teach_by_id("default", digest, label="spam", source="test"),
        teach(app, SPAM[0], "spam"),
    ]
    new = app.live.get("default").row

    assert ["learned"] * 2 == [each.outcome.kind for each in taught]
    assert [1, 2] == [each.revision for each in taught]
    assert old.id != new.id
    assert 2 == app.live.get("default").snapshot.revision


@on_sqlite
def test_the_upkeep_of_a_profile_that_was_replaced_goes_on_with_the_new_one(
    app, caplog
):
    """Nothing waits for the database then, and nobody reads so in the log."""
    caplog.set_level("INFO", logger="app.services")
    app.scheduler.stop()
    teach(app, SPAM[0], "spam")
    old = app.live.get("default").row
    app.maintenance()
    # It looks for an undo that is half done, and has seen no import in between.
    app.maintenance._undoing = deque([old.id])  # noqa: SLF001
    app.maintenance._follow_at = time.monotonic() + 3600  # noqa: SLF001
    put_in_its_place(app.engine, old)
    more = app.maintenance()
    app.maintenance()

    assert more
    assert old.id != app.live.get("default").row.id
    messages = [x.message for x in caplog.records if x.name != "app.services.feedback"]
    assert ["the profile 'default' was replaced; loading the new one"] == messages


@on_sqlite
def test_an_id_is_looked_for_in_the_profile_that_was_put_in_place(app):
    """What is not known there either is not there, and not to be sent again."""
    app.scheduler.stop()
    put_in_its_place(app.engine, app.live.get("default").row)
    with pytest.raises(UnknownMessage, match="nothing is stored"):
        app.feedback.teach_by_id("default", b"0" * 16, label="spam", source="test")
    put_in_its_place(app.engine, app.live.get("default").row)

    with pytest.raises(UnknownMessage, match="nothing to forget"):
        app.feedback.forget("default", b"0" * 16, source="test")


@on_sqlite
def test_the_answer_of_a_profile_that_was_replaced_is_in_the_new_one_s_labels(app):
    """Their order is that of the numbers of the verdict."""
    app.scheduler.stop()
    put_in_its_place(
        app.engine, app.live.get("default").row, labels=("spam", "ham", "news")
    )
    taught = teach(app, SPAM[0], "spam")

    assert ("spam", "ham", "news") == taught.profile.row.labels
    assert 3 == taught.verdict_before.log_posterior.size


@on_sqlite
def test_the_same_feedback_twice_is_learned_once(app):
    """Feedback is idempotent: the second time nothing changes."""
    teach(app, SPAM[0], "spam")
    once = state(app)

    again = teach(app, SPAM[0], "spam")

    assert ("unchanged", 1) == (again.outcome.kind, again.revision)
    assert once == state(app)


@on_sqlite
def test_another_label_moves_the_message(app):
    """A corrected message leaves the state of one that was right at once."""
    teach(app, HAM[0], "spam")
    teach(app, SPAM[0], "spam")

    moved = teach(app, HAM[0], "ham")

    assert "relabelled" == moved.outcome.kind
    assert ("spam", "ham") == (moved.outcome.label_before, moved.outcome.label)
    with running(database_url=app.settings.database_url, profile="other") as other:
        teach(other, SPAM[0], "spam", "other")
        teach(other, HAM[0], "ham", "other")
        expected = other.live.get("other").snapshot.tables["words"].flatten()
    assert expected == state(app)


@on_sqlite
def test_forgetting_leaves_no_trace(app):
    """A message taken back leaves the state that never learned it."""
    teach(app, SPAM[0], "spam")
    before = state(app)
    taught = teach(app, HAM[0], "ham")

    forgotten = app.feedback.forget("default", taught.outcome.digest, source="test")

    assert ("forgotten", None) == (forgotten.outcome.kind, forgotten.outcome.label)
    assert before == state(app)
    with pytest.raises(UnknownMessage, match="nothing to forget"):
        app.feedback.forget("default", taught.outcome.digest, source="test")


@on_sqlite
def test_a_message_is_taught_by_the_id_of_its_score(app):
    """No second upload: the id that scoring returned is enough at once."""
    classified = app.classify("default", SPAM[1], strongest=0)

    taught = app.feedback.teach_by_id(
        "default", classified.observation.digest, label="spam", source="test"
    )

    assert "learned" == taught.outcome.kind
    assert taught.verdict_before.log_odds == classified.verdict.log_odds
    assert {"words": state(app)} == app_taught_directly(app, SPAM[1])


def app_taught_directly(app, raw):
    """Return the state of a profile that was taught the bytes themselves."""
    with running(database_url=app.settings.database_url, profile="direct") as other:
        teach(other, raw, "spam", "direct")
        return {"words": other.live.get("direct").snapshot.tables["words"].flatten()}


@on_sqlite
def test_an_id_is_good_after_a_restart(database_url):
    """What was scored before a clean stop can be taught by id after it."""
    with running(database_url=database_url) as app:
        digest = app.classify("default", SPAM[1], strongest=0).observation.digest

    with running(database_url=database_url) as app:
        taught = app.feedback.teach_by_id(
            "default", digest, label="spam", source="test"
        )

    assert "learned" == taught.outcome.kind


@on_sqlite
def test_a_learned_message_is_moved_by_its_id(app):
    """A message that was taught with its bytes can be corrected by id."""
    taught = teach(app, HAM[1], "spam")

    moved = app.feedback.teach_by_id(
        "default", taught.outcome.digest, label="ham", source="test"
    )

    assert "relabelled" == moved.outcome.kind


@on_sqlite
def test_an_id_that_nobody_gave_is_unknown(app):
    """The error says to send the message itself."""
    with pytest.raises(UnknownMessage, match="send the message itself"):
        app.feedback.teach_by_id("default", bytes(16), label="ham", source="test")


@on_sqlite
def test_a_site_that_keeps_no_scores_cannot_teach_by_id(database_url):
    """With scored_days at 0 nothing is kept of a scored message."""
    with running(database_url=database_url, scored_days=0) as app:
        digest = app.classify("default", SPAM[1], strongest=0).observation.digest
        with pytest.raises(UnknownMessage, match="send the message itself"):
            app.feedback.teach_by_id("default", digest, label="spam", source="test")


@on_sqlite
def test_bad_names_are_refused_and_change_nothing(app):
    """A label, a profile or a message that is not there names itself."""
    with pytest.raises(UnknownLabel, match=r"'junk'.*ham, spam"):
        teach(app, SPAM[0], "junk")
    with pytest.raises(UnknownProfile, match="'nobody'"):
        teach(app, SPAM[0], "spam", "nobody")
    with pytest.raises(EmptyMessage, match="empty"):
        teach(app, b"", "spam")

    assert 0 == state(app).vocabulary
    assert 0 == app.live.get("default").snapshot.revision


def test_what_was_acknowledged_is_there_after_a_restart(database_url):
    """A restart gives the same score, bit for bit."""
    with running(database_url=database_url) as app:
        for n in range(12):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        before = state(app)
        scored = log_odds(app, spam(99))

    with running(database_url=database_url) as app:
        after = state(app)
        again = log_odds(app, spam(99))

    assert before == after
    assert scored == again


def test_concurrent_feedback_is_all_there_and_none_twice(app):
    """Sixteen threads teach, move and repeat; the ledger adds up."""
    jobs = [(ham(n), "ham") for n in range(40)] + [(spam(n), "spam") for n in range(40)]
    jobs += [(ham(n), "spam") for n in range(10)] + [
        (spam(n), "spam") for n in range(20)
    ]

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda job: teach(app, *job).outcome, jobs))

    revisions = sorted(o.row.revision for o in outcomes if o.row is not None)
    assert list(range(1, len(revisions) + 1)) == revisions
    assert 80 == app.live.get("default").snapshot.messages.sum()
    assert 0 == difference(app)
    app.stop()
    with running(database_url=app.settings.database_url) as other:
        assert state(other) == state(app)


def test_two_processes_follow_each_other(database_url):
    """What one learns the other answers with, after a refresh."""
    with (
        running(database_url=database_url) as one,
        running(database_url=database_url) as two,
    ):
        teach(one, SPAM[0], "spam")
        two.live.refresh()
        teach(two, HAM[0], "ham")
        teach(two, SPAM[1], "spam")
        one.live.refresh()

        assert state(one) == state(two)
        assert log_odds(one, SPAM[2]) == log_odds(two, SPAM[2])


def test_a_writer_that_missed_rows_reads_them_before_its_own(database_url):
    """Feedback after another process's catches up instead of skipping."""
    with (
        running(database_url=database_url) as one,
        running(database_url=database_url) as two,
    ):
        teach(one, SPAM[0], "spam")
        teach(two, HAM[0], "ham")

        assert 2 == two.live.get("default").snapshot.messages.sum()


def test_a_profile_made_elsewhere_is_noticed(app):
    """A profile that another process makes is there after a refresh."""
    with running(database_url=app.settings.database_url, profile="second"):
        pass

    app.live.refresh()

    assert "second" == app.live.get("second").row.name


def test_a_locked_database_refuses_feedback_and_goes_on_scoring(tmp_path):
    """While another process holds the lock: 503 for feedback, scores for mail."""
    url = sqlite_url(tmp_path)
    with (
        running(database_url=url, busy_timeout=0.2) as app,
        running(database_url=url) as other,
    ):
        teach(app, SPAM[0], "spam")
        teach(app, HAM[1], "ham")
        known = state(app)
        with writing(other.engine):
            with pytest.raises(DatabaseUnavailable, match="later"):
                teach(app, HAM[0], "ham")
            assert log_odds(app, SPAM[0]) > 0

        assert known == state(app)
        assert "learned" == teach(app, HAM[0], "ham").outcome.kind


@on_sqlite
def test_several_labels_are_learned_and_explained(database_url):
    """A site may have newsletters and phishing beside ham and spam."""
    with running(
        database_url=database_url,
        labels=("ham", "newsletter", "spam", "phishing"),
        spam_labels=("spam", "phishing"),
    ) as app:
        teach(app, HAM[0], "ham")
        teach(app, HAM[1], "newsletter")
        teach(app, SPAM[0], "spam")
        teach(app, SPAM[2], "phishing")
        classified = app.classify("default", SPAM[2], strongest=3)

    assert "phishing" == classified.specification.labels[classified.verdict.label]
    assert "spam" == classified.verdict.decision
    assert classified.verdict.log_odds == pytest.approx(
        sum(entry.log_odds for entry in classified.explanation.summands), abs=1e-9
    )


@on_sqlite
def test_a_site_without_words_stores_none(database_url, tmp_path):
    """With store_words off no text of a feature is in the database."""
    without = {"store_words": False, "key_file": tmp_path / "key"}
    with running(database_url=database_url, **without) as app:
        digest = app.classify("default", SPAM[1], strongest=0).observation.digest
        teach(app, SPAM[0], "spam")
        app.feedback.teach_by_id("default", digest, label="spam", source="test")
        fold(app)
        with reading(app.engine) as connection:
            names = connection.exec_driver_sql(
                "SELECT count(*) FROM feature_name"
            ).scalar()
            kept = connection.exec_driver_sql(
                "SELECT count(*) FROM ledger WHERE names IS NOT NULL"
            ).scalar()

    assert (0, 0) == (names, kept)


@on_sqlite
def test_score_before_learning_is_kept_in_the_ledger(app):
    """The ledger holds the verdict that the message had before it was learned."""
    teach(app, SPAM[0], "spam")
    snapshot = app.live.get("default").snapshot
    seen = observe(SPAM[1], snapshot.specification.views)
    expected = score(snapshot, seen.views)

    row = teach(app, SPAM[1], "spam").outcome.row

    assert expected.log_odds == row.scores["log_odds"]
    assert expected.decision == row.scores["decision"]
    assert set(snapshot.specification.verdict.names) == set(row.scores["terms"])


@on_sqlite
def test_a_profile_keeps_the_views_that_it_goes_by(database_url):
    """Text views that a site does not want are neither learned nor stored."""
    with running(database_url=database_url, text_views=("words", "grams")) as app:
        row = teach(app, SPAM[0], "spam").outcome.row
        views = app.live.get("default").snapshot.tables.keys()
        answer = app.classify("default", SPAM[1], strongest=0)

    expected = {"words", "grams"}
    assert expected == row.views.keys() == set(views)
    assert {"words", "grams"} == {name.split("/")[0] for name in row.scores["terms"]}
    assert {"words", "grams"} == answer.verdict.views.keys()


@on_sqlite
def test_a_view_that_is_added_later_learns_from_then_on(database_url):
    """Changing the views of a site loses nothing of what the others know."""
    with running(database_url=database_url, text_views=("words",)) as app:
        for n in range(3):
            teach(app, ham(n), "ham")
            teach(app, spam(n), "spam")
        before = state(app)
    with running(database_url=database_url, text_views=("words", "pairs")) as app:
        known = state(app)
        teach(app, ham(9), "ham")
        teach(app, spam(9), "spam")
        moved = teach(app, spam(0), "ham")
        pairs = app.live.get("default").snapshot.tables["pairs"]

    assert before == known
    assert "relabelled" == moved.outcome.kind
    assert [1, 1] == pairs.messages.tolist()


def test_a_ledger_that_went_back_is_loaded_anew(database_url):
    """After a restored backup, memory is what the database says, and learns on."""
    with running(database_url=database_url) as app:
        for n in range(3):
            teach(app, ham(n), "ham")
        kept = state(app)
        for n in range(3):
            teach(app, spam(n), "spam")
        # As twice a second: what went back to where the last look was looks the same.
        app.live.refresh()
        with writing(app.engine) as connection:
            # First, so that a fold that is under way has ended: what it wrote would
            # not be seen by the rest, and be there afterwards.
            connection.exec_driver_sql("UPDATE fold SET folded_revision = 0")
            connection.exec_driver_sql("DELETE FROM ledger WHERE revision > 3")
            connection.exec_driver_sql("DELETE FROM run")
            connection.exec_driver_sql("DELETE FROM class_count")
            connection.exec_driver_sql("UPDATE profile SET revision = 3")
        app.live.refresh()

        assert kept == state(app)
        assert 4 == teach(app, spam(7), "spam").revision
        assert 4 == app.live.get("default").snapshot.messages.sum()


def test_revisions_given_out_twice_are_noticed_when_learning(database_url):
    """A ledger that went back between two looks is seen by the next feedback."""
    with running(database_url=database_url) as app:
        for n in range(3):
            teach(app, ham(n), "ham")
        app.writer.stop()
        app.scheduler.stop()
        live = app.live.get("default")
        live.snapshot.revision = 9
        other = Writer(app.engine)
        other.start()
        app.feedback = replace(app.feedback, writer=other)
        teach(app, spam(1), "spam")
        other.stop()

        assert 4 == live.snapshot.revision
        assert [3, 1] == live.snapshot.messages.tolist()


@on_sqlite
def test_one_broken_profile_does_not_stop_the_others(database_url):
    """A vector that cannot be read keeps its own profile from folding, only."""
    with (
        running(database_url=database_url) as app,
        running(database_url=database_url, profile="zzz") as other,
    ):
        app.scheduler.stop()
        other.scheduler.stop()
        broken, sound = app.live.get("default").row, other.live.get("zzz").row
        for row in (broken, sound):
            with writing(app.engine) as connection:
                seen = observe(spam(1), {"words"})
                learned = Teaching(
                    digest=seen.digest,
                    label="spam",
                    evidence=ScoredRow.of(seen, time=now()),
                    source="test",
                    time=now(),
                )
                append(connection, row, [learned])
        with writing(app.engine) as connection:
            connection.execute(
                text("UPDATE ledger SET vector = :junk WHERE profile_id = :id"),
                {"junk": b"xx", "id": broken.id},
            )
        app.live.refresh()
        maintain(app)
        with reading(app.engine) as connection:
            folded = [folded_revision(connection, row.id) for row in (broken, sound)]

    assert [0, 1] == folded
