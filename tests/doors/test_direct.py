"""A route that serves itself answers as the framework would have it answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Annotated
from urllib.parse import urlencode

import pytest
from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from app.doors.documents.message import FeedbackOut
from app.doors.documents.verdict import VerdictOut, ViewOut
from app.doors.http import errors
from app.doors.http.body import (
    MAX_QUERIED,
    Body,
    ClassifyQuery,
    FeedbackQuery,
)
from app.doors.http.guard import Direct, Guarded, document, install, principal_of
from app.doors.http.page.forms import problem_page
from app.doors.http.routes import App  # noqa: TC001
from app.errors import UnknownProfile
from app.settings import Settings

RAW = {"content-type": "message/rfc822"}


async def classify(
    request: Request,
    body: Body,
    app: App,
    query: Annotated[ClassifyQuery, Query()],
):
    """Show what arrives."""
    return document(Shown.of(request, body, app, query))


async def feedback(
    request: Request,
    body: Body,
    app: App,
    query: Annotated[FeedbackQuery, Query()],
):
    """Show what arrives, or fail as a use case does."""
    if query.profile == "nobody":
        msg = "there is no profile 'nobody'"
        raise UnknownProfile(msg)
    if query.profile == "defect":
        msg = "a defect"
        raise RuntimeError(msg)
    return document(Shown.of(request, body, app, query))


class Shown(BaseModel):
    """What an endpoint was given."""

    path: str
    query: ClassifyQuery | FeedbackQuery
    body: str
    limit: int

    @classmethod
    def of(cls, request, body, app, query):
        """Return the document of it."""
        return cls(
            path=request.url.path,
            query=query,
            body=body.decode(),
            limit=app.settings.max_request_bytes,
        )


def served(router):
    """Return a client of an application that has the two endpoints."""
    router.post("/classify")(classify)
    router.post("/feedback")(feedback)
    app = FastAPI()
    settings = Settings(max_request_bytes=1024)
    app.state.application = SimpleNamespace(settings=settings)
    app.state.guards = ()
    errors.install(app, [router], problem_page, principal_of)
    install(app, router)
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def both():
    """Clients of the two ways to serve, the framework's first."""
    ways = [served(APIRouter(route_class=way)) for way in (Guarded, Direct)]
    with ways[0] as framework, ways[1] as own:
        yield framework, own


def asked(both, method, path, **request):
    """Return what is answered in the two ways: status, headers and body."""
    answers = [client.request(method, path, **request) for client in both]
    return [(each.status_code, each.headers, each.content) for each in answers]


names = st.sampled_from(["label", "profile", "recipient", "explain", "source", "x"])
values = st.one_of(
    st.text(max_size=8),
    st.integers(-2, 1002).map(str),
    st.sampled_from(["x" * 65, "1.0", "1e2", " 3 ", "nobody", "defect", "٣"]),
)


@given(
    path=st.sampled_from(["/classify", "/feedback"]),
    query=st.lists(st.tuples(names, values), max_size=6),
)
def test_any_query_is_read_as_the_framework_reads_it(both, path, query):
    """Values, defaults, repetitions, and every sentence of a refusal."""
    url = f"{path}?{urlencode(query)}"
    framework, own = asked(both, "POST", url, content=b"hello", headers=RAW)

    assert framework == own


def test_a_query_that_was_read_before_says_the_same_of_another_message(both):
    """Only the query is cached, and only if it was valid."""
    for url in ("/classify?explain=3", "/feedback?label=a", "/classify?explain=-3"):
        for body in (b"hello", b"", b"world"):
            framework, own = asked(both, "POST", url, content=body, headers=RAW)

            assert framework == own


@pytest.mark.parametrize("query", [ClassifyQuery(), FeedbackQuery()])
def test_what_was_asked_cannot_be_changed(query):
    """Other requests are given the same."""
    with pytest.raises(ValidationError, match="frozen"):
        query.profile = "another"


@pytest.mark.parametrize(
    ("method", "url", "status", "request_"),
    [
        ("POST", "/classify?explain=3", 200, {"content": b"x", "headers": RAW}),
        ("POST", "/classify?explain=%zz&&=", 422, {"content": b"x", "headers": RAW}),
        (
            "POST",
            "/feedback?" + "recipient=a&" * (MAX_QUERIED + 1) + "source=%00",
            422,
            {"content": b"x", "headers": RAW},
        ),
        ("POST", "/feedback?labell=a&x=1&x=2", 422, {"content": b"x", "headers": RAW}),
        ("POST", "/classify?x=1&explain=zz&=", 422, {"content": b"x", "headers": RAW}),
        ("POST", "/feedback?profile=nobody", 404, {"content": b"x", "headers": RAW}),
        ("POST", "/feedback?profile=defect", 500, {"content": b"x", "headers": RAW}),
        ("POST", "/classify?explain=-1", 400, {"headers": RAW}),
        ("POST", "/classify?explain=-1", 413, {"content": b"x" * 2000}),
        ("POST", "/feedback", 415, {"data": {"a": "b"}}),
        ("GET", "/classify", 405, {}),
        ("PUT", "/feedback", 405, {"content": b"x"}),
        ("OPTIONS", "/feedback", 405, {}),
    ],
)
def test_what_is_refused_is_refused_alike(both, method, url, status, request_):
    """The same status where several things are wrong, and the same document."""
    framework, own = asked(both, method, url, **request_)

    assert status == own[0]
    assert framework == own


def test_both_are_described_alike(both):
    """Parameters, bodies, answers and errors."""
    framework, own = (client.app.openapi() for client in both)

    assert ["explain", "profile", "recipient"] == sorted(
        each["name"] for each in own["paths"]["/classify"]["post"]["parameters"]
    )
    assert framework == own


def test_a_document_has_the_bytes_that_the_framework_gives_it():
    """Order of fields, null, numbers and characters beyond ASCII."""
    view = ViewOut(
        event_model="multinomial",
        log_posterior={"ham": -1e-300, "späm": None},
        log_odds=1 / 3,
        features=2**40,
    )
    verdict = VerdictOut(
        decision="unsure",
        label="späm",
        probability=1.0,
        log_odds=None,
        log_posterior={"ham": -0.0, "späm": 5e22},
        views={"words": view},
    )
    feedback = FeedbackOut(
        id="00" * 16,
        outcome="learned",
        label="späm\u2028",
        label_before=None,
        revision=7,
        score_before=verdict,
    )
    app = FastAPI()

    @app.get("/")
    async def _() -> FeedbackOut:
        return feedback

    framework = TestClient(app).get("/")
    own = document(feedback)

    assert framework.content == own.body
    assert framework.headers == own.headers
