"""Measurements of a message: finite numbers for known fields."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bayes.sparse import Measurements
from app.features.hashing import fixed
from app.features.measured import FIELDS, measured
from app.mail.parse import parse

RAW = """Received: from a by b; Fri, 6 Nov 2026 10:00:00 +0000
Received: from c by a; Fri, 6 Nov 2026 09:59:00 +0000
Date: Fri, 6 Nov 2026 09:00:00 +0000
Subject: AB cd
Content-Type: text/html; charset=utf-8

<p>GO! 12 ä <a href="http://x.example">y</a><img src="cid:1">
""".encode()


def test_each_field_is_what_a_person_would_count():
    """Counts, shares and the skew of a small message, by hand."""
    values = measured(parse(RAW))

    assert FIELDS.keys() == values.keys()
    assert 2 / 5 == values["subject capitals"]
    assert math.log1p(1) == pytest.approx(values["clock skew"])
    assert math.log1p(2) == values["log hops"]
    assert math.log1p(2) == values["log links"]
    assert math.log1p(1) == values["log images"]
    assert math.log1p(1) == values["log exclamations"]
    # "GO! 12 ä y": seven characters are printed, two of them capitals.
    assert 2 / 7 == pytest.approx(values["capitals"])
    assert 2 / 7 == pytest.approx(values["digits"])


def test_a_clock_that_is_late_is_negative():
    """Mail from the future has a negative skew."""
    raw = (
        b"Received: from a by b; 1 Jan 2026 00:00:00 +0000\n"
        b"Date: 1 Jan 2026 05:00:00 +0000\n\nx"
    )

    assert -math.log1p(5) == pytest.approx(measured(parse(raw))["clock skew"])


def test_what_a_message_does_not_have_is_left_out():
    """No text, no shares; no Received, no hops and no skew."""
    values = measured(parse(b"X-A: b\n\n"))

    assert {"capitals", "clock skew", "log hops", "subject capitals"}.isdisjoint(values)
    assert 0.0 == values["log text"]


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_any_message_has_finite_measurements(raw):
    """Known fields and finite values; shares are between 0 and 1."""
    values = measured(parse(raw))

    assert values.keys() <= FIELDS.keys()
    assert all(math.isfinite(value) for value in values.values())
    shares = {"capitals", "digits", "beyond ascii", "subject capitals"}
    assert all(0 <= values[field] <= 1 for field in shares & values.keys())


def test_numbers_of_fields_are_never_reused():
    """The numbers are in the tables of databases: each its own, never 0."""
    assert len(set(FIELDS.values())) == len(FIELDS)
    assert 0 not in FIELDS.values()


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3))
def test_fixed_point_is_that_of_the_measurements(values):
    """In the order of the fields, rounded to even."""
    given_values = dict(zip(("digits", "log text", "capitals"), values, strict=True))
    x, names = fixed(given_values, FIELDS)

    assert ("log text", "capitals", "digits") == names
    assert x == Measurements.of({FIELDS[name]: given_values[name] for name in names})
