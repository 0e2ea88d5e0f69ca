"""The weights of the views, as they follow from the ledger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.models.discrete import Multinomial
from app.classifier.fusion import LEAST, Fusion, Lesson, example_weights
from app.classifier.rule import FusionRule, Term, VerdictRule
from app.classifier.snapshot import Snapshot, lessons_after
from app.classifier.specification import Specification, ViewModel
from tests.support.builders import Root

RULE = FusionRule(every=4, window=10)


def specified(rule, *, words=2.0, pairs=2.0):
    """Return a specification of two views with shipped weights, under a rule."""
    weights = {"words": words, "pairs": pairs}
    return Specification(
        classifiers={
            view: ViewModel(view=view, event_model=Multinomial()) for view in weights
        },
        verdict=VerdictRule(
            terms=tuple(
                Term(classifier=view, normaliser=Root(), weight=weight)
                for view, weight in weights.items()
            ),
            fusion=rule,
        ),
    )


SPECIFICATION = specified(RULE)


def lesson(revision, label, says, *, digest=None, label_before=None, arrived=None):
    """Return a row with the views' scores for spam against ham, and its label."""
    came = {} if arrived is None else {"arrived": arrived}
    return Lesson(
        revision=revision,
        digest=(digest or revision).to_bytes(16),
        label_before=label_before,
        label=label,
        scores={
            "log_odds": sum(says),
            "prior": [0.0, 0.0],
            "terms": {
                f"{view}/root": [0.0, said]
                for view, said in zip(("words", "pairs"), says, strict=True)
            },
            **came,
        },
    )


def followed(lessons, *, specification=SPECIFICATION, cuts=(), revision=None):
    """Return the weights after the rows, read in batches that end at the cuts."""
    fusion, before = Fusion.shipped(specification), 0
    last = revision or (lessons[-1].revision if lessons else 0)
    for end in sorted({*cuts, last}):
        batch = [row for row in lessons if before < row.revision <= end]
        fusion = fusion.follow(batch, specification, before=before, revision=end)
        before = end
    return fusion


def known(fusion):
    """Return all of a fusion that a score may depend on, now or later."""
    return (
        fusion.weights.tolist(),
        fusion.bias.tolist(),
        fusion.fitted_revision,
        fusion.fitted_messages,
        fusion.arrivals.by_side.tolist(),
    )


def good(revision):
    """Return a message on which words are right, and pairs are noise."""
    sign = 1 if revision % 2 else -1
    noise = 0.5 if revision % 3 else -0.5
    return lesson(revision, "spam" if sign > 0 else "ham", (sign * 2.0, noise))


@st.composite
def ledgers(draw):
    """Return rows as a ledger holds them: learned, moved, forgotten, again."""
    labels: dict[int, str | None] = {}
    rows = []
    for revision in range(1, draw(st.integers(0, 40)) + 1):
        digest = draw(st.integers(1, 12))
        before = labels.get(digest)
        others = {"ham", "spam", None} - {before}
        label = draw(st.sampled_from(sorted(others, key=str)))
        says = draw(st.tuples(st.floats(-3, 3), st.floats(-3, 3)))
        # So that the sample is fair, most of the time.
        if label == "ham":
            says = tuple(-abs(value) for value in says)
        arrived = draw(st.none() | st.integers(0, 9))
        row = lesson(
            revision, label, says, digest=digest, label_before=before, arrived=arrived
        )
        labels[digest] = label
        rows.append(row)
    return rows


@given(ledgers(), st.sets(st.integers(1, 40)))
def test_every_worker_has_the_same_weights_whatever_batches_it_read(rows, cuts):
    """A batch may end anywhere: the weights are those of one read, bit for bit."""
    cuts = {cut for cut in cuts if cut <= len(rows)}

    assert known(followed(rows)) == known(followed(rows, cuts=cuts))


