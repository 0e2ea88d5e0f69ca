"""Sums in the ledger: what an import or a pruning writes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.errors import CorruptVector, InvalidObservation
from app.ledger import sums
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.ledger import WEIGHT_OF_SUM, latest_of, rows_after
from tests.support.builders import (
    APRIL,
    MARCH,
    counts_of,
    feature,
    fold,
    fold_all,
    named,
    new_profile,
    rows_of,
    taught,
    teach,
)
from tests.support.ledger import MAIL, add, audited, learned, loaded


def test_a_sum_is_what_its_messages_are(engine, monkeypatch):
    """Learned one by one or imported: the same state, and the same tables."""
    monkeypatch.setattr(sums, "FEATURES_PER_ROW", 2)
    one, other = new_profile(engine), new_profile(engine)
    spoken = ("ham", "spam")
    teach(
        engine,
        one,
        *(
            taught(n, spoken[c], words, pairs)
            for n, (c, words, pairs) in enumerate(MAIL)
        ),
    )
    rows = add(engine, other, {202603: learned()})
    unfolded = loaded(engine, other)
    for profile in (one, other):
        fold_all(engine, profile, limit=1)

    assert learned() == unfolded == loaded(engine, other) == loaded(engine, one)
    assert counts_of(engine, one) == counts_of(engine, other)
    table = tables.class_count
    assert rows_of(engine, table, one) == rows_of(engine, table, other)
    assert [1, 2, 3] == [row.revision for row in rows]
    assert (True, 3) == audited(engine, other)


def test_rows_come_back_as_they_were_written(engine):
    """Their source, time and epoch, and no label, no score."""
    profile = new_profile(engine)
    rows = add(engine, profile, {202604: learned(), 202603: learned()}, time=APRIL)
    with reading(engine) as connection:
        found = rows_after(connection, profile.id, revision=0, limit=100)

    assert rows == found
    assert [(1, 202603), (2, 202604)] == [(row.revision, row.epoch) for row in found]
    assert ["sum"] * 2 == [row.kind for row in found]
    assert {("import:test", APRIL, None, None, None)} == {
        (row.source, row.time, row.label_before, row.label, row.scores) for row in found
    }
    assert 2 == len({row.digest for row in found})
    with pytest.raises(CorruptVector, match="has version 130"):
        _ = found[0].views


def test_what_was_added_can_be_taken_back(engine, monkeypatch):
    """As rows with the negated sum; nothing is left in any table."""
    monkeypatch.setattr(sums, "FEATURES_PER_ROW", 1)
    profile = new_profile(engine)
    texts = {"words": {feature("money"): "money", feature("cheap"): "cheap"}}
    add(engine, profile, {202603: learned()}, names=texts)
    fold_all(engine, profile, limit=1)
    texts_then = named(engine, profile)["words"].values()
    add(engine, profile, {202603: -learned()}, source="undo:1")
    fold_all(engine, profile, limit=1)

    assert ["cheap", "money"] == sorted(texts_then)
    assert {} == counts_of(engine, profile)
    assert [] == rows_of(engine, tables.class_count, profile)
    assert (True, 10) == audited(engine, profile)


def test_a_sum_is_nobodys_message(engine):
    """Its digest can be neither taught nor forgotten."""
    profile = new_profile(engine)
    (row,) = add(engine, profile, {202603: learned()})
    strange = taught(1, "ham")
    by_id = [
        type(strange)(
            digest=row.digest,
            label=label,
            evidence=None,
            source="x",
            time=MARCH,
        )
        for label in ("ham", None)
    ]
    outcomes = teach(engine, profile, *by_id)
    with reading(engine) as connection:
        assert latest_of(connection, profile.id, [row.digest]).get(row.digest) is None
    assert ["unknown", "unknown"] == [outcome.kind for outcome in outcomes]


def test_sums_and_messages_share_the_revisions(engine):
    """Taught, imported, taught: consecutive, and all of it counts."""
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"money": 1}))
    add(engine, profile, {202603: learned()})
    (after,) = teach(engine, profile, taught(2, "spam", {"now": 1}))

    assert 3 == after.row.revision
    assert [2, 3] == loaded(engine, profile)["words"].messages.tolist()


def test_nothing_to_add_writes_nothing(engine):
    """Neither no epoch, nor one without statistics."""
    profile = new_profile(engine)
    nothing = {"words": FeatureCounts.zero(2), "pairs": FeatureCounts.zero(2)}

    assert [] == add(engine, profile, {})
    assert [] == add(engine, profile, {202603: nothing})
    assert [] == rows_of(engine, tables.ledger, profile)


def test_sums_of_other_labels_are_refused(engine):
    """The ledger stays as it is."""
    profile = new_profile(engine)
    add(engine, profile, {202603: learned()})
    fold_all(engine, profile)

    with pytest.raises(InvalidObservation, match="counts of 3 labels, but there are 2"):
        add(engine, profile, {202603: learned(n_classes=3)})
    assert 1 == len(rows_of(engine, tables.ledger, profile))


def test_a_step_takes_few_sums(engine, monkeypatch):
    """A sum counts as many messages, and the first row is always taken."""
    monkeypatch.setattr(sums, "FEATURES_PER_ROW", 1)
    profile = new_profile(engine)
    teach(engine, profile, taught(1, "ham", {"a": 1}))
    add(engine, profile, {202603: {"words": learned()["words"]}})
    steps = []
    for limit in (1, 1, WEIGHT_OF_SUM + 1, 2 * WEIGHT_OF_SUM):
        with writing(engine) as connection:
            steps.append(fold(connection, profile, limit=limit))

    assert [1, 1, 1, 1] == steps
    assert (True, 4) == audited(engine, profile)


words = st.sampled_from(["a", "b", "c", "d", "e"])
mail = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.dictionaries(words, st.integers(1, 3)),
        st.none() | st.dictionaries(words, st.integers(1, 5)),
    ),
    min_size=1,
    max_size=5,
)


@given(mail, st.integers(1, 4), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_every_first_part_of_a_sum_is_what_messages_can_have_taught(
    messages, at_most, takes_back
):
    """On the way there, and on the way back: no step is refused."""
    whole = learned(messages)
    parts = list((-whole if takes_back else whole).pieces(at_most=at_most))
    reached = whole if takes_back else State()
    for part in parts:
        assert sum(x.ids.size for x in part.values()) <= at_most
        for view, x in part.items():
            reached += State({view: x})
            reached[view].require_reachable()

    assert reached == (whole - whole if takes_back else whole)


def test_names_without_text_are_left_out(engine):
    """Where only some features have text, and a view is gone."""
    profile = new_profile(engine)
    texts = {
        "words": {feature("money"): "money"},
        "pairs": {feature("size"): "size"},
        "gone": {1: "nobody"},
    }
    (row,) = add(engine, profile, {202603: learned()}, names=texts)
    fold_all(engine, profile)

    assert {"", "money"} == set(row.names["words"])
    assert {
        "pairs": {feature("size"): "size"},
        "words": {feature("money"): "money"},
    } == named(engine, profile)
    assert np.array_equal(row.ids(profile.labels)["words"], learned()["words"].ids)
