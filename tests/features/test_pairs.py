"""Pairs of neighbouring words are features of presence."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.features.extract import extract
from app.features.observation import Observation, pair_names
from app.features.tokens import tokens_of
from app.kernels.ids import mixed
from app.kernels.text import WHOLE
from app.mail.parse import parse

WORDS = ["at", "noon", "or", "one"]


def pairs_of(*sequences):
    """Return the pairs of words in one or several texts."""
    spans = [("", word, WHOLE) for sequence in sequences for word in sequence]
    ends = np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
    return replace(tokens_of(spans), ends=ends).pairs(0, len(sequences))


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=4))
def test_pairs_are_those_of_neighbours(sequences):
    """Each pair within a sequence once, none across two of them."""
    expected = {f"{a} {b}" for words in sequences for a, b in pairwise(words)}
    x, names = pairs_of(*sequences)

    assert expected == set(names)
    assert len(expected) == len(names) == x.size
    assert (x.counts == 1).all()


@given(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6))
def test_the_id_of_a_pair_is_that_of_its_words(words):
    """The same pair has the same id wherever it stands."""
    x, names = pairs_of(words)
    one_by_one = [int(pairs_of(name.split())[0].ids[0]) for name in names]

    assert one_by_one == x.ids.tolist()


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_the_names_of_pairs_are_found_among_those_of_the_words(words):
    """A stored message has only the names of its words."""
    text = " ".join(words)
    seen = extract(parse(f"Subject: a b\n\n{text}".encode()))
    named = seen.stored(words=True).with_pair_names()

    assert seen.names.get("pairs") == named.names.get("pairs")


def test_pairs_of_other_words_stay_without_names():
    """An id is shown in place of a name, and never a wrong name."""
    x, _ = pairs_of(["at", "noon"])
    words = tokens_of([("", "one", WHOLE)]).ids

    assert pair_names(x, words, ["one"]) is None
    assert pair_names(x, words[:0], []) is None


def test_pairs_of_an_earlier_version_stay_without_names():
    """Only their ids are stored."""
    x, _ = pairs_of(["at", "noon"])
    words = tokens_of([("", word, WHOLE) for word in ["at", "noon"]]).ids
    words.sort()
    views = {
        "words": SparseCounts(words, np.ones_like(words)),
        "pairs": SparseCounts(x.ids, x.counts),
    }
    seen = Observation(bytes(16), 1, views, {"words": ("at", "noon")})

    assert seen == seen.with_pair_names()


def test_the_order_of_a_pair_counts():
    """Two words in two orders are two features."""
    assert pairs_of(["a", "b"])[0] != pairs_of(["b", "a"])[0]


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_pairs_with_one_word_in_common_differ(one, other):
    """Mixing is one to one in the left word, and in the right one."""
    assert (one == other) == (mixed(one, 7) == mixed(other, 7))
    assert (one == other) == (mixed(7, one) == mixed(7, other))


def test_a_hundred_thousand_pairs_have_as_many_ids():
    """The ids of pairs are as good as hashed names."""
    words = [str(number) for number in range(400)]
    every = [word for left in words for right in words for word in (left, right)]
    pairs, _ = pairs_of(*zip(every[::2], every[1::2], strict=True))

    assert 160_000 == pairs.size


def test_names_of_pairs_are_a_sequence_like_any_other():
    """They are made when asked for, one by one or several at once."""
    _, names = pairs_of(["at", "noon", "or", "one"])
    every = ["at noon", "noon or", "or one"]

    assert every == sorted(names)
    assert tuple(names) == names[:] == (names[0], names[1], names[-1])
    assert names == pairs_of(["at", "noon", "or", "one"])[1]
    assert names != every
    with pytest.raises(IndexError):
        names[3]


def test_subject_and_texts_are_not_joined():
    """The last word of the subject and the first of the text are no pair."""
    found = extract(parse(b"Subject: big sale\n\nbuy now")).names["pairs"]

    assert {"big sale", "buy now"} == set(found)
