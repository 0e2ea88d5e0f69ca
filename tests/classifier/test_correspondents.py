"""Laws of the evidence that users have written to an author."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.statement import (
    DIGEST_BYTES,
    HALF_LIFE,
    Correspondence,
    Rung,
    identity_digest,
    ladder,
)
from app.features.id_key import KEY_BYTES, IdKey
from app.mail.authentication import VerifiedSender

TODAY = 740_000
(ADDRESS, DOMAIN, ORGANISATION) = ladder(
    VerifiedSender("ann@mail.friends.example", "friends.example")
)
rungs = st.sampled_from([ADDRESS, DOMAIN])
counts = st.integers(0, 10**6)
days = st.integers(TODAY - 4000, TODAY + 10)


@given(rungs, counts, days)
def test_a_correspondent_only_ever_speaks_for_a_message(rung, times, day):
    """A correspondent adds evidence of ham, and a bounded amount of it."""
    assert -rung.most <= rung.nats(Correspondence(times, day), today=TODAY) <= 0


@given(rungs, counts, counts, days, days)
def test_more_messages_and_later_ones_never_say_less(rung, times, more, day, later):
    """The evidence does not depend on the clock of the machine."""
    one = rung.nats(Correspondence(times, min(day, later)), today=TODAY)

    assert rung.nats(Correspondence(times + more, max(day, later)), today=TODAY) <= one


@given(st.integers(0, 1000))
def test_a_half_life_halves_the_count(times):
    """It does not halve the evidence, which is the logarithm of the count."""
    later = ADDRESS.nats(Correspondence(2 * times, TODAY - HALF_LIFE), today=TODAY)

    assert (
        pytest.approx(ADDRESS.nats(Correspondence(times, TODAY), today=TODAY)) == later
    )


def test_the_ladder_goes_from_the_address_to_the_organisation():
    """A domain with users of all kinds is left out."""
    names = ["ann@mail.friends.example", "mail.friends.example", "friends.example"]

    assert names == [each.name for each in (ADDRESS, DOMAIN, ORGANISATION)]
    for domain in ("gmail.com", "yahoo.co.uk", "gmx.de", "comcast.net"):
        found = ladder(VerifiedSender(f"ann@{domain}", domain))
        assert [f"ann@{domain}"] == [each.name for each in found]
    found = ladder(VerifiedSender("ann@gmail.com.example", "gmail.com.example"))
    assert ["address", "domain"] == [each.kind for each in found]


@pytest.mark.parametrize(
    ("rung", "times", "who", "text"),
    [
        (ADDRESS, 1, "you have", "you have written to this address once"),
        (ADDRESS, 2, "this site has", "this site has written to this address 2 times"),
        (
            DOMAIN,
            3,
            "you have",
            "you have written to 3 addresses of mail.friends.example",
        ),
        (
            DOMAIN,
            9,
            "this site has",
            "this site has written to 9 addresses of mail.friends.example",
        ),
    ],
)
def test_a_sentence_says_what_is_known(rung, times, who, text):
    """The sentence has the stored count."""
    assert text == rung.sentence(times, who=who)


def test_a_digest_depends_on_the_key():
    """A digest depends on the key and the name alone."""
    keys = [None, IdKey(bytes(KEY_BYTES)), IdKey(b"\1" * KEY_BYTES)]
    found = {identity_digest("ann@example.org", key) for key in keys}

    assert 3 == len(found)
    assert {DIGEST_BYTES} == set(map(len, found))
    assert identity_digest("ann@example.org", keys[1]) in found
    assert isinstance(ADDRESS, Rung)
