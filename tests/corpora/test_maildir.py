"""Maildirs: which files are messages, and which folders are junk."""

from __future__ import annotations

import mailbox

import pytest

from app.corpora.mailbox import is_maildir
from app.corpora.source import mail_folders, read_path
from app.errors import UnreadableSource


def deliver(folder, name, *, part="cur", content=None):
    """Put a message in a folder, which is made if need be."""
    for each in ["cur", "new", "tmp"]:
        (folder / each).mkdir(parents=True, exist_ok=True)
    path = folder / part / name
    path.write_bytes(f"Subject: {name}\n".encode() if content is None else content)
    return path


def read(folder, **options):
    """Return label and file name of every message of a Maildir."""
    options = {"label": "ham", "junk_label": "spam"} | options
    return [
        (entry.label, entry.where.rpartition("/")[2])
        for entry in read_path(folder, **options)
    ]


def test_read_and_new_messages_are_messages(tmp_path):
    """`cur` and `new` hold mail; a message in `tmp` is incomplete."""
    path = deliver(tmp_path, "1:2,S")
    deliver(tmp_path, "2", part="new")
    deliver(tmp_path, "3", part="tmp")
    first = next(iter(read_path(tmp_path, label="ham", junk_label=None)))

    assert [("ham", "1:2,S"), ("ham", "2")] == read(tmp_path)
    assert (b"Subject: 1:2,S\n", str(path)) == (first.raw, first.where)


@pytest.mark.parametrize(
    "name",
    [
        *(".Junk", ".Spam", ".INBOX.spam", ".Junk E-mail", ".Junk.2024", "Junk"),
        *("a/Spam", ".Junk-E-Mail", ".Unerw&APw-nscht", ".unerwünscht"),
        *(".Courrier ind&AOk-sirable", ".&j,dg0TDhMPww6w-", ".Correo no deseado"),
    ],
)
def test_junk_folders_hold_spam(tmp_path, name):
    """Mail clients have their own names for the junk folder."""
    deliver(tmp_path, "inbox")
    deliver(tmp_path / name, "junk")

    assert [("ham", "inbox"), ("spam", "junk")] == read(tmp_path)


@pytest.mark.parametrize("name", [".Junkyard", ".Archive", ".Not spam", ".Spam-lists"])
def test_other_folders_do_not(tmp_path, name):
    """A folder is junk by its whole name, not by a part of it."""
    deliver(tmp_path, "inbox")
    deliver(tmp_path / name, "other")

    assert [("ham", "inbox"), ("ham", "other")] == read(tmp_path)


def test_without_a_junk_label_all_messages_have_one_label(tmp_path):
    """Junk folders are recognised only on request."""
    deliver(tmp_path, "inbox")
    deliver(tmp_path / ".Junk", "junk")

    assert [("spam", "inbox"), ("spam", "junk")] == read(
        tmp_path, label="spam", junk_label=None
    )


@pytest.mark.parametrize(
    "name",
    [
        *(".Trash", ".Drafts", ".INBOX.Deleted Messages", ".Sent", "Sent Items/2024"),
        *(".Entw&APw-rfe", ".Gesendet", ".&AMk-l&AOk-ments envoy&AOk-s", ".Trash.Junk"),
    ],
)
def test_sent_and_deleted_mail_and_drafts_tell_nothing(tmp_path, name):
    """Deleted mail may be ham or spam, and sent mail was not received."""
    deliver(tmp_path, "inbox")
    deliver(tmp_path / name, "gone")

    assert [("ham", "inbox")] == read(tmp_path)


@pytest.mark.parametrize(
    ("name", "label"), [("Trash", "ham"), ("Sent", "ham"), (".Junk", "spam")]
)
def test_a_folder_that_is_asked_for_by_its_path_is_read(tmp_path, name, label):
    """A path to the trash, or a label for junk, is intentional."""
    deliver(tmp_path / name, "1")

    assert [(label, "1")] == read(tmp_path / name)


def test_messages_flagged_as_deleted_tell_nothing(tmp_path):
    """The flag T is for mail in the trash, wherever it lies."""
    deliver(tmp_path, "1:2,ST")
    deliver(tmp_path, "T2:2,S")

    assert [("ham", "T2:2,S")] == read(tmp_path)


def test_the_order_is_the_same_every_time(tmp_path):
    """Messages come by folder and name, in whatever order they were stored."""
    for name in ["3", "1", "2"]:
        deliver(tmp_path, name)
        deliver(tmp_path / ".b", name)
        deliver(tmp_path / ".a", name, part="new")

    assert ["1", "2", "3"] * 3 == [name for _, name in read(tmp_path)]


def test_the_standard_library_agrees(tmp_path):
    """A Maildir that the standard library wrote reads back unchanged."""
    box = mailbox.Maildir(tmp_path / "box")
    box.add(b"Subject: ham\n\ntext\n")
    box.add_folder("Junk").add(b"Subject: spam\n\ntext\n")
    entries = read_path(tmp_path / "box", label="ham", junk_label="spam")

    assert [
        ("ham", b"Subject: ham\n\ntext\n"),
        ("spam", b"Subject: spam\n\ntext\n"),
    ] == [(entry.label, entry.raw) for entry in entries]


def test_a_message_that_moves_is_left_for_the_next_run(tmp_path):
    """A mail client renames a message while its folder is being read."""
    deliver(tmp_path, "1:2,")
    moving = deliver(tmp_path, "2:2,")
    deliver(tmp_path, "3:2,")
    entries = read_path(tmp_path, label="ham", junk_label=None)
    names = [next(entries).where.rpartition("/")[2]]
    moving.rename(moving.with_name("2:2,S"))
    names += [entry.where.rpartition("/")[2] for entry in entries]

    assert ["1:2,", "3:2,"] == names


def test_a_message_that_cannot_be_read_is_an_error(tmp_path):
    """An existing message that cannot be read is not skipped silently."""
    deliver(tmp_path, "1")
    (tmp_path / "cur" / "2").mkdir()

    with pytest.raises(UnreadableSource, match=r"cannot read .*/2: Is a directory"):
        read(tmp_path)


def test_links_to_folders_above_are_not_followed(tmp_path):
    """A folder that contains itself is read once."""
    deliver(tmp_path, "1")
    (tmp_path / ".loop").symlink_to(tmp_path)

    assert [("ham", "1")] == read(tmp_path)


def test_a_maildir_is_told_by_its_folders(tmp_path):
    """A Maildir has `cur` and `new`; `tmp` may be missing."""
    (tmp_path / "cur").mkdir()

    assert not is_maildir(tmp_path)
    (tmp_path / "new").mkdir()
    assert is_maildir(tmp_path)


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path):
    """The error has the path and the reason of the operating system."""
    with pytest.raises(UnreadableSource, match=r"cannot read .*/none: No such file"):
        list(mail_folders(tmp_path / "none", label="ham"))
