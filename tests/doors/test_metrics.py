"""What a monitoring system reads."""

from __future__ import annotations

import sqlite3

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from tests.support.databases import sqlite_url
from tests.support.messages import HAM, SPAM, spam

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def client(tmp_path):
    """A client of a service that has learned six messages."""
    url = sqlite_url(tmp_path)
    settings = Settings(_env_file=None, database_url=url, busy_timeout=0.1)
    with TestClient(create_app(Application(settings))) as client:
        for label, messages in (("ham", HAM), ("spam", SPAM)):
            for raw in messages:
                client.post(f"/feedback?label={label}", content=raw, headers=RAW)
        yield client


def samples(client):
    """Return the samples by name and labels, read as Prometheus reads them."""
    answer = client.get("/metrics")
    assert 200 == answer.status_code
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_verdicts_and_answers_are_counted(client):
    """Two verdicts, and one request that names no profile there is."""
    before = samples(client)
    for _ in range(2):
        client.post("/classify", content=spam(7), headers=RAW)
    client.post("/classify?profile=nobody", content=spam(7), headers=RAW)
    after = samples(client)

    spam_count = ("postbayes_classified_total", ("decision", "spam"))
    assert 2 == after[spam_count] - before.get(spam_count, 0)
    assert 2 == after[("postbayes_classify_seconds_count",)]
    assert 1 == after[("postbayes_http_responses_total", ("status", "404"))]


def test_feedback_is_counted_with_its_time(client):
    """Learned, learned already, and moved; each waited for the disk."""
    for label in ("spam", "spam", "ham"):
        client.post(f"/feedback?label={label}", content=spam(9), headers=RAW)

    told = samples(client)
    outcomes = {
        key[1][1]: value
        for key, value in told.items()
        if key[0] == "postbayes_feedback_total"
    }
    assert {"learned": 7, "unchanged": 1, "relabelled": 1} == outcomes
    assert 9 == told[("postbayes_feedback_seconds_count",)]
    assert told[("postbayes_feedback_seconds_sum",)] > 0


def test_the_state_of_the_profile_is_told(client):
    """Revision, messages per label, and the errors on labelled mail."""
    told = samples(client)
    profile = ("profile", "default")

    assert 6 == told[("postbayes_revision", profile)]
    assert 3 == told[("postbayes_learned_messages", ("label", "ham"), profile)]
    assert 1 == told[("postbayes_database_up",)]
    assert 0 <= told[("postbayes_ham_lost_ratio", profile)] <= 1
    assert 0 <= told[("postbayes_calibration_error", profile)] <= 1


def test_openmetrics_is_spoken_to_those_who_ask(client):
    """The newer format ends with its own line."""
    answer = client.get(
        "/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"}
    )

    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_a_database_that_is_away_is_told(client, tmp_path):
    """The counters are there all the same: a monitor must see this."""
    (tmp_path / "postbayes.db").rename(tmp_path / "gone")
    for name in ("postbayes.db-wal", "postbayes.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with sqlite3.connect(tmp_path / "postbayes.db"):
        pass
    client.app.state.application.engine.dispose()

    told = samples(client)

    assert 0 == told[("postbayes_database_up",)]
    assert ("postbayes_revision", ("profile", "default")) in told
