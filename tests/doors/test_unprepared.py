"""Rights that are taken away, and tables that are dropped, while a service runs."""

from __future__ import annotations

import logging
import time

import pytest

from app.services import scheduler
from app.storage.database.engine import migrate, open_engine
from tests.support.application import taught_client, wait_for
from tests.support.messages import spam
from tests.support.service import Service

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def granted(site):
    """A database in which the guest has all rights, and owns nothing."""
    engine = open_engine(site.url)
    migrate(engine)
    engine.dispose()
    for kind in ("TABLES", "SEQUENCES"):
        site.administer(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {{guest}}")
    return site


@pytest.fixture
def client(granted, monkeypatch):
    """A client of a service of the guest that has learned six messages."""
    monkeypatch.setattr(scheduler, "INTERVAL", 0.01)
    with taught_client(granted.guest_url) as client:
        yield client


def teach(client, number):
    """Teach a message, and return the answer."""
    return client.post("/feedback?label=spam", content=spam(number), headers=RAW)


@pytest.mark.parametrize(
    "befell",
    [
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {guest}",
        "ALTER SCHEMA public RENAME TO elsewhere",
    ],
)
def test_scoring_goes_on_until_it_is_mended(granted, client, befell, caplog):
    """With 503 for the rest; the log has it once, and no traceback."""
    granted.administer(befell)
    wait_for("maintenance is waiting for the database", caplog)
    scored = client.post("/classify", content=spam(7), headers=RAW)
    answers = [
        teach(client, 7),
        client.post("/feedback", json={"id": "0" * 32, "label": "spam"}),
        client.delete(f"/feedback/{'0' * 32}"),
        client.get("/profiles/default/figures"),
        client.get("/readyz"),
    ]
    metrics = client.get("/metrics")
    time.sleep(1)

    logged, refused = (
        [each.getMessage() for each in caplog.records if each.name.startswith(place)]
        for place in ("app.services", "app.doors.http.errors")
    )

    assert ["POST /feedback was refused"] == [
        each.partition(":")[0] for each in refused
    ]
    # Steps that were under way may have met other tables than those after them.
    assert 1 <= len(logged) == len(set(logged))
    assert (200, "spam") == (scored.status_code, scored.json()["label"])
    for answer in answers:
        assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
        problem = answer.json()["type"]
        assert "urn:postbayes:problem:database-unprepared" == problem
    assert "postbayes_database_up 0.0" in metrics.text.splitlines()
    assert "Traceback" not in caplog.text


def test_a_right_that_is_granted_again_needs_no_restart(granted, client, caplog):
    """The next feedback is taken."""
    caplog.set_level(logging.INFO)
    granted.administer("REVOKE ALL ON profile FROM {guest}")
    wait_for("maintenance is waiting for the database", caplog)
    refused = teach(client, 7)
    granted.administer("GRANT ALL ON profile TO {guest}")
    taken = teach(client, 7)
    wait_for("the database is back", caplog)

    assert "permission denied for table profile" in refused.json()["detail"]
    assert (503, 200) == (refused.status_code, taken.status_code)


@pytest.mark.parametrize(
    ("right", "told"),
    [
        ("INSERT ON scored", "maintenance is waiting for the database"),
        (
            "UPDATE ON fold",
            "the ledger of the profile 'default' cannot be folded into its counts",
        ),
    ],
)
def test_one_right_that_is_missing_is_told_once(granted, client, right, told, caplog):
    """Though feedback goes on, and so do the steps that do not need it."""
    caplog.set_level(logging.INFO)
    granted.administer(f"REVOKE {right} FROM {{guest}}")
    for number in range(20):
        # Written together: the driver sends them in one go, and drops the rest.
        client.post("/classify", content=spam(200 + number), headers=RAW)
        assert teach(client, 100 + number).is_success
        time.sleep(0.05)
    wait_for(told, caplog)
    apart = {"httpx2", "app.services.delivery", "app.services.feedback"}
    logged = [record for record in caplog.records if record.name not in apart]

    assert [told] == [record.getMessage().partition(":")[0] for record in logged]


@pytest.fixture
def guest(granted, tmp_path):
    """Run commands as the guest, who may only read; one message was learned."""
    (tmp_path / "mail").write_bytes(spam(2))
    owner = Service(granted.url, tmp_path)
    assert 0 == owner.command("learn", "--label", "spam", "mail").returncode
    granted.administer(
        "REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public FROM {guest}"
    )
    return Service(granted.guest_url, tmp_path)


def test_who_may_only_read_has_verdicts(guest):
    """That the message cannot be taught by its id is said beside it."""
    ended = guest.command("classify", "mail")

    assert (0, True) == (ended.returncode, ended.stdout.endswith("mail\n"))
    assert (
        "the latest scored messages could not be stored: PostgreSQL refuses"
        in ended.stderr
    )
    assert {"postbayes"} == {
        line.partition(":")[0] for line in ended.stderr.splitlines()
    }


def test_a_command_that_lacks_a_right_may_be_tried_again(granted, guest):
    """With 75: for `audit`, 1 would be a difference between counts and ledger."""
    taught = guest.command("feedback", "--label", "ham", "mail")
    granted.administer("REVOKE ALL ON ledger FROM {guest}")
    audited = guest.command("audit")

    for ended in (taught, audited):
        assert 75 == ended.returncode
        assert "postbayes: PostgreSQL refuses the user" in ended.stderr
        assert "Traceback" not in ended.stderr
