"""A dump of another filter in a profile: learned once, and of use at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from app.classifier.explain import attribute, explain
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.errors import UnknownLabel
from app.features.extract import extract
from app.mail.parse import parse
from app.storage import tables
from app.storage.database.engine import reading
from app.storage.fold import audit, load
from tests.support.builders import fold_all, named, new_profile, rows_of
from tests.support.databases import on_sqlite
from tests.support.transfer import add

DUMPS = Path(__file__).parent.parent / "golden" / "dumps"
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_dump_is_learned_as_sums_of_this_month(engine):
    """It is in the ledger, so the audit knows it and undo can name it."""
    profile = new_profile(engine)
    learned = add(engine, profile)
    profile = learned.profile
    with reading(engine) as connection:
        found = audit(connection, profile)
    (row,) = rows_of(engine, tables.ledger, profile)

    assert (found.sound, found.ledger_rows) == (True, 1)
    assert ("import:bogofilter:5ca1ab1e5ca1ab1e", 202605) == (row[8], row[4])
    assert learned.source == row[8]
    fold_all(engine, profile)
    found = named(engine, profile).values()
    assert {"prize", "subject:lunch"} <= {text for x in found for text in x.values()}


@on_sqlite
def test_the_same_dump_is_learned_once(engine):
    """And another one of the same program is another one."""
    profile = new_profile(engine)
    outcomes = [
        add(engine, profile, digest=digest).outcome for digest in ("a" * 64, "a" * 64)
    ]
    outcomes.append(add(engine, profile, digest="b" * 64).outcome)

    assert outcomes == ["added", "unchanged", "added"]


@on_sqlite
def test_words_are_not_kept_where_they_are_not_wanted(engine):
    """The counts are the same; only their text is not there."""
    profile = new_profile(engine)
    profile = add(engine, profile, store_words=False).profile

    assert rows_of(engine, tables.feature_name, profile) == []


@on_sqlite
def test_labels_are_those_that_are_chosen(engine):
    """The first ham and the first spam label, unless somebody says otherwise."""
    labels = ("newsletter", "ham", "phishing", "spam")
    profile = new_profile(engine, labels=labels, spam_labels=("spam", "phishing"))
    profile = add(engine, profile).profile
    add(engine, profile, digest="b" * 64, ham="ham", spam="phishing")
    with reading(engine) as connection:
        state = load(connection, profile).tables

    assert state["words"].messages.tolist() == [1, 1, 1, 1]
    with pytest.raises(UnknownLabel, match="no label 'junk'"):
        add(engine, profile, digest="c" * 64, spam="junk")
    for labels in ({"ham": "spam"}, {"ham": "phishing", "spam": "spam"}):
        with pytest.raises(UnknownLabel, match="is a spam label"):
            add(engine, profile, digest="c" * 64, **labels)
    with pytest.raises(UnknownLabel, match="'ham' is not a spam label"):
        add(engine, profile, digest="c" * 64, ham="newsletter", spam="ham")


@on_sqlite
def test_views_that_a_dump_has_not_have_no_say(engine):
    """Pairs know nothing, and the others decide."""
    profile = add(engine, new_profile(engine)).profile
    specification = Specification()
    with reading(engine) as connection:
        stored = load(connection, profile)
    snapshot = Snapshot.of(specification, stored.tables, revision=stored.revision)
    for name, wanted in (("spam", 1), ("ham", -1)):
        observation = extract(
            parse((DUMPS / f"{name}.eml").read_bytes()), specification.views
        )
        verdict = score(snapshot, observation.views)
        attribution = attribute(verdict, snapshot)
        entries = explain(attribution, snapshot, observation, strongest=5)

        assert np.sign(verdict.log_odds) == wanted
        assert not attribution.contributions["pairs"].any()
        assert sum(e.log_odds for e in entries.summands) == pytest.approx(
            verdict.log_odds
        )
        assert verdict.views["pairs"].log_odds == pytest.approx(0)
