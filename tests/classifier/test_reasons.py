"""Reasons: what a person takes as one, from the names of the features."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.classifier.explain import MOST_WORDS, Attribution, attribute, explain, texts_at
from app.classifier.learn import delta
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.features.observation import Observation
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


def grouped(strongest=9, **views):
    """Return the reasons of some features, by what each adds.

    An underscore stands for the blank of a pair, two for the colon of a tag.
    """
    added = {view: np.array([*of.values()]) for view, of in views.items()}
    names = {
        view: [name.replace("__", ":").replace("_", " ") for name in of]
        for view, of in views.items()
    }
    seen = {view: np.ones(values.size, np.bool_) for view, values in added.items()}
    ids = {view: np.arange(values.size) for view, values in added.items()}
    payloads = {view: SparseCounts(of, np.ones_like(of)) for view, of in ids.items()}
    return explain(
        Attribution(prior=0.0, contributions=added, seen=seen),
        Snapshot.empty(SHIPPED),
        Observation(bytes(16), 1, payloads, names),
        strongest=strongest,
    )


def test_a_header_is_one_reason_and_so_are_the_links_to_a_domain():
    """Features other than the host of a link are shared by all links."""
    links = ["link:a.b.example", "link:.b.example", "link:http", "alt:x", "hidden:y"]
    found = grouped(
        headers={"from:bob": 9.0, "from:bank": -1.0, "subject:hi": 7.0},
        words=dict(zip(links, (3.0, 3.0, 5.0, 4.0, 3.0), strict=True)),
    )

    assert [
        ("from", "headers", 2),
        ("subject", "headers", 1),
        ("b.example", "links", 2),
        ("paths", "links", 1),
        ("images", "images", 1),
        ("hidden", "hidden", 1),
    ] == [(each.text, each.family, each.features) for each in found.reasons]
    assert {
        "headers": 15.0, "links": 11.0, "images": 4.0, "hidden": 3.0,
        "words": 0.0, "prior": 0.0,
    } == found.families  # fmt: skip


def test_words_that_stand_side_by_side_are_one_reason():
    """By the pair of two words, where all three speak for one side."""
    found = grouped(
        words={"your": 0.1, "free": 1.0, "money": 1.0, "at": -0.5, "noon": -1.0},
        pairs={"your_free": 0.5, "free_money": 2.0, "money_at": 0.2, "at_noon": -1.0},
    )

    assert [("your free money", 6), ("at noon", 3)] == [
        (each.text, each.features) for each in found.reasons
    ]


def test_all_grams_are_one_reason():
    """They stand behind the pairs, and are no pairs."""
    _, found = explained(LETTER, strongest=20)
    (grams,) = [each for each in found.reasons if each.family == "grams"]

    assert "grams" == grams.text
    assert grams.features > 20
    assert np.isclose(found.families["grams"], grams.log_odds)


@pytest.mark.parametrize(
    ("spam", "ham", "words", "run"),
    [
        (
            "Приз бесплатный сегодня",
            "Обед в пятницу",
            "приз бесплатный сегодня",
            "Приз",
        ),
        ("我公司代开发票", "周五会议", "我公司代开发票", "代开发票"),
    ],
)
def test_reasons_are_in_the_script_of_the_message(spam, ham, words, run):
    """Runs too, whose letters have the symbols of Latin ones."""
    snapshot = Snapshot.empty(SHIPPED)
    for label, text in enumerate((ham, spam)):
        views = extract(parse(f"\n{text}".encode()), SHIPPED.views).views
        moved = delta(views, before=None, after=label, n_classes=2)
        snapshot.learn(moved, revision=label + 1)
    seen = extract(parse(f"\n{spam}".encode()), SHIPPED.views)
    added = attribute(score(snapshot, seen.views), snapshot)

    found = explain(added, snapshot, seen, strongest=9).reasons

    assert words in [each.text for each in found]
    assert run in texts_at(seen, "grams", np.arange(seen.views["grams"].size))


def test_a_reason_has_few_words():
    """A whole message is not one reason."""
    names = [f"w{n}" for n in range(50)]
    found = grouped(
        words=dict.fromkeys(names, 1.0),
        pairs=dict.fromkeys(map("_".join, pairwise(names)), 1.0),
    )

    assert MOST_WORDS == max(each.text.count(" ") + 1 for each in found.reasons)


@given(
    st.lists(st.sampled_from("abcdef"), min_size=2, max_size=30),
    st.data(),
    st.integers(0, 30),
)
def test_each_feature_is_in_one_reason(read, data, strongest):
    """Whatever the words and their evidence, no feature is listed twice."""
    names = sorted(set(read))
    pairs = sorted({f"{a}_{b}" for a, b in pairwise(read)})
    words, of_pairs = (
        {name: data.draw(st.floats(-9, 9)) for name in each} for each in (names, pairs)
    )
    found = grouped(strongest, words=words, pairs=of_pairs)

    assert len(names) + len(pairs) == sum(each.features for each in found.summands)
    assert len(found.reasons) <= 2 * strongest


def test_subtotals_and_reasons_add_up_and_say_what_they_show():
    """The sum is the log-odds in both ways, and the share that of the reasons."""
    verdict, found = explained(LETTER, strongest=3)
    shown = sum(reason.log_odds for reason in found.reasons)

    assert np.isclose(verdict.log_odds, sum(found.families.values()))
    assert np.isclose(verdict.log_odds, sum(each.log_odds for each in found.summands))
    assert np.isclose(found.share, shown / verdict.log_odds)
    assert {"words", "pairs", "headers", "links", "prior"} <= found.families.keys()


def test_the_side_that_decides_comes_first():
    """The reasons of the outvoted side come second."""
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
    """Without listed reasons, the subtotals remain."""
    verdict, found = explained(LETTER, strongest=0)

    assert ((), 0.0) == (found.reasons, found.share)
    assert np.isclose(verdict.log_odds, sum(found.families.values()))
