"""Dumps of other filters: what is carried, what is left, and what is refused."""

from __future__ import annotations

from hashlib import sha1
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import MalformedDump
from app.exchange import dumps

DUMPS = Path(__file__).parent.parent / "golden" / "dumps"
HEAD = b".MSG_COUNT 60 40 20260301\n"


def read(dump):
    """Return the tally of a dump."""
    return dumps.read_bogofilter(BytesIO(dump))


def counts(dump, view):
    """Return ham and spam messages of each feature of a view."""
    return named(read(dump))[view]


def named(tally):
    """Return ham and spam messages of each feature of each view."""
    state, names = tally.taken(("ham", "spam"), ham="ham", spam="spam")
    assert state.keys() == names.keys()
    found = {}
    for view, x in state.items():
        assert x.ids.tolist() == [*names[view]]
        columns = map(tuple, x.documents.tolist())
        found[view] = dict(zip(names[view].values(), columns, strict=True))
    return found


def test_a_real_dump_is_read():
    """What bogofilter 1.2.5 wrote of two messages is learned under our names."""
    with (DUMPS / "bogofilter.txt").open("rb") as file:
        tally = dumps.read_bogofilter(file)
    state, _ = tally.taken(("ham", "spam"), ham="ham", spam="spam")

    assert tally.messages == (1, 1)
    assert tally.features == {"words": 40, "headers": 31}
    assert (72, 21) == (tally.carried.total(), tally.left.total())
    for x in state.values():
        x.require_reachable()


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
    state, _ = read(HEAD + b"prize 7 2\n").taken(
        ("ham", "newsletter", "spam"), ham="newsletter", spam="spam"
    )

    assert state["words"].messages.tolist() == [0, 40, 60]
    assert state["words"].documents.tolist() == [[0, 2, 7]]


def test_a_dump_has_bounded_features(monkeypatch):
    """A dump of endless tokens ends with a sentence."""
    monkeypatch.setattr("app.exchange.dumps.MAX_FEATURES", 2)
    with pytest.raises(MalformedDump, match="more than 2 different tokens"):
        read(HEAD + b"one 1 1\ntwo 1 1\nthree 1 1\n")


BACKUP = b"v\t3\tdb_version # this must be the first line!!!\nv\t6\tnum_spam\nv\t4\tnum_nonspam\n"


def test_words_that_are_known_are_found_in_a_real_backup():
    """A token is a hash, so that the words to look for have to be given."""
    with (DUMPS / "spamassassin.txt").open("rb") as file:
        tally = dumps.read_spamassassin(
            file, ["Shall we meet? agenda", "prize money zebra"]
        )

    assert tally.messages == (1, 1)
    assert sorted(named(tally)["words"]) == [
        "agenda",
        "meet",
        "money",
        "prize",
        "shall",
    ]
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
    tally = dumps.read_spamassassin(BytesIO(BACKUP + line), ["prize", "a prize"])

    assert tally.carried == {"words of the text": 1}


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (b"", "first lines"),
        (b"prize 1 2\n", "first lines"),
        (b"v\t3\tdb_version\nv\t6\tnum_spam\n", "first lines"),
        (BACKUP + b"t\t1\t2\t3\n", "line 4"),
        (BACKUP + b"t\t1\t2\t3\tzz\n", "10 hexadecimal digits"),
        (BACKUP + b"t\t1\t-2\t3\t0123456789\n", "line 4"),
        (BACKUP + b"w\t1\n", "line 4"),
        (BACKUP + b"s\th\tabc", "cut short"),
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
        dumps.read_spamassassin(BytesIO(BACKUP + lines), ["word"])


def test_an_export_is_read():
    """Each kind of token that has a feature here becomes it; ham comes first."""
    with (DUMPS / "spambayes.csv").open("rb") as file:
        tally = dumps.read_spambayes(file)
    found = named(tally)

    assert tally.messages == (40, 60)
    assert found["words"] == {
        "prize": (0, 12),
        "today": (4, 6),
        "ann": (5, 0),
        "example.org": (6, 0),
        "lunch": (4, 0),
        "!!!": (0, 8),
        "link:claim": (0, 5),
        "link:http": (1, 30),
    }
    assert found["headers"] == {
        "subject:lunch": (4, 0),
        "subject:!!!": (0, 8),
        "from:example.org": (6, 0),
        "message-id:example.org": (6, 0),
        "x-mailer:none": (30, 50),
    }


def test_what_was_left_is_counted_by_reason():
    """No token is lost without a word."""
    with (DUMPS / "spambayes.csv").open("rb") as file:
        tally = dumps.read_spambayes(file)

    assert tally.carried.total() + tally.left.total() == 22
    assert tally.left["tokens without messages"] == 1


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (b"", "first line"),
        (b"prize,0,12\n", "first line"),
        (b"ham,spam\n", "line 1"),
        (b"4,6\nprize,0\n", "line 2"),
        (b"4,6\nprize,0,x\n", "line 2"),
        (b"4,6\nprize,0,1", "cut short"),
        (b'4,6\n"prize"x,0,1\n', "not CSV"),
    ],
)
def test_what_is_no_export_is_refused(dump, said):
    """The sentence says which line, and what is wrong with it."""
    with pytest.raises(MalformedDump, match=said):
        dumps.read_spambayes(BytesIO(dump))


READERS = [
    (dumps.read_bogofilter, b".MSG_COUNT 9 9 20260301\n"),
    (dumps.read_spambayes, b"9,9\n"),
    (
        lambda file: dumps.read_spamassassin(file, ["word"]),
        b"v\t3\tdb_version\nv\t9\tnum_spam\nv\t9\tnum_nonspam\n",
    ),
]
lines = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(
            st.text(max_size=40),
            st.sampled_from([" ", ",", "\t", ":"]),
            st.integers(-9, 2**70),
            st.integers(0, 9),
        ).map(lambda t: f"{t[0]}{t[1]}{t[2]}{t[1]}{t[3]}".encode("utf-8", "replace")),
    ),
    max_size=8,
).map(lambda found: b"".join(line + b"\n" for line in found))


@pytest.mark.parametrize(("read", "head"), READERS)
@given(lines=lines)
def test_any_bytes_end_with_a_tally_or_a_sentence(read, head, lines):
    """Nothing else is raised, and what is taken can have been learned."""
    for dump in (lines, head + lines):
        try:
            tally = read(BytesIO(dump))
            state, names = tally.taken(("ham", "spam"), ham="ham", spam="spam")
        except MalformedDump:
            continue

        for view, x in state.items():
            x.require_reachable()
            assert [*names[view]] == x.ids.tolist()
