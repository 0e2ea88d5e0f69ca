"""The audit: it finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import pytest

from app.errors import InconsistentCounts, UnknownProfile
from app.storage import tables
from app.storage.database.engine import reading, writing
from app.storage.upkeep.audit import audit
from tests.support.builders import APRIL, feature, fold, new_profile, taught, teach


@pytest.fixture
def profile(engine):
    """A profile of four rows, three of which are folded."""
    profile = new_profile(engine)
    teach(
        engine,
        profile,
        taught(1, "ham", {"a": 2, "b": 1}, {"x": 3, "y": 0}),
        taught(2, "spam", {"b": 3}, time=APRIL),
        taught(1, "spam", time=APRIL),
        taught(3, "ham", {"c": 1}, {"x": -2}),
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


def test_a_changed_count_is_found(engine, profile):
    """By how much it is off, in either direction."""
    change(
        engine,
        tables.feature_count.update()
        .where(tables.feature_count.c.feature == feature("a"))
        .values(occurrences=7),
    )

    assert 5 == audited(engine, profile).difference
    assert not audited(engine, profile).sound


def test_a_lost_row_is_found(engine, profile):
    """Its occurrences and its messages are missing."""
    change(
        engine,
        tables.feature_count.delete().where(
            tables.feature_count.c.feature == feature("a")
        ),
    )

    assert 3 == audited(engine, profile).difference


@pytest.mark.parametrize(
    ("where", "values", "difference"),
    [
        pytest.param(("x", "x", 1), {"low": 5}, 2, id="sum"),
        pytest.param(("x", "x", 2), {"middle": -1}, 2**32, id="square"),
        pytest.param(("x", "y", 2), {"high": 1}, 2**64, id="product"),
        pytest.param(("x", "y", 2), {"messages": 4}, 3, id="messages of a pair"),
        pytest.param(("x", "x", 1), {"messages": 4}, 3, id="messages of a sum"),
        pytest.param(("x", "x", 2), {"messages": 4}, 3 + 3, id="messages of a square"),
    ],
)
def test_a_changed_sum_is_found(engine, profile, where, values, difference):
    """By how much it is off, whichever of its cells it is."""
    *fields, degree = where
    pair = sorted(map(feature, fields))
    table = tables.moment_sum
    at = (table.c.field == pair[0], table.c.other == pair[1], table.c.degree == degree)
    change(engine, table.update().where(*at).values(**values))

    assert difference == audited(engine, profile).difference


@pytest.mark.parametrize(("degree", "difference"), [(1, 3 + 1 + 1), (2, 9 + 3 + 1 + 1)])
def test_a_lost_sum_is_found(engine, profile, degree, difference):
    """Even the sum of zeros: the messages that have the field are missing."""
    table = tables.moment_sum
    change(engine, table.delete().where(table.c.degree == degree))

    assert difference == audited(engine, profile).difference


def test_a_changed_kind_is_an_error(engine, profile):
    """Features and measurements have no difference."""
    classes = tables.class_count
    change(
        engine,
        classes.update().where(classes.c.view == "sizes").values(kind="features"),
    )

    with pytest.raises(InconsistentCounts, match="they have no sum"):
        audited(engine, profile)


def test_sums_that_nothing_leads_to_are_found(engine, profile):
    """They are there, and no class count is."""
    classes = tables.class_count
    change(
        engine,
        classes.update().where(classes.c.view == "sizes").values(view="measures"),
    )
    # Replayed and not held: a message, the sum 3, its square 9 and the messages
    # of x, y and both.  Held and not replayed: a message.  Not counted: the
    # messages of two sums and three products.
    assert (1 + 3 + 9 + 3) + 1 + (2 + 3) == audited(engine, profile).difference


def test_a_lost_class_is_found(engine, profile):
    """With its features, which nothing leads to any more."""
    change(
        engine, tables.class_count.delete().where(tables.class_count.c.epoch == 202604)
    )

    assert 1 + 4 + 4 == audited(engine, profile).difference


def test_a_count_in_the_wrong_epoch_is_found(engine, profile):
    """Even though the sum of all epochs is right."""
    change(
        engine,
        tables.class_count.update()
        .where(tables.class_count.c.epoch == 202604)
        .values(epoch=202605),
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
