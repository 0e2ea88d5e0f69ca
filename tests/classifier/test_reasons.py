"""Reasons: what a person takes as one, from the names of the features."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.explain import attribute, explain
from app.classifier.learn import delta
from app.classifier.reasons import MOST_WORDS, Known, grouped
from app.classifier.score import score
from app.classifier.snapshot import Snapshot
from app.classifier.specification import Specification
from app.features.extract import extract
from app.mail.parse import parse
from tests.support.messages import ham, spam

SHIPPED = Specification()
LETTER = b"""From: Prize Office <office@prizes.example>
Subject: Your free money
Reply-To: win@prizes.example

Claim your free prize money now! http://shop.prizes.example/claim
Shall we meet at noon?
"""


def learned(n=8):
    """Return the snapshot after so many ham and as many spam."""
    snapshot = Snapshot.empty(SHIPPED)
    for at in range(n):
        for label, raw in enumerate((ham(at), spam(at))):
            views = extract(parse(raw), SHIPPED.views).views
            moved = delta(views, before=None, after=label, n_classes=2)
            snapshot.learn(moved, revision=snapshot.revision + 1)
    return snapshot


def explained(raw, *, strongest):
    """Return the explanation of a message by a small filter."""
    snapshot = learned()
    seen = extract(parse(raw), SHIPPED.views)
    verdict = score(snapshot, seen.views)
    found = explain(attribute(verdict, snapshot), snapshot, seen, strongest=strongest)
    return verdict, found


def known(view, **values):
    """Return known features of a view; an underscore stands for the blank of a pair."""
    names = [name.replace("__", ":").replace("_", " ") for name in values]
    return Known(view, names, np.arange(len(names)), np.array([*values.values()]))


def texts(found, views):
    """Return the text of the reason of each feature."""
    names = [name for each in views for name in each.names]
    return [found.texts.get(at, names[at]) for at in found.reason.tolist()]


def test_a_header_is_one_reason_and_so_are_the_links_to_a_domain():
    """What is no host of a link is of any link."""
    views = [
        known("headers", from__bob=1.0, from__bank=-1.0, subject__hi=1.0),
        Known(
            "words",
            ["link:a.b.example", "link:.b.example", "link:http", "alt:x", "hidden:y"],
            np.arange(5),
            np.ones(5),
        ),
    ]
    found = grouped(views, joins=9)

    assert [
        "from",
        "from",
        "subject",
        "b.example",
        "b.example",
        "paths",
        "images",
        "hidden",
    ] == texts(found, views)
    assert ["headers"] * 3 + ["links"] * 3 + ["images", "hidden"] == [
        found.families[at] for at in found.family
    ]


def test_words_that_stand_side_by_side_are_one_reason():
    """By the pair of two words, where all three speak for one side."""
    views = [
        known("words", your=0.1, free=1.0, money=1.0, at=-0.5, noon=-1.0),
        known("pairs", your_free=0.5, free_money=2.0, money_at=0.2, at_noon=-1.0),
    ]
    found = grouped(views, joins=9)

    phrase, other = "your free money", "at noon"
    assert [phrase] * 3 + [other] * 2 + [phrase, phrase, phrase, other] == texts(
        found, views
    )


def test_a_reason_has_few_words():
    """A whole message is none."""
    names = [f"w{n}" for n in range(50)]
    pairs = [f"{one} {other}" for one, other in pairwise(names)]
    views = [
        Known("words", names, np.arange(50), np.ones(50)),
        Known("pairs", pairs, np.arange(49), np.ones(49)),
    ]
    found = grouped(views, joins=500)

    assert MOST_WORDS == max(text.count(" ") + 1 for text in texts(found, views))


@given(
    st.lists(st.sampled_from("abcdef"), min_size=2, max_size=30),
    st.data(),
    st.integers(0, 30),
)
def test_each_feature_is_in_one_reason(read, data, joins):
    """Whatever the words and their worth: the reason of a reason is itself."""
    names = sorted(set(read))
    pairs = sorted({f"{a} {b}" for a, b in pairwise(read)})
    worth = [
        np.array(data.draw(st.lists(st.floats(-9, 9), min_size=n, max_size=n)))
        for n in (len(names), len(pairs))
    ]
    found = grouped(
        [
            Known("words", names, np.arange(len(names)), worth[0]),
            Known("pairs", pairs, np.arange(len(pairs)), worth[1]),
        ],
        joins=joins,
    )

    assert len(names) + len(pairs) == found.reason.size
    assert (found.reason[found.reason] == found.reason).all()


def test_subtotals_and_reasons_add_up_and_say_what_they_show():
    """The sum is the log-odds in both ways, and the share that of the reasons."""
    verdict, found = explained(LETTER, strongest=3)
    shown = sum(reason.log_odds for reason in found.reasons)

    assert np.isclose(verdict.log_odds, sum(found.families.values()))
    assert np.isclose(verdict.log_odds, sum(each.log_odds for each in found.summands))
    assert np.isclose(found.share, shown / verdict.log_odds)
    assert {"words", "pairs", "headers", "links", "prior"} <= found.families.keys()


def test_the_side_that_decides_comes_first():
    """Then what it outvoted."""
    verdict, found = explained(LETTER, strongest=4)
    sides = [reason.log_odds > 0 for reason in found.reasons]

    assert verdict.log_odds > 0
    assert [True] * 4 == sides[:4]
    assert set(sides[4:]) == {False}


def test_most_of_a_verdict_is_said_in_ten_reasons():
    """Single features show a tenth of it; half is asked for, of mail like this all."""
    for raw in (LETTER, ham(77), spam(77)):
        verdict, found = explained(raw, strongest=10)

        assert "unsure" != verdict.decision
        assert found.share >= 0.5


def test_nothing_listed_shows_nothing():
    """The subtotals are there all the same."""
    verdict, found = explained(LETTER, strongest=0)

    assert ((), 0.0) == (found.reasons, found.share)
    assert np.isclose(verdict.log_odds, sum(found.families.values()))
