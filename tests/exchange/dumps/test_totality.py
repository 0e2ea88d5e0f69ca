"""Whatever a file holds, reading it as a dump ends with a tally or a sentence."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import MalformedDump
from app.exchange import dumps

READERS = [
    (dumps.read_bogofilter, b".MSG_COUNT 9 9 20260301\n"),
    (dumps.read_spambayes, b"9,9\n"),
    (
        lambda file: dumps.read_spamassassin(file, ["word"]),
        b"v\t3\tdb_version\nv\t9\tnum_spam\nv\t9\tnum_nonspam\n",
    ),
    (dumps.refuse_rspamd, b'"RS": {"learns_ham":"1"}\n'),
]
lines = st.lists(
    st.one_of(
        st.binary(max_size=60),
        st.tuples(
            st.text(max_size=40),
            st.sampled_from([" ", ",", "\t", ":"]),
            st.integers(-9, 2**70),
            st.integers(0, 9),
        ).map(lambda t: f"{t[0]}{t[1]}{t[2]}{t[1]}{t[3]}".encode("utf-8", "replace")),
    ),
    max_size=8,
).map(lambda found: b"".join(line + b"\n" for line in found))


@pytest.mark.parametrize(("read", "head"), READERS)
@given(lines=lines)
def test_any_bytes_end_with_a_tally_or_a_sentence(read, head, lines):
    """Nothing else is raised, and what is taken can have been learned."""
    for dump in (lines, head + lines):
        try:
            taken = read(BytesIO(dump)).taken(("ham", "spam"), ham="ham", spam="spam")
        except MalformedDump:
            continue

        for view in taken.values():
            view.counts.require_reachable()
            assert len(view.names) == view.counts.ids.size
