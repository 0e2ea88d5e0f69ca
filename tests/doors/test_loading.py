"""A request to a profile that is not in memory waits for it, at every route."""

from __future__ import annotations

import math

import pytest

from app.doors.cli.client import application
from app.doors.cli.client import loaded as opened_only
from app.errors import DatabaseUnavailable
from app.services import cache
from app.services.startup import open_database
from app.settings import load_settings
from tests.support.application import add_profiles, served, teach
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

RAW = {"content-type": "message/rfc822"}
ANN = "ann@example.org"


@pytest.fixture
def client(tmp_path):
    """A client of a service; Ann's profile has learned, and has left the memory."""
    with served(tmp_path) as client:
        app = client.app.state.application
        add_profiles(app, ANN)
        for n in range(24):
            teach(app, ham(n), "ham", ANN)
            teach(app, spam(n), "spam", ANN)
        drop(client)
        yield client


def loaded(client):
    """Return the number of profiles in memory, as `/metrics` shows it."""
    lines = client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(values["postbayes_profiles_bytes"]) > 0
    return int(float(values["postbayes_profiles_loaded"]))


def drop(client):
    """Have all profiles but the site's leave the memory."""
    live = client.app.state.application.live
    live.find(ANN).used = -1e9
    live.idle = 1.0
    live.drop_idle()
    live.idle = 1e9


def test_every_route_loads_what_it_needs(client):
    """And only that: figures need no counts."""
    query = f"profile={ANN}"
    message = client.post(f"/classify?{query}", content=spam(99), headers=RAW).json()
    id_ = message["id"]
    asked = {
        "classify": lambda: client.post(
            f"/classify?recipient={ANN}", content=spam(9), headers=RAW
        ),
        "batch": lambda: client.post(
            f"/classify/batch?{query}", json={"messages": [{"subject": "Lunch"}]}
        ),
        "teach": lambda: client.post(
            f"/feedback?label=spam&{query}", content=spam(98), headers=RAW
        ),
        "by id": lambda: client.post(
            f"/feedback?{query}", json={"id": id_, "label": "spam"}
        ),
        "forget": lambda: client.delete(f"/feedback/{id_}?{query}"),
        "profile": lambda: client.get(f"/profiles/{ANN}"),
        "policy": lambda: client.patch(f"/profiles/{ANN}", json={"ham_cost": 9}),
        "word": lambda: client.get(f"/words/money?{query}"),
        "figures": lambda: client.get(f"/profiles/{ANN}/figures"),
        "metrics": lambda: client.get(f"/metrics?{query}"),
        "profiles": lambda: client.get("/profiles"),
    }
    found = {}
    for name, ask in asked.items():
        drop(client)
        before = loaded(client)
        found[name] = ask().status_code, before, loaded(client)

    needless = dict.fromkeys(("figures", "metrics", "profiles"), (200, 1, 1))
    assert dict.fromkeys(asked, (200, 1, 2)) | needless == found


def test_a_ready_service_may_have_profiles_to_load(client, monkeypatch):
    """It says that it is ready; who asks for one that cannot be loaded gets a 503."""

    def load(*_):
        msg = "the database is unavailable"
        raise DatabaseUnavailable(msg)

    monkeypatch.setattr(cache, "load", load)
    ready = client.get("/readyz").status_code
    named = client.post(f"/classify?profile={ANN}", content=spam(9), headers=RAW)
    sent = client.post(f"/classify?recipient={ANN}", content=spam(9), headers=RAW)

    assert (200, 503, 200) == (ready, named.status_code, sent.status_code)
    assert "the database is unavailable" == named.json()["detail"]
    assert "default" == sent.json()["recipients"][ANN]["profile"]


@pytest.mark.parametrize("opened", [application, opened_only])
def test_a_command_waits_however_long_a_profile_takes(tmp_path, monkeypatch, opened):
    """It would begin anew each time; a service has others to answer meanwhile."""
    monkeypatch.setenv("POSTBAYES_DATABASE_URL", sqlite_url(tmp_path))
    (tmp_path / "service").mkdir()
    with served(tmp_path / "service") as client:
        service = client.app.state.application.live.patience
    open_database(load_settings(), make=True).dispose()
    with opened() as app:
        command = app.live.patience

    assert (5.0, math.inf) == (service, command)
