"""Backups of SpamAssassin's Bayes database."""

from __future__ import annotations

from hashlib import sha1
from io import BytesIO
from pathlib import Path

import pytest

from app.errors import MalformedDump
from app.exchange import dumps

DUMPS = Path(__file__).parent.parent.parent / "golden" / "dumps"
HEAD = b"v\t3\tdb_version # this must be the first line!!!\nv\t6\tnum_spam\nv\t4\tnum_nonspam\n"


def test_words_that_are_known_are_found_in_a_real_backup():
    """A token is a hash, so that the words to look for have to be given."""
    with (DUMPS / "spamassassin.txt").open("rb") as file:
        tally = dumps.read_spamassassin(
            file, ["Shall we meet? agenda", "prize money zebra"]
        )
    taken = tally.taken(("ham", "spam"), ham="ham", spam="spam")["words"]

    assert tally.messages == (1, 1)
    assert sorted(taken.names) == ["agenda", "meet", "money", "prize", "shall"]
    assert tally.left.total() == 138 - 5


def test_without_words_it_says_why_nothing_can_be_read():
    """Numbers of messages without their words would teach nothing but a prior."""
    with (
        (DUMPS / "spamassassin.txt").open("rb") as file,
        pytest.raises(MalformedDump, match=r"138 tokens of 1 spam and 1 ham.*--words"),
    ):
        dumps.read_spamassassin(file, None)


def test_a_word_is_taken_once():
    """The same word twice among the words given counts once."""
    token = sha1(b"prize", usedforsecurity=False).hexdigest()[-10:].encode()
    line = b"t\t2\t1\t1793955600\t%s\n" % token
    tally = dumps.read_spamassassin(BytesIO(HEAD + line), ["prize", "a prize"])

    assert tally.carried == {"words of the text": 1}


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (b"", "first lines"),
        (b"prize 1 2\n", "first lines"),
        (b"v\t3\tdb_version\nv\t6\tnum_spam\n", "first lines"),
        (HEAD + b"t\t1\t2\t3\n", "line 4"),
        (HEAD + b"t\t1\t2\t3\tzz\n", "10 hexadecimal digits"),
        (HEAD + b"t\t1\t-2\t3\t0123456789\n", "line 4"),
        (HEAD + b"w\t1\n", "line 4"),
        (HEAD + b"s\th\tabc", "cut short"),
    ],
)
def test_what_is_no_backup_is_refused(dump, said):
    """The sentence says which line, and what is wrong with it."""
    with pytest.raises(MalformedDump, match=said):
        dumps.read_spamassassin(BytesIO(dump), ["word"])


def test_a_backup_has_bounded_tokens(monkeypatch):
    """A backup of endless tokens ends with a sentence."""
    monkeypatch.setattr("app.exchange.dumps.MAX_FEATURES", 1)
    lines = b"t\t1\t2\t3\t0123456789\nt\t1\t2\t3\t0123456780\n"
    with pytest.raises(MalformedDump, match="more than 1 tokens"):
        dumps.read_spamassassin(BytesIO(HEAD + lines), ["word"])
