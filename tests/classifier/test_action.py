"""Which action a verdict calls for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from app.classifier.verdict import ActionRule
from app.errors import InvalidSetting
from tests.support.builders import verdict

RULE = ActionRule(spam_from=2.0, quarantine_from=4.0, reject_from=8.0)


def spam(log_odds):
    """Return a verdict of spam with some log-odds."""
    return replace(verdict(log_odds), decision="spam")


@pytest.mark.parametrize(
    ("log_odds", "action"),
    [
        (2.0, "add header"),
        (3.99, "add header"),
        (4.0, "quarantine"),
        (7.99, "quarantine"),
        (8.0, "reject"),
        (math.inf, "reject"),
    ],
)
def test_the_action_grows_with_the_log_odds(log_odds, action):
    """Each threshold belongs to the action that it begins."""
    assert action == RULE(spam(log_odds))


@pytest.mark.parametrize("decision", ["ham", "unsure"])
def test_what_is_not_spam_is_let_through(decision):
    """Neither ham nor what the filter is unsure of, whatever the log-odds."""
    assert "none" == RULE(replace(verdict(99.0), decision=decision))


def test_nothing_is_rejected_or_quarantined_unless_asked_for():
    """By default spam is marked, and nothing else happens to it."""
    assert "add header" == ActionRule()(spam(1e9))


def test_rejecting_needs_no_quarantine():
    """Each threshold can be set without the other."""
    rule = ActionRule(reject_from=5.0)

    assert ["add header", "reject"] == [rule(spam(4.0)), rule(spam(5.0))]


@pytest.mark.parametrize(
    ("thresholds", "says"),
    [
        (
            {"quarantine_from": 1.0},
            r"quarantine_from is 1 nats, below the spam threshold",
        ),
        (
            {"reject_from": -1.0},
            r"reject_from is -1 nats, below the spam threshold of 2",
        ),
        ({"reject_from": math.nan}, r"reject_from must be a number of nats"),
        ({"quarantine_from": math.inf}, r"quarantine_from must be a number of nats"),
        ({"quarantine_from": 5.0, "reject_from": 4.0}, "nothing would ever be"),
    ],
)
def test_thresholds_out_of_order_are_refused(thresholds, says):
    """The error names the setting and the threshold that it contradicts."""
    with pytest.raises(InvalidSetting, match=says):
        ActionRule(spam_from=2.0, **thresholds)