@given(ledgers(), st.integers(0, 40))
def test_a_start_reads_the_newest_rows_and_has_the_weights_of_a_replay(rows, more):
    """The rows that `lessons_after` asks for are enough, now and for all that follow."""
    here = max(0, len(rows) - more)
    revision = rows[here - 1].revision if here else 0
    after = lessons_after(SPECIFICATION, revision)
    newest = [row for row in rows if after < row.revision <= revision]

    started = Snapshot.of(SPECIFICATION, {}, revision=revision, lessons=newest)
    fusion = started.fusion
    assert known(followed(rows[:here], revision=revision)) == known(fusion)

    for row in rows[here:]:
        fusion = fusion.follow(
            [row], SPECIFICATION, before=row.revision - 1, revision=row.revision
        )
    assert known(followed(rows)) == known(fusion)


def test_a_weight_stays_near_the_shipped_one():
    """However much is taught that contradicts a view."""
    rows = [
        lesson(number, label, says)
        for number in range(1, 401)
        for label, says in ((("ham", (-0.9, 0.7)), ("spam", (0.9, -0.7)))[number % 2],)
    ]
    rule = FusionRule(every=400, window=400)
    words, pairs = followed(rows, specification=specified(rule, words=3.0)).weights

    assert 2.0 * LEAST == pairs
    assert 3.0 < words <= 3.0 / LEAST


def test_a_side_counts_as_the_other_four_times_at_most():
    """A thousand spam beside three ham say nothing of the share of spam."""
    even, uneven = np.array([True, False, True]), np.array([True] * 9 + [False])

    assert [1.0] * 3 == example_weights(even).tolist()
    assert [4 / 9] * 9 + [1.0] == example_weights(uneven).tolist()
    assert [0.0] * 2 == example_weights(np.array([True, True])).tolist()


def test_what_came_is_what_was_scored_and_half_of_what_nobody_taught():
    """Rows of archives, and rows older than the window, do not count."""
    said = (0.0, 0.0)
    rows = [
        lesson(1, "spam", said),
        lesson(2, "spam", said, arrived=5),
        lesson(3, "ham", said, arrived=1),
    ]
    later = [lesson(number, "spam", said) for number in range(4, 17)]

    assert [0.0, 0.0] == followed(rows[:1]).arrivals.by_side.tolist()
    assert [3.0, 3.0] == followed(rows).arrivals.by_side.tolist()
    assert [0.0, 0.0] == followed(rows + later).arrivals.by_side.tolist()


def test_a_label_that_is_corrected_counts_for_what_it_is():
    """Forgotten messages count neither before nor after the next fit."""
    said = (0.0, 0.0)
    rows = [
        lesson(1, "spam", said, arrived=1),
        lesson(2, "ham", said, arrived=1),
        lesson(3, "ham", said, digest=1, label_before="spam"),
        lesson(4, None, said, digest=2, label_before="ham"),
        lesson(5, "spam", said, digest=1, label_before="ham"),
        lesson(6, None, said, digest=1, label_before="spam"),
        lesson(7, "ham", said, digest=1, arrived=2),
    ]
    came = [followed(rows[:n]).arrivals.by_side.tolist() for n in range(1, 8)]

    assert [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [1.0, 0.0]] == came[:4]
    assert [[0.0, 1.0], [0.0, 0.0], [1.5, 0.5]] == came[4:]


def test_a_view_that_is_right_is_worth_more_than_one_that_is_noise():
    """The fit gives a good view a larger weight than a noisy one."""
    fusion = followed([good(revision) for revision in range(1, 9)])
    words, pairs = fusion.weights

    assert words > 2.0 > pairs
    assert (8, 8) == (fusion.fitted_revision, fusion.fitted_messages)


def test_a_few_wrong_labels_leave_the_weights_large():
    """5 % at the end, of messages that were sure, must not make the rest unsure."""
    specification = specified(FusionRule(every=100, window=2000))
    rows = []
    for revision in range(1, 2001):
        sign = 1 if revision % 2 else -1
        wrong = revision > 1900
        rows.append(
            lesson(
                revision, "spam" if (sign > 0) != wrong else "ham", (sign * 3.0, sign)
            )
        )

    weights = followed(rows, specification=specification).weights

    # The log-odds of such a message are 8 under the shipped weights; trusting every
    # label they fall to 3, the log of 19 to 1.
    assert abs(weights @ [3.0, 1.0]) > 5.0


def test_between_two_fits_nothing_changes():
    """The weights are those of the last multiple of `every`."""
    rows = [good(revision) for revision in range(1, 12)]

    assert known(followed(rows[:8])) == known(followed(rows))


