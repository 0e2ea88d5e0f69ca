"""A filter does what a plan asks for, and its worst mistakes are kept."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.classifier.explain import Explanation
from app.classifier.rule import VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.errors import UnknownLabel
from app.evaluation.experiment import Online
from app.evaluation.run import DECISIONS, WORST, PartOutcome, run
from app.evaluation.subject import Subject
from tests.support.builders import verdict


class Oracle:
    """A filter whose answer is written in the message, and that notes what it does."""

    def __init__(self):
        self.calls = []

    def score(self, views):
        """Answer with the log-odds that stand there."""
        self.calls.append(("score", views["at"]))
        return verdict(views["log_odds"])

    def learn(self, views, label):
        """Note it."""
        self.calls.append(("learn", views["at"], label))

    @property
    def learned(self):
        """Count what it was told."""
        return sum(call[0] == "learn" for call in self.calls)

    def explain(self, *_, **__):
        """Give no reasons."""
        return Explanation(strongest=0, families={}, summands=())


def evaluated(rows, *, subject=None):
    """Evaluate rows of log-odds and gold label; return the outcome and the calls."""
    subject = subject or Oracle()
    [part] = Online().parts(range(len(rows)), [], seed=1)
    outcome = run(
        part,
        subject=subject,
        messages=[{"at": at, "log_odds": odds} for at, (odds, _) in enumerate(rows)],
        labels=["spam" if gold else "ham" for _, gold in rows],
        is_spam=[gold for _, gold in rows],
        tick=lambda: None,
        clock=itertools.count(0.0, 2.5).__next__,
    )
    return outcome, subject.calls


rows = st.lists(
    st.tuples(st.floats(-9, 9, allow_subnormal=False), st.booleans()), max_size=40
)


@given(rows)
def test_a_filter_does_what_the_plan_says_in_its_order(rows):
    """Every message is scored, then learned with what users say of it."""
    outcome, calls = evaluated(rows)
    expected = [
        call
        for at, (_, gold) in enumerate(rows)
        for call in [("score", at), ("learn", at, "spam" if gold else "ham")]
    ]

    assert expected == calls
    assert list(range(len(rows))) == outcome.scored["message"].tolist()
    assert [odds for odds, _ in rows] == outcome.scored["log_odds"].tolist()
    assert 2.5 == outcome.seconds


@given(rows)
def test_the_worst_mistakes_are_kept_worst_first(rows):
    """Of each kind the surest ones, and no message that was decided rightly."""
    outcome, _ = evaluated(rows)
    lost = [
        (-odds, at) for at, (odds, gold) in enumerate(rows) if odds > 0 and not gold
    ]
    missed = [(odds, at) for at, (odds, gold) in enumerate(rows) if odds <= 0 and gold]
    expected = [at for _, at in (*sorted(lost)[:WORST], *sorted(missed)[:WORST])]

    assert expected == [mistake.message for mistake in outcome.mistakes]
    assert all(
        rows[mistake.message][0] == mistake.log_odds for mistake in outcome.mistakes
    )


@given(rows)
def test_an_outcome_is_kept_whole(tmp_path_factory, rows):
    """What is read back is what was written."""
    outcome, _ = evaluated(rows)
    path = tmp_path_factory.mktemp("kept") / "outcome.npz"
    outcome.save(path)
    again = PartOutcome.load(path)

    assert outcome.mistakes == again.mistakes
    assert outcome.seconds == again.seconds
    assert outcome.scored.tolist() == again.scored.tolist()
    assert [path] == list(path.parent.iterdir())


def test_the_filter_that_serves_learns_and_gives_its_reasons():
    """The reasons of a mistake add up to its log-odds."""
    subject = Subject(
        Specification(
            classifiers=classifiers_of(("words",)),
            verdict=VerdictRule(terms=terms_of(("words",))),
        )
    )
    words = [{1: 1, 2: 1}, {3: 1, 4: 1}] * 10 + [{1: 1, 2: 1}]
    gold = [False, True] * 10 + [True]
    [part] = Online().parts(range(21), [], seed=1)
    outcome = run(
        part,
        subject=subject,
        messages=[{"words": SparseCounts.of(each)} for each in words],
        labels=["spam" if spam else "ham" for spam in gold],
        is_spam=gold,
        tick=lambda: None,
        clock=lambda: 0.0,
    )
    worst = outcome.mistakes[0]

    assert "unsure" == DECISIONS[outcome.scored["decision"][-1]]
    assert 20 == worst.message
    assert {"(prior)", "(rest)", "#0000000000000001", "#0000000000000002"} == {
        reason.text for reason in worst.reasons
    }
    assert worst.log_odds == pytest.approx(
        sum(reason.log_odds for reason in worst.reasons)
    )


def test_a_label_that_the_filter_does_not_have_is_refused():
    """The sentence says which there are."""
    with pytest.raises(UnknownLabel, match=r"no label 'eggs'; .* ham, spam"):
        Subject(Specification()).learn({}, "eggs")
