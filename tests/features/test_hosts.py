"""A host that is written to look like another is known."""

from __future__ import annotations

import pytest

from app.features.words import is_lookalike


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("p\u0430ypal.example", True),
        ("\u0440\u0430\u0443\u0440\u0430l.example", True),
        ("\u0441\u043e\u0440\u0435.example", True),
        ("\u043c\u043e\u0440\u0435.\u0440\u0444", False),
        ("\u043f\u0440\u0438\u043c\u0435\u0440.example", False),
        ("b\u00fccher.example", False),
        ("example.com", False),
        ("", False),
    ],
)
def test_a_host_that_looks_like_another_is_known(host, expected):
    """Scripts mixed within a label, or nothing but letters that look Latin."""
    assert expected == is_lookalike(host)
