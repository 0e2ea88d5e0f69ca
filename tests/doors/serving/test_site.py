"""A web page of another site can neither read nor teach a service."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from app.doors.http.app import create_app
from app.doors.rspamd.server import Rspamd
from app.doors.serving.request import Site
from app.errors import Forbidden
from app.services.application import Application
from app.settings import Settings

RAW = {"content-type": "message/rfc822"}
SPAM = b"From: win@prizes.example\nSubject: Win\n\nfree money\n"
SITE = Site(["Filter.example.org", "mx.example.org."])


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8025",
        "192.0.2.7",
        "[::1]:8025",
        "[2001:db8::7]",
        "localhost",
        "LOCALHOST:8025",
        "postbayes:8025",
        "a.localhost",
        "filter.example.org",
        "Filter.Example.ORG.:443",
        "mx.example.org",
        "localhost:",
        "",
    ],
)
def test_a_service_is_known_by_its_addresses_and_names(host):
    """Names without a dot are those of a network of one's own."""
    SITE.check("POST", [(b"host", host.encode())])


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example",
        "rebound.example:8025",
        "filter.example.org.rebound.example",
        "127.0.0.1.rebound.example",
        "localhost.rebound.example",
        "[::1].rebound.example",
        "x" * 300,
        "256.0.0.1",
        "localhost:80@rebound.example",
        "localhost@rebound",
        "[::1]:80@rebound.example",
        "localhost:rebound",
        "\xff.example",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_name_of_somebody_else_is_refused(host, method):
    """What can be read there is refused as well."""
    headers = [(b"host", b"localhost"), (b"host", host.encode("latin-1"))]

    with pytest.raises(Forbidden, match="add the name to POSTBAYES_HOST_NAMES"):
        SITE.check(method, headers)


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        ("http://localhost:8025", "localhost:8025", True),
        ("https://filter.example.org", "filter.example.org", True),
        ("http://localhost:3000", "localhost:8025", False),
        ("https://page.example", "localhost:8025", False),
        ("null", "localhost:8025", False),
        ("", "localhost:8025", False),
        ("http://[", "localhost:8025", False),
    ],
)
def test_only_pages_of_the_service_may_change_something(origin, host, allowed):
    """What another page only reads, the browser does not show it."""
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    SITE.check("GET", headers)

    if allowed:
        SITE.check("POST", headers)
        return
    for method in ("POST", "DELETE", "PATCH"):
        with pytest.raises(Forbidden, match="send them from the server of that site"):
            SITE.check(method, headers)


@pytest.fixture
def application(tmp_path):
    """An application over a new database."""
    url = f"sqlite:///{tmp_path}/postbayes.db"
    settings = Settings(database_url=url, host_names="filter.example.org")
    return Application(settings)


@pytest.fixture
def client(application):
    """A client of the HTTP door."""
    with TestClient(create_app(application), client=("127.0.0.1", 50000)) as client:
        yield client


@pytest.mark.parametrize(
    "headers", [{"origin": "https://page.example"}, {"host": "rebound.example"}]
)
@pytest.mark.parametrize(
    "path", ["/feedback?label=spam", "/feedback/undo", "/classify"]
)
def test_a_page_of_another_site_teaches_nothing(client, headers, path):
    """And is answered with a problem document."""
    answer = client.post(path, content=SPAM, headers=RAW | headers)

    assert 403 == answer.status_code
    assert "urn:postbayes:problem:forbidden" == answer.json()["type"]


def test_the_names_of_the_settings_are_taken(client):
    """As a proxy passes them on."""
    headers = RAW | {"host": "filter.example.org"}

    assert 200 == client.post("/classify", content=SPAM, headers=headers).status_code


def test_feedback_says_what_its_body_is(client):
    """A page can send a body without a type to any address."""
    answer = client.post("/feedback?label=spam", content=SPAM)

    assert 415 == answer.status_code
    assert "has no content type" in answer.json()["detail"]


@pytest.mark.parametrize(
    "headers", [{"origin": "https://page.example"}, {"host": "rebound.example"}]
)
def test_the_rspamd_door_is_no_way_around(application, headers):
    """Its clients send no origin either."""
    with TestClient(create_app(application)):
        client = TestClient(Rspamd(application), client=("127.0.0.1", 50000))
        answer = client.post("/learnspam", content=SPAM, headers=headers)

    assert 403 == answer.status_code
