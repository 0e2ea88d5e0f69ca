"""A whole application over either database."""

from __future__ import annotations

import sys

import pytest

from tests.support.application import running


@pytest.fixture
def app(database_url):
    """A running application over an empty database."""
    with running(database_url=database_url) as app:
        yield app


@pytest.fixture
def impatient():
    """Have threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
