"""One seam denies every route, however it is served."""

from __future__ import annotations

from operator import is_

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from app.access.rights import LOCAL, NOBODY, Right
from app.doors.http import app as module
from app.doors.http import routes
from app.doors.http.app import ROUTERS, create_app
from app.doors.http.guard import (
    Guarded,
    asking,
    install,
    principal_of,
    require_guarded,
)
from app.errors import UnknownProfile
from app.services.application import Application
from app.settings import Settings

HERE = ("127.0.0.1", 50000)
UNLISTED = [("GET", "/docs"), ("GET", "/openapi.json")]


@pytest.fixture
def application(tmp_path):
    """An application over a new database."""
    url = f"sqlite:///{tmp_path}/postbayes.db"
    return Application(Settings(database_url=url))


def operations(app):
    """Return method and path of every route."""
    listed = [
        (method.upper(), path)
        for path, methods in app.openapi()["paths"].items()
        for method in methods
    ]
    assert {("POST", "/classify"), ("GET", "/metrics")} < set(listed)
    return [*listed, *UNLISTED]


RIGHTS = {
    ("POST", "/classify"): "classify",
    ("POST", "/classify/batch"): "classify",
    ("POST", "/message"): "classify",
    ("POST", "/feedback"): "teach",
    ("POST", "/sent"): "teach",
    ("DELETE", "/feedback/{id}"): "teach",
    ("POST", "/feedback/undo"): "manage",
    ("GET", "/profiles"): "read",
    ("GET", "/profiles/{name}"): "read",
    ("POST", "/profiles"): "manage",
    ("PATCH", "/profiles/{name}"): "manage",
    ("GET", "/profiles/{name}/lists"): "read",
    ("POST", "/profiles/{name}/lists"): "lists",
    ("DELETE", "/profiles/{name}/lists"): "lists",
    ("GET", "/profiles/{name}/correspondents"): "read",
    ("DELETE", "/profiles/{name}/correspondents"): "manage",
    ("GET", "/profiles/{name}/figures"): "read",
    ("GET", "/profiles/{name}/ledger"): "replicate",
    ("GET", "/words/{word}"): "read",
    ("GET", "/history"): "read",
    ("GET", "/history/{id}"): "read",
    ("GET", "/review"): "read",
    ("GET", "/overview"): "read",
    ("GET", "/ledger"): "read",
    ("GET", "/settings"): "read",
    ("GET", "/metrics"): "read",
    ("GET", "/keys"): "manage",
    ("POST", "/keys"): "manage",
    ("DELETE", "/keys/{name}"): "manage",
    ("GET", "/people"): "manage",
    ("POST", "/people"): "manage",
    ("PUT", "/people/{name}/password"): "manage",
    ("DELETE", "/people/{name}"): "manage",
    ("POST", "/password"): "read",
    ("GET", "/events"): "manage",
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/docs"): None,
    ("GET", "/openapi.json"): None,
}


def statuses(app):
    """Return how every route answers a request that it could not use."""
    with TestClient(app, client=HERE) as client:
        return {
            each: client.request(*each, content=b"").status_code
            for each in operations(app)
        }


def test_a_guard_that_denies_denies_every_route(application):
    """A guard is asked before the query and the body are read."""
    asked = []

    async def deny(access):
        asked.append((*access.operation, access.right))
        msg = "denied"
        raise UnknownProfile(msg)

    app = create_app(application, guards=[deny])
    answers = statuses(app)

    assert dict.fromkeys(operations(app), 404) == answers
    assert operations(app) == [(method, path) for method, path, _ in asked]
    assert {None, *Right} == {right for *_, right in asked}


def test_a_denial_is_a_problem_document(application):
    """The problem has the sentence of the error, on direct routes as well."""

    async def deny(_):
        msg = "denied"
        raise UnknownProfile(msg)

    with TestClient(create_app(application, guards=[deny]), client=HERE) as client:
        answers = [client.post("/classify"), client.get("/healthz")]

    assert ["denied"] * 2 == [each.json()["detail"] for each in answers]


def test_a_guard_that_lets_pass_changes_nothing(application):
    """Requests get the same answers as without the guard."""
    passed = []

    async def note(access):
        passed.append(access.operation)

    with TestClient(
        create_app(application, guards=[note, note]), client=HERE
    ) as client:
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
    for router in (routes.scored, routes.taught):
        app.include_router(router, dependencies=[Depends(deny)])
    client = TestClient(app, client=HERE)

    assert [401, 401] == [
        client.post(path, content=b"x").status_code
        for path in ("/classify", "/feedback")
    ]


def test_a_direct_route_with_dependencies_of_its_own_asks_them(application):
    """Also beside those that bypass the framework."""

    def deny():
        raise HTTPException(401)

    [route, *_] = routes.scored.routes
    router = APIRouter(route_class=type(route), dependencies=[Depends(deny)])
    router.post("/denied")(route.endpoint)
    app = create_app(application)
    install(app, router)

    with TestClient(app, client=HERE) as client:
        answers = [client.post(path, content=b"x") for path in ("/denied", "/classify")]

    assert [401, 200] == [answer.status_code for answer in answers]


def test_an_application_has_the_routes_of_its_routers(application):
    """Those themselves: to build all of them anew takes a hundred times a request."""
    routes_of_all = [route for router in ROUTERS for route in router.routes]

    assert all(map(is_, routes_of_all, create_app(application).routes))


def test_a_route_that_asks_no_guard_is_refused_at_the_start():
    """The error names the route."""
    router = APIRouter()
    router.get("/open")(lambda: None)

    with pytest.raises(TypeError, match=r"path='/open'.* asks no guard"):
        require_guarded([router])


def test_a_route_that_names_no_right_is_refused_at_the_start():
    """A router must be made with `asking`, even if its routes need no right."""
    router, public = APIRouter(route_class=Guarded), APIRouter(route_class=asking(None))
    for each in (router, public):
        each.get("/open")(lambda: None)

    require_guarded([public])
    with pytest.raises(TypeError, match=r"path='/open'.* asks no right"):
        require_guarded([router])


def test_every_route_asks_its_right(application):
    """A new route needs a line in this table, too."""
    asked = {}

    async def note(access):
        asked[access.operation] = access.right

    statuses(create_app(application, guards=[note]))

    assert asked == RIGHTS


def test_the_openapi_document_names_the_rights(application):
    """They are in `x-right`, for people who create keys."""
    paths = create_app(application).openapi()["paths"]

    assert {each: right for each, right in RIGHTS.items() if each not in UNLISTED} == {
        (method.upper(), path): operation.get("x-right")
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def test_a_client_of_this_machine_has_all_rights(application):
    """A route that asks for a right gets this principal."""
    found = []

    async def note(access):
        found.append(access)

    app = create_app(application, guards=[note])
    statuses(app)

    assert {LOCAL: False, NOBODY: True} == {
        principal_of(Request(each.scope)): each.right is None for each in found
    }
