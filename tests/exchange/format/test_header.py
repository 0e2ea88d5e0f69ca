"""The header of an export."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.classifier.policy import Policy
from app.errors import MalformedExport
from app.exchange.format import ExportHeader

HEADER = ExportHeader(
    postbayes="0.1.0",
    profile="example.org",
    created=datetime(2026, 3, 14, 9, 30, tzinfo=UTC),
    feature_set=1,
    labels=("ham", "spam"),
    spam_labels=("spam",),
    contents="counts",
    words=True,
    revision=12,
    views={"pairs": {"ham": 3}, "words": {"ham": 4, "spam": 5}},
)


def test_a_header_is_one_line_of_json_and_is_read_back():
    """A person can read it with `head -2`."""
    line = HEADER.encode()

    assert b"\n" not in line
    assert HEADER == ExportHeader.decode(line)


def test_its_messages_are_those_of_the_view_that_has_most():
    """A view that came later has learned fewer."""
    assert HEADER.messages == {"ham": 4, "spam": 5}


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": ["ham"]},
        {"labels": "ham"},
        {"labels": [1, 2]},
        {"spam_labels": ["junk"]},
        {"profile": "a b"},
        {"profile": None},
        {"created": "yesterday"},
        {"created": "2026-03-14T09:30:00"},
        {"created": 5},
        {"feature_set": "1"},
        {"feature_set": True},
        {"revision": -1},
        {"revision": 2**70},
        {"contents": "mail"},
        {"views": []},
        {"policy": None},
        {"policy": {"ham_cost": 0}},
        {"policy": {"reject_from": [1]}},
        {"views": {"words": {"ham": 1.5}}},
    ],
)
def test_a_header_that_no_profile_has_is_refused(changed):
    """What it says is used, so it must be sayable."""
    line = json.dumps(json.loads(HEADER.encode()) | changed).encode()
    with pytest.raises(MalformedExport, match="header of this export"):
        ExportHeader.decode(line)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b"\xff", b"[" * 60_000])
def test_what_is_no_header_is_refused(line):
    """Whatever the line is."""
    with pytest.raises(MalformedExport, match="header of this export"):
        ExportHeader.decode(line)


@pytest.mark.parametrize("policy", [None, Policy(), Policy(reject_from="never")])
def test_a_header_says_what_the_profile_decides_by(policy):
    """Older ones do not, and are read all the same."""
    header = replace(HEADER, policy=policy)

    assert header == ExportHeader.decode(header.encode())
    assert (policy is not None) == (b'"policy"' in header.encode())
