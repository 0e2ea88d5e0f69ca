"""What is known now: the sum is the same, whoever adds it up and when."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.bayes.table import FeatureTable
from app.classifier.record import record
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.classifier.specification import Specification
from app.errors import InconsistentCounts
from app.ledger.entry import LedgerRow
from app.services.classify import observe
from app.services.memory.live import (
    MOST_WAITING,
    SHARE_WAITING,
    LazySnapshot,
    LiveProfile,
)
from tests.support.builders import new_profile
from tests.support.messages import ham, spam

NOW = datetime(2026, 11, 6, tzinfo=UTC)
EMPTY = Snapshot.empty(Specification())


def row(revision, *, before=None, label="spam", raw=None):
    """Return the row that learns a message, or moves it."""
    seen = observe(raw or spam(revision), Specification().views)
    return LedgerRow(
        revision=revision,
        digest=seen.digest,
        label_before=before,
        label=label,
        epoch=202611,
        vector=b"",
        encoded_names=None,
        feature_set=1,
        source="test",
        time=NOW,
        scores=record(score(EMPTY, seen.views), EMPTY.specification),
        decoded=seen.views,
    )


def rows(first, last):
    """Return rows that learn spam and ham in turn."""
    return [
        row(n, label="ham", raw=ham(n)) if n % 2 else row(n)
        for n in range(first, last + 1)
    ]


def same(one, other):
    """Tell whether two snapshots are equal, bit for bit."""
    seen = observe(spam(7), one.specification.views).views
    return (
        {view: flat(table) for view, table in one.tables.items()}
        == {view: flat(table) for view, table in other.tables.items()}
        and one.fusion.weights.tolist() == other.fusion.weights.tolist()
        and score(one, seen).log_odds == score(other, seen).log_odds
    )


def flat(table):
    """Return the state of a view as one element of its group."""
    return table.flatten() if isinstance(table, FeatureTable) else table


def test_rows_that_waited_add_up_to_what_they_do_one_by_one():
    """Across a fit of the weights too, which is due at row 50."""
    waited = LazySnapshot(EMPTY).extended(rows(1, 20)).extended(rows(21, 52))
    one_by_one = LazySnapshot(EMPTY)
    for each in rows(1, 52):
        one_by_one = one_by_one.extended([each])
        one_by_one.snapshot()

    assert 52 == waited.revision == waited.snapshot().revision
    assert 50 == waited.snapshot().fusion.fitted_revision
    assert same(waited.snapshot(), one_by_one.snapshot())


def test_what_was_added_up_is_not_added_again():
    """Neither for the next who asks, nor for the rows that come later."""
    lazy = LazySnapshot(EMPTY).extended(rows(1, 3))
    before = lazy.computed
    added = lazy.snapshot()
    later = lazy.extended(rows(4, 5))

    assert before is EMPTY
    assert added is lazy.snapshot() is lazy.computed is later.computed
    assert [4, 5] == [each.revision for each in later.rows]
    assert 5 == later.revision


@pytest.fixture
def restless():
    """Threads take turns after nearly every step."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
def test_no_row_is_added_twice_while_others_score():
    """The sum may get ready at any moment while the next row comes."""
    first, second = rows(1, 2)
    for _ in range(100):
        lazy = LazySnapshot(EMPTY).extended([first])
        scoring = threading.Thread(target=lazy.snapshot)
        scoring.start()
        seen = []
        while scoring.is_alive():
            seen.append(lazy.extended([second]))
        seen.append(lazy.extended([second]))

        assert {2} == {each.base.revision + len(each.rows) for each in seen}


@pytest.mark.parametrize(
    ("learned", "most"),
    [
        (0, 0),
        (SHARE_WAITING - 1, 0),
        (5 * SHARE_WAITING, 5),
        (10**6, MOST_WAITING),
    ],
)
def test_few_rows_may_wait(learned, most):
    """None in a young profile, and so many of a large one that few are missing."""
    settled = replace(EMPTY, revision=learned)
    waiting = [replace(row(1), revision=learned + n) for n in range(1, most + 2)]

    assert not LazySnapshot(settled).extended(waiting[:most]).full
    crowded = LazySnapshot(settled).extended(waiting)
    assert crowded.full
    crowded.snapshot()
    assert not crowded.full


@pytest.fixture
def large(engine):
    """A profile that says of itself that it has learned 640 messages."""
    return LiveProfile(new_profile(engine), replace(EMPTY, revision=640))


def test_what_takes_back_does_not_wait(large):
    """It may contradict what is there: then it is told at once, and changes nothing."""
    large.apply([row(641)], later=True)
    lies = row(642, before="ham", label=None)

    with pytest.raises(InconsistentCounts):
        large.apply([lies], later=True)
    assert 641 == large.revision == large.snapshot.revision
    assert large.apply([row(642, before="spam", label="ham", raw=spam(641))])
    assert [1, 0] == large.computed.messages.tolist()


def test_whoever_scores_adds_what_waits(large):
    """What was answered is known to the next message, and scored by it."""
    seen = observe(spam(641), Specification().views)
    large.apply([row(641)], later=True)
    behind = large.computed.revision
    verdict = score(large.snapshot, seen.views)

    assert (640, 641) == (behind, large.computed.revision)
    assert verdict.log_odds > 0
