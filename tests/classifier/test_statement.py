"""Stated evidence: exact in the log-odds, and in the explanation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.models.chain import runs_of
from app.bayes.models.discrete import Multinomial
from app.bayes.posterior import log_odds
from app.bayes.sparse import SparseCounts
from app.classifier.explain import attribute, explain, strongest_reason
from app.classifier.learn import delta
from app.classifier.record import record
from app.classifier.rule import Term, VerdictRule
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification, ViewModel
from app.classifier.statement import Statement, stated
from app.features.observation import Observation
from tests.support.builders import Root

LABELS = ("ham", "newsletter", "spam", "phishing")

messages = st.dictionaries(st.integers(0, 12), st.integers(1, 9), max_size=8).map(
    SparseCounts.of
)
statements = st.lists(
    st.builds(
        Statement,
        kind=st.sampled_from(["list", "people"]),
        name=st.just("example.org"),
        nats=st.floats(-1000, 1000),
        text=st.just("example.org is allowed"),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def snapshots(draw):
    """Return the snapshot of a profile of two to four labels."""
    n_classes = draw(st.integers(2, 4))
    labels = LABELS[-n_classes:] if n_classes > 2 else ("ham", "spam")
    specification = Specification(
        labels=labels,
        spam_labels=tuple({"spam", "phishing"} & {*labels}),
        classifiers={"words": ViewModel(view="words", event_model=Multinomial())},
        verdict=VerdictRule(terms=(Term(classifier="words", normaliser=Root()),)),
    )
    snapshot = Snapshot.empty(specification)
    history = draw(st.lists(st.tuples(messages, st.integers(0, 3)), max_size=6))
    for revision, (x, label) in enumerate(history, 1):
        moved = delta(
            {"words": x}, before=None, after=label % n_classes, n_classes=n_classes
        )
        snapshot.learn(moved, revision=revision)
    return snapshot


def saying(nats, kind="list"):
    """Return a statement."""
    return Statement(kind=kind, name="example.org", nats=nats, text="as said")


@given(snapshots(), messages, statements)
def test_log_odds_rise_by_what_is_stated(snapshot, x, said):
    """With any number of labels, the posterior has the log-odds of the verdict."""
    made_of = snapshot.specification
    before = score(snapshot, {"words": x})
    after = stated(before, said, made_of)
    nats = math.fsum(each.nats for each in said)

    assert before.log_odds + nats == after.log_odds
    assert after.log_odds == pytest.approx(
        float(log_odds(after.log_posterior, made_of.spam_mask)), abs=1e-9
    )


@given(snapshots(), messages, statements)
def test_labels_of_one_side_keep_their_odds(snapshot, x, said):
    """A statement is about the side, and not about which of its labels it is."""
    spam = snapshot.specification.spam_mask
    before = score(snapshot, {"words": x})
    after = stated(before, said, snapshot.specification)

    for side in (spam, ~spam):
        moved = (after.log_posterior - before.log_posterior)[side]
        assert moved == pytest.approx(np.full(moved.size, moved[0]), abs=1e-9)


@given(snapshots(), messages, statements, st.integers(0, 3))
def test_explanations_sum_to_the_log_odds(snapshot, x, said, strongest):
    """Families, prior, statements, reasons and the rest add up."""
    verdict = score(snapshot, {"words": x})
    explanation = explain(
        attribute(verdict, snapshot),
        snapshot,
        Observation(bytes(16), 1, {"words": x}, {}),
        strongest=strongest,
    ).stated(said)
    after = stated(verdict, said, snapshot.specification)
    kinds = [each.kind for each in explanation.summands]

    assert after.log_odds == pytest.approx(
        math.fsum(each.log_odds for each in explanation.summands), abs=1e-8
    )
    assert after.log_odds == pytest.approx(
        math.fsum(explanation.families.values()), abs=1e-8
    )
    assert ["prior", *["reason"] * (len(kinds) - 2), "rest"] == kinds
    assert [each.text for each in said] == [
        each.text for each in explanation.reasons[: len(said)]
    ]


@given(snapshots(), messages, statements)
def test_the_ledger_keeps_what_the_features_say(snapshot, x, said):
    """The fusion is fitted to records, so that no statement is in one but by its sum."""
    before = score(snapshot, {"words": x})
    after = stated(before, said, snapshot.specification)
    kept = ("prior", "terms")

    assert [record(before, snapshot.specification)[each] for each in kept] == [
        record(after, snapshot.specification)[each] for each in kept
    ]


@pytest.mark.parametrize(
    ("nats", "decision"),
    [(5.0, "spam"), (-5.0, "ham"), (1.0, "unsure"), (-1.0, "unsure"), (0.0, "unsure")],
)
def test_a_statement_alone_decides_from_a_threshold_on(nats, decision):
    """An empty filter is unsure of everything else."""
    snapshot = Snapshot.empty(Specification())
    verdict = score(snapshot, {"words": SparseCounts.of({1: 1})})

    assert "unsure" == verdict.decision
    assert decision == stated(verdict, [saying(nats)], snapshot.specification).decision


def test_grams_alone_are_no_reason_to_decide():
    """Any text has some; a statement below the threshold adds nothing to them."""
    specification = Specification()
    snapshot = Snapshot.empty(specification)
    x = runs_of(np.arange(20, dtype=np.uint8))
    snapshot.learn(delta({"grams": x}, before=None, after=1, n_classes=2), revision=1)
    verdict = score(snapshot, {"grams": x})
    weak = stated(verdict, [saying(1.9)], specification)

    assert verdict.views["grams"].features
    assert "unsure" == verdict.decision == weak.decision
    assert "spam" == stated(verdict, [saying(5.0)], specification).decision


def test_a_weak_statement_decides_nothing_where_there_is_no_unsure():
    """With one threshold, a deny that does not reach it would else say ham."""
    made_of = Specification(verdict=VerdictRule(spam_threshold=4.0, ham_threshold=4.0))
    verdict = score(Snapshot.empty(made_of), {"words": SparseCounts.of({1: 1})})

    assert "unsure" == stated(verdict, [saying(1.0)], made_of).decision
    assert "ham" == stated(verdict, [saying(-1.0)], made_of).decision


def test_the_reasons_of_the_deciding_side_stay_first():
    """A statement that turns the verdict turns the order of the two sides."""
    snapshot = Snapshot.empty(Specification())
    for revision, (word, label) in enumerate([(1, 0), (2, 1)] * 9, 1):
        moved = delta(
            {"words": SparseCounts.of({word: 1})},
            before=None,
            after=label,
            n_classes=2,
        )
        snapshot.learn(moved, revision=revision)
    x = {"words": SparseCounts.of({1: 1, 2: 1})}
    verdict = score(snapshot, x)
    plain = explain(
        attribute(verdict, snapshot),
        snapshot,
        Observation(bytes(16), 1, x, {}),
        strongest=1,
    )
    _, first, *_ = plain.stated([saying(9.0)]).reasons
    _, turned, *_ = plain.stated([saying(-9.0)]).reasons

    assert first.log_odds > 0 > turned.log_odds


def test_the_strongest_reason_may_be_stated():
    """It is named by kind and name or, without stored words, by kind alone."""
    snapshot = Snapshot.empty(Specification())
    x = {"words": SparseCounts.of({1: 1})}
    added = attribute(score(snapshot, x), snapshot)
    seen = Observation(bytes(16), 1, x, {})
    said = [saying(-5.0), replace(saying(-2.0), kind="people")]

    assert "list:example.org" == strongest_reason(
        added, seen, said, spam=False, named=True
    )
    assert "list" == strongest_reason(added, seen, said, spam=False, named=False)
    assert strongest_reason(added, seen, said, spam=True, named=True) is None


def test_the_strongest_reason_of_a_side_is_one_of_its_features():
    """With its text, or with its id, whichever side is asked for."""
    snapshot = Snapshot.empty(Specification())
    for label, feature in enumerate((1, 2)):
        moved = delta(
            {"words": SparseCounts.of({feature: 1, 3: 1})},
            before=None,
            after=label,
            n_classes=2,
        )
        snapshot.learn(moved, revision=label + 1)
    x = {"words": SparseCounts.of({1: 1, 2: 1, 3: 1})}
    added = attribute(score(snapshot, x), snapshot)
    seen = Observation(bytes(16), 1, x, {"words": ("noon", "prize", "the")})

    assert ["words:noon", "words:prize"] == [
        strongest_reason(added, seen, spam=side, named=True) for side in (False, True)
    ]
    assert ["words:#0000000000000001", "words:#0000000000000002"] == [
        strongest_reason(added, seen, spam=side, named=False) for side in (False, True)
    ]
