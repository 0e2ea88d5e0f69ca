"""What a monitoring system reads."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app import __version__
from app.doors.http.app import create_app
from app.doors.rspamd.server import Rspamd
from app.services.application import Application
from app.services.metrics import SHARED, STAGES, Tally
from app.settings import Settings
from tests.support.application import add_profiles, client_of, taught_client
from tests.support.databases import sqlite_url
from tests.support.memory_transport import Server, by_hand, settle
from tests.support.messages import ham, spam

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def client(tmp_path):
    """A client of a service that has learned six messages."""
    with taught_client(sqlite_url(tmp_path), busy_timeout=0.1) as client:
        yield client


def samples(client, **query):
    """Return the samples by name and labels, read as Prometheus reads them."""
    answer = client.get("/metrics", params=query)
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
    assert 2 == after[("postbayes_classify_seconds_count", ("door", "http"))]
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
    assert {"failed": 0, "learned": 7, "unchanged": 1, "relabelled": 1} == outcomes
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


def test_times_are_told_by_stage(client):
    """Each verdict has all of them, whichever door asks."""
    client.post("/classify", content=spam(7), headers=RAW)

    told = samples(client)
    assert dict.fromkeys(STAGES, 1) == {
        stage: told[("postbayes_stage_seconds_count", ("stage", stage))]
        for stage in STAGES
    }


def test_what_waits_is_told(client):
    """By kind; a scored message waits until the upkeep stores it."""
    application = client.app.state.application
    application.scheduler.stop()
    application.recent.flush(application.engine)
    client.post("/classify", content=spam(7), headers=RAW)

    told = samples(client)

    assert 1 == told[("postbayes_waiting", ("kind", "scored"))]
    assert 0 == told[("postbayes_waiting", ("kind", "feedback"))]
    assert 0 == told[("postbayes_waiting", ("kind", "look-up"))]
    assert told[("postbayes_upkeep_age_seconds",)] > 0


def test_rows_of_another_process_are_unread_until_they_are_followed(client, tmp_path):
    """The upkeep that follows them stands still here."""
    client.app.state.application.scheduler.stop()
    with client_of(f"sqlite:///{tmp_path}/postbayes.db") as other:
        other.post("/feedback?label=spam", content=spam(9), headers=RAW)

    unread = ("postbayes_unread_rows", ("profile", "default"))
    assert 1 == samples(client)[unread]
    client.app.state.application.live.refresh()
    assert 0 == samples(client)[unread]


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
    with closing(sqlite3.connect(tmp_path / "postbayes.db")):
        pass
    client.app.state.application.engine.dispose()

    told = samples(client)

    assert 0 == told[("postbayes_database_up",)]
    assert ("postbayes_revision", ("profile", "default")) in told


def test_any_profile_can_be_asked_for(client):
    """Each has its own gauges, and one that is not asked for has none."""
    add_profiles(client.app.state.application, "ann@example.org")
    teaching = "/feedback?label=spam&profile=ann@example.org"
    client.post(teaching, content=spam(3), headers=RAW)

    both = samples(client, profile=["default", "ann@example.org"])
    ann = ("profile", "ann@example.org")
    assert 1 == both[("postbayes_revision", ann)]
    # Of its first message it knew what the site knows.
    assert 0 == both[("postbayes_unsure_ratio", ann)]
    assert 6 == both[("postbayes_revision", ("profile", "default"))]
    assert ("postbayes_revision", ann) not in samples(client)
    assert 404 == client.get("/metrics?profile=nobody").status_code
    assert 422 == client.get("/metrics?" + 101 * "profile=default&").status_code


def test_a_series_is_described_once(client):
    """Prometheus refuses a page that describes a metric a second time."""
    text = client.get("/metrics?profile=default&profile=default").text
    described = [each for each in text.splitlines() if each.startswith("# TYPE")]

    assert described
    assert len(described) == len(set(described))


def test_what_runs_is_told(client):
    """Version and database, and the process as every program shows it."""
    told = samples(client)
    [build] = [dict(key[1:]) for key in told if key[0] == "postbayes_build_info"]

    assert {"version": __version__, "database": "sqlite"}.items() <= build.items()
    for name in (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_open_fds",
    ):
        assert told[(name,)] > 0


def test_each_worker_has_its_process(tmp_path, monkeypatch):
    """By its process id; one that has ended has none."""
    monkeypatch.setenv(SHARED, str(tmp_path))
    for pid in (os.getpid(), os.getppid(), 2**22 + 1):
        (tmp_path / f"gauge_min_{pid}.db").touch()
    families = {each.name: each.samples for each in Tally.processes(None)}

    for name in ("process_cpu_seconds", "process_resident_memory_bytes"):
        assert {str(os.getpid()), str(os.getppid())} == {
            each.labels["worker"] for each in families[name]
        }


def test_a_teacher_who_contradicts_the_filter_is_named(client):
    """What he teaches unmarks spam: the share, and who it was."""
    # Else the last lessons may be refused, as those of a suspect.
    client.app.state.application.scheduler.stop()
    for number in range(200, 320):
        side = "spam" if number % 2 else "ham"
        raw = spam(number) if number % 2 else ham(number)
        source = "ann" if number % 4 < 2 else "bob"
        teaching = f"/feedback?label={side}&source={source}"
        client.post(teaching, content=raw, headers=RAW)
    for number in range(100, 120):
        teaching = "/feedback?label=ham&source=eve"
        client.post(teaching, content=spam(number), headers=RAW)

    told = samples(client)
    profile = ("profile", "default")

    def contradicted(source):
        name = "postbayes_source_contradicted_ratio"
        return told[(name, profile, ("source", source))]

    assert contradicted("ann") < 0.2
    assert contradicted("eve") > 0.5
    name = "postbayes_source_suspect"
    suspect = {each: told[(name, profile, ("source", each))] for each in ("ann", "eve")}
    assert {"ann": 0, "eve": 1} == suspect
    key = ("label", "ham"), profile, ("source", "eve")
    assert 20 == told[("postbayes_source_messages", *key)]
    assert 0 <= told[("postbayes_unsure_ratio", profile)] < 1


@pytest.mark.parametrize(
    ("door", "path", "name", "label", "counted"),
    [
        (create_app, "/classify", "postbayes_http_responses", "status", {"503": 1}),
        (Rspamd, "/checkv2", "postbayes_door_requests", "door", {"rspamd": 1}),
    ],
    ids=["http", "rspamd"],
)
def test_a_request_without_a_place_is_counted(
    tmp_path, door, path, name, label, counted
):
    """And refused by the door itself, before it has the message."""
    url = sqlite_url(tmp_path)
    application = Application(Settings(database_url=url))

    async def sent():
        client = Server(door(application), places=0).connect()
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"
        client.protocol.data_received(head.encode())
        await settle()
        return client.sent

    answer = by_hand(sent())

    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"as many requests as it can" in answer
    assert counted == application.tally.counts(name, label)
    application.stop()
