"""The head of a message, as bytes: what is put there, and what is taken out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.mta import FORGED, end_of_head, marks, ours, with_headers
from app.features.observation import digest
from app.mail.parse import parse
from tests.support.standin import classified

NEW = (("X-Postbayes", "spam"), ("X-Long", "a\n b"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"A: 1\n\nbody\n", b"X-Postbayes: spam\nX-Long: a\n b\nA: 1\n\nbody\n"),
        (
            b"A: 1\r\n\r\nbody\r\n",
            b"X-Postbayes: spam\r\nX-Long: a\r\n b\r\nA: 1\r\n\r\nbody\r\n",
        ),
        (b"A: 1", b"X-Postbayes: spam\nX-Long: a\n b\nA: 1"),
        (b"", b"X-Postbayes: spam\nX-Long: a\n b\n"),
        (
            b"From ann Fri Nov  6 09:00:00 2026\nA: 1\n\nb",
            b"From ann Fri Nov  6 09:00:00 2026\n"
            b"X-Postbayes: spam\nX-Long: a\n b\nA: 1\n\nb",
        ),
        (
            b"x-spam-flag : NO\n\tfolded\n folded\nA: 1\nX-POSTBAYES: ham\n\nX-Spam: b",
            b"X-Postbayes: spam\nX-Long: a\n b\nA: 1\n\nX-Spam: b",
        ),
        (b"Y-Flag: 1\nA: 1\n\n", b"X-Postbayes: spam\nX-Long: a\n b\nA: 1\n\n"),
    ],
)
def test_headers_are_on_top_and_forged_ones_are_gone(raw, expected):
    """With the message's own line ends, below an mbox line, folding included."""
    assert expected == with_headers(raw, NEW, {"y-flag"})


@given(st.binary(max_size=500))
def test_a_body_is_never_touched(raw):
    """Whatever comes, all from the first empty line on is as it was."""
    rest = raw[end_of_head(raw) :]
    given_back = with_headers(raw, NEW)

    assert given_back.endswith(rest)
    assert b"X-Postbayes: spam" in given_back


@given(
    st.sampled_from([b"A: 1\n", b"X-Spam-Flag: YES\n", b"Subject: a\n b\n", b"To: b\n"])
)
def test_a_marked_message_is_the_same_message(line):
    """Its id is the one that it was scored under."""
    raw = line + b"From: ann@example.org\n\nhello\n"

    assert digest(parse(raw)) == digest(parse(with_headers(raw, NEW)))


def test_of_several_labels_one_is_named():
    """Sieve files by it; of two, the decision says as much."""
    raw = b"Subject: x\n\nmoney and pills\n"
    two = marks(classified(raw), "none", None)
    three = marks(classified(raw, labels=("ham", "news", "spam")), "none", None)

    assert [("X-Postbayes", "spam"), ("X-Postbayes-Label", "news")] == three[:2]
    assert two == [three[0], *three[2:]]


def test_a_label_that_a_sender_wrote_is_gone():
    """Their rules would file by it."""
    assert "x-postbayes-label" in ours(None)
    assert "x-postbayes-label".startswith(FORGED)
