"""Dates as headers write them."""

import email.utils
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.headers import read_date


@given(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_what_the_standard_library_writes_is_read(moment):
    """Every date that the standard library formats comes back to the second."""
    seconds = int(moment.timestamp())
    written = email.utils.format_datetime(moment)

    assert seconds == read_date(written)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Thu, 1 Jan 1970 00:00:00 +0000", 0),
        ("1 Jan 1970 01:00:00 +0100", 0),
        ("1 Jan 1970 00:00 -0001", 60),
        ("1 jan 70 00:00:10 GMT", 10),
        ("from a by b; Thu,  1  Jan 1970 00:00:01 (nearly)", 1),
    ],
)
def test_zones_short_years_and_comments_are_read(text, seconds):
    """The obsolete forms of RFC 5322 are understood."""
    assert seconds == read_date(text)


@pytest.mark.parametrize(
    "text",
    ["", "tomorrow", "32 Jan 2026 00:00", "1 Foo 2026 00:00", "1 anf 2026 00:00",
     "1 Jan 2026 24:00", "0 Jan 2026 00:00", "1 Jan 0000 00:00"],
)  # fmt: skip
def test_what_is_no_date_is_none(text):
    """A header without a date has none; nothing raises."""
    assert read_date(text) is None


@given(st.text())
def test_any_text_is_read(text):
    """Whatever a header holds, reading its date does not fail."""
    seconds = read_date(text)

    assert seconds is None or isinstance(seconds, int)
