"""A dump that others work beside: unseen until it is whole, and in nobody's way."""

from __future__ import annotations

import pytest

from app.errors import ProfileReplaced
from app.services import transfer
from app.storage import hidden, tables
from app.storage.database.engine import open_engine, reading
from app.storage.fold import audit
from tests.support.builders import digest, new_profile, rows_of, taught, teach
from tests.support.ledger import counted
from tests.support.transfer import CutError, add, audited, seen, state, stored


@pytest.fixture(autouse=True)
def in_many_steps(monkeypatch):
    """Have a dump of a few tokens several rows."""
    monkeypatch.setattr(transfer, "FEATURES_PER_ROW", 2)


@pytest.fixture(params=["empty", "taught"])
def profile(engine, request):
    """One that knows nothing, and one that was taught something."""
    made = new_profile(engine)
    if request.param == "taught":
        teach(engine, made, taught("mine", "ham", {"lunch": 1}))
    return made


def beside(engine, profile, act, *, after=2, **how):
    """Import a dump, and do something once so many of its rows are written."""
    rows = []

    def told(at):
        rows.append(at)
        if len(rows) == after:
            act()

    learned = add(engine, profile, progress=told, **how)
    assert len(rows) > after
    return learned


def test_nothing_is_seen_of_a_dump_until_it_is_whole(engine, profile):
    """Neither in a list of profiles, nor in the counts of the profile."""
    before = seen(engine), state(engine, profile.name)
    at_half = []

    def look():
        at_half.append((seen(engine), state(engine, profile.name)))
        assert stored(engine) > seen(engine)

    beside(engine, profile, look)

    assert [before] == at_half
    assert before[1] != state(engine, profile.name)
    assert stored(engine) == seen(engine)
    assert audited(engine, profile.name).sound


def test_a_dump_is_the_same_sums_in_one_step_and_in_many(engine, monkeypatch):
    """In a profile that knew nothing, and in one that forgot what it knew."""
    empty, forgetful, whole = (new_profile(engine) for _ in range(3))
    teach(engine, forgetful, taught("mine", "ham", {"lunch": 1}), taught("mine", None))
    parts = [add(engine, each) for each in (empty, forgetful)]
    monkeypatch.setattr(transfer, "FEATURES_PER_ROW", 5_000)
    one = add(engine, whole)

    assert 1 == one.rows
    assert one.rows < parts[0].rows == parts[1].rows
    wanted = counted(engine, one.profile)
    assert [wanted] * 2 == [counted(engine, x.profile) for x in parts]


def test_a_dump_waits_for_nobody_and_nobody_for_it(engine, profile):
    """Another process teaches between two steps, for which no lock is held, and is heard."""
    # A lock would be held for as long as this one waits.
    other_process = open_engine(
        engine.url.render_as_string(hide_password=False), busy_timeout=10
    )
    outcomes = []

    def taught_by_others():
        outcomes.extend(teach(other_process, profile, taught("x", "ham", {"noon": 1})))

    learned = beside(engine, profile, taught_by_others)
    other_process.dispose()
    ledger = rows_of(engine, tables.ledger, learned.profile)

    assert ["learned"] == [outcome.kind for outcome in outcomes]
    assert digest("x") in {row[1] for row in ledger}
    assert audited(engine, profile.name).sound


def test_a_dump_that_fails_leaves_nothing(engine, profile):
    """It removes what it has written itself."""
    before = stored(engine), rows_of(engine, tables.ledger, profile)

    def fail():
        raise CutError

    with pytest.raises(CutError):
        beside(engine, profile, fail)
    assert before == (stored(engine), rows_of(engine, tables.ledger, profile))


def test_a_dump_that_is_killed_has_taught_nothing(engine, profile, monkeypatch):
    """What it left is unseen, and the same dump is learned afterwards."""
    before = seen(engine), rows_of(engine, tables.ledger, profile)

    def die(*_):
        raise CutError

    with monkeypatch.context() as patch:
        # Nothing is cleaned up.
        patch.setattr(hidden, "abandon", die)
        with pytest.raises(CutError):
            beside(engine, profile, die)
    with reading(engine) as connection:
        after = audit(connection, profile)

    assert stored(engine) > seen(engine)
    assert before == (seen(engine), rows_of(engine, tables.ledger, profile))
    assert after.sound
    assert "added" == add(engine, profile).outcome


def test_the_second_of_two_dumps_at_once_finds_it_learned(engine):
    """Both have looked before either was there; the counts are added once."""
    profile = new_profile(engine)
    teach(engine, profile, taught("mine", "ham", {"lunch": 1}))
    outcomes = []
    last = beside(
        engine, profile, lambda: outcomes.append(add(engine, profile).outcome)
    )

    assert ["added", "unchanged"] == [*outcomes, last.outcome]
    assert [2, 1] == state(engine, profile.name)["words"].messages.tolist()
    assert stored(engine) == seen(engine)


def test_the_second_of_two_dumps_into_nothing_is_told_so(engine):
    """The first has taken the place; whoever says it again learns that it is there."""
    profile = new_profile(engine)

    with pytest.raises(ProfileReplaced):
        beside(engine, profile, lambda: add(engine, profile))
    assert "unchanged" == add(engine, profile).outcome
    assert stored(engine) == seen(engine)
