"""A mailbox in memory is followed: what is new is taught, once."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from app.doors.cli.console import StateFile
from app.doors.cli.imap import folders
from app.doors.imap import follower as module
from app.doors.imap.account import Folder
from app.doors.imap.follower import Follower, Memory
from app.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    EmptyMessage,
    Expired,
    InvalidSetting,
    MailboxUnavailable,
    MessageTooLarge,
    TooManyRequests,
    UnreadableMessage,
)
from app.settings import Settings


class Account:
    """A mailbox in memory: folders of messages by UID."""

    idles = True
    archive = None

    def __init__(self):
        self.folders = {"Junk": {}, "INBOX": {}}
        self.validity = 1
        self.uid = 1
        self.then = []
        self.soon = []
        self.opened = None
        self.marks = {}

    def put(self, name, headers):
        """Have a message appear in a folder."""
        self.folders[name][self.uid] = headers
        self.uid += 1

    def move(self, headers, source, target):
        """Move a message: it gets another UID."""
        folder = self.folders[source]
        del folder[next(uid for uid in folder if folder[uid] == headers)]
        self.put(target, headers)

    def open(self, name):
        """Look into a folder."""
        self.opened = name
        if self.soon:
            self.soon.pop(0)()
        return Folder(name, self.validity, self.uid, len(self.folders[name]))

    def headers(self, first):
        """Yield UID and headers."""
        folder = self.folders[self.opened]
        yield from ((uid, folder[uid]) for uid in sorted(folder) if uid >= first)

    def marked(self, folder, label):
        """Return the messages with a mark, that lie there."""
        there = self.folders[folder.name]
        return {uid for uid in self.marks.get(label, ()) if uid in there}

    def headers_of(self, uids):
        """Yield UID and headers of some messages."""
        yield from ((uid, self.folders[self.opened][uid]) for uid in uids)

    def newest(self, folder, number):
        """Yield those of the last so many messages."""
        assert folder.name == self.opened
        yield from list(self.headers(1))[-number:]

    def message(self, uid):
        """Return a message; one that says so is gone meanwhile."""
        found = self.folders[self.opened][uid]
        return None if found == b"gone" else found + b"\r\n\r\nbody"

    def wait(self, seconds):  # noqa: ARG002
        """Do what the test has planned for this moment."""
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def account():
    """A mailbox with something in Junk already."""
    account = Account()
    account.put("Junk", b"old")
    return account


@pytest.fixture
def taught():
    """What was taught."""
    return []


@pytest.fixture
def follower(account, taught, tmp_path, monkeypatch):
    """Follows it; pauses are noted and not waited for."""

    @contextmanager
    def connect():
        yield account

    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    return Follower(
        connect=connect,
        folders=(("spam", "Junk"), ("ham", "INBOX")),
        teach=lambda raw, word: taught.append((raw.split(b"\r")[0], word)),
        memory=Memory(version=1),
        keep=StateFile(tmp_path / "state" / "imap.json", "POSTBAYES_IMAP_STATE").write,
    )


def test_a_state_that_cannot_be_written_leaves_no_file_behind(tmp_path):
    """A folder stands in its place; every run would leave one more."""
    (tmp_path / "imap.json").mkdir()
    state = StateFile(tmp_path / "imap.json", "POSTBAYES_IMAP_STATE")

    with pytest.raises(
        InvalidSetting, match=r"POSTBAYES_IMAP_STATE, .* cannot be written"
    ):
        state.write("{}")
    assert ["imap.json"] == [each.name for each in tmp_path.iterdir()]


def test_a_state_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """A power cut may come after the rename, and leave what was not written."""
    state = StateFile(tmp_path / "imap.json", "POSTBAYES_IMAP_STATE")
    state.write("old")
    flushed = []

    def fsync(file):
        flushed.append((os.fstat(file).st_ino, state.read()))

    monkeypatch.setattr(os, "fsync", fsync)
    state.write("new")

    assert [(state.path.stat().st_ino, "old")] == flushed
    assert "new" == state.read()


def test_a_state_that_root_writes_belongs_to_the_owner_of_the_folder(tmp_path):
    """The service's user can continue from it."""
    user = os.geteuid() or 65534
    os.chown(tmp_path, user, -1)
    state = StateFile(tmp_path / "imap.json", "POSTBAYES_IMAP_STATE")
    state.write("{}")

    assert (user, 0o600) == (
        state.path.stat().st_uid,
        stat.S_IMODE(state.path.stat().st_mode),
    )


