"""A verdict as rspamd would say it, and what it counts."""

from __future__ import annotations

import pytest

from tests.support.rspamd import SPAM, ask, request
from tests.support.standin import Application


def test_symbols_add_up_and_thresholds_say_what_the_action_is():
    """Who compares numbers does what the action says in words."""
    both = SPAM + b"and pills\n"
    app = Application(quarantine_from=4.0, reject_from=6.0)

    answers = [
        document
        for _, document in ask(
            request("/checkv2"),
            request("/checkv2", message=b"Subject: pills\n\npills\n"),
            request("/checkv2", message=both),
            application=app,
        )
    ]

    assert ["add header", "quarantine", "reject"] == [a["action"] for a in answers]
    assert [{"reject": 15.0, "add header": 6.0}] * 3 == [
        each["thresholds"] for each in answers
    ]
    for each in answers:
        score = sum(symbol["score"] for symbol in each["symbols"].values())
        assert each["score"] == pytest.approx(score)
        assert (each["score"] >= 15.0) == (each["action"] == "reject")
        assert 6.0 <= each["score"]
    assert answers[2]["messages"]["smtp_message"].startswith("This message looks like")
    assert {} == answers[0]["messages"]


def test_options_have_the_letters_of_the_message():
    """JSON has every letter, unlike the lines of mail."""
    ((_, answer),) = ask(request("/checkv2", message="Subject: x\n\n無料\n".encode()))

    assert ["無料"] == answer["symbols"]["POSTBAYES_WORDS"]["options"]
    assert answer["milter"]["add_headers"]["X-Postbayes-Explanation"].isascii()


def test_nothing_is_rejected_unless_it_is_set():
    """Then add header is the severest action, and its points are required."""
    ((_, answer),) = ask(request("/checkv2", message=SPAM + b"and pills\n"))

    assert ("add header", 6.0) == (answer["action"], answer["required_score"])
    assert {"add header": 6.0} == answer["thresholds"]


def test_headers_are_added_and_forged_ones_taken_out():
    """In the forms of rspamd's milter block that OpenSMTPD's filter reads as well.

    It skips a header whose value is an object, unless the header is one of
    authentication, and compares the names of the others letter by letter.
    """
    ((_, answer),) = ask(request("/checkv2"))
    milter = answer["milter"]

    assert "spam" == milter["add_headers"]["X-Postbayes"]
    assert "YES" == milter["add_headers"]["X-Spam-Flag"]
    assert {0} == set(milter["remove_headers"].values())
    assert {*milter["add_headers"], "X-Postbayes-Label", "X-Spam-Status"} <= set(
        milter["remove_headers"]
    )
    assert answer["postbayes"]["id"] == milter["add_headers"]["X-Postbayes-Id"]


def test_what_was_done_is_counted():
    """And shown by rspamc stat."""
    stat = request("/stat", method="GET", message=b"")
    ham = b"Subject: lunch\n\nat noon\n"
    told = ask(
        request("/checkv2"),
        request("/checkv2", message=ham),
        request("/checkv2", message=ham),
        request("/learnspam"),
        request("/learnspam"),
        stat,
    )
    document = told[-1][1]

    assert (3, 1, 1, 2) == (
        document["scanned"],
        document["learned"],
        document["spam_count"],
        document["ham_count"],
    )
    assert (1, 2) == (
        document["actions"]["add header"],
        document["actions"]["no action"],
    )
    assert [("BAYES_HAM", 0), ("BAYES_SPAM", 1)] == [
        (each["symbol"], each["revision"]) for each in document["statfiles"]
    ]
    assert 1 == document["total_learns"]
    assert 3 == len([each for each in document["scan_times"] if each is not None])
