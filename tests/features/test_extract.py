"""Extracting features is a pure function of the Message."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from string import ascii_lowercase

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import SparseCounts
from app.features.extract import FEATURE_SET, MOST_WORDS, VIEWS, extract, meant
from app.features.observation import digest, ids_of
from app.features.tokens import tokens_of
from app.features.tricks import of_words
from app.kernels.text import NAME, TEXT, WHOLE
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
    """The signed 64 bits of xxh3 in UTF-8, in words without accents and hyphens."""
    counts, names = tokens_of([("", "grüß-e", WHOLE)]).distinct((0, 1))

    assert ["grüß-e"] == list(names)
    assert xxhash.xxh3_64_intdigest("gruße".encode()) == int(
        counts.ids.view(np.uint64)[0]
    )


def test_what_is_read_alike_is_one_feature():
    """A word of the text or the subject, but not a host, which is another's."""
    hosts = [f"{name}.example" for name in ("paypál", "paypal", "pay-pal", "p4ypal")]
    found = tokens_of([("link:", host, NAME) for host in hosts])
    subjects = tokens_of([("subject:", "E-Mail émail email don't dont", TEXT)])

    assert 4 == len({*found.ids.tolist()})
    assert ids_of([f"link:{host}" for host in hosts]).tolist() == found.ids.tolist()
    assert 2 == len({*subjects.ids.tolist()})
    assert meant("subject:e-mail") == meant("subject:email")
    assert meant("via\u02bcgra") == meant("v\u0640i\u064ea\u05b0gra") == meant("viagra")
    assert meant("مَرحبا") == meant("مرحبا")
    assert meant("--")["words"] != meant("-")["words"]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("v1agra", "viagra"),
        ("V1-4GRA!!!", "viagra!!!"),
        ("pr1z3", "prize"),
        ("ca$h", "cash"),
        ("fr33dom", "freedom"),
        ("0nl1ne", "online"),
    ],
)
def test_digits_and_signs_between_letters_are_letters(written, read):
    """And so are the other digits of such a word."""
    assert meant(written)["words"] == meant(read)["words"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("3d", "ed"), ("mp3", "mpe"), ("100", "ioo"), ("win1000pro", "winioooopro"),
     ("b2b", "bzb"), ("$ave", "save"), ("free!", "freei"), ("4x", "ax")],
)  # fmt: skip
def test_digits_at_an_end_are_digits(one, other):
    """And so are those that look like no letter, and three in a row."""
    assert meant(one)["words"] != meant(other)["words"]


def test_names_of_one_id_are_one_feature():
    """Two words that someone made collide do not break the message."""
    spans = [("", word, WHOLE) for word in ("c", "a", "b", "a")]
    made = replace(tokens_of(spans), ids=np.array([2, 1, 1, 1]))
    counts, names = made.distinct((0, 4))

    assert SparseCounts.of({1: 3, 2: 1}) == counts
    assert ["a", "c"] == list(names)


def test_a_message_of_nothing_has_no_features():
    """An empty Observation is one."""
    observation = extract(parse(b""))

    texts = ["words", "headers", "pairs", "grams"]
    assert texts == list(observation.views)
    assert [0, 0, 0, 0] == [observation.views[view].size for view in texts]
    assert not observation.names


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


def words():
    """Yield different words, short ones first, without digits that are read as letters."""
    for size in range(1, 5):
        yield from map("".join, product(ascii_lowercase, repeat=size))


def flood(words_of_text, words_of_header=0):
    """Return a message of so many different words."""
    header = " ".join(f"h{n}" for n in range(words_of_header))
    lines = [
        f"Received: {header[start : start + 9000]}"
        for start in range(0, len(header), 9000)
    ]
    text = " ".join(islice(words(), words_of_text))
    return "\n".join([*lines, "Subject: hello", "", text]).encode()


def test_a_message_has_as_many_features_as_it_may():
    """Whoever is taught it folds a row for each; the words that come first count."""
    most = MOST_WORDS["text"]
    observation = extract(parse(flood(41_000)))
    kept = set(observation.names["words"])
    first, *_, last, beyond = islice(words(), most)

    assert ("too-many-words",) == observation.defects
    assert most - 2 == observation.views["pairs"].size
    assert {"hello", first, last} <= kept
    assert beyond not in kept


def test_headers_have_a_bound_of_their_own():
    """A flood in one place leaves the words of the others."""
    observation = extract(parse(flood(3, 9_000)))

    assert "too-many-words" in observation.defects
    assert MOST_WORDS["headers"] == observation.views["headers"].counts.sum()
    assert {"hello", "a", "b", "c"} == set(observation.names["words"])


def test_a_flood_of_tricks_leaves_the_links(monkeypatch):
    """What stands apart from the text has a bound of its own, and links come first."""
    monkeypatch.setitem(MOST_WORDS, "marked", 100)
    hidden = " ".join(f"x{n}" for n in range(500))
    raw = f"""Subject: hello
Content-Type: text/html

<a href="http://shop.example/">here</a><p style="display:none">{hidden}</p>
"""
    observation = extract(parse(raw.encode()))
    marked = [name for name in observation.names["words"] if ":" in name]

    assert "too-many-words" in observation.defects
    assert 100 >= len(marked) > 50
    assert "link:shop.example" in marked


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


def test_the_features_beyond_a_bound_are_the_same_in_each_process():
    """A set has another order in each process, so none decides which words are left."""
    words = b"bcdfghjkl bcdfg bcdfghjklmnpq bcdfg "

    assert ["random:2", "random:1", "random:3"] == of_words(words)
