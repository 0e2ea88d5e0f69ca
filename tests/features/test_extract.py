"""Extracting features is a pure function of the Message."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.features.extract import FEATURE_SET, VIEWS, extract
from app.features.hashing import counted, hashed
from app.features.observation import digest
from app.mail.parse import parse


def test_the_words_of_a_message_are_counted():
    """Ids, counts and names stand side by side."""
    observation = extract(parse(b"spam, spam and eggs"))
    counts = dict(
        zip(
            observation.names["words"],
            observation.views["words"].counts.tolist(),
            strict=True,
        )
    )

    assert {"spam": 2, ",": 1, "and": 1, "eggs": 1} == counts
    assert FEATURE_SET == observation.feature_set


def test_an_id_is_the_hash_of_the_name():
    """The signed 64 bits of xxh3 of the name in UTF-8."""
    counts, names = hashed(["grüße"])

    assert ("grüße",) == names
    assert xxhash.xxh3_64_intdigest("grüße".encode()) == int(
        counts.ids.view(np.uint64)[0]
    )


def test_names_of_one_id_are_one_feature():
    """Two words that someone made collide do not break the message."""
    counts, names = counted(np.array([2, 1, 1, 1]), ["c", "a", "b", "a"])

    assert SparseCounts.of({1: 3, 2: 1}) == counts
    assert names in {("a", "c"), ("b", "c")}


def test_a_message_of_nothing_has_no_features():
    """An empty Observation is one."""
    observation = extract(parse(b""))

    texts = ["words", "headers", "pairs", "grams"]
    assert [*texts, "structure", "measurements"] == list(observation.views)
    assert [0, 0, 0, 0] == [observation.views[view].size for view in texts]
    assert {"structure", "measurements"} == observation.names.keys()


@pytest.mark.parametrize("views", [("words",), ("pairs", "grams"), VIEWS, ()])
def test_only_the_views_that_are_wanted_are_made(views):
    """A view is the same whatever others are made beside it."""
    message = parse(b"Subject: big lunch\nFrom: ann@b.example\n\nsmall talk")
    every = extract(message)

    some = extract(message, views)

    assert set(views) == some.views.keys()
    assert all(every.views[view] == some.views[view] for view in views)
    assert every.digest == some.digest


def test_words_of_headers_are_no_words_of_the_text():
    """Of all headers, only the subject is read with the text."""
    names = extract(parse(b"Subject: big\nFrom: ann\n\nhello")).names

    assert {"big", "hello"} == set(names["words"])
    assert {"subject:big", "from:ann"} == set(names["headers"])


def test_defects_are_passed_on():
    """What was wrong with the message is known to who judges it."""
    message = parse(b"Subject: a\0\n\nb")

    assert ("nul-bytes",) == extract(message).defects == message.defects


@given(st.binary(max_size=400))
def test_any_bytes_have_an_observation(raw):
    """Bytes in, Observation out, and always the same."""
    message = parse(raw)
    observation = extract(message)

    assert observation == extract(message)
    assert digest(message).hex() == observation.id
    for view, names in observation.names.items():
        assert len(names) == observation.views[view].size
    for x in observation.views.values():
        assert sorted(set(x.ids.tolist())) == x.ids.tolist()
