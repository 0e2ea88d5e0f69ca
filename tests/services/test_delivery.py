"""The answer to a mail server about a message for several recipients."""

from __future__ import annotations

import pytest

from tests.support.standin import Application

BOB = "bob@example.org"
ANN = "ann@example.net"


def delivered(*recipients, raw=b"money pills", **policies):
    """Return the action, and whose profile answered, on a message of 8 nats."""
    app = Application(quarantine_from=6.0, reject_from=7.0)
    for profile, policy in policies.items():
        app.decide(profile, **policy)
    answer = app.delivery.together(recipients, raw, strongest=1, door="test")
    asked = app.delivery.address(recipients)
    apart = app.delivery.answer(asked, raw, strongest=1, door="test")
    assert answer.action == apart.action
    return answer.action, answer.classified.profile


def test_one_recipient_has_the_action_of_the_own_profile():
    """Other profiles are not asked."""
    assert ("reject", BOB) == delivered(BOB)
    assert ("add header", BOB) == delivered(
        BOB, **{BOB: {"quarantine_from": "never", "reject_from": "never"}}
    )


@pytest.mark.parametrize(
    ("policy", "action"),
    [
        ({}, "reject"),
        ({"reject_from": "never"}, "quarantine"),
        ({"reject_from": "never", "quarantine_from": "never"}, "add header"),
        ({"ham_cost": 1e6}, "add header"),
    ],
)
def test_a_message_is_held_or_refused_only_where_each_recipient_has_it_so(
    policy, action
):
    """The mildest of all; a mark stays, since what they share has decided it."""
    assert (action, "default") == delivered(BOB, ANN, **{BOB: policy})


def test_what_is_shared_decides_whether_a_message_is_marked():
    """One who would reject does not have the others' mail rejected."""
    never = {"quarantine_from": "never", "reject_from": "never"}

    assert ("add header", "default") == delivered(BOB, ANN, default=never)
    assert ("none", "default") == delivered(BOB, ANN, default={"ham_cost": 1e6})


def test_others_are_asked_only_where_it_matters():
    """A message that passes is scored once, however many people receive it."""
    app = Application(reject_from=7.0)
    asked = []
    each = app.classify.each

    def counted(profiles, raw, *, strongest, taught, **others):
        asked.extend(profiles)
        return each(profiles, raw, strongest=strongest, taught=taught, **others)

    app.classify.each = counted
    app.delivery.together([BOB, ANN], b"money", strongest=1, door="test")

    assert ["default"] == asked
