"""What was put last is kept, as much of it as the limits allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.services.recent import BoundedCache

MOST, HEAVIEST = 4, 20

keys = st.integers(0, 6)
changes = st.lists(st.tuples(keys, st.one_of(st.none(), st.integers(0, 25))))


@given(changes)
def test_the_newest_that_fit_are_kept_in_their_order(changes):
    """Compared with a list that is cut anew after each change; None drops."""
    cache = BoundedCache(most=MOST, weigh=lambda value: value, heaviest=HEAVIEST)
    kept = []
    for key, value in changes:
        kept = [entry for entry in kept if entry[0] != key]
        if value is None:
            cache.drop(key)
            continue
        cache.put(key, value)
        kept.append((key, value))
        while len(kept) > MOST or sum(weight for _, weight in kept) > HEAVIEST:
            kept.pop(0)

    assert kept == cache.items()
    assert [dict(kept).get(key) for key in range(7)] == [*map(cache.get, range(7))]
