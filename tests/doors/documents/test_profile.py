"""The routes that tell what a profile knows."""

from __future__ import annotations

import pytest

from tests.support.application import taught_client
from tests.support.databases import sqlite_url


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a service that has learned six messages, and no more."""
    with taught_client(sqlite_url(tmp_path_factory.mktemp("profile"))) as client:
        yield client


def test_figures_count_every_message_once(client):
    """Each of the six is ham or spam, in all of it and over the slices."""
    document = client.get("/profiles/default/figures").json()

    assert (6, 3, 3) == (document["messages"], document["ham"], document["spam"])
    assert 6 == sum(part["messages"] for part in document["learning_curve"])
    assert 6 == sum(part["messages"] for part in document["reliability"])
    low, high = document["roca_interval_pct"]
    assert 0 <= low <= document["roca_pct"] <= high <= 100


def test_a_word_has_counts_and_a_weight(client):
    """A word of spam has positive evidence."""
    document = client.get("/words/money").json()

    assert {"ham": 0, "spam": 2} == document["views"]["words"]["messages"]
    assert document["messages"] == document["views"]["words"]["learned"]
    assert document["views"]["words"]["log_odds"] > 0


def test_a_pair_can_be_asked_for(client):
    """A blank in the path is a blank in the feature."""
    document = client.get("/words/free%20shipping").json()

    assert {"ham": 0, "spam": 1} == document["views"]["pairs"]["messages"]


def test_a_word_may_have_a_slash(client):
    """Explanations have such words, and a client encodes them."""
    document = client.get("/words/:%2F%2F").json()

    assert {"ham": 0, "spam": 3} == document["views"]["words"]["messages"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/words/", 422, "at least 1 character"),
        ("/profiles/nobody/figures", 404, "there is no profile 'nobody'"),
        ("/words/money?profile=nobody", 404, "there is no profile 'nobody'"),
        ("/profiles/default/figures?window=0", 422, "greater than or equal to 1"),
        ("/profiles/default/figures?window=1000000", 422, "less than or equal"),
        (f"/words/{'x' * 600}", 422, "at most 512 characters"),
        ("/words/a%00b?profile=%00", 404, "there is no profile"),
    ],
)
def test_what_cannot_be_answered_says_why(client, path, status, says):
    """The answer is a problem document with a sentence."""
    answer = client.get(path)

    assert status == answer.status_code
    assert says in answer.json()["detail"]


@pytest.mark.parametrize("name", ["%00", "a%20b%20c", "%ED%A0%80", "x" * 512, "%20"])
def test_any_word_has_an_answer(client, name):
    """A word that was never learned has an answer too."""
    answer = client.get(f"/words/{name}")

    assert 200 == answer.status_code
