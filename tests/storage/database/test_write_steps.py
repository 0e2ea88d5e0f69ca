"""Writing step by step: whoever else wants to write can, after each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.errors import UnknownProfile
from app.storage import profiles
from app.storage.database import engine as turn
from app.storage.database.engine import reading, writing, writing_then_pause
from tests.support.builders import MARCH


@pytest.fixture
def pauses(monkeypatch):
    """Those of whoever writes step by step, of no length."""
    taken = []
    monkeypatch.setattr(turn, "time", SimpleNamespace(sleep=taken.append))
    return taken


def create(connection, name):
    """Write a profile of some name."""
    profiles.create(
        connection,
        name=name,
        labels=("ham", "spam"),
        spam_labels=("spam",),
        feature_set=1,
        created_at=MARCH,
    )


def test_what_a_step_does_is_stored_before_the_pause(engine, monkeypatch):
    """Others can write in it: of the same database, and of the same process."""
    seen = []

    def write(seconds):
        with writing(engine) as connection:
            create(connection, "other")
        with reading(engine) as connection:
            seen.append([row.name for row in profiles.list_all(connection)])
        assert turn.PAUSE == seconds

    monkeypatch.setattr(turn, "time", SimpleNamespace(sleep=write))
    with writing_then_pause(engine) as connection:
        create(connection, "one")

    assert [["one", "other"]] == seen


def test_a_step_that_fails_is_told_at_once(engine, pauses):
    """It stores nothing, and nobody goes on after it."""

    def fail():
        with writing_then_pause(engine) as connection:
            create(connection, "one")
            profiles.find(connection, "none")

    with pytest.raises(UnknownProfile):
        fail()
    with reading(engine) as connection:
        assert [] == profiles.list_all(connection)
    assert [] == pauses
