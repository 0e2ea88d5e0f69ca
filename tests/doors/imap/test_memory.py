"""The label that a message gets by its folder, and the memory of messages."""

from __future__ import annotations

import pytest

from app.doors.imap import follower
from app.doors.imap.follower import Memory
from app.errors import InvalidSetting

PLAIN = b"From: a@b.example\r\nSubject: x\r\n\r\n"
MARKED = b"X-Postbayes: spam\r\n" + PLAIN
NEWS = b"X-Postbayes: ham\r\nX-Postbayes-Label: news\r\n" + PLAIN


def says(memory, place, headers):
    """Return what a message says, taken as taught if it says something."""
    word = memory.says(place, headers)
    if word is not None:
        memory.taught(headers, word)
    return word


@pytest.mark.parametrize(
    ("headers", "places", "words"),
    [
        (PLAIN, ["spam"], ["spam"]),
        (PLAIN, ["ham"], [None]),
        (PLAIN, ["ham", "spam"], [None, "spam"]),
        (PLAIN, ["spam", "spam"], ["spam", None]),
        (PLAIN, ["spam", "ham"], ["spam", "ham"]),
        (PLAIN, ["spam", "ham", "ham"], ["spam", "ham", None]),
        (PLAIN, ["spam", "ham", "spam"], ["spam", "ham", "spam"]),
        (MARKED, ["spam"], [None]),
        (MARKED, ["spam", "ham"], [None, "ham"]),
        (MARKED, ["spam", "ham", "spam"], [None, "ham", "spam"]),
        (PLAIN, ["news", "news"], ["news", None]),
        (PLAIN, ["news", "ham", "news"], ["news", "ham", "news"]),
        (PLAIN, ["news", "spam", "ham"], ["news", "spam", "ham"]),
        (NEWS, ["news", "news"], [None, None]),
        (NEWS, ["news", "ham"], [None, "ham"]),
        (NEWS, ["news", "spam", "news"], [None, "spam", "news"]),
        (NEWS, ["new"], ["new"]),
        (NEWS, ["spam"], ["spam"]),
        (MARKED, ["news"], ["news"]),
        (b"X-Postbayes: ham\n" + PLAIN, ["spam"], ["spam"]),
        (b"X-Postbayes: unsure\n" + PLAIN, ["spam"], ["spam"]),
    ],
)
def test_a_message_says_what_somebody_did_with_it(headers, places, words):
    """The filter's own verdict is not feedback; every later move is."""
    memory = Memory(version=1)

    assert words == [says(memory, place, headers) for place in places]


@pytest.mark.parametrize(
    "name",
    [b"X-TUID", b"X-OfflineIMAP", b"X-Mozilla-Keys", b"Content-Length", b"Lines"],
)
def test_a_message_that_is_uploaded_anew_is_the_same(name):
    """Programs that move mail by uploading it, such as mbsync, add headers to the copy."""
    memory = Memory(version=1)

    assert "spam" == says(memory, "spam", PLAIN)
    assert "ham" == says(memory, "ham", name + b": ihehlyY9HXAQ\r\n" + PLAIN)
    assert "spam" == says(memory, "spam", PLAIN[:-2] + name + b": aD/3+x\r\n\r\n")


def test_what_lay_in_junk_before_says_nothing_until_it_is_moved():
    """Nobody knows who put it there."""
    memory = Memory(version=1)
    memory.note(PLAIN, "spam")

    assert [None, "ham"] == [memory.says(place, PLAIN) for place in ("spam", "ham")]


def test_a_folder_that_is_numbered_anew_is_begun_anew():
    """UIDs of another UIDVALIDITY are meaningless."""
    memory = Memory(version=1)
    memory.mark_read("Junk", 7, 20)

    assert [20, None, None] == [
        memory.first_unread("Junk", 7),
        memory.first_unread("Junk", 8),
        memory.first_unread("INBOX", 7),
    ]


def test_a_memory_is_kept_and_loaded(monkeypatch):
    """A restart forgets nothing, but the oldest beyond the capacity."""
    monkeypatch.setattr(follower, "CAPACITY", 2)
    memory = Memory(version=1, marked={"INBOX": {"spam": [1, 3]}})
    for n in range(3):
        memory.note(b"%d" % n, "spam")
    memory.mark_read("Junk", 7, 20)

    loaded = Memory.load(memory.model_dump_json(), file="x")

    assert memory.model_dump_json() == loaded.model_dump_json()
    assert [None, "ham", "ham"] == [loaded.says("ham", b"%d" % n) for n in range(3)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "\0"),
        '{"version": 2, "read": {}, "known": []}',
        '{"version": 1, "read": {}, "known": [1]}',
    ],
)
def test_a_file_that_holds_something_else_is_not_overwritten(text):
    """The error names the file."""
    with pytest.raises(InvalidSetting, match=r"state\.json is not a state file"):
        Memory.load(text, file="state.json")


def test_a_mark_says_what_nobody_has_said_yet():
    """A move and a mark are one opinion; the filter's own verdict is not one."""
    memory = Memory(version=1)

    assert memory.says_mark("spam", MARKED) is None
    assert [says(memory, "spam", PLAIN), memory.says_mark("spam", PLAIN)] == [
        "spam",
        None,
    ]
    assert "ham" == memory.says_mark("ham", PLAIN)
    memory.taught(PLAIN, "ham")
    assert memory.says_mark("ham", PLAIN) is None
