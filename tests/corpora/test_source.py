"""Streams: from indexes in their order, from folders in the order of arrival."""

from __future__ import annotations

import mailbox
from hashlib import sha256

import pytest
from fsspec import filesystem

from app.corpora.mailbox import CorpusMessage
from app.corpora.source import (
    FolderSource,
    IndexSource,
    arrival,
    folder_parts,
    mail_folders,
    mail_path,
    survey,
)
from app.errors import MissingLabel, UnreadableSource
from tests.support.messages import ham, spam


def dated(day):
    """Return a message that arrived on a day of January 1970."""
    return f"Date: {day} Jan 1970 00:00:00 +0000\n\nHello {day}\n".encode()


def test_an_index_keeps_its_order(tmp_path):
    """An index keeps its order, whatever the dates of its messages."""
    for name, day in (("a", 9), ("b", 1)):
        (tmp_path / name).write_bytes(dated(day))
    (tmp_path / "index").write_text("ham a\nspam b\n")
    seen = survey(IndexSource(index=tmp_path / "index"))

    assert ("ham", "spam") == seen.labels
    assert (0, 1) == seen.order
    assert sha256(dated(9) + dated(1)).hexdigest() == seen.digest
    assert (str(tmp_path / "a"), str(tmp_path / "b")) == seen.where


def test_a_limit_takes_the_first(tmp_path):
    """Messages beyond the limit are not opened."""
    (tmp_path / "a").write_bytes(dated(9))
    (tmp_path / "index").write_text("ham a\nspam nowhere\n")

    assert ("ham",) == survey(IndexSource(index=tmp_path / "index", limit=1)).labels


@pytest.mark.parametrize(
    ("path", "name"), [("site/index", "site"), ("lists/enron.index", "enron")]
)
def test_a_stream_is_called_by_its_folder_or_its_file(tmp_path, path, name):
    """TREC's corpora have a folder each, with a file named index."""
    assert name == IndexSource(index=tmp_path / path).name


def test_folders_are_put_in_the_order_of_arrival(tmp_path):
    """All ham before all spam would teach one side only."""
    for folder, days in (("ham", (2, 6)), ("spam", (1, 4))):
        (tmp_path / folder).mkdir()
        for day in days:
            (tmp_path / folder / f"{day}.eml").write_bytes(dated(day))
    seen = survey(folders(tmp_path / "ham", tmp_path / "spam"))

    assert ("ham", "ham", "spam", "spam") == seen.labels
    assert (2, 0, 3, 1) == seen.order


def test_junk_in_a_maildir_is_spam(tmp_path):
    """One path is enough if the mail program sorts the junk."""
    maildir = mailbox.Maildir(tmp_path / "Maildir", create=True)
    maildir.add(dated(2))
    maildir.add_folder("Junk").add(dated(1))
    seen = survey(folders(tmp_path / "Maildir"))

    assert {"ham", "spam"} == set(seen.labels)
    assert "spam" == seen.labels[seen.order[0]]


def test_a_message_without_a_date_stays_with_its_neighbour(tmp_path):
    """Folders are mostly in the order of arrival already."""
    for name, raw in (("a", dated(5)), ("b", b"\n\nundated"), ("c", dated(1))):
        (tmp_path / name).write_bytes(raw)

    seen = survey(folders(tmp_path))

    assert ((2, 0, 1), False) == (seen.order, seen.spread)


def test_without_any_date_each_label_is_spread_evenly(tmp_path):
    """All ham before all spam would be learned of one side only."""
    for folder, number in (("ham", 4), ("spam", 2)):
        (tmp_path / folder).mkdir()
        for at in range(number):
            (tmp_path / folder / f"{at}.eml").write_bytes(b"Subject: %d\n\nHi" % at)
    seen = survey(folders(tmp_path / "ham", tmp_path / "spam"))

    assert ((0, 4, 1, 2, 5, 3), True) == (seen.order, seen.spread)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (b"Received: by x; Thu, 1 Jan 1970 00:00:05 +0000\nDate: 3 Jan 1970 0:00\n", 5),
        (b"Received: by x\nDate: 1 Jan 1970 00:00:07 +0000\n", 7),
        (b"Date: yesterday\n", None),
        (b"Subject: Hello\n", None),
    ],
)
def test_a_message_arrived_when_the_own_server_says(header, seconds):
    """Spam dates itself years ahead; without a Received field its Date must do."""
    assert seconds == arrival(header + b"\nDate: 9 Jan 1970 00:00:00 +0000\n")


def test_a_file_that_several_paths_reach_is_read_once(tmp_path):
    """A junk folder may be named beside the Maildir that it is in, and is spam."""
    for name in ("1", "Bulk/2", "Junk/3"):
        path = tmp_path / "mail" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    mail = tmp_path / "mail"
    named = (mail / "Bulk", tmp_path / "mail" / ".." / "mail" / "Junk", mail / "Junk")

    read = [(each.label, each.raw) for each in folders(mail, *named).entries()]

    assert [("ham", b"1"), ("spam", b"Bulk/2"), ("spam", b"Junk/3")] == read


def test_no_message_at_all_is_said(tmp_path):
    """An empty folder is a mistake, and not a perfect filter."""
    with pytest.raises(UnreadableSource, match="no message in your mail"):
        survey(folders(tmp_path))


def test_a_message_without_a_label_is_said(tmp_path):
    """The error names the message."""

    class Unlabelled:
        name = "box"
        sorts = False

        def entries(self):
            yield CorpusMessage("ham", b"x", "here")
            yield CorpusMessage(None, b"y", "there")

    with pytest.raises(MissingLabel, match="message 2 of box has no label: there"):
        survey(Unlabelled())


def folders(ham, *spam):
    """Return the source of a ham folder and some spam folders."""
    return FolderSource(ham=(ham,), spam=spam, ham_label="ham", spam_label="spam")


@pytest.fixture
def store():
    """Return a store of objects in memory, empty before and after."""
    objects = filesystem("memory")
    objects.rm("/", recursive=True)
    yield objects
    objects.rm("/", recursive=True)


def test_mail_in_a_store_is_mail_in_a_folder(store, tmp_path):
    """Messages, folders, junk and mbox files are read alike from URL and path."""
    box = b"".join(b"From a Mon Jan  1 00:00:00 2024\n%s\n" % spam(n) for n in range(3))
    mail = {"1": ham(1), "old/2": ham(2), "Junk/3": spam(3), "all.mbox": box}
    for name, raw in mail.items():
        path = tmp_path / "mail" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        store.pipe(f"/mail/{name}", raw)

    there, here = (
        [
            (message.label, message.raw)
            for part in folder_parts(
                mail_folders(place, label="ham", junk_label="spam"), most=10
            )
            for message in part
        ]
        for place in (mail_path("memory://mail"), tmp_path / "mail")
    )

    assert 6 == len(here)
    assert here == there


def test_a_store_without_the_mail_is_named(store):
    """The error has the reason, even if the driver gives only the path."""
    with pytest.raises(UnreadableSource, match=r"memory://.*mail: No such file"):
        list(mail_folders(mail_path("memory://mail"), label=None))


def test_a_scheme_without_a_driver_is_refused():
    """The error names the package to install on each reading machine."""
    with pytest.raises(UnreadableSource, match=r"the fsspec driver for its scheme"):
        mail_path("nowhere://mail")
