"""Sums and undos in a profile's ledger, and what the tables make of them."""

from __future__ import annotations

from app.bayes.state import State
from app.classifier.learn import delta
from app.ledger.sums import encode_sums
from app.storage import fold, tables, undo_work
from app.storage.database.engine import reading, writing
from app.storage.fold import audit
from app.storage.ledger import append_sums, latest_of
from tests.support.builders import (
    APRIL,
    MARCH,
    begin_undo,
    counts_of,
    digest,
    fold_all,
    rows_of,
    sparse,
)

MAIL = [
    (0, {"money": 1, "now": 2}, {"size": 7}),
    (1, {"money": 3, "cheap": 1}, {"size": 2, "skew": 4}),
    (1, {"cheap": 2}, None),
]


def learned(messages=MAIL, *, n_classes=2):
    """Return what messages teach, view by view."""
    deltas = []
    for label, words, pairs in messages:
        views = {"words": sparse(words)}
        if pairs is not None:
            views["pairs"] = sparse(pairs)
        deltas.append(delta(views, before=None, after=label, n_classes=n_classes))
    return State.sum(deltas)


def add(engine, profile, sums, *, source="import:test", time=MARCH, names=None):
    """Append sums in one transaction and return their rows."""
    with writing(engine) as connection:
        states = {month: State(views) for month, views in sums.items()}
        made = encode_sums(states, profile.labels, names)
        return append_sums(connection, profile, made, source=source, time=time)


def loaded(engine, profile):
    """Return the state of a profile."""
    with reading(engine) as connection:
        return fold.load(connection, profile).tables


def audited(engine, profile):
    """Return whether the ledger and the tables agree, and up to where."""
    with reading(engine) as connection:
        found = audit(connection, profile)
    return found.sound, found.folded_revision


def counted(engine, profile):
    """Return all that is counted, and the text of it."""
    rows = [
        rows_of(engine, table, profile)
        for table in (tables.class_count, tables.feature_name)
    ]
    return [counts_of(engine, profile), *rows]


def begin(engine, profile, asked, *, source="boss", time=APRIL):
    """Note an undo and return its plan."""
    with writing(engine) as connection:
        return begin_undo(connection, profile, asked, source=source, time=time)


def planned(engine, profile, asked, *, source="boss", time=APRIL):
    """Return the plan of an undo that is not noted yet."""
    with reading(engine) as connection:
        return undo_work.plan(connection, profile, asked, source=source, time=time)


def finish(engine, profile, *, limit=256):
    """Carry out what was begun, and return how many rows that were."""
    written = 0
    while True:
        with writing(engine) as connection:
            rows = undo_work.step(connection, profile, limit=limit)
        if not rows:
            with reading(engine) as connection:
                if not undo_work.pending(connection, profile.id):
                    return written
        written += len(rows)


def labels_of(engine, profile, messages=range(4)):
    """Return what each message is learned as now."""
    with reading(engine) as connection:
        found = [
            latest_of(connection, profile.id, [digest(m)]).get(digest(m))
            for m in messages
        ]
    return [row and row.label for row in found]


def contents(engine, profile):
    """Return all counts of a profile, folded."""
    fold_all(engine, profile)
    return counted(engine, profile)


def noted(engine, profile, plan):
    """Return whether a plan could be noted."""
    with writing(engine) as connection:
        return undo_work.begin(connection, profile, plan)
