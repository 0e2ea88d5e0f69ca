"""The names of teachers in the ledger."""

from __future__ import annotations

import pytest

from app.ledger.entry import source_of


@pytest.mark.parametrize(
    ("kept", "user"),
    [("spamd", ""), ("spamd:ann", "a\nnn\0"), ("spamd:" + "x" * 58, "x" * 100)],
)
def test_the_ledger_keeps_who_taught(kept, user):
    """The source is one printable line of at most 64 characters."""
    assert kept == source_of("spamd", user)
