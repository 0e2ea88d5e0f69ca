"""Undo over HTTP and on the command line."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from app.errors import DatabaseUnavailable
from app.services.clock import SteadyClock
from app.services.undo import Undo
from app.storage import undo_work
from tests.support.application import maintain, running, served
from tests.support.messages import ham, spam

SOON = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def client(tmp_path):
    """A client of a service over an empty database."""
    with served(tmp_path) as client:
        yield client


def teach(client, raw, label, source):
    """Teach one message; return its id."""
    query = {"label": label, "source": source}
    answer = client.post(
        "/feedback",
        params=query,
        content=raw,
        headers={"content-type": "message/rfc822"},
    )
    return answer.json()["id"]


def test_a_source_is_undone_and_that_is_undone(client):
    """A dry run comes first, then the undo, then the undo of the undo."""
    teach(client, spam(1), "spam", "ann")
    teach(client, spam(2), "ham", "ben")
    asked = {"source": "ben"}
    told = client.post("/feedback/undo", json=asked | {"dry_run": True}).json()
    done = client.post("/feedback/undo", json=asked).json()
    back = client.post("/feedback/undo", json={"source": done["undo"]}).json()

    forgotten = [{"label_before": "ham", "label": None, "messages": 1}]
    assert (None, True, 1, forgotten) == (
        told["undo"],
        told["dry_run"],
        told["rows"],
        told["messages"],
    )
    assert told["features"] > 0
    assert (2, 1) == (
        told["figures_before"]["messages"],
        told["figures_after"]["messages"],
    )
    assert ("undo:1", False, forgotten, None) == (
        done["undo"],
        done["dry_run"],
        done["messages"],
        done["features"],
    )
    assert ("undo:2", ["undo:1"], 4) == (back["undo"], back["undos"], back["revision"])


def test_a_message_and_a_time_are_undone(client):
    """Both conditions must hold, and times need a zone."""
    id_ = teach(client, spam(1), "spam", "ann")
    later = {"ids": [id_], "from": SOON.isoformat()}
    before = {"ids": [id_], "until": SOON.isoformat()}
    nothing = client.post("/feedback/undo", json=later).json()
    something = client.post("/feedback/undo", json=before).json()

    assert (None, 0, []) == (nothing["undo"], nothing["rows"], nothing["messages"])
    assert ("undo:1", 1) == (something["undo"], something["rows"])


@pytest.mark.parametrize(
    ("asked", "status", "kind"),
    [
        ({}, 422, "invalid-selection"),
        (
            {"from": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"},
            422,
            "invalid-selection",
        ),
        ({"from": "0001-01-01T00:00:00+14:00"}, 400, "malformed-request"),
        ({"source": "nobody"}, 404, "unknown-source"),
        ({"source": "undo:1"}, 404, "unknown-source"),
        ({"ids": ["0" * 32]}, 404, "unknown-message"),
        ({"ids": ["xyz"]}, 404, "unknown-message"),
        ({"from": "2026-03-02T00:00:00"}, 400, "malformed-request"),
        ({"sauce": "ann"}, 400, "malformed-request"),
        ({"ids": ["0" * 32] * 1001}, 400, "malformed-request"),
    ],
)
def test_what_cannot_be_undone_has_its_status(client, asked, status, kind):
    """Each has a sentence, and nothing is recorded."""
    teach(client, spam(1), "spam", "ann")
    answer = client.post("/feedback/undo", json=asked)

    assert status == answer.status_code
    assert f"urn:postbayes:problem:{kind}" == answer.json()["type"]
    assert 1 == client.get("/profiles/default").json()["revision"]


def test_an_undo_that_stops_halfway_says_that_it_is_decided(client, monkeypatch):
    """The last step stored nothing, and the upkeep completes the undo."""
    teach(client, spam(1), "spam", "ann")

    def failing(*_, **__):
        msg = "The database is unavailable: full. Nothing was stored; try again later."
        raise DatabaseUnavailable(msg)

    with monkeypatch.context() as patched:
        patched.setattr(undo_work, "step", failing)
        answer = client.post("/feedback/undo", json={"source": "ann"})
        again = client.post("/feedback/undo", json={"source": "ann"})
    while client.get("/profiles/default").json()["revision"] < 2:
        time.sleep(0.01)

    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert answer.json()["detail"].startswith("undo:1 is recorded but not finished")
    assert 503 == again.status_code
    assert "an earlier undo must be finished first" in again.json()["detail"]
    assert 0 == client.get("/profiles/default").json()["messages"]["spam"]


def test_what_is_missing_or_impossible_is_said_as_it_is_asked_for(client):
    """Errors use the public names: `from`, and never `since`."""
    late = {"from": "2026-03-02T00:00:00Z", "until": "2026-03-01T00:00:00Z"}
    nothing = client.post("/feedback/undo", json={}).json()["detail"]
    never = client.post("/feedback/undo", json=late).json()["detail"]

    assert "a time with from and until" in nothing
    assert "from 2026-03-02T00:00:00+00:00, until 2026" in never


def test_a_message_is_no_undo(client):
    """The body has to be JSON."""
    answer = client.post("/feedback/undo", content=spam(1))

    assert 415 == answer.status_code
    assert "send JSON" in answer.json()["detail"]


def taught(run):
    """Teach two messages by two people on the command line."""
    for raw, label, source in ((spam(1), "spam", "ann"), (ham(1), "spam", "ben")):
        run("feedback", "--label", label, "--source", source, stdin=raw)


def test_the_command_says_what_it_does(run):
    """It reports its effect in words, and the command that reverts it."""
    taught(run)
    told = run("undo", "--source", "ben", "--dry-run")
    done = run("undo", "--source", "ben")
    again = run("undo", "--source", "ben")
    back = run("undo", "--source", "undo:1", "--json")

    assert "default: would take back 1 row of the ledger" in told[1]
    assert "1 message: spam -> not learned" in told[1]
    assert "features change their counts" in told[1]
    assert "errors now: 0 of 0 ham lost, 2 of 2 spam missed" in told[1]
    assert "errors after: 0 of 0 ham lost, 1 of 1 spam missed" in told[1]
    assert "default: took back 1 row of the ledger" in done[1]
    assert "postbayes undo --profile default --source undo:1" in done[1]
    assert "nothing to take back" in again[1]
    assert ("undo:2", ["undo:1"]) == (
        json.loads(back[1])["undo"],
        json.loads(back[1])["undos"],
    )


def test_the_command_takes_days_and_moments(run):
    """A time without a zone is local; an invalid one is refused with a sentence."""
    taught(run)
    earlier = run("undo", "--until", "2020-01-01", "--json")
    none = run("undo", "--until", "2020-01-01")
    later = run("undo", "--from", "2020-01-01T12:30+01:00", "--json")
    wrong = run("undo", "--from", "yesterday")

    assert (None, "undo:1") == (
        json.loads(earlier[1])["undo"],
        json.loads(later[1])["undo"],
    )
    assert none[1].startswith("nothing to take back: no feedback matches, or ")
    assert 65 == wrong[0]
    assert "'yesterday' is not a time" in wrong[2]


def test_the_command_can_be_interrupted(run, monkeypatch):
    """Its message is true: the next undo continues it."""
    taught(run)

    def interrupted(self, profile):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Undo, "finish", interrupted)
        code, _, said = run("undo", "--source", "ben")
    done = json.loads(run("undo", "--source", "ann", "--json")[1])

    assert 130 == code
    assert "the undo is recorded" in said
    assert ("undo:2", 4) == (done["undo"], done["revision"])
    assert ["undo:1"] == done["finished"]


def test_the_same_command_again_says_what_it_finished(run, monkeypatch):
    """It also prints the command that takes it back."""
    taught(run)

    def killed(self, profile):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Undo, "finish", killed)
        run("undo", "--source", "ben")
    first, second = run("undo", "--source", "ben")[1].splitlines()
    again = run("undo", "--source", "ben")[1]

    assert first.startswith("default: undo:1 was left unfinished, and is carried")
    assert first.endswith(": postbayes undo --profile default --source undo:1")
    assert second.startswith("nothing more to take back")
    assert again.startswith("nothing to take back")


def test_the_prune_command_says_what_it_does(run):
    """Mail of today has nothing to prune."""
    taught(run)
    told = run("prune", "--dry-run")
    done = run("prune", "--json")
    weak = run("prune", "--dry-run", "--max-messages", "0", "--max-log-odds", "0.1")

    assert (0, told[1]) == weak[:2]
    assert "default: 0 features would be pruned, 0 rows of counts\n" == told[1]
    assert {"features": {}, "rows": 0, "revision": 2, "dry_run": False} == {
        name: value for name, value in json.loads(done[1]).items() if name != "profile"
    }


def test_what_was_pruned_can_be_brought_back(run, tmp_path):
    """The last line is the command that restores the counts, for good."""
    taught(run)
    run("fold")
    with closing(sqlite3.connect(tmp_path / "postbayes.db")) as database, database:
        for table in ("class_count", "run", "ledger"):
            database.execute(f"UPDATE {table} SET epoch = 202001")  # noqa: S608
        database.execute("UPDATE ledger SET time = '2020-01-01 00:00:00.000000'")
    database.close()
    database_url = f"sqlite:///{tmp_path}/postbayes.db"
    with running(database_url=database_url) as app:
        app.scheduler.stop()
        # It would not believe for a day that all of this is so old.
        app.maintenance.clock = SteadyClock(None)
        app.maintenance._expire_at = 0.0  # noqa: SLF001
        maintain(app)
    pruned = run("prune")
    audited = run("audit")
    back = run("undo", "--source", "prune")

    assert "postbayes undo --profile default --source prune" in pruned[1]
    assert "features pruned (" in pruned[1]
    assert "default: difference 0\n" == audited[1]
    assert 0 == back[0]
    assert "To remove them again, run `postbayes prune` again." in back[1]
    assert "undo:" not in back[1]


def test_the_fold_command_says_what_it_did(run):
    """It reports every profile as text and JSON; an unknown profile is an error."""
    taught(run)
    profiles = run("fold", "--json")[1]
    again = run("fold", "--profile", "default")
    strange = run("fold", "--profile", "strange")

    assert {"rows", "seconds", "folded_revision"} == set(
        json.loads(profiles)["profiles"]["default"]
    )
    assert again[0] == 0
    assert "default: 0 rows folded" in again[1]
    assert 65 == strange[0]
    assert "there is no profile 'strange'" in strange[2]


def test_an_undo_of_much_needs_the_token_of_its_dry_run(client):
    """Without the token, the answer is 409 and nothing is undone."""
    for n in range(21):
        teach(client, spam(n), "spam", "ann")
    asked = {"source": "ann"}
    refused = client.post("/feedback/undo", json=asked)
    token = client.post("/feedback/undo", json=asked | {"dry_run": True}).json()[
        "confirm"
    ]
    guessed = client.post("/feedback/undo", json=asked | {"confirm": "21-" + "0" * 16})
    done = client.post("/feedback/undo", json=asked | {"confirm": token}).json()

    assert (409, 409) == (refused.status_code, guessed.status_code)
    assert "dry run" in refused.json()["detail"]
    assert (21, None) == (done["rows"], done["confirm"])
