"""The audit: it finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import numpy as np
import pytest

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.errors import UnknownProfile
from app.storage import runs, tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit
from tests.support.builders import (
    APRIL,
    fold,
    new_profile,
    sparse,
    taught,
    teach,
)


@pytest.fixture
def profile(engine):
    """A profile of four rows, three of which are folded."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "ham", {"a": 2, "b": 1}, {"x": 3, "y": 1}),
        taught(2, "spam", {"b": 3}, time=APRIL),
        taught(1, "spam", time=APRIL),
        taught(3, "ham", {"c": 1}, {"x": 2}),
    )
    with writing(engine) as connection:
        fold(connection, profile, limit=3)
    return profile


def audited(engine, profile):
    """Return the audit of a profile."""
    with reading(engine) as connection:
        return audit(connection, profile)


def change(engine, statement):
    """Change the database behind the back of the code."""
    with writing(engine) as connection:
        connection.execute(statement)


def test_a_sound_database_has_no_difference(engine, profile):
    """Three zeros, and what was compared."""
    found = audited(engine, profile)

    assert found.sound
    assert (0, 0, 0) == (
        found.difference,
        found.missing_revisions,
        found.broken_rows,
    )
    assert (4, 3, 4) == (found.revision, found.folded_revision, found.ledger_rows)


def add(engine, profile, **views):
    """Add to the counts behind the back of the code."""
    parts = runs.encode({202603: State(views)}, profile.labels)
    with writing(engine) as connection:
        runs.add(connection, profile.id, "counts", parts)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_changed_count_is_found(engine, profile, sign):
    """By how much it is off, in either direction."""
    none = np.zeros(2, np.int64)
    once = FeatureCounts.of(sparse({"a": 4, "b": 1}), label=1, n_classes=2)
    add(engine, profile, words=FeatureCounts(none, once.ids, sign * once.columns))

    assert (4 + 1) + (1 + 1) == audited(engine, profile).difference
    assert not audited(engine, profile).sound


def test_a_changed_sum_is_found(engine, profile):
    """By how much it is off."""
    add(
        engine,
        profile,
        pairs=FeatureCounts.of(sparse({"x": 5}), label=0, n_classes=2)
        - FeatureCounts.of(sparse({"x": 2}), label=0, n_classes=2),
    )

    assert 5 - 2 == audited(engine, profile).difference


def test_a_lost_run_is_found(engine, profile):
    """All that it had is missing, and its messages twice: class counts have them."""
    change(engine, tables.run.delete().where(tables.run.c.view == "words"))
    words = (2 + 1) + (1 + 1) + (3 + 1)

    assert words + 2 + 2 == audited(engine, profile).difference


def test_a_lost_class_is_found(engine, profile):
    """Its messages are in the counts all the same."""
    change(
        engine, tables.class_count.delete().where(tables.class_count.c.epoch == 202604)
    )

    assert 1 == audited(engine, profile).difference


def test_a_count_in_the_wrong_epoch_is_found(engine, profile):
    """Even though the sum of all epochs is right."""
    for table in (tables.class_count, tables.run):
        change(
            engine, table.update().where(table.c.epoch == 202604).values(epoch=202605)
        )

    assert not audited(engine, profile).sound


def test_a_mark_that_is_wrong_is_found(engine, profile):
    """Rows would be folded twice or never."""
    change(engine, tables.fold.update().values(folded_revision=2))

    assert not audited(engine, profile).sound


def test_a_lost_ledger_row_is_found(engine, profile):
    """As a revision that is missing, and as a chain that is broken."""
    change(
        engine,
        tables.ledger.delete().where(
            tables.ledger.c.profile_id == profile.id, tables.ledger.c.revision == 1
        ),
    )
    found = audited(engine, profile)

    assert (1, 1) == (found.missing_revisions, found.broken_rows)
    assert not found.sound


def test_profiles_are_audited_apart(engine, profile):
    """What is wrong with one is not wrong with another."""
    other = new_profile(engine)
    teach(engine, other, taught(1, "ham", {"a": 1}))
    change(engine, tables.fold.update().values(folded_revision=0))

    assert not audited(engine, profile).sound
    assert audited(engine, other).sound


def test_a_profile_that_is_gone_is_an_error(engine):
    """There is nothing to audit."""
    profile = new_profile(engine)
    change(engine, tables.fold.delete())
    change(engine, tables.profile.delete())

    with pytest.raises(UnknownProfile):
        audited(engine, profile)
