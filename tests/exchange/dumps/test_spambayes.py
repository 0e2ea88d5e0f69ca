"""Exports of SpamBayes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from app.errors import MalformedDump
from app.exchange import dumps

DUMPS = Path(__file__).parent.parent.parent / "golden" / "dumps"


def test_an_export_is_read():
    """Each kind of token that has a feature here becomes it; ham comes first."""
    with (DUMPS / "spambayes.csv").open("rb") as file:
        tally = dumps.read_spambayes(file)
    taken = tally.taken(("ham", "spam"), ham="ham", spam="spam")
    found = {
        view: dict(zip(x.names, map(tuple, x.counts.documents.tolist()), strict=True))
        for view, x in taken.items()
    }

    assert tally.messages == (40, 60)
    assert found["words"] == {
        "prize": (0, 12),
        "today": (4, 6),
        "ann": (5, 0),
        "example.org": (6, 0),
        "lunch": (4, 0),
        "!!!": (0, 8),
        "link:claim": (0, 5),
        "link:http": (1, 30),
    }
    assert found["headers"] == {
        "subject:lunch": (4, 0),
        "subject:!!!": (0, 8),
        "from:example.org": (6, 0),
        "message-id:example.org": (6, 0),
        "x-mailer:none": (30, 50),
    }


def test_what_was_left_is_counted_by_reason():
    """No token is lost without a word."""
    with (DUMPS / "spambayes.csv").open("rb") as file:
        tally = dumps.read_spambayes(file)

    assert tally.carried.total() + tally.left.total() == 22
    assert tally.left["tokens without messages"] == 1


@pytest.mark.parametrize(
    ("dump", "said"),
    [
        (b"", "first line"),
        (b"prize,0,12\n", "first line"),
        (b"ham,spam\n", "line 1"),
        (b"4,6\nprize,0\n", "line 2"),
        (b"4,6\nprize,0,x\n", "line 2"),
        (b"4,6\nprize,0,1", "cut short"),
        (b'4,6\n"prize"x,0,1\n', "not CSV"),
    ],
)
def test_what_is_no_export_is_refused(dump, said):
    """The sentence says which line, and what is wrong with it."""
    with pytest.raises(MalformedDump, match=said):
        dumps.read_spambayes(BytesIO(dump))
