"""Plans: what is scored and learned when, and that nothing is seen before."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidObservation
from app.evaluation.experiment import Folds, Online, TrainFirst

orders = st.integers(0, 30).flatmap(lambda n: st.permutations(range(n)))
plans = st.one_of(
    st.builds(
        Online,
        delay=st.integers(0, 5),
        first=st.none() | st.integers(1, 10),
        share=st.floats(0.1, 1),
    ),
    st.builds(Folds, folds=st.integers(2, 5)),
    st.builds(TrainFirst, messages=st.integers(1, 5)),
)


def told(part):
    """Return a part as text."""
    return " ".join(f"{kind[0]}{message}" for kind, message in part)


@given(plans, orders.filter(lambda order: len(order) > 5), st.integers(0, 9))
def test_no_message_is_scored_after_it_was_learned(plan, order, seed):
    """Within a part a message is scored first, learned later, each once at most."""
    labels = ["ham", "spam"] * len(order)
    for part in plan.parts(order, labels, seed=seed):
        learned = set()
        for kind, message in part:
            assert message not in learned
            if kind == "learn":
                learned.add(message)

        assert max(Counter(part).values()) == 1


@given(orders, st.integers(0, 9))
def test_online_each_message_is_scored_then_learned(order, seed):
    """With immediate feedback on everything, the order is the stream's."""
    [part] = Online().parts(order, [], seed=seed)

    assert " ".join(f"s{m} l{m}" for m in order) == told(part)


@given(orders, st.integers(0, 9), st.integers(0, 9))
def test_delayed_feedback_comes_as_many_messages_later(order, delay, seed):
    """When a message is learned, that many more have been scored since it was."""
    [part] = Online(delay=delay).parts(order, [], seed=seed)
    scored = []
    for kind, message in part:
        if kind == "score":
            scored.append(message)
        else:
            assert scored[-1 - delay] == message

    assert order == scored


def test_feedback_may_stop():
    """After the first messages, nothing is learned any more."""
    [part] = Online(first=2).parts([0, 1, 2, 3], [], seed=1)

    assert "s0 l0 s1 l1 s2 s3" == told(part)


def test_partial_feedback_is_for_about_that_share():
    """Of ten thousand messages, a tenth is learned, give or take."""
    [part] = Online(share=0.1).parts(range(10_000), [], seed=1)
    kinds = Counter(kind for kind, _ in part)

    assert 10_000 == kinds["score"]
    assert 900 < kinds["learn"] < 1100


def test_another_seed_gives_feedback_on_other_messages():
    """The same seed gives the same plan."""
    here, again, there = (
        Online(share=0.5).parts(range(50), [], seed=seed) for seed in (1, 1, 2)
    )

    assert here == again
    assert here != there


@given(st.lists(st.sampled_from(["ham", "spam", "phishing"]), min_size=5), st.data())
def test_each_message_is_scored_in_one_fold_and_learned_in_all_others(labels, data):
    """Folds are alike in their labels: they differ by one message of each."""
    folds = data.draw(st.integers(2, min(5, len(labels))))
    parts = Folds(folds=folds).parts(range(len(labels)), labels, seed=1)
    scored = [[m for kind, m in part if kind == "score"] for part in parts]

    assert folds == len(parts)
    assert list(range(len(labels))) == sorted(m for fold in scored for m in fold)
    for part, fold in zip(parts, scored, strict=True):
        learned = {m for kind, m in part if kind == "learn"}
        assert set(range(len(labels))) - set(fold) == learned
    for label in labels:
        sizes = [sum(labels[m] == label for m in fold) for fold in scored]
        assert max(sizes) - min(sizes) <= 1


def test_the_first_are_learned_and_the_rest_scored():
    """Nothing is learned of the messages that are scored."""
    [part] = TrainFirst(messages=2).parts([3, 1, 0, 2], [], seed=1)

    assert "l3 l1 s0 s2" == told(part)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (Online(), "Every message is scored, then learned."),
        (Online(delay=1000), "after 1,000 more have been scored"),
        (Online(first=10_000), "only the first 10,000"),
        (Online(share=0.25), "0.25 of the messages"),
        (Folds(folds=10), "the other of 10 folds"),
        (TrainFirst(messages=4000), "The first 4,000 messages"),
    ],
)
def test_a_plan_says_what_it_is(plan, sentence):
    """People read in the report what was done."""
    assert sentence in plan.sentence()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Online(share=0.0), "above 0 and at most 1, got 0.0"),
        (lambda: Online(share=1.5), "above 0 and at most 1, got 1.5"),
        (lambda: Folds(folds=3).parts([0, 1], ["a", "b"], seed=1), "2 messages cannot"),
        (lambda: TrainFirst(messages=2).parts([0, 1], [], seed=1), "none to score"),
    ],
)
def test_plans_that_cannot_be_are_refused(make, sentence):
    """The sentence has the number."""
    with pytest.raises(InvalidObservation, match=sentence):
        make()
