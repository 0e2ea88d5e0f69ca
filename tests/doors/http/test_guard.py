"""One seam denies every route, however it is served."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient

from app.doors.http import app as module
from app.doors.http import routes
from app.doors.http.app import create_app
from app.doors.http.guard import require_guarded
from app.errors import UnknownProfile
from app.services.application import Application
from app.settings import Settings

UNLISTED = [("GET", "/docs"), ("GET", "/openapi.json")]


@pytest.fixture
def application(tmp_path):
    """An application over a new database."""
    url = f"sqlite:///{tmp_path}/postbayes.db"
    return Application(Settings(_env_file=None, database_url=url))


def operations(app):
    """Return method and path of every route."""
    listed = [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    ]
    assert {("POST", "/classify"), ("GET", "/metrics")} < set(listed)
    return [*listed, *UNLISTED]


def statuses(app):
    """Return how every route answers a request that it could not use."""
    with TestClient(app) as client:
        return {
            each: client.request(*each, content=b"").status_code
            for each in operations(app)
        }


def test_a_guard_that_denies_denies_every_route(application):
    """Before anything of the request is read: nothing else is wrong with it."""
    asked = []

    async def deny(access):
        asked.append((*access.operation, access.client, access.headers["host"]))
        msg = "denied"
        raise UnknownProfile(msg)

    app = create_app(application, guards=[deny])
    answers = statuses(app)

    assert dict.fromkeys(operations(app), 404) == answers
    assert [(*each, "testclient", "testserver") for each in operations(app)] == asked


def test_a_denial_is_a_problem_document(application):
    """With the error's own sentence, on direct routes as on others."""

    async def deny(_):
        msg = "denied"
        raise UnknownProfile(msg)

    with TestClient(create_app(application, guards=[deny])) as client:
        answers = [client.post("/classify"), client.get("/healthz")]

    assert ["denied"] * 2 == [each.json()["detail"] for each in answers]


def test_a_guard_that_lets_pass_changes_nothing(application):
    """Requests are answered as without one."""
    passed = []

    async def note(access):
        passed.append(access.operation)

    with TestClient(create_app(application, guards=[note, note])) as client:
        answer = client.post(
            "/classify", content=b"hello", headers={"content-type": "message/rfc822"}
        )
        client.get("/classify")
        client.get("/nothing")

    assert 200 == answer.status_code
    assert [("POST", "/classify")] * 2 == passed


def test_dependencies_of_the_application_are_asked_by_every_route(
    application, monkeypatch
):
    """The framework serves the direct routes then."""

    def deny():
        raise HTTPException(401)

    def denying(**options):
        return described(**options, dependencies=[Depends(deny)])

    described = module.Described
    monkeypatch.setattr(module, "Described", denying)
    app = create_app(application)

    assert dict.fromkeys(operations(app), 401) == statuses(app)


def test_a_router_that_is_included_with_dependencies_asks_them(application):
    """Also one of direct routes, which serve themselves elsewhere."""

    def deny():
        raise HTTPException(401)

    create_app(application)
    app = FastAPI()
    app.state.guards = ()
    app.state.application = application
    app.include_router(routes.messages, dependencies=[Depends(deny)])
    client = TestClient(app)

    assert [401, 401] == [
        client.post(path, content=b"x").status_code
        for path in ("/classify", "/feedback")
    ]


def test_a_route_that_asks_no_guard_is_refused_at_the_start():
    """Naming it."""
    router = APIRouter()
    router.get("/open")(lambda: None)

    with pytest.raises(TypeError, match=r"path='/open'.* asks no guard"):
        require_guarded([router])