def test_a_state_is_not_written_through_a_link(tmp_path, monkeypatch):
    """Root may write into a folder of the service's user, who could put one there."""
    other = tmp_path / "other"
    other.write_text("kept")
    monkeypatch.setattr(Path, "touch", lambda part, **_: part.symlink_to(other))
    state = StateFile(tmp_path / "imap.json", "POSTBAYES_IMAP_STATE")

    with pytest.raises(InvalidSetting, match="cannot be written"):
        state.write("{}")
    assert "kept" == other.read_text()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "Junk"),
        ({"imap_marks": True}, "INBOX"),
        ({"imap_folders": ("News=news",)}, "INBOX"),
    ],
)
def test_the_last_folder_is_that_in_which_every_lesson_shows(settings, name):
    """In Junk also what was filed a moment ago, and is ham once it is moved."""
    assert name == folders(Settings(imap_junk="Junk", **settings))[-1][1]


def test_what_is_moved_is_taught(account, follower, taught):
    """Into Junk is spam, out of it is ham, and into Trash is nothing."""
    account.folders["Trash"] = {}
    account.put("INBOX", b"first")
    account.then = [
        lambda: account.move(b"first", "INBOX", "Junk"),
        lambda: account.move(b"first", "Junk", "INBOX"),
        lambda: account.move(b"old", "Junk", "Trash"),
        lambda: account.put("INBOX", b"news"),
    ]

    assert [0, 1, 1, 0, 0] == list(islice(follower.follow(), 5))
    assert [(b"first", "spam"), (b"first", "ham")] == taught


def test_folders_have_labels_of_their_own(account, follower, taught):
    """Mail moved there gets its label; from there to a folder of ham, it is ham."""
    account.folders |= {"News": {}, "Archive": {}, "Elsewhere": {}}
    account.put("News", b"old news")
    follower = replace(
        follower,
        folders=(
            ("spam", "Junk"),
            ("news", "News"),
            ("ham", "Archive"),
            ("ham", "INBOX"),
        ),
    )
    account.put("INBOX", b"first")
    account.put("INBOX", b"second")
    account.then = [
        lambda: account.move(b"first", "INBOX", "News"),
        lambda: account.move(b"first", "News", "Junk"),
        lambda: account.move(b"first", "Junk", "Archive"),
        lambda: account.move(b"second", "INBOX", "Archive"),
        lambda: account.move(b"old news", "News", "Elsewhere"),
        lambda: account.move(b"old news", "Elsewhere", "INBOX"),
    ]

    assert 4 == sum(islice(follower.follow(), 7))
    assert [
        (b"first", "news"),
        (b"first", "spam"),
        (b"first", "ham"),
        (b"old news", "ham"),
    ] == taught


@pytest.mark.parametrize("label", [None, "news"])
def test_the_archive_is_a_folder_of_ham_unless_it_has_a_label(
    account, follower, taught, label
):
    """What was in Junk is ham there, as with Sieve; what was in the inbox says nothing."""
    account.folders["Old"] = {}
    account.archive = "Old"
    if label is not None:
        follower = replace(
            follower,
            folders=(follower.folders[0], (label, "Old"), *follower.folders[1:]),
        )
    account.put("INBOX", b"first")
    account.then = [
        lambda: account.move(b"old", "Junk", "Old"),
        lambda: account.move(b"first", "INBOX", "Old"),
    ]
    list(islice(follower.follow(), 3))

    assert (
        [(b"old", "ham")] if label is None else [(b"old", "news"), (b"first", "news")]
    ) == taught


def test_what_is_marked_is_taught_where_that_is_set(account, follower, taught):
    """Each mark teaches once, and marks from before the first look do not."""
    for headers in (b"first", b"second", b"third"):
        account.put("INBOX", headers)
    (first, second, third) = account.folders["INBOX"]
    account.marks = {"spam": {first}}
    account.then = [
        lambda: account.marks["spam"].add(second),
        lambda: account.move(b"second", "INBOX", "Junk"),
        lambda: account.marks.update(ham={first, third}, spam={second}),
        lambda: account.marks.update(ham={third}),
        lambda: account.marks.update(ham={first, third}),
    ]

    assert 3 == sum(islice(replace(follower, marks=True).follow(), 6))
    assert [(b"second", "spam"), (b"first", "ham"), (b"third", "ham")] == taught


def test_marks_of_a_folder_that_is_numbered_anew_are_old(account, follower, taught):
    """The same number then belongs to another message."""
    follower = replace(follower, marks=True)
    list(islice(follower.follow(), 1))
    account.put("INBOX", b"first")
    account.marks = {"spam": {*account.folders["INBOX"]}}
    account.validity = 2

    assert 0 == sum(islice(follower.follow(), 2))
    assert [] == taught


