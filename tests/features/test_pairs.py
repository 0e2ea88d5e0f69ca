"""Pairs of neighbouring words are features of presence."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.extract import extract
from app.features.hashing import ids_of
from app.features.pairs import mixed, pairs
from app.mail.parse import parse

WORDS = ["at", "noon", "or", "one"]


def pairs_of(*sequences):
    """Return the pairs of words in one or several texts."""
    words = [word for sequence in sequences for word in sequence]
    return pairs(words, ids_of(words), [len(sequence) for sequence in sequences])


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


def test_the_order_of_a_pair_counts():
    """Two words in two orders are two features."""
    a, b = ids_of(["a"]), ids_of(["b"])

    assert mixed(a, b).tolist() != mixed(b, a).tolist()


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_pairs_with_one_word_in_common_differ(one, other):
    """Mixing is one to one in the left word, and in the right one."""
    left, right = np.array([one]), np.array([other])
    fixed = np.array([7])

    assert (one == other) == bool(mixed(left, fixed) == mixed(right, fixed))
    assert (one == other) == bool(mixed(fixed, left) == mixed(fixed, right))


def test_a_hundred_thousand_pairs_have_as_many_ids():
    """The ids of pairs are as good as hashed names."""
    ids = ids_of([str(number) for number in range(400)])
    left, right = np.repeat(ids, 400), np.tile(ids, 400)

    assert 160_000 == np.unique(mixed(left, right)).size


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
