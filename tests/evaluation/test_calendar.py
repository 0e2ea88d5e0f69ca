"""The months of a stream: as its dates say, or as it is told."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UnreadableSource
from app.evaluation.subject import AROUND, months_by_dates, months_evenly

MARCH = int(datetime(2026, 3, 9, tzinfo=UTC).timestamp())
JULY = int(datetime(2026, 7, 9, tzinfo=UTC).timestamp())
moments = st.lists(
    st.one_of(st.none(), st.integers(0, 4_000_000_000)), min_size=1, max_size=40
).filter(any)


@given(moments)
def test_the_months_of_a_stream_never_fall(told):
    """A server's clock does not go back."""
    months = months_by_dates(told, "mail")

    assert len(told) == len(months)
    assert sorted(months) == list(months)


def test_a_clock_that_is_years_off_is_outvoted():
    """As long as most of the messages around know better."""
    told = [MARCH] * 100 + [0, 4_000_000_000] * 20 + [None] * 20 + [JULY] * 100
    months = months_by_dates(told, "mail")

    assert {202603, 202607} == set(months)
    assert 202603 == months[0]
    assert 202607 == months[-1]


def test_a_month_begins_where_most_of_the_messages_around_are_of_it():
    """Whatever lies farther away."""
    months = months_by_dates([MARCH] * 200 + [JULY] * 200, "mail")

    assert [202603] * 200 + [202607] * 200 == list(months)
    assert AROUND < 200


def test_mail_without_any_date_has_no_months():
    """The sentence says what to do."""
    with pytest.raises(UnreadableSource, match="no message of enron1 has a date"):
        months_by_dates([None, None], "enron1")


@given(st.integers(1, 300), st.integers(1, 60))
def test_even_months_have_as_many_messages_each(messages, months):
    """To within one."""
    found = months_evenly(messages, months)
    sizes = Counter(found).values()

    assert sorted(found) == list(found)
    assert min(messages, months) == len(sizes)
    assert max(sizes) - min(sizes) <= 1