def test_marks_count_from_the_look_at_which_they_are_set(account, follower, taught):
    """Enabling marks later does not teach those of earlier years."""
    account.put("INBOX", b"first")
    account.marks = {"ham": {*account.folders["INBOX"]}}
    list(islice(follower.follow(), 1))

    assert 0 == sum(islice(replace(follower, marks=True).follow(), 2))
    assert [] == taught


@pytest.mark.parametrize("moment", range(2, 5))
def test_what_is_moved_between_look_and_wait_is_seen(account, follower, taught, moment):
    """It is learned at once, and not after the next change or five minutes."""

    def nothing():
        """Let a moment pass."""

    account.put("INBOX", b"first")
    account.soon = [
        *[nothing] * moment,
        lambda: account.move(b"first", "INBOX", "Junk"),
    ]
    account.wait = lambda _: pytest.fail("it waits, and has not seen the message")

    looks = follower.follow()
    while not taught:
        next(looks)

    assert [(b"first", "spam")] == taught


@pytest.mark.parametrize(
    ("last", "again"), [("Junk", module.LOOK_AGAIN), ("INBOX", module.POLL)]
)
def test_after_a_change_the_next_look_comes_soon(
    account, follower, taught, last, again
):
    """A server may not report changes that happen just before IDLE.

    And it reports none of Junk while the inbox is open.
    """
    folders = sorted(follower.folders, key=lambda folder: folder[1] == last)
    follower = replace(follower, folders=tuple(folders))
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            account.put("Junk", b"new")

    account.wait = wait

    list(islice(follower.follow(), 6))

    soon = module.LOOK_SOON
    assert [soon, again, again, soon, again] == waits
    assert [(b"new", "spam")] == taught


def test_what_lay_in_junk_is_ham_once_it_is_moved(account, follower, taught):
    """The first look teaches nothing, and remembers what is there."""
    account.then = [lambda: account.move(b"old", "Junk", "INBOX")]

    list(islice(follower.follow(), 2))

    assert [(b"old", "ham")] == taught


def test_of_a_large_junk_folder_the_newest_are_remembered(
    account, follower, taught, monkeypatch
):
    """The memory has a bound; older messages give no feedback."""
    monkeypatch.setattr(module, "CAPACITY", 2)
    for headers in (b"second", b"third"):
        account.put("Junk", headers)
    account.then = [
        lambda: account.move(b"old", "Junk", "INBOX"),
        lambda: account.move(b"third", "Junk", "INBOX"),
    ]

    assert [0, 0, 1] == list(islice(follower.follow(), 3))
    assert [(b"third", "ham")] == taught


def test_a_restart_goes_on_where_the_last_one_ended(
    account, follower, taught, tmp_path
):
    """Moves between two runs are learned at the second."""

    def run_once():
        text = StateFile(tmp_path / "state" / "imap.json", "x").read()
        memory = Memory.load(text, file="x")
        list(islice(replace(follower, memory=memory).follow(), 1))

    run_once()
    account.put("Junk", b"meanwhile")

    run_once()
    run_once()

    assert [(b"meanwhile", "spam")] == taught


def test_a_message_that_the_server_does_not_return_is_passed_over_and_logged(
    account, follower, taught, caplog
):
    """It was deleted meanwhile, or is too large for the server; the next is read."""
    list(islice(follower.follow(), 1))
    for headers in (b"gone", b"there"):
        account.put("Junk", headers)

    assert [1] == list(islice(follower.follow(), 1))
    assert [(b"there", "spam")] == taught
    assert "message 2 of Junk was skipped: it was deleted meanwhile" in caplog.text


def test_what_could_not_be_taught_is_taught_later(account, follower, taught, caplog):
    """While the service is unavailable, no message is skipped."""
    list(islice(follower.follow(), 1))
    for headers in (b"one", b"two"):
        account.put("Junk", headers)
    real, failures = follower.teach, [1, 2]

    def teach(raw, word):
        if failures:
            failures.pop()
            msg = "the service is away"
            raise DatabaseUnavailable(msg)
        real(raw, word)

    object.__setattr__(follower, "teach", teach)

    list(islice(follower.follow(), 1))

    assert [(b"one", "spam"), (b"two", "spam")] == taught
    assert "the service is away; trying again in 2 s" in caplog.text


