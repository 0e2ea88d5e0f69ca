"""Messages that once broke parse or extract, or were read wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.features.extract import MOST_WORDS, extract
from app.mail.parse import parse

FOUND = sorted((Path(__file__).parent / "mail").glob("*.eml"))


def test_the_vault_is_not_empty():
    """An empty folder must not pass for a success."""
    assert FOUND


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_once_broke_is_read(path):
    """Each holds the word hello as text, and its features, not too many, have names."""
    message = parse(path.read_bytes())
    observation = extract(message)

    assert "hello" in observation.names["words"]
    assert all("" not in names for names in observation.names.values())
    assert all(text.content.encode() for text in message.texts)
    assert observation.views["words"].counts.sum() <= sum(MOST_WORDS.values())
