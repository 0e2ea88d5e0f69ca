"""Dumps of rspamd's statistics."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from app.errors import MalformedDump
from app.exchange import dumps

DUMPS = Path(__file__).parent.parent.parent / "golden" / "dumps"


def test_a_real_dump_is_refused_with_its_numbers_and_a_way_out():
    """Pairs of stems as 64-bit hashes have no counterpart among our features."""
    with (
        (DUMPS / "rspamd.txt").open("rb") as file,
        pytest.raises(MalformedDump, match=r"147 tokens of 1 spam and 1 ham.*learn"),
    ):
        dumps.refuse_rspamd(file)


@pytest.mark.parametrize("dump", [b"prize 1 2\n", b'"RS_1": {"S":\n', b"\x89PNG\n"])
def test_what_is_no_dump_is_refused_as_such(dump):
    """It is not rspamd's fault then."""
    with pytest.raises(MalformedDump, match="line 1 was not written by"):
        dumps.refuse_rspamd(BytesIO(dump))


def test_odd_values_are_no_numbers():
    """Values that are not as rspamd writes them count as none."""
    dump = (
        b'"RS": {"learns_ham": "many", "learns_spam": "99999999999999"}\n'
        b'"RS_1": {"x": 1}\n"RS_2": {"H": }\n'
    )
    with pytest.raises(MalformedDump, match="0 tokens of 0 spam and 0 ham"):
        dumps.refuse_rspamd(BytesIO(dump))