@pytest.mark.parametrize(
    "refusal", [Expired, EmptyMessage, MessageTooLarge, UnreadableMessage]
)
def test_a_message_that_never_is_taken_keeps_no_other_waiting(
    account, follower, taught, caplog, refusal
):
    """It is skipped, and logged."""
    list(islice(follower.follow(), 1))
    for headers in (b"late", b"new"):
        account.put("Junk", headers)
    real = follower.teach

    def teach(raw, word):
        if raw.startswith(b"late"):
            msg = "it was learned too long ago"
            raise refusal(msg)
        real(raw, word)

    object.__setattr__(follower, "teach", teach)

    assert [1, 0] == list(islice(follower.follow(), 2))
    assert [(b"new", "spam")] == taught
    late = "message 2 of Junk was skipped: it was learned too long ago"
    assert 1 == caplog.text.count(late)
    assert {refusal.__name__: 1} == follower.passed_over


@pytest.mark.parametrize(
    "error",
    [DatabaseDamaged("not now"), TooManyRequests("not now", 60.0)],
    ids=["damaged", "busy"],
)
def test_a_service_that_takes_no_message_for_now_is_waited_for(
    account, follower, taught, caplog, error
):
    """It answers 500 until its data are put back, or 429 until the next day."""
    list(islice(follower.follow(), 1))
    account.put("Junk", b"new")
    real = follower.teach

    def teach(*_):
        object.__setattr__(follower, "teach", real)
        raise error

    object.__setattr__(follower, "teach", teach)

    assert [1] == list(islice(follower.follow(), 1))
    assert [(b"new", "spam")] == taught
    assert "not now; trying again" in caplog.text


def test_a_folder_that_is_renamed_is_waited_for(account, follower, taught, caplog):
    """A folder that existed may return; its new messages are then learned."""
    list(islice(follower.follow(), 1))
    real = account.open

    def gone(name):
        account.open = real
        account.put("Junk", b"new")
        msg = f"the mailbox has no folder {name!r}"
        raise InvalidSetting(msg)

    def rename():
        account.open = gone

    account.then = [rename]

    assert [0, 1] == list(islice(follower.follow(), 2))
    assert [(b"new", "spam")] == taught
    assert "has no folder 'Junk'; trying again in 1 s" in caplog.text


@pytest.mark.parametrize("validity", [1, 2], ids=["restored", "numbered anew"])
def test_a_folder_that_has_other_numbers_is_read_from_its_beginning(
    account, follower, taught, validity, caplog
):
    """Messages already in Junk are no feedback; later ones are."""
    for number in range(5):
        account.put("Junk", b"known %d" % number)
    list(islice(follower.follow(), 1))
    account.validity = validity
    account.folders["Junk"] = {n: b"restored %d" % n for n in range(1, 4)}
    account.uid = 4

    account.then = [
        lambda: account.put("Junk", b"new"),
        lambda: account.move(b"restored 2", "Junk", "INBOX"),
    ]

    assert [0, 1, 1] == list(islice(follower.follow(), 3))
    assert [(b"new", "spam"), (b"restored 2", "ham")] == taught
    assert "the server has renumbered the folder 'Junk'" in caplog.text


def test_a_server_that_renumbers_at_each_look_is_not_asked_without_pause(
    account, follower, monkeypatch
):
    """Its folders never look as they did before."""
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    account.soon = [lambda: setattr(account, "validity", account.validity + 1)] * 99

    list(islice(follower.follow(), 4))

    assert [module.FIRST_PAUSE] * 3 == pauses


def test_a_server_that_hangs_up_is_asked_again(account, follower, taught, monkeypatch):
    """The pause doubles up to its limit, and begins anew after a success."""
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)

    def hang_up(*_):
        msg = "the IMAP server is gone"
        raise MailboxUnavailable(msg)

    account.then = [hang_up, hang_up]

    assert [0, 0, 0] == list(islice(follower.follow(), 3))
    assert [1.0, 1.0] == pauses
    account.open = hang_up
    monkeypatch.setattr(module.time, "sleep", stop_after(pauses, 14))
    with pytest.raises(StopAsyncIteration):
        list(follower.follow())
    assert [1.0, 2.0, 4.0] == pauses[2:5]
    assert module.LONGEST_PAUSE == max(pauses) == pauses[-1]


def stop_after(pauses, number):
    """Return a sleep that notes so many pauses, and ends the test."""

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) > number:
            raise StopAsyncIteration

    return sleep


def test_a_setting_that_is_wrong_is_told_at_the_start(account, follower):
    """A wrong folder or password at the start is an error, not an outage."""

    def refuse(name):
        msg = "no folder"
        raise InvalidSetting(msg)

    account.open = refuse

    with pytest.raises(InvalidSetting, match="no folder"):
        next(follower.follow())


def test_a_file_that_cannot_be_written_is_told(tmp_path, account, follower):
    """The error names the setting."""
    (tmp_path / "state").write_text("in the way")

    with pytest.raises(InvalidSetting, match="POSTBAYES_IMAP_STATE"):
        next(follower.follow())
