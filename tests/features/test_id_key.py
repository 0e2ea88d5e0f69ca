"""Keyed ids: the same features under other numbers, which only the key leads back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidSetting
from app.features.extract import extract, meant
from app.features.id_key import IdKey
from app.features.observation import Observation
from app.mail.parse import parse
from tests.support.builders import digest
from tests.support.messages import HAM, SPAM

KEY = IdKey(bytes(range(16)))
OTHER = IdKey(bytes(16))

ids = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20)


def by_name(observation):
    """Return the counts of named features, view by view."""
    return {
        view: dict(zip(names, observation.views[view].values.tolist(), strict=True))
        for view, names in observation.names.items()
    }


@pytest.mark.parametrize("raw", [*HAM, *SPAM])
def test_a_keyed_observation_is_the_same_but_for_its_ids(raw):
    """Each name keeps its count, and each view its size and its order.

    Runs of symbols would spell the text whatever their numbers, so they are left out.
    """
    plain = extract(parse(raw))
    keyed = plain.keyed(KEY)

    assert by_name(plain) == by_name(keyed)
    assert plain.digest == keyed.digest
    assert plain.views.keys() - {"grams"} == keyed.views.keys()
    for view, x in keyed.views.items():
        assert (np.diff(x.ids.astype(object)) > 0).all()
        assert plain.views[view].size == x.size
        assert not np.isin(x.ids, plain.views[view].ids).any()


def test_without_a_key_an_observation_stays_as_it_is():
    """Not even a copy is made."""
    plain = extract(parse(HAM[0]))

    assert plain.keyed(None) is plain


def test_names_that_were_stored_are_keyed_as_well():
    """They are plain tuples, not names in the text of the message."""
    plain = extract(parse(HAM[1]))
    names = {view: tuple(names) for view, names in plain.names.items()}
    stored = Observation(digest(1), 1, plain.views, names).keyed(KEY)

    assert by_name(plain) == by_name(stored)


@given(ids)
def test_ids_are_keyed_one_by_one(some):
    """Whatever stands beside them, so that all parts of a profile agree."""
    array = np.array(some, np.int64)
    together = KEY.ids(array).tolist()
    ordered, places = KEY.ordered(array)

    assert together == [KEY.ids(array[i : i + 1])[0] for i in range(len(some))]
    assert sorted(together) == ordered.tolist()
    assert [together[at] for at in places.tolist()] == ordered.tolist()


def test_a_word_is_found_by_its_keyed_id():
    """Words, words of headers and pairs, as extraction numbers them."""
    seen = extract(parse(SPAM[1]), ("words", "headers", "pairs")).keyed(KEY)
    for view, names in seen.names.items():
        numbers = [meant(name, KEY)[view] for name in names]

        assert seen.views[view].ids.tolist() == numbers


def test_a_key_is_named_without_being_shown():
    """Its digest tells it from others; logs and errors never hold the key."""
    assert KEY.digest != OTHER.digest
    assert KEY.secret.hex() not in repr(KEY)
    assert KEY.digest in repr(KEY)


def test_a_key_of_another_length_is_refused():
    """A file that was cut short holds no key."""
    with pytest.raises(InvalidSetting, match="16 bytes, got 15"):
        IdKey(bytes(15))
