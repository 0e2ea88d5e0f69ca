"""Thresholds that are a profile's own, at the spamd door."""

from __future__ import annotations

from tests.support.spamd import SPAM, answer, request
from tests.support.standin import Application


def test_the_policy_of_the_user_decides_the_points():
    """Fifteen points are where a profile rejects; several users have the mildest."""
    app = Application(reject_from=7.0)
    app.decide("bob@example.org", reject_from="never")
    message = SPAM + b"and pills\n"
    site, bob, both = (
        answer(request("CHECK SPAMC/1.5", user, message=message), application=app)
        for user in (
            "User: ann@example.org",
            "User: bob@example.org",
            "User: ann@example.org,bob@example.org",
        )
    )

    assert points(site) >= 15.0
    assert 5.0 <= points(bob) < 15.0
    assert 5.0 <= points(both) < 15.0


def points(answered):
    """Return the points of an answer."""
    return float(answered.partition(b"; ")[2].split()[0])
