"""Token buckets: never more than the rate, and never without bound."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.clock import Buckets

steps = st.lists(
    st.tuples(st.floats(0, 10), st.sampled_from(["a", "b", "c"])), max_size=60
)


@given(steps, st.floats(0.1, 10), st.integers(1, 5))
def test_a_client_gets_no_more_than_its_burst_and_its_rate(steps, rate, burst):
    """A client gets at most its burst and its rate, whatever other clients do."""
    now = 0.0
    buckets = Buckets(rate, burst, clock=lambda: now)
    taken = dict.fromkeys("abc", 0)
    for wait, client in steps:
        now += wait
        taken[client] += buckets.take(client) == 0.0

        assert taken[client] <= burst + rate * now + 1e-6


@given(steps, st.floats(0.1, 10), st.integers(1, 5))
def test_whoever_waits_as_long_as_it_is_asked_to_is_served(steps, rate, burst):
    """A client that waits for `Retry-After` is served."""
    now = 0.0
    buckets = Buckets(rate, burst, clock=lambda: now)
    for wait, client in steps:
        now += wait
        seconds = buckets.take(client)
        if seconds:
            now += seconds + 1e-6

            assert 0.0 == buckets.take(client)


def test_as_many_clients_are_remembered_as_there_is_room_for():
    """The one that asked longest ago is forgotten first."""
    buckets = Buckets(1.0, 1, clock=lambda: 0.0, most=2)
    waits = [buckets.take(client) for client in ("a", "b", "a", "c", "a", "b")]

    assert [0.0, 0.0, 1.0, 0.0, 1.0, 0.0] == waits
    assert 2 == len(buckets)


@pytest.mark.usefixtures("impatient")
def test_threads_share_the_tokens_of_a_client():
    """No token is taken twice, and no client is forgotten twice."""
    buckets = Buckets(1e-9, 500, clock=lambda: 0.0, most=2)
    with ThreadPoolExecutor(4) as pool:
        waits = [*pool.map(buckets.take, ["a"] * 2_000)]
        strangers = [*pool.map(buckets.take, map(str, range(2_000)))]

    assert 500 == waits.count(0.0)
    assert 2_000 == strangers.count(0.0)
