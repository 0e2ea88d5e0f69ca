"""Thresholds that are a profile's own, at the rspamd door."""

from __future__ import annotations

from tests.support.rspamd import SPAM, ask, request
from tests.support.standin import Application


def test_each_profile_has_thresholds_of_its_own():
    """The points go by the profile that answers; so does a message of no bytes."""
    app = Application()
    app.decide("bob@example.org", reject_from=7.0)
    both = SPAM + b"and pills\n"
    bob, site, empty = (
        document
        for _, document in ask(
            request("/checkv2", "Deliver-To: bob@example.org", message=both),
            request("/checkv2", message=both),
            request("/checkv2", "Deliver-To: bob@example.org", message=b""),
            application=app,
        )
    )

    assert ("reject", 15.0) == (bob["action"], bob["required_score"])
    assert bob["score"] >= 15.0
    assert ("add header", 6.0) == (site["action"], site["required_score"])
    assert bob["thresholds"] == empty["thresholds"]


def test_several_recipients_have_the_mildest_of_their_actions():
    """And each of them the own one beside it."""
    app = Application(reject_from=7.0)
    app.decide("bob@example.org", reject_from="never")
    ((_, answer),) = ask(
        request(
            "/checkv2",
            "Rcpt: bob@example.org",
            "Rcpt: ann@example.org",
            message=SPAM + b"and pills\n",
        ),
        application=app,
    )

    assert "add header" == answer["action"]
    assert answer["score"] < 15.0
    assert ["add header", "reject"] == [
        each["action"] for each in answer["recipients"].values()
    ]
