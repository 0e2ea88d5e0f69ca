"""A Message answers what is asked of it."""

from __future__ import annotations

import dataclasses

import pytest

from app.mail.message import Header, Message
from app.mail.parse import parse

FORM = (
    b"Content-Type: multipart/mixed; boundary=b\n\n"
    b"--b\nContent-Type: text/plain\n\nread\n"
    b"--b\nContent-Type: application/pdf\nContent-Disposition: attachment\n\na\n"
    b"--b\nContent-Type: image/png; name=logo.png\n\nb\n"
    b"--b\nContent-Type: image/gif\nContent-Disposition: inline\n\nc\n--b--\n"
)


def test_headers_are_found_by_name():
    """First value, all values, and nothing where there is none."""
    message = Message(headers=(Header("to", "a"), Header("to", "b")))

    assert "a" == message.header("to")
    assert ("a", "b") == message.header_values("to")
    assert "" == message.header("cc")


def test_a_part_with_a_name_or_that_says_so_is_an_attachment():
    """Mail programs offer both as files."""
    found = parse(FORM).attachments

    assert ["application/pdf", "image/png"] == [part.media_type for part in found]


def test_a_message_cannot_be_changed():
    """Messages are values."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message().defects = ("x",)
