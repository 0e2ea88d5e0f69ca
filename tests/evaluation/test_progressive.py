"""Score, then learn: the order of things, and what is reported."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidObservation, UnknownLabel
from app.evaluation.progressive import Result, evaluate


@dataclass(frozen=True)
class Verdict:
    """A filter's answer."""

    log_odds: float
    probability: float
    decision: str


class Memory:
    """A filter that knows the messages it has learned, and is unsure of others."""

    def __init__(self):
        self.calls = []
        self.known = {}

    def score(self, observation):
        """Answer from memory."""
        self.calls.append(("score", observation))
        label = self.known.get(observation)
        return {
            None: Verdict(0.0, 0.5, "unsure"),
            "spam": Verdict(4.0, 0.98, "spam"),
            "phishing": Verdict(5.0, 0.99, "spam"),
            "ham": Verdict(-4.0, 0.02, "ham"),
        }[label]

    def learn(self, observation, label):
        """Remember."""
        self.calls.append(("learn", observation, label))
        self.known[observation] = label


def ticking(*moments):
    """Return a clock that shows these moments, one after the other."""
    return iter(moments).__next__


def run(stream, **options):
    """Evaluate a filter with a memory; return its report and its calls."""
    memory = Memory()
    report = evaluate(stream, score=memory.score, learn=memory.learn, **options)
    return report, memory.calls


@given(st.lists(st.tuples(st.sampled_from(["ham", "spam"]), st.integers(0, 5))))
def test_every_message_is_scored_before_it_is_learned(stream):
    """No message is scored by a filter that has seen it in this place."""
    _, calls = run(stream)
    expected = [
        call
        for label, observation in stream
        for call in [("score", observation), ("learn", observation, label)]
    ]

    assert expected == calls


def test_a_stream_is_read_only_as_far_as_it_is_learned():
    """Nothing is read ahead: a stream may be as long as a mailbox."""
    calls = []
    memory = Memory()

    def stream():
        for number in range(3):
            calls.append(len(memory.calls))
            yield "ham", number

    evaluate(stream(), score=memory.score, learn=memory.learn)

    assert [0, 2, 4] == calls


def test_the_report_has_the_figures_of_the_stream():
    """Counts, rates, ranking and speed of a stream worked out by hand."""
    stream = [
        ("ham", "a"),  # unsure: counts as ham
        ("spam", "b"),  # unsure: missed
        ("spam", "b"),  # known as spam
        ("ham", "b"),  # known as spam: lost
        ("ham", "a"),  # known as ham
    ]
    report, _ = run(stream, clock=ticking(10.0, 12.5))
    figures = report.as_json()
    lam = figures.pop("lam_pct")
    # 0.5 twice for ham and spam, 0.98 twice for spam and ham, 0.02 for ham.
    brier = (0.25 + 0.25 + 0.02**2 + 0.98**2 + 0.02**2) / 5

    assert {
        "messages": 5,
        "ham": 3,
        "spam": 2,
        "unsure": 2,
        "roca_pct": pytest.approx(100 * (0 + 0.5 + 0 + 1 + 0.5 + 0) / 6),
        "ham_lost_pct": pytest.approx(100 / 3),
        "spam_missed_pct": 50.0,
        "spam_missed_at_0_1_pct": 100.0,
        "ece_pct": pytest.approx(100 * (0 + 2 * 0.48 + 0.02) / 5),
        "brier": pytest.approx(brier),
        "messages_per_second": 2.0,
    } == figures
    # logit 1/3 = -ln 2 and logit 1/2 = 0, so the odds are 1 / sqrt 2.
    assert pytest.approx(100 / (1 + math.sqrt(2))) == lam


def test_an_empty_stream_has_no_figures():
    """What nothing defines is null in JSON."""
    report, _ = run([], clock=ticking(0.0, 0.0))
    figures = json.loads(json.dumps(report.as_json()))

    assert {"messages": 0, "ham": 0, "spam": 0, "unsure": 0} == {
        name: figure for name, figure in figures.items() if figure is not None
    }


def test_several_labels_may_count_as_spam():
    """A site with more classes says which of them are unwanted."""
    stream = [("phishing", 1), ("newsletter", 2), ("phishing", 1)]
    memory = Memory()
    report = evaluate(
        stream,
        score=memory.score,
        learn=memory.learn,
        spam_labels={"spam", "phishing"},
    )

    assert (1, 2, 50.0) == (report.ham, report.spam, report.spam_missed_pct)


def test_results_are_told_one_by_one():
    """A result is recorded before the next message is read."""
    lines = []
    seen = []

    def stream():
        for message in ["a", "a"]:
            seen.append(len(lines))
            yield "spam", message

    run(stream(), record=lambda result: lines.append(result.json_line()))

    assert [0, 1] == seen
    assert [
        {"gold": "spam", "decision": "unsure", "log_odds": 0.0, "probability": 0.5},
        {"gold": "spam", "decision": "spam", "log_odds": 4.0, "probability": 0.98},
    ] == [json.loads(line) for line in lines]


@given(st.floats(), st.floats(0, 1), st.text(), st.sampled_from(["spam", "unsure"]))
def test_every_result_is_one_line_of_strict_json(log_odds, probability, gold, decision):
    """Infinite log-odds are null: JSON has no infinity."""
    line = Result(
        gold=gold, decision=decision, log_odds=log_odds, probability=probability
    ).json_line()

    def refuse(constant):
        raise AssertionError(constant)

    assert "\n" not in line
    assert {
        "gold": gold,
        "decision": decision,
        "log_odds": log_odds if math.isfinite(log_odds) else None,
        "probability": probability,
    } == json.loads(line, parse_constant=refuse)


def test_a_message_without_a_label_stops_the_evaluation():
    """The sentence says which message it was."""
    with pytest.raises(UnknownLabel, match="message 2 of the stream has no label"):
        run([("ham", 1), (None, 2)])


def test_log_odds_that_are_no_number_are_refused():
    """A filter that answers NaN is broken, and gets no figures."""
    with pytest.raises(InvalidObservation, match="score 0 is not a number"):
        evaluate(
            [("ham", 1)],
            score=lambda _: Verdict(math.nan, 0.5, "unsure"),
            learn=lambda *_: None,
        )
