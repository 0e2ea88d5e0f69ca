"""What a message says by the folder that it lies in, and what is remembered."""

from __future__ import annotations

import pytest

from app.doors.imap.memory import Memory
from app.errors import InvalidSetting

PLAIN = b"From: a@b.example\r\nSubject: x\r\n\r\n"
MARKED = b"X-Postbayes: spam\r\n" + PLAIN


def says(memory, place, headers):
    """Return what a message says, taken as taught if it says something."""
    word = memory.says(place, headers)
    if word is not None:
        memory.taught(headers, word)
    return word


@pytest.mark.parametrize(
    ("headers", "places", "words"),
    [
        (PLAIN, ["junk"], ["spam"]),
        (PLAIN, ["inbox"], [None]),
        (PLAIN, ["inbox", "junk"], [None, "spam"]),
        (PLAIN, ["junk", "junk"], ["spam", None]),
        (PLAIN, ["junk", "inbox"], ["spam", "ham"]),
        (PLAIN, ["junk", "inbox", "inbox"], ["spam", "ham", None]),
        (PLAIN, ["junk", "inbox", "junk"], ["spam", "ham", "spam"]),
        (MARKED, ["junk"], [None]),
        (MARKED, ["junk", "inbox"], [None, "ham"]),
        (MARKED, ["junk", "inbox", "junk"], [None, "ham", "spam"]),
        (b"X-Postbayes: ham\n" + PLAIN, ["junk"], ["spam"]),
        (b"X-Postbayes: unsure\n" + PLAIN, ["junk"], ["spam"]),
    ],
)
def test_a_message_says_what_somebody_did_with_it(headers, places, words):
    """A verdict of ours is no evidence for itself; every change of mind is."""
    memory = Memory()

    assert words == [says(memory, place, headers) for place in places]


def test_what_lay_in_junk_before_says_nothing_until_it_is_moved():
    """Nobody knows who put it there."""
    memory = Memory()
    memory.note(PLAIN)

    assert [None, "ham"] == [memory.says(place, PLAIN) for place in ("junk", "inbox")]


def test_a_folder_that_is_numbered_anew_is_begun_anew():
    """UIDs of another UIDVALIDITY mean nothing."""
    memory = Memory()
    memory.mark_read("Junk", 7, 20)

    assert [20, None, None] == [
        memory.first_unread("Junk", 7),
        memory.first_unread("Junk", 8),
        memory.first_unread("INBOX", 7),
    ]


def test_a_memory_is_kept_and_loaded():
    """A restart forgets nothing, but the oldest beyond the capacity."""
    memory = Memory(capacity=2)
    for n in range(3):
        memory.note(b"%d" % n)
    memory.mark_read("Junk", 7, 20)

    loaded = Memory.load(memory.dump(), file="x")

    assert memory.dump() == loaded.dump()
    assert [None, "ham", "ham"] == [loaded.says("inbox", b"%d" % n) for n in range(3)]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 2, "read": {}, "known": []}', "\0"]
)
def test_a_file_that_holds_something_else_is_not_overwritten(text):
    """The sentence names it."""
    with pytest.raises(InvalidSetting, match=r"state\.json is not a state file"):
        Memory.load(text, file="state.json")
