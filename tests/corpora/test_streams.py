"""The content of a path determines how it is read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from unicodedata import normalize

import pytest

from app.corpora import mailbox as module
from app.corpora.mailbox import CorpusMessage, read_file, use_of
from app.corpora.source import read_path
from app.errors import UnreadableSource

SEPARATOR = b"From anna@example.org Mon Sep 17 08:00:00 2001\n"


def labels_and_contents(path, **options):
    """Return label and content of every message at a path."""
    options = {"label": "ham"} | options
    return [(entry.label, entry.raw) for entry in read_path(path, **options)]


def test_a_file_is_one_message(tmp_path):
    """The bytes are delivered unchanged."""
    path = tmp_path / "1.eml"
    path.write_bytes(b"\x00\xff\r\n")

    assert [CorpusMessage("spam", b"\x00\xff\r\n", str(path))] == list(
        read_path(path, label="spam")
    )


def test_a_path_may_have_no_label(tmp_path):
    """A message without a label has the label None."""
    (tmp_path / "1").write_bytes(b"a")

    assert [(None, b"a")] == labels_and_contents(tmp_path, label=None)


def test_a_file_that_begins_with_a_separator_is_a_mailbox(tmp_path):
    """Mailboxes have many names, and one beginning."""
    path = tmp_path / "Archive"
    path.write_bytes(SEPARATOR + b"A: 1\n\n" + SEPARATOR + b"A: 2\n\n")

    assert [("ham", b"A: 1\n"), ("ham", b"A: 2\n")] == labels_and_contents(path)


def test_a_folder_is_read_recursively_in_the_order_of_names(tmp_path):
    """Files, mailboxes and Maildirs may lie side by side and in each other."""
    (tmp_path / "b" / "inner").mkdir(parents=True)
    (tmp_path / "b" / "inner" / "1").write_bytes(b"one")
    (tmp_path / "b" / "2").write_bytes(b"two")
    (tmp_path / "a").write_bytes(SEPARATOR + b"A: 1\n")
    for part in ["cur", "new", ".Junk/cur", ".Junk/new"]:
        (tmp_path / "c" / part).mkdir(parents=True)
        (tmp_path / "c" / part / "m").write_bytes(part.encode())

    assert [
        ("ham", b"A: 1\n"),
        ("ham", b"two"),
        ("ham", b"one"),
        ("ham", b"cur"),
        ("ham", b"new"),
        ("spam", b".Junk/cur"),
        ("spam", b".Junk/new"),
    ] == labels_and_contents(tmp_path, junk_label="spam")


def test_mailboxes_and_folders_of_them_have_the_use_of_their_names(tmp_path):
    """As Thunderbird and mutt keep them; a message of such a name has none."""
    for name in ("INBOX", "Junk", "Sent", "Junk.sbd/old", "Papierkorb/old"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(SEPARATOR + f"A: {name}\n".encode())
    (tmp_path / "spam").write_bytes(b"one message")
    (tmp_path / "spam.01").write_bytes(SEPARATOR + b"A: saved with its separator\n")

    assert [
        ("ham", b"A: INBOX\n"),
        ("ham", b"one message"),
        ("ham", b"A: saved with its separator\n"),
        ("spam", b"A: Junk\n"),
        ("spam", b"A: Junk.sbd/old\n"),
    ] == labels_and_contents(tmp_path, junk_label="spam")


@pytest.mark.parametrize("name", ["İSTENMEYEN", "I\u0307stenmeyen", "Thư rác", "स्पैम"])
def test_folders_have_their_use_in_any_language(name):
    """In capitals too, and as file systems decompose them."""
    assert use_of(name) == "junk" == use_of(normalize("NFD", name))


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("العناصر المرسلة", "sent"),
        ("Gönderilmiş Postalar", "sent"),
        ("送信済みメール", "sent"),
        ("مسودات", "drafts"),
        ("ถังขยะ", "trash"),
        ("פריטים שנמחקו", "trash"),
        ("보낼 편지함", "outbox"),
    ],
)
def test_mail_that_nobody_received_is_known_by_its_folder(name, use):
    """Sent and deleted mail, drafts and the outbox would be learned as wanted."""
    assert use == use_of(name) == use_of(normalize("NFD", name))


def test_a_file_of_dbox_is_refused(tmp_path):
    """Learned as a message it would teach what Dovecot notes beside the mail."""
    (tmp_path / "u.1").write_bytes(
        b"2 M1e C65f0a1b2\n\x01\x02N          00000000000000A1\nSubject: hello\n\n"
    )

    with pytest.raises(UnreadableSource, match=r"u\.1: it is in Dovecot's dbox format"):
        labels_and_contents(tmp_path)


def test_hidden_empty_and_special_files_are_no_messages(tmp_path):
    """Files that a desktop leaves in a folder are not learned."""
    (tmp_path / ".DS_Store").write_bytes(b"\x00")
    (tmp_path / "empty").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)

    assert [] == labels_and_contents(tmp_path)


def test_the_files_that_cyrus_keeps_beside_its_mail_are_no_messages(tmp_path):
    """Its folders have the messages as `1.` and `2.`, and four files of its own."""
    (tmp_path / "1.").write_bytes(b"a")
    for name in ("annotations", "cache", "header", "index"):
        (tmp_path / f"cyrus.{name}").write_bytes(b"\xa1\x02\x8b\rCyrus mailbox\n")

    assert [("ham", b"a")] == labels_and_contents(tmp_path)


def test_a_link_to_a_message_is_the_message(tmp_path):
    """Corpora are often folders of links."""
    (tmp_path / "mail").write_bytes(b"a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "mail")

    assert [("ham", b"a")] == labels_and_contents(tmp_path / "folder")


def test_a_missing_path_is_an_error(tmp_path):
    """The error has the path and the reason of the operating system."""
    with pytest.raises(UnreadableSource, match=r"cannot read .*/none: No such file"):
        labels_and_contents(tmp_path / "none")


def test_a_path_that_is_no_file_is_an_error(tmp_path):
    """A pipe that is named by its path is refused, because reading might block."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UnreadableSource, match="neither a file nor a folder"):
        labels_and_contents(tmp_path / "pipe")


def test_a_message_is_read_up_to_the_limit(tmp_path, monkeypatch):
    """A disk image among the mail does not fill the memory."""
    monkeypatch.setattr(module, "MESSAGE_LIMIT", 4)
    (tmp_path / "1").write_bytes(b"123456")

    assert b"1234" == read_file(tmp_path / "1", label=None).raw


def test_messages_are_read_when_they_are_asked_for(tmp_path):
    """A stream holds no more than one message at a time."""
    (tmp_path / "1").write_bytes(b"one")
    (tmp_path / "2").write_bytes(b"two")
    stream = read_path(tmp_path, label=None)
    first = next(stream)
    (tmp_path / "2").write_bytes(b"changed")

    assert [b"one", b"changed"] == [first.raw, next(stream).raw]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"PK\x03\x04" + bytes(30), "zip"),
        (gzip.compress(SEPARATOR, mtime=0), "gzip"),
        (bz2.compress(SEPARATOR), "bzip2"),
        (lzma.compress(SEPARATOR), "xz"),
        (bytes(257) + b"ustar\x0000", "tar"),
    ],
)
def test_an_archive_is_refused(tmp_path, content, kind):
    """Learned as one message it would teach compressed bytes."""
    path = tmp_path / "box"
    path.write_bytes(content)

    with pytest.raises(UnreadableSource, match=f"box: it is a {kind} archive; unpack"):
        labels_and_contents(tmp_path)
