"""Thresholds of a profile that differ from those of the service."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.classifier.policy import Policy
from app.classifier.rule import VerdictRule
from app.classifier.specification import Specification
from app.classifier.verdict import ActionRule
from app.errors import InvalidPolicy

nats = st.floats(-50, 50)
bounds = st.none() | st.just("never") | nats
policies = st.builds(
    Policy,
    ham_cost=st.none() | st.floats(1, 1e6),
    ham_threshold=st.none() | nats,
    quarantine_from=bounds,
    reject_from=bounds,
)


def service(spam=2.0, quarantine=None, reject=None):
    """Return what the service's settings make of a profile."""
    return Specification(
        verdict=VerdictRule(spam_threshold=spam, ham_threshold=-spam),
        action=ActionRule(
            spam_from=spam, quarantine_from=quarantine, reject_from=reject
        ),
    )


def decided(policy, **settings):
    """Return the thresholds from ham up that a profile decides by."""
    made_of = policy.applied_to(service(**settings))
    return (
        made_of.verdict.ham_threshold,
        made_of.verdict.spam_threshold,
        made_of.action.quarantine_from,
        made_of.action.reject_from,
    )


def test_a_profile_that_says_nothing_is_as_the_settings_have_it():
    """Unset thresholds follow the settings, and their later changes."""
    assert service(quarantine=4.0) == Policy().applied_to(service(quarantine=4.0))


@pytest.mark.parametrize(
    ("policy", "thresholds"),
    [
        (Policy(ham_cost=math.e**3), (-3.0, 3.0, 5.0, 9.0)),
        (Policy(ham_threshold=-1.0), (-1.0, 2.0, 5.0, 9.0)),
        (Policy(ham_cost=math.e**3, ham_threshold=0.0), (0.0, 3.0, 5.0, 9.0)),
        (Policy(quarantine_from=6.0), (-2.0, 2.0, 6.0, 9.0)),
        (Policy(quarantine_from="never"), (-2.0, 2.0, None, 9.0)),
        (Policy(quarantine_from="never", reject_from="never"), (-2.0, 2.0, None, None)),
        (Policy(reject_from=7.0), (-2.0, 2.0, 5.0, 7.0)),
    ],
)
def test_what_a_profile_says_wins_over_the_settings(policy, thresholds):
    """Each threshold overrides its own setting, and the others stay."""
    assert pytest.approx(thresholds) == decided(policy, quarantine=5.0, reject=9.0)


@pytest.mark.parametrize(
    ("policy", "thresholds"),
    [
        # The settings have it before spam begins here.
        (Policy(ham_cost=math.e**6), (-6.0, 6.0, 6.0, 9.0)),
        # A quarantine of one's own, beyond where the settings reject.
        (Policy(quarantine_from=12.0), (-2.0, 2.0, 12.0, 12.0)),
        # A rejection of one's own, before the quarantine of the settings.
        (Policy(reject_from=4.0), (-2.0, 2.0, None, 4.0)),
    ],
)
def test_the_settings_give_way_to_what_a_profile_says(policy, thresholds):
    """The setting moves without an error, because nobody set the two together."""
    policy.require_kept(service(quarantine=5.0, reject=9.0))

    assert pytest.approx(thresholds) == decided(policy, quarantine=5.0, reject=9.0)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (
            Policy(ham_threshold=3.0),
            "ham_threshold is 3 nats, above the spam threshold of 2",
        ),
        (
            Policy(quarantine_from=1.0),
            "quarantine_from is 1 nats, below the spam threshold",
        ),
        (
            Policy(reject_from=-1.0),
            "reject_from is -1 nats, below the spam threshold of 2",
        ),
        (
            Policy(quarantine_from=6.0, reject_from=5.0),
            "reject_from is 5 nats, below quarantine_from of 6",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(policy, says):
    """The error has both numbers."""
    with pytest.raises(InvalidPolicy, match=says):
        policy.require_kept(service())


@given(
    policies,
    st.floats(0, 20),
    st.none() | st.floats(20, 50),
    st.none() | st.floats(50, 60),
)
def test_a_threshold_gives_way_upwards_only(policy, spam, quarantine, reject):
    """Settings that change later never have more mail held or refused than is said."""
    made_of = policy.applied_to(service(spam, quarantine, reject))
    rule, action = made_of.verdict, made_of.action

    assert rule.ham_threshold <= rule.spam_threshold
    for said, kept in (
        (policy.quarantine_from, action.quarantine_from),
        (policy.reject_from, action.reject_from),
    ):
        assert (said == "never") <= (kept is None)
        assert not isinstance(said, float) or kept is None or kept >= said
        assert kept is None or kept >= rule.spam_threshold


@given(policies)
def test_a_policy_survives_its_document(policy):
    """A stored or exported policy reads back unchanged."""
    assert policy == Policy.read(json.loads(json.dumps(policy.document())))


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ([], "a policy must be an object"),
        (
            {"spam_cost": 1},
            "a policy has no field 'spam_cost'; the fields are ham_cost",
        ),
        ({"ham_cost": "9"}, "ham_cost must be a number"),
        ({"ham_cost": True}, "ham_cost must be a number"),
        ({"ham_cost": 0.9}, "ham_cost is 0.9"),
        ({"ham_cost": math.nan}, "ham_cost is nan"),
        ({"ham_cost": "never"}, "ham_cost must be a number"),
        ({"ham_threshold": "never"}, "ham_threshold must be a number"),
        ({"reject_from": math.inf}, "reject_from must be a number of nats from"),
        ({"reject_from": 10**400}, "reject_from must be a number of nats from"),
        ({"reject_from": {"x": 1}}, "reject_from must be a number"),
    ],
)
def test_what_is_no_policy_is_refused(document, says):
    """The error names the field and its value."""
    with pytest.raises(InvalidPolicy, match=says):
        Policy.read(document)


def test_a_policy_changes_nothing_that_is_learned():
    """Labels, classifiers and weights stay as they are."""
    before = service()
    after = Policy(ham_cost=99.0, reject_from=8.0).applied_to(before)

    assert before == replace(after, verdict=before.verdict, action=before.action)
    assert before.verdict.terms == after.verdict.terms
