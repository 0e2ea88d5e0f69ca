"""Dumps of bogofilter's word list."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from app.errors import MalformedDump
from app.exchange import dumps

DUMPS = Path(__file__).parent.parent.parent / "golden" / "dumps"
HEAD = b".MSG_COUNT 60 40 20260301\n"


def read(dump):
    """Return the tally of a dump."""
    return dumps.read_bogofilter(BytesIO(dump))


def counts(dump, view):
    """Return ham and spam messages of each feature of a view."""
    taken = read(dump).taken(("ham", "spam"), ham="ham", spam="spam")[view]
    columns = taken.counts.documents.tolist()
    return dict(zip(taken.names, map(tuple, columns), strict=True))


def test_a_real_dump_is_read():
    """What bogofilter 1.2.5 wrote of two messages is learned under our names."""
    with (DUMPS / "bogofilter.txt").open("rb") as file:
        tally = dumps.read_bogofilter(file)
    taken = tally.taken(("ham", "spam"), ham="ham", spam="spam")

    assert tally.messages == (1, 1)
    assert tally.features == {"words": 40, "headers": 31}
    assert (72, 21) == (tally.carried.total(), tally.left.total())
    for view in taken.values():
        view.counts.require_reachable()


def test_spam_comes_before_ham():
    """The first count of a line is that of spam."""
    dump = HEAD + b"prize 7 2 20260301\n"

    assert counts(dump, "words") == {"prize": (2, 7)}


def test_tags_become_the_headers_that_they_are_of():
    """From, To, Return-Path and Received are our features of the same header."""
    dump = HEAD + (
        b"from:Ann 0 3 20260301\nto:bob 1 0 20260301\n"
        b"rtrn:example.org 0 2 20260301\nrcvd:192.0.2.7 4 0 20260301\n"
    )

    assert counts(dump, "headers") == {
        "from:ann": (3, 0),
        "to:bob": (0, 1),
        "return-path:example.org": (2, 0),
        "received:192.0.2.7": (0, 4),
    }


def test_words_of_the_subject_are_words_of_the_text_too():
    """Ours are in both views, so that the dump's are as well."""
    dump = HEAD + b"subj:Lunch 0 3 20260301\nlunch 1 2 20260301\n"

    assert counts(dump, "headers") == {"subject:lunch": (3, 0)}
    assert counts(dump, "words") == {"lunch": (5, 1)}


def test_spellings_are_one_word_and_never_in_more_messages_than_there_are():
    """Each case counts by itself there; the sum is cut at all messages."""
    dump = b".MSG_COUNT 9 4 20260301\nFree 8 1 20260301\nFREE 5 0 20260301\n"

    assert counts(dump, "words") == {"free": (1, 9)}


@pytest.mark.parametrize(
    "token", ["head:Mutt", "mime:html", "subj:a/b", "a/b", "from:a@b", "x:y", "z" * 50]
)
def test_what_has_no_feature_here_is_counted_and_left(token):
    """A token whose meaning is not ours adds nothing."""
    tally = read(HEAD + f"{token} 1 1 20260301\nprize 1 1\n".encode())

    assert tally.left.total() == 1
    assert tally.features == {"words": 1}


def test_a_token_without_messages_is_left():
    """Counts of zero are what bogofilter keeps of a token that was unlearned."""
    assert read(HEAD + b"prize 0 0 20260301\n").left.total() == 1


def test_an_old_list_that_is_not_utf8_is_read():
    """Before 1.0 a list held the bytes of the messages."""
    assert counts(HEAD + b"caf\xe9 0 3 20260301\n", "words") == {"café": (3, 0)}


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (b"prize 7 2 20260301\n", ".MSG_COUNT"),
        (b"", ".MSG_COUNT"),
        (HEAD + b"prize 7 2 202", "cut short"),
        (HEAD + b"prize\n", "line 2"),
        (HEAD + b"prize -7 2 20260301\n", "line 2"),
        (HEAD + b"prize 7 2,5 20260301\n", "line 2"),
        (HEAD + b"prize 7 99999999999999999999 20260301\n", "line 2"),
        (HEAD + b"prize 7 3000000000 20260301\n", "line 2"),
        (HEAD + b"a\0b 7 2 20260301\n", "NUL"),
        (HEAD + b"a" * 70_000 + b"\n", "longer"),
    ],
)
def test_what_is_no_dump_is_refused(dump, said):
    """The sentence says which line, and what is wrong with it."""
    with pytest.raises(MalformedDump, match=said):
        read(dump)


@pytest.mark.parametrize("dump", [b".MSG_COUNT 0 0\n", HEAD, HEAD + b"a/b 1 1\n"])
def test_a_dump_of_nothing_is_refused(dump):
    """To learn nothing is not what an import was asked for."""
    with pytest.raises(MalformedDump, match="nothing that Postbayes can learn"):
        read(dump).taken(("ham", "spam"), ham="ham", spam="spam")


def test_labels_are_chosen_by_who_imports():
    """A profile of three labels gets the counts under the two that are named."""
    taken = read(HEAD + b"prize 7 2\n").taken(
        ("ham", "newsletter", "spam"), ham="newsletter", spam="spam"
    )["words"]

    assert taken.counts.messages.tolist() == [0, 40, 60]
    assert taken.counts.documents.tolist() == [[0, 2, 7]]


def test_a_dump_has_bounded_features(monkeypatch):
    """A dump of endless tokens ends with a sentence."""
    monkeypatch.setattr("app.exchange.dumps.MAX_FEATURES", 2)
    with pytest.raises(MalformedDump, match="more than 2 different tokens"):
        read(HEAD + b"one 1 1\ntwo 1 1\nthree 1 1\n")
