"""A Message answers what is asked of it."""

from __future__ import annotations

import dataclasses

import pytest

from app.mail.message import Header, Message


def test_headers_are_found_by_name():
    """First value, all values, and nothing where there is none."""
    message = Message(headers=(Header("to", "a"), Header("to", "b")))

    assert "a" == message.header("to")
    assert ("a", "b") == message.header_values("to")
    assert "" == message.header("cc")


def test_a_message_cannot_be_changed():
    """Messages are values."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message().defects = ("x",)
