"""Runs: sums in, sums out, merged or not, and nothing left behind."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import SparseCounts
from app.bayes.state import History, State
from app.classifier.specification import Decay
from app.errors import CorruptVector, InconsistentCounts
from app.ledger.sums import LARGEST, decode_sum
from app.storage import runs, tables
from app.storage.database.engine import reading, writing
from tests.support.builders import (
    counts_of,
    feature,
    new_profile,
    rows_of,
    sparse,
)
from tests.support.databases import on_one_database

LABELS = ("ham", "spam")
LEAST, MOST = -(2**63), 2**63 - 1

ids = st.one_of(st.integers(-3, 3), st.integers(LEAST, MOST))
texts = st.dictionaries(ids, st.integers(1, 1000), max_size=6).map(SparseCounts.of)
labelled = st.tuples(texts, texts, st.integers(0, 1))


def words(counts, label="spam"):
    """Return what a message of these words adds."""
    return FeatureCounts.of(sparse(counts), label=LABELS.index(label), n_classes=2)


def add(engine, profile, epoch=202603, kind="counts", **views):
    """Add what some messages have added, as a run of each view."""
    parts = runs.encode({epoch: State(views)}, profile.labels)
    with writing(engine) as connection:
        runs.add(connection, profile.id, kind, parts)
    return parts


def total(engine, profile, **options):
    """Return the sum of all months."""
    with reading(engine) as connection:
        return runs.total(connection, profile, **options)


def merge(engine, profile, kind="counts", **options):
    """Merge runs once, and return whether there were many."""
    with reading(engine) as connection:
        found = runs.prepare_merge(connection, profile, kind, **options)
    if found is None:
        return False
    with writing(engine) as connection:
        assert runs.write_merge(connection, profile, found)
    return True


def levels(engine, profile):
    """Return kind, month, view, level and number of each part."""
    return [row[:5] for row in rows_of(engine, tables.run, profile)]


def look_up(engine, profile, number, view="words"):
    """Return the occurrences of a feature by month."""
    with reading(engine) as connection:
        found = runs.look_up(connection, profile, view, number)
    return {epoch: both[0].tolist() for epoch, both in found.items() if both.any()}


@on_one_database
@given(kept=st.lists(labelled, max_size=4), taken=st.lists(labelled, max_size=4))
@example(kept=[], taken=[(SparseCounts.of({}), sparse({"x": 2**31}), 0)] * 2)
def test_what_is_taken_back_was_never_there(engine, kept, taken):
    """Whatever was merged in between: the sums are those of the rest."""
    profile = new_profile(engine)
    every = [
        State(
            words=FeatureCounts.of(x, label=label, n_classes=2),
            pairs=FeatureCounts.of(y, label=label, n_classes=2),
        )
        for x, y, label in kept + taken
    ]
    for state in every:
        add(engine, profile, **state)
    for state in every[len(kept) :]:
        add(engine, profile, **-state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "RUNS", 2)
        while merge(engine, profile):
            pass
    rest = State.sum(every[: len(kept)])
    expected = {v: x for v, x in rest.items() if x.vocabulary or x.messages.any()}

    assert expected == total(engine, profile)
    assert expected == counts_of(engine, profile).get(202603, {})
    assert kept or not levels(engine, profile) or len(taken) == 1


def test_months_and_views_and_kinds_are_kept_apart_and_summed(engine):
    """Loading gives the months, and the sum of them under their weights."""
    profile = new_profile(engine)
    add(engine, profile, words=words({"money": 1}), pairs=words({"x": 3}))
    add(engine, profile, 202604, words=words({"money": 2}, "ham"))
    add(engine, profile, 202604, words=words({"now": 1}), headers=words({"a b": 1}))
    add(engine, profile, kind="sealed", words=words({"gone": 1}))

    assert {
        202603: {"words": words({"money": 1}), "pairs": words({"x": 3})},
        202604: {
            "words": words({"money": 2}, "ham") + words({"now": 1}),
            "headers": words({"a b": 1}),
        },
    } == counts_of(engine, profile)
    assert {202603: {"words": words({"gone": 1})}} == counts_of(
        engine, profile, "sealed"
    )
    of_words = words({"money": 1}), words({"money": 2}, "ham") + words({"now": 1})
    assert of_words[0] + of_words[1] == total(engine, profile)["words"]
    assert (
        of_words[0] * 512 + of_words[1] * 1024
        == (total(engine, profile, decay=Decay(1.0, 202604))["words"])
    )
    assert {"headers": words({"a b": 1})} == total(engine, profile, view="headers")


def test_a_message_without_features_is_counted(engine):
    """It has a class all the same."""
    profile = new_profile(engine)
    add(engine, profile, words=words({}), pairs=words({}))

    assert {"words": words({}), "pairs": words({})} == total(engine, profile)


def test_nothing_is_no_row(engine):
    """An empty sum leaves none, nor does one profile to another."""
    profile, other = new_profile(engine), new_profile(engine)
    add(engine, profile, words=words({"a": 1}) - words({"a": 1}))
    add(engine, other, words=words({"b": 1}))

    assert [] == levels(engine, profile)
    assert {} == total(engine, profile) == counts_of(engine, profile)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_run_of_many_features_is_cut_into_parts(engine, monkeypatch, size):
    """Each feature is found in the one that it is in, the largest id too."""
    monkeypatch.setattr(runs, "FEATURES", size)
    profile = new_profile(engine)
    names = ["a", "b", "c", "d", "e"]
    whole = words(dict.fromkeys(names, 2))
    edges = FeatureCounts.of_counts(
        np.array([0, 2**62]),
        np.array([LEAST, -1, 0, MOST]),
        np.array([[0, 2**62]] * 4),
        np.array([[0, 2**62]] * 4),
    )
    parts = add(engine, profile, words=whole, edges=edges)
    add(engine, profile, 202604, words=words({"c": 3}))

    assert -(-5 // size) == sum(part.view == "words" for part in parts)
    assert {"edges": edges, "words": whole + words({"c": 3})} == total(engine, profile)
    for name in names:
        later = {202604: [0, 3]} if name == "c" else {}
        assert {202603: [0, 2]} | later == look_up(engine, profile, feature(name))
    for number in (LEAST, -1, 0, MOST):
        assert {202603: [0, 2**62]} == look_up(engine, profile, number, "edges")
    assert {} == look_up(engine, profile, feature("f"))
    assert {} == look_up(engine, profile, feature("a"), "edges")


changes = st.dictionaries(
    st.integers(-20, 20) | st.sampled_from([LEAST, MOST]),
    st.tuples(*[st.integers(-2, 2)] * 2),
)


@on_one_database
@given(several=st.lists(st.tuples(changes, st.integers(-2, 2)), min_size=2, max_size=6))
def test_runs_are_added_one_range_of_features_after_another(engine, several):
    """However few parts are read at once, and wherever those of each run begin."""
    profile = new_profile(engine)
    added = []
    for change, messages in several:
        found = sorted(n for n, both in change.items() if any(both))
        counts = np.array([change[n] for n in found], np.int64).reshape(-1, 2)
        new = np.array([0, messages]), np.array(found, np.int64), counts, counts
        added.append(FeatureCounts.of_counts(*new))
    whole = FeatureCounts.sum(added, n_classes=2)
    expected = {"words": whole} if whole.vocabulary or whole.messages.any() else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "FEATURES", 3)
        patch.setattr(runs, "PARTS", 2)
        for state in added:
            add(engine, profile, words=state)
        before = total(engine, profile), counts_of(engine, profile).get(202603, {})
        merge(engine, profile, whole=True)
        stored = rows_of(engine, tables.run, profile)
        sizes = [decode_sum(row[-1], LABELS).size for row in stored]

    assert expected == before[0] == before[1] == total(engine, profile)
    assert len({row[4] for row in stored}) <= 1
    assert all(size == 3 for size in sizes[:-1])
    assert len(sizes) == max(-(-whole.vocabulary // 3), len(expected))


def test_the_memory_of_a_merge_does_not_grow_with_its_runs(engine, monkeypatch):
    """Few parts are decoded at a time: here a tenth of what all of them take."""
    monkeypatch.setattr(runs, "FEATURES", 256)
    monkeypatch.setattr(runs, "PARTS", 4)
    profile = new_profile(engine)
    every = np.arange(20_000) * 1_000_003
    counts = np.ones((every.size, 2), np.int64)
    state = FeatureCounts.of_counts(np.array([1, 1]), every, counts, counts)
    for _ in range(runs.RUNS):
        add(engine, profile, words=state)
    with reading(engine) as connection:
        tracemalloc.start()
        found = runs.prepare_merge(connection, profile, "counts")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert found is not None
    assert len(found.parts) == -(-every.size // 256)
    assert peak < runs.RUNS * (every.nbytes + state.columns.nbytes) / 4


def test_parts_have_room_for_every_label():
    """However many there are, a part is far from the largest sum that is read."""
    labels = [f"label{n}" for n in range(255)]
    ids = np.arange(1000)
    counts = np.ones((ids.size, len(labels)), np.int64)
    none = np.zeros(len(labels), np.int64)
    wide = FeatureCounts.of_counts(none, ids, counts, counts)
    parts = runs.encode({202603: State(words=wide)}, labels)
    states = [decode_sum(part.vector, labels) for part in parts]

    assert State(words=wide) == State.sum(states)
    assert all(x["words"].columns.nbytes < LARGEST / 16 for x in states)


def test_many_runs_become_one_of_the_next_level(engine):
    """So the number of runs grows with the logarithm of the batches."""
    profile = new_profile(engine)
    for n in range(runs.RUNS**2 + 1):
        add(engine, profile, words=words({"a": 1, f"w{n}": 1}))
        merge(engine, profile)
    merge(engine, profile)
    expected = words({"a": runs.RUNS**2 + 1})

    assert [
        ("counts", 202603, "words", 0, 0),
        ("counts", 202603, "words", 2, 0),
    ] == levels(engine, profile)
    found = total(engine, profile)["words"]
    assert runs.RUNS**2 + 2 == found.vocabulary
    assert [[0, runs.RUNS**2 + 1]] == found.look_up(
        expected.ids, "occurrences"
    ).tolist()


def test_all_runs_of_a_month_become_one(engine):
    """Whatever their levels; what cancels takes no room."""
    profile = new_profile(engine)
    for n in range(runs.RUNS + 2):
        add(engine, profile, words=words({"a": 1, f"w{n}": 1}))
        merge(engine, profile)
    add(engine, profile, 202604, words=words({"b": 1}))
    whole = total(engine, profile)
    add(engine, profile, words=words({"a": 1}))
    add(engine, profile, words=-words({"a": 1}))
    while merge(engine, profile, whole=True):
        pass

    assert [202603, 202604] == [epoch for _, epoch, *_ in levels(engine, profile)]
    assert whole == total(engine, profile)


def test_of_two_that_merge_one_does(engine):
    """What another has merged is not there any more, though numbers come again."""
    profile = new_profile(engine)
    for _ in range(runs.RUNS):
        add(engine, profile, words=words({"a": 1}))
    with reading(engine) as connection:
        late = runs.prepare_merge(connection, profile, "counts")
    assert merge(engine, profile)
    for _ in range(runs.RUNS):
        add(engine, profile, words=words({"b": 1}))
    before = rows_of(engine, tables.run, profile)
    with writing(engine) as connection:
        assert not runs.write_merge(connection, profile, late)

    assert before == rows_of(engine, tables.run, profile)


def test_what_is_added_while_runs_are_merged_stays(engine):
    """It is a run of the level below."""
    profile = new_profile(engine)
    for _ in range(runs.RUNS):
        add(engine, profile, words=words({"a": 1}))
    with reading(engine) as connection:
        found = runs.prepare_merge(connection, profile, "counts")
    add(engine, profile, words=words({"b": 1}))
    with writing(engine) as connection:
        assert runs.write_merge(connection, profile, found)

    assert [0, 1] == sorted(level for *_, level, _ in levels(engine, profile))
    assert 2 == total(engine, profile)["words"].vocabulary


def test_what_cannot_be_read_is_refused(engine):
    """Bytes that were changed, and a label that the profile lacks."""
    profile = new_profile(engine)
    add(engine, profile, words=words({"a": 1}))
    with writing(engine) as connection:
        parts = runs.encode({202604: State(pairs=words({}))}, ("ham", "eggs"))
        runs.add(connection, profile.id, "counts", parts)
    with pytest.raises(InconsistentCounts, match="has the label 'eggs'"):
        total(engine, profile, view="pairs")
    with writing(engine) as connection:
        connection.execute(tables.run.update().values(vector=b"junk"))
    with pytest.raises(CorruptVector):
        total(engine, profile)


def test_a_class_count_is_never_negative(engine):
    """It is an error, and everything of the transaction is rolled back."""
    profile = new_profile(engine)

    def change(**views):
        sums = History({202603: State(views)})
        with writing(engine) as connection:
            runs.add_messages(
                connection, runs.changes(sums, profile.id, profile.labels)
            )

    change(words=words({"a": 1}), pairs=words({"x": 1}))
    before = rows_of(engine, tables.class_count, profile)
    for match, views in (
        ("cannot be taken back", {"words": -words({}, "ham")}),
        ("would be negative", {"words": -words({}) - words({})}),
    ):
        with pytest.raises(InconsistentCounts, match=match):
            change(new=words({}), **views)
        assert before == rows_of(engine, tables.class_count, profile)
    change(words=-words({"a": 1}), pairs=-words({"x": 1}))
    assert [] == rows_of(engine, tables.class_count, profile)
