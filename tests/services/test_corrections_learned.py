"""Corrections on a running application: what a row says was learned where."""

from __future__ import annotations

import pytest

from app.bayes.state import State
from app.classifier.record import record
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import weighted
from app.ledger.entry import sum_by_epoch
from app.ledger.undo import Selection
from app.services.upkeep import Folding
from app.storage import ledger
from app.storage.database.engine import reading
from app.storage.fold import audit, load
from tests.support.application import running, teach
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

VIEW = "corrections"


def learned(app):
    """Return the counts of the view in memory, as one value."""
    return app.live.get("default").snapshot.tables[VIEW].flatten()


def fold(app):
    """Fold everything, and return the counts of the view in the database."""
    live = app.live.get("default")
    for _ in Folding(app.engine).all(live.row):
        pass
    with reading(app.engine) as connection:
        assert audit(connection, live.row).sound
        return load(connection, live.row).tables[VIEW].flatten()


def of_others(scores):
    """Return the part of a record that does not depend on the grams."""
    terms = {
        name: said
        for name, said in scores["terms"].items()
        if not name.startswith("grams/")
    }
    return scores["prior"], terms


@pytest.fixture
def app(database_url):
    """Return an application that has learned ten messages of either kind."""
    with running(database_url=database_url) as application:
        for n in range(10):
            teach(application, ham(n), "ham")
            teach(application, spam(n), "spam")
        yield application


@on_sqlite
def test_what_it_knows_already_is_not_learned(app):
    """The first message is learned there, and one like it is not."""
    taught = learned(app).messages.tolist()

    row = teach(app, spam(99), "spam").outcome.row

    assert all(0 < n < 10 for n in taught)
    assert VIEW not in row.views
    assert taught == learned(app).messages.tolist()


@on_sqlite
def test_what_it_has_wrong_is_learned_and_moved_and_forgotten(app):
    """The row says what was learned, so a new label moves just that."""
    before = learned(app)

    row = teach(app, spam(99), "ham").outcome.row
    wrong = learned(app)
    moved = teach(app, spam(99), "spam").outcome.row
    right = learned(app)
    app.feedback.forget("default", row.digest, source="test")

    assert row.views[VIEW] == moved.views[VIEW]
    assert [1, 0] == (wrong - before).messages.tolist()
    assert [0, 1] == (right - before).messages.tolist()
    assert before == learned(app) == fold(app)


@on_sqlite
def test_what_was_not_learned_there_is_not_moved_there(app):
    """A label that is changed later takes back what its row taught, and no more."""
    before = learned(app)
    teach(app, spam(99), "spam")

    row = teach(app, spam(99), "ham").outcome.row

    assert "relabelled" == teach(app, spam(99), "spam").outcome.kind
    assert VIEW not in row.views
    assert before == learned(app) == fold(app)


@on_sqlite
def test_an_undo_takes_back_what_the_rows_taught(app):
    """And to undo it brings just that back."""
    before = learned(app)
    for n in (90, 91):
        app.feedback.teach("default", spam(n), label="ham", source="ben")
    taught = learned(app)

    for source, expected in (("ben", before), ("undo:1", taught)):
        undone = app.undo.begin("default", Selection(source=source), source="test")
        for _ in app.undo.finish(undone):
            pass
        assert expected == learned(app) == fold(app)
    assert before != taught


@on_sqlite
def test_what_was_undone_is_judged_anew(app):
    """Taught again, by its id, it is learned there if the verdict is wrong then."""
    digest = teach(app, spam(99), "ham").outcome.digest
    undone = app.undo.begin(
        "default", Selection(ids=frozenset({digest})), source="test"
    )
    for _ in app.undo.finish(undone):
        pass
    before = learned(app)

    row = app.feedback.teach_by_id(
        "default", digest, label="spam", source="test"
    ).outcome.row

    assert VIEW not in row.views
    assert before == learned(app) == fold(app)


@on_sqlite
def test_the_ledger_makes_the_counts_again(app):
    """Its rows, learned one by one in their order, are scored as they were."""
    live = app.live.get("default")
    specification = live.specification
    snapshot = Snapshot.empty(specification)
    with reading(app.engine) as connection:
        rows = ledger.rows_after(connection, live.row.id, revision=0, limit=100)
    for row in rows:
        scored, again = row.scores, record(score(snapshot, row.views), specification)
        if "grams" not in row.views:
            # They said enough, so the row does not hold them.
            scored, again = of_others(scored), of_others(again)
        assert scored == again
        change = weighted(sum_by_epoch([row], specification.labels), None)
        snapshot.learn(State.sum(change), revision=row.revision, lessons=[row.lesson])

    assert learned(app) == snapshot.tables[VIEW].flatten() == fold(app)
