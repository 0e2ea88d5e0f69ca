"""Who may teach through the rspamd door, and whom."""

from __future__ import annotations

import asyncio

import pytest

from app.doors.rspamd.server import rspamd
from app.doors.serving.sockets import Unix
from app.errors import InvalidSetting
from tests.support.rspamd import SPAM, ask, exchange, opened, request
from tests.support.standin import Application


def test_a_message_is_learned_once_and_moved():
    """The second time is 208, as rspamd has it; another label is learned."""
    app = Application()
    told = ask(
        request("/learnspam", "User: ann"),
        request("/learnspam"),
        request("/learnham", "Deliver-To: default"),
        application=app,
    )

    assert [(200, {"success": True}), (200, {"success": True})] == [told[0], told[2]]
    assert 208 == told[1][0]
    assert "has been already learned as spam" in told[1][1]["error"]
    assert ["rspamd:ann", "rspamd", "rspamd:default"] == app.feedback.sources


@pytest.mark.parametrize(
    ("profile", "headers"),
    [
        ("default", []),
        ("bob@example.org", ["User: bob@example.org"]),
        ("bob@example.org", ["Rcpt: <Bob+x@example.org>", "User: ann"]),
        ("bob@example.org", ["Deliver-To: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: ", "Deliver-To:"]),
    ],
)
def test_the_recipients_say_which_profile_learns(profile, headers):
    """The final one, else all of them, else the user."""
    app = Application()
    ask(request("/learnspam", *headers), application=app)

    assert [profile] == [name for name, _ in app.feedback.learned]


@pytest.mark.parametrize("path", ["/learnspam", "/learnham", "/stat", "/metrics"])
def test_who_is_not_of_the_networks_needs_the_password(path):
    """Right or wrong; scanning and health are for everybody."""
    method = "POST" if path.startswith("/learn") else "GET"
    guarded = Application(teach_from=("192.0.2.0/24",), rspamd_password="sesame")  # noqa: S106

    async def run():
        async with opened(guarded) as connect:
            return [
                (await exchange(connect, [request(path, *each, method=method)]))[0]
                for each in ([], ["Password: open"], ["Password: sesame"])
            ] + [(await exchange(connect, [request("/checkv2")]))[0]]

    assert [401, 401, 200, 200] == asyncio.run(run())


def test_an_empty_password_opens_nothing():
    """A variable that is set to nothing is not set."""
    guarded = Application(teach_from=(), rspamd_password="")

    assert [(401, {"error": "Unauthorized"})] == ask(
        request("/learnspam", "Password: "), application=guarded
    )


def test_a_proxy_lets_nobody_teach_without_the_password():
    """Everybody comes from its address."""
    app = Application(rspamd_password="sesame")  # noqa: S106
    proxied = "X-Forwarded-For: 127.0.0.1"
    told = ask(
        request("/learnspam", proxied),
        request("/learnspam", proxied, "Password: sesame"),
        application=app,
    )

    assert [401, 200] == [status for status, _ in told]


def test_who_may_write_to_the_unix_socket_may_teach(tmp_path):
    """Its clients have no address."""
    app = Application(teach_from=())
    address = Unix(f"{tmp_path}/rspamd")

    assert [200] == [
        status
        for status, _ in ask(request("/learnspam"), application=app, address=address)
    ]


def test_who_is_gone_before_he_is_known_may_not_teach():
    """A port's client without an address is not one of this machine."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/learnspam",
        "headers": [],
        "query_string": b"",
        "client": None,
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": SPAM, "more_body": False}

    async def send(message):
        sent.append(message)

    app = Application()
    asyncio.run(rspamd(app).create(local=False)(scope, receive, send))

    assert 401 == sent[0]["status"]
    assert {} == app.feedback.learned


def test_a_network_that_is_none_stops_the_start():
    """Before anything listens."""
    with pytest.raises(InvalidSetting, match="POSTBAYES_TEACH_FROM"):
        rspamd(Application(teach_from=("nowhere",)))
