"""nginx in front of a service, as the documents and `deploy` configure it."""

from __future__ import annotations

import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from tests.support import clients
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.service import Service, client_of, free_port

pytestmark = pytest.mark.clients

ROOT = Path(__file__).parent.parent.parent
SIGNED_IN, LOCATION = re.findall(
    r"^```nginx\n(.*?)^```",
    (ROOT / "docs" / "access.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
SEVERAL = (ROOT / "deploy" / "nginx" / "postbayes.conf").read_text(encoding="utf-8")
WAYS = ("access.md", "signed in", "deploy")
MAIN = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    {configured}
}}
"""
SERVER = "server {{ listen 127.0.0.1:{port};\n{lines}\n}}\n"
NAME = "filter.example.org"
SENTENCE = "a long password"


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """The port of nginx for each way to configure it, in front of one service."""
    program = clients.find("nginx")
    folder = tmp_path_factory.mktemp("nginx")
    found = {way: free_port() for way in WAYS}
    service = Service(sqlite_url(folder), folder)
    service.environment |= {
        "POSTBAYES_PROXIES": "127.0.0.1",
        "POSTBAYES_KEYLESS_FROM": "",
        "POSTBAYES_HOST_NAMES": NAME,
        "POSTBAYES_SIGN_IN_HEADER": "Remote-User",
    }
    passwords = folder / "htpasswd"
    passwords.write_text(f"bob:{{PLAIN}}{SENTENCE}\n")
    signed_in = LOCATION.replace("\n}", f"\n{SIGNED_IN}}}")
    # Whole numbers: a free port may have these digits, too.
    several = re.sub(r"\b802[56]\b", f"{service.port}", SEVERAL)
    several = re.sub(r"\b8020\b", f"{found['deploy']}", several)
    configured = [
        SERVER.format(port=found["access.md"], lines=LOCATION),
        SERVER.format(port=found["signed in"], lines=signed_in),
        several,
    ]
    text = MAIN.format(configured="".join(configured))
    text = re.sub(r"\b8025\b", f"{service.port}", text)
    text = text.replace("/etc/nginx/htpasswd", f"{passwords}")
    (folder / "nginx.conf").write_text(text)
    people = ("anna", "--role", "admin"), ("bob", "--role", "reader")
    for each in people:
        added = service.command("people", "add", *each, "--no-password")
        assert 0 == added.returncode
    service.start()
    log = folder / "nginx.log"
    with log.open("w") as errors:
        nginx = subprocess.Popen(
            [program, "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"],
            stderr=errors,
        )
    try:
        require_answer(found["access.md"], nginx, log)
        yield found
    finally:
        nginx.terminate()
        nginx.wait()
        service.client.close()
        service.kill()


def require_answer(port, nginx, log):
    """Wait until nginx answers."""
    deadline = time.monotonic() + PATIENCE
    with client_of(port) as client:
        while time.monotonic() < deadline:
            assert nginx.poll() is None, log.read_text()
            with suppress(httpx2.TransportError):
                client.get("/")
                return
            time.sleep(0.05)
    pytest.fail("nginx did not answer")


@pytest.fixture
def browser(ports):
    """A function that returns a browser at the name of the site, on one of the ports."""
    opened = []

    def browse(way):
        client = client_of(ports[way])
        opened.append(client)
        client.headers["host"] = f"{NAME}:{ports[way]}"
        return client

    yield browse
    for each in opened:
        each.close()


@pytest.mark.parametrize("way", ["access.md", "deploy"])
def test_a_form_is_taken_from_its_page_on_any_port(browser, ports, way):
    """The name and the port of the page are those that the service sees."""
    answer = browser(way).post(
        "/ui/sign-in",
        data={"name": "anna", "password": "wrong"},
        headers={"origin": f"http://{NAME}:{ports[way]}"},
    )

    assert 401 == answer.status_code
    assert "The name or the password is wrong" in answer.text


@pytest.mark.parametrize("way", ["access.md", "deploy"])
def test_a_large_message_reaches_the_service(browser, way):
    """Postbayes itself asks for a key, and does not wait for the message."""
    answer = browser(way).post(
        "/classify",
        content=b"Subject: large\n\n" + b"word " * 500_000,
        headers={"content-type": "message/rfc822"},
    )

    assert 401 == answer.status_code
    assert "the request has no key" in answer.json()["detail"]


@pytest.mark.parametrize(("name", "status"), [("bob", 200), ("anna", 401)])
def test_nginx_names_whom_it_has_signed_in(browser, name, status):
    """A client that names somebody else is still the one with the password."""
    client = browser("signed in")
    client.headers["remote-user"] = "anna"
    auth = (name, SENTENCE)

    assert status == client.get("/profiles", auth=auth).status_code
    assert 200 != client.get("/people", auth=auth).status_code
