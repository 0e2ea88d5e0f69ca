"""Pruning: features that say next to nothing, out of the counts and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from app.errors import DatabaseUnavailable, Irreversible
from app.ledger.undo import Selection
from app.services import upkeep
from app.services.upkeep import Folding, months_before
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.pruning import carry_out, find
from tests.support.builders import (
    APRIL,
    MARCH,
    counts_of,
    digest,
    drop_vectors,
    feature,
    fold_all,
    folded,
    named,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.ledger import audited, begin, contents, finish, labels_of, loaded

LONG_AGO = datetime(2025, 1, 10, tzinfo=UTC)
NOW = datetime(2026, 4, 20, tzinfo=UTC)


def drop(engine, profile, *, before=MARCH):
    """Fold, and drop the vectors of before March."""
    fold_all(engine, profile)
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=before, limit=1000)


def found(engine, profile, *, max_messages=1, before_epoch=202601, weak=()):
    """Return what can be done without."""
    with reading(engine) as connection:
        return find(
            connection,
            profile,
            views={"words"},
            max_messages=max_messages,
            before_epoch=before_epoch,
            weak={"words": np.array([feature(word) for word in weak], np.int64)},
        )


def prune(engine, profile, **asked):
    """Prune, and fold."""
    pruning = found(engine, profile, **asked)
    with writing(engine) as connection:
        rows = carry_out(connection, profile, pruning, time=NOW)
    fold_all(engine, profile)
    return rows


def words_of(engine, profile):
    """Return the words that are counted."""
    names = {feature(word): word for word in ("rare", "old", "new", "both", "far")}
    return {
        names[number]
        for _, view, x in counts_of(engine, profile).parts()
        if view == "words"
        for number in x.ids.tolist()
    }


@pytest.fixture
def profile(engine):
    """A profile that has learned three messages long ago and one lately."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "spam", {"rare": 3, "old": 1}, {"size": 1}, time=LONG_AGO),
        taught(2, "ham", {"old": 1, "both": 1}, time=LONG_AGO),
        taught(3, "ham", {"far": 1}, time=LONG_AGO),
        taught(4, "spam", {"new": 1, "both": 1}, time=APRIL),
    )
    return profile


def test_what_few_had_long_ago_goes(engine, profile):
    """Words of more messages, and of new ones, stay; so do messages and sizes."""
    drop(engine, profile)
    before = loaded(engine, profile)
    (row,) = prune(engine, profile)
    after = loaded(engine, profile)

    assert {"old", "new", "both"} == words_of(engine, profile)
    assert ("sum", "prune", 202501) == (row.kind, row.source, row.epoch)
    assert before["words"].messages.tolist() == after["words"].messages.tolist()
    assert before["pairs"] == after["pairs"]
    assert {"old", "new", "both"} == set(named(engine, profile)["words"].values())
    assert (True, 5) == audited(engine, profile)


def test_what_more_messages_had_goes_if_asked(engine, profile):
    """In all epochs and labels together."""
    drop(engine, profile)
    prune(engine, profile, max_messages=2)

    assert {"new", "both"} == words_of(engine, profile)


def test_what_is_weak_goes_however_many_had_it(engine, profile):
    """If it is as old as the rest; a word of yesterday stays, and so do the others."""
    drop(engine, profile)
    before = contents(engine, profile)
    rows = prune(engine, profile, max_messages=0, weak=["old", "both", "strange"])
    left = words_of(engine, profile)
    undo = begin(engine, profile, Selection(source="prune"))
    finish(engine, profile)

    assert {"rare", "far", "new", "both"} == left
    assert (1, True) == (len(rows), audited(engine, profile)[0])
    assert 1 == len(undo.work)
    assert before[:2] == contents(engine, profile)[:2]


def test_a_pruning_is_undone(engine, profile):
    """Bit for bit; only the text of the words is gone."""
    drop(engine, profile)
    before = contents(engine, profile)[:2]
    prune(engine, profile)
    begin(engine, profile, Selection(source="prune"))
    finish(engine, profile)

    assert before == contents(engine, profile)[:2]
    assert (True, 6) == audited(engine, profile)


def test_what_can_still_be_taken_back_is_not_pruned(engine, profile):
    """So that forgetting a message never finds its counts gone."""
    fold_all(engine, profile)
    nothing = found(engine, profile)
    drop(engine, profile, before=LONG_AGO + timedelta(hours=1))
    teach(engine, profile, taught(4, "ham", time=APRIL))
    fold_all(engine, profile)
    prune(engine, profile)
    teach(engine, profile, taught(4, None))
    fold_all(engine, profile)

    assert (0, {}, []) == (nothing.rows, dict(nothing.features), nothing.sums)
    assert [None] == labels_of(engine, profile, [4])
    assert {"old", "both"} == words_of(engine, profile)
    assert (True, 7) == audited(engine, profile)


