"""Files are known by their first bytes; archives are listed, never unpacked."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.limits import MAX_MEMBER_NAME_BYTES, MAX_MEMBERS
from app.mail.parse import MAGIC, file_kind, members_of


def archive(names, content=b"x", comment=b""):
    """Return a zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name in names:
            file.writestr(name, content)
        file.comment = comment
    return buffer.getvalue()


@pytest.mark.parametrize(("magic", "name"), MAGIC)
def test_a_file_is_known_by_its_first_bytes(magic, name):
    """The name of the file does not matter."""
    assert name == file_kind(magic + b"rest")
    assert "" == file_kind(magic[:1])


@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_the_names_in_an_archive_are_listed(comment):
    """In their order, in UTF-8 or in the charset of DOS."""
    names = ("a.txt", "folder/b.js", "größe.pdf")

    assert (names, "") == members_of(archive(names, comment=comment))


def test_an_empty_archive_has_no_names():
    """It is no defect."""
    assert ((), "") == members_of(archive(()))


def test_nothing_is_unpacked():
    """Ten megabytes of zeros in a few kilobytes are one name."""
    bomb = archive(["zeros"], bytes(10_000_000))

    assert len(bomb) < 20_000
    assert (("zeros",), "") == members_of(bomb)


def test_names_beyond_the_limit_are_left_out():
    """An archive of many files is listed in part."""
    names, defect = members_of(archive([f"{n}" for n in range(MAX_MEMBERS + 1)]))

    assert MAX_MEMBERS == len(names)
    assert "archive-too-large" == defect


def test_long_names_are_cut():
    """A name has a bounded length."""
    names, _ = members_of(archive(["x" * 60_000]))

    assert ("x" * MAX_MEMBER_NAME_BYTES,) == names


@pytest.mark.parametrize("cut", [1, 20, 60, 100])
def test_a_cut_archive_is_a_defect(cut):
    """What is left of it is no error."""
    assert "archive-broken" == members_of(archive(["a.txt", "b.txt"])[:-cut])[1]


@given(st.binary(max_size=200))
def test_any_bytes_may_follow_the_magic(content):
    """Listing is total."""
    names, _ = members_of(b"PK\x03\x04" + content + archive(["a"])[-60:])

    assert len(names) <= MAX_MEMBERS