def test_only_the_window_counts():
    """What was learned before the last `window` rows is forgotten."""
    odd = [lesson(n, "ham", (-0.1, -3.0)) for n in range(1, 11)]
    rows = [good(revision) for revision in range(11, 21)]

    assert known(followed(rows, revision=20)) == known(followed([*odd, *rows]))
    assert 10 == followed([*odd, *rows]).fitted_messages


def test_a_new_label_moves_an_example_and_forgetting_takes_it_out():
    """The newest label counts, and a forgotten message does not."""
    rows = [good(revision) for revision in range(1, 8)]
    moved = lesson(8, "ham", (9.0, 9.0), digest=1, label_before="spam")
    gone = lesson(8, None, (9.0, 9.0), digest=1, label_before="spam")
    as_ham = replace(rows[0], label="ham")

    assert known(followed([as_ham, *rows[1:]], revision=8)) == known(
        followed([*rows, moved])
    )
    assert known(followed(rows[1:], revision=8)) == known(followed([*rows, gone]))


def test_who_teaches_mistakes_only_leaves_the_weights_as_shipped():
    """Fitted to messages that were all taken for the other side, they would turn."""
    wrong = [
        replace(row, label="ham" if row.label == "spam" else "spam")
        for row in map(good, range(1, 9))
    ]

    fusion = followed(wrong)

    assert [2.0, 2.0] == fusion.weights.tolist()
    assert (8, 0) == (fusion.fitted_revision, fusion.fitted_messages)


@pytest.mark.parametrize(
    "scores",
    [
        None,
        {},
        {"log_odds": None, "prior": [0, 0], "terms": {}},
        {"log_odds": 1.0, "prior": [0, 0]},
        {"log_odds": 1.0, "prior": [0, 0], "terms": {"grams/root": [0, 1]}},
        {
            "log_odds": 1.0,
            "prior": [0, 0, 0],
            "terms": {"words/root": [0, 1], "pairs/root": [0, 1]},
        },
        {
            "log_odds": 1.0,
            "prior": [0, 0],
            "terms": {"words/root": [0, None], "pairs/root": [0, 1]},
        },
        {
            "log_odds": 1.0,
            "prior": [0, 0],
            "terms": {"words/root": 7, "pairs/root": [0, 1]},
        },
        {
            "log_odds": 1.0,
            "prior": [0, 0],
            "terms": {"words/root": [0, 1e9], "pairs/root": [0, 1]},
        },
        {
            "log_odds": "1.0",
            "prior": [0, 0],
            "terms": {"words/root": [0, 1], "pairs/root": [0, 1]},
        },
        [1],
    ],
)
def test_what_was_scored_in_another_way_is_no_example(scores):
    """Rows with other terms or labels, infinities or invalid scores are skipped."""
    rows = [good(revision) for revision in range(1, 8)]
    strange = replace(lesson(8, "spam", (1.0, 1.0)), scores=scores)

    assert 7 == followed([*rows, strange]).fitted_messages


def test_the_weights_of_a_snapshot_are_those_of_its_verdicts():
    """A snapshot that learns rows scores by what follows from them."""
    snapshot = Snapshot.empty(SPECIFICATION)
    rows = [good(revision) for revision in range(1, 9)]

    shipped = snapshot.fusion.weights.tolist()
    snapshot.learn({}, revision=8, lessons=rows)

    assert known(followed(rows)) == known(snapshot.fusion)
    assert [2.0, 2.0] == shipped


def test_nothing_is_fitted_to_the_filters_own_labels():
    """When a person labels the message, the first scores are used."""
    rows = [good(revision) for revision in range(1, 8)]
    own = replace(lesson(8, "spam", (9.0, 9.0)), own=True)
    moved = lesson(9, "ham", (0.0, 0.0), digest=8, label_before="spam")

    without = followed(rows, revision=8)
    ignored = followed([*rows, own])
    corrected = followed([*rows, own, moved], revision=12)
    as_told = followed([*rows, lesson(8, "ham", (9.0, 9.0))], revision=12)

    assert known(without) == known(ignored)
    assert known(as_told) == known(corrected)
    assert 6 == corrected.fitted_messages