def test_a_message_that_was_moved_lately_protects_its_words(engine):
    """Its month is long ago, but its newest row has the vector."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "spam", {"rare": 1}, time=LONG_AGO))
    teach(engine, profile, taught(1, "ham", time=APRIL))
    drop(engine, profile)
    rows = prune(engine, profile)
    teach(engine, profile, taught(1, None))
    fold_all(engine, profile)

    assert [] == rows
    assert not words_of(engine, profile)
    assert (True, 3) == audited(engine, profile)


def test_two_prunings_at_once_prune_once(engine, profile):
    """The later one finds that something was pruned, and changes nothing."""
    drop(engine, profile)
    one, other = found(engine, profile), found(engine, profile)
    with writing(engine) as connection:
        carry_out(connection, profile, one, time=NOW)

    def again():
        with writing(engine) as connection:
            carry_out(connection, profile, other, time=NOW)

    with pytest.raises(Irreversible, match="in the meantime"):
        again()
    fold_all(engine, profile)
    assert (True, 5) == audited(engine, profile)


def test_feedback_in_the_meantime_changes_nothing(engine, profile):
    """A word that comes back is counted anew."""
    drop(engine, profile)
    pruning = found(engine, profile)
    teach(engine, profile, taught(5, "ham", {"rare": 1}, time=APRIL))
    with writing(engine) as connection:
        carry_out(connection, profile, pruning, time=NOW)
    fold_all(engine, profile)

    assert {"rare", "old", "new", "both"} == words_of(engine, profile)
    assert (True, 6) == audited(engine, profile)


def look(engine, profile, *, progress=lambda _: None):
    """Return what a command would prune."""
    return upkeep.prunable(
        engine, profile, max_messages=1, months=12, time=NOW, progress=progress
    )


def use(engine, profile):
    """Prune as a command does."""
    made = look(engine, profile)
    return upkeep.prune(engine, profile, made, time=NOW, progress=lambda _: None)


def test_pruning_and_pruning_again(engine, profile):
    """The use case says what it would do, and what it did."""
    drop(engine, profile)
    told = look(engine, profile)
    done = use(engine, profile)
    teach(engine, profile, taught(5, "ham", {"new": 1}, time=APRIL))
    again = use(engine, profile)

    assert ({"pairs": 1, "words": 2}, 3, 4) == (
        dict(told.features),
        told.rows,
        told.revision,
    )
    assert ({"pairs": 1, "words": 2}, 3, 5) == (
        dict(done.features),
        done.rows,
        done.revision,
    )
    assert ({}, 0, 6) == (dict(again.features), again.rows, again.revision)
    # What is taught is folded by who teaches.
    assert 5 == folded(engine, profile)


def test_feedback_that_is_not_folded_changes_nothing(engine, profile):
    """So that no fold has to keep up with it, but words of it stay.

    Whether it learns, moves or forgets.
    """
    drop(engine, profile)
    teach(
        engine,
        profile,
        taught(4, "ham", time=APRIL),
        taught(4, None, time=APRIL),
        taught(5, "spam", {"rare": 1}, time=APRIL),
    )
    unfolded = found(engine, profile)
    with writing(engine) as connection:
        carry_out(connection, profile, unfolded, time=NOW)
    fold_all(engine, profile)

    assert {"words": 1} == dict(unfolded.features)
    assert {"rare", "old", "both"} == words_of(engine, profile)
    assert (True, 8) == audited(engine, profile)


def test_more_than_feedback_is_folded_first(engine, profile):
    """A pruning that is not folded would be found once more."""
    drop(engine, profile)
    with writing(engine) as connection:
        carry_out(connection, profile, found(engine, profile), time=NOW)
    unfolded = found(engine, profile)
    steps = []
    look(engine, profile, progress=steps.append)

    assert unfolded is None
    assert 1 == sum(steps)
    assert 0 == found(engine, profile).rows


def test_beside_an_undo_without_an_end_nothing_is_pruned(engine, profile, monkeypatch):
    """It says when to try again."""
    drop(engine, profile)
    fold = Folding.all
    undone = [begin(engine, profile, Selection(ids=frozenset([digest(4)]))).undo.name]
    finish(engine, profile)

    def undone_meanwhile(folding, row):
        yield from fold(folding, row)
        undone[0] = begin(engine, profile, Selection(source=undone[0])).undo.name
        finish(engine, profile)

    monkeypatch.setattr(Folding, "all", undone_meanwhile)
    with pytest.raises(DatabaseUnavailable, match="prune again once it has ended"):
        use(engine, profile)

    assert all(row[9] != "prune" for row in rows_of(engine, tables.ledger, profile))


def test_what_is_pruned_and_not_folded_is_said_to_be_pruned(
    engine, profile, monkeypatch
):
    """Whoever is told that nothing was stored would be told wrong."""
    drop(engine, profile)

    def full(folding, row):
        msg = "full. Nothing was stored"
        raise DatabaseUnavailable(msg)

    with monkeypatch.context() as patched:
        patched.setattr(Folding, "all", full)
        with pytest.raises(DatabaseUnavailable, match=r"^the features are pruned"):
            use(engine, profile)
    again = use(engine, profile)

    assert ({}, 5) == (dict(again.features), again.revision)


@pytest.mark.parametrize(
    ("months", "expected"), [(0, 202603), (2, 202601), (3, 202512), (27, 202312)]
)
def test_months_are_counted_over_years(months, expected):
    """December is before January."""
    assert expected == months_before(202603, months)
