"""Files are features by name, extension, kind and contradiction."""

from __future__ import annotations

import pytest

from app.features.tokens import words_of
from app.features.words import file_words
from app.mail.message import Message, Part


def message(filename="", kind="", media_type="application/octet-stream", members=()):
    """Return a message with one file."""
    part = Part(
        media_type=media_type,
        charset="",
        encoding="base64",
        disposition="attachment",
        filename=filename,
        size=1,
        depth=1,
        fingerprint=bytes(16),
        kind=kind,
        members=members,
    )
    return Message(parts=(part,))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({}, []),
        (
            {"filename": "Report.pdf", "kind": "pdf"},
            ["file:report.pdf", "file:.pdf", "file:(pdf)"],
        ),
        (
            {"filename": "a.pdf.exe", "kind": "exe"},
            ["file:a.pdf.exe", "file:.exe", "file:(double-extension)", "file:(exe)"],
        ),
        (
            {"filename": "a.pdf", "kind": "exe"},
            ["file:a.pdf", "file:.pdf", "file:(exe)", "file:(exe as pdf)"],
        ),
        (
            {"media_type": "image/gif", "kind": "png"},
            ["file:(png)", "file:(png as gif)"],
        ),
        ({"media_type": "image/gif", "kind": "gif"}, ["file:(gif)"]),
        (
            {"kind": "zip", "members": ("x/invoice.js", "readme")},
            ["file:(zip)", "file:in:.js"],
        ),
        ({"filename": "v1.2.tar.gz"}, ["file:v1.2.tar.gz", "file:.gz"]),
    ],
)
def test_a_file_is_described(part, expected):
    """Name, extension, what it is, and what it says to be."""
    assert expected == words_of(file_words(message(**part)))


def test_parts_that_are_no_files_are_left_out():
    """A text without a name is no file."""
    assert [] == file_words(message(media_type="text/plain"))
