"""Who may teach through the rspamd door, and whom."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from app.access.rights import AccessKey, Right, digest_of, text_of
from app.doors.rspamd.server import Rspamd
from app.doors.serving.sockets import Unix
from app.errors import DatabaseUnavailable, InvalidSetting
from tests.support.rspamd import SPAM, ask, exchange, opened, request
from tests.support.standin import Application

KEY, OTHER = text_of(bytes(32)), text_of(bytes(31) + b"1")


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
    assert ["rspamd"] * 3 == app.feedback.doors


@pytest.mark.parametrize(
    ("profile", "headers"),
    [
        ("default", []),
        ("bob@example.org", ["User: bob@example.org"]),
        ("bob@example.org", ["Rcpt: <Bob+x@example.org>", "User: ann"]),
        ("bob@example.org", ["Deliver-To: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: bob@example.org", "Rcpt: carl"]),
        ("default", ["Rcpt: ", "Deliver-To:"]),
        ("bob@example.org", ["Rcpt: ", "User: bob@example.org"]),
    ],
)
def test_the_recipients_say_which_profile_learns(profile, headers):
    """The final one, else all of them, else the user."""
    app = Application()
    ask(request("/learnspam", *headers), application=app)

    assert [profile] == [name for name, _ in app.feedback.learned]


def named(text, *rights, **limits):
    """Return a key of the name `mx1`."""
    return AccessKey(
        name="mx1",
        digest=digest_of(text),
        rights=frozenset(rights),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        **limits,
    )


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("/checkv2", Right.CLASSIFY),
        ("/learnspam", Right.TEACH),
        ("/learnham", Right.TEACH),
        ("/stat", Right.READ),
        ("/metrics", Right.READ),
    ],
)
def test_who_is_not_of_the_networks_needs_a_key_as_the_password(path, right):
    """One that is in force and has the right."""
    method = "GET" if path in {"/stat", "/metrics"} else "POST"
    keys = [named(KEY, right), named(OTHER, *({*Right} - {right}))]
    guarded = Application(*keys, keyless_from=("192.0.2.0/24",))

    async def run():
        async with opened(guarded) as connect:
            return [
                (await exchange(connect, [request(path, *each, method=method)]))[0]
                for each in (
                    [],
                    ["Password: "],
                    ["Password: open"],
                    ["Password: pb_open"],
                    [f"Password: {OTHER}"],
                    [f"Password: {KEY}"],
                )
            ]

    assert [401, 401, 401, 401, 401, 200] == asyncio.run(run())


@pytest.mark.parametrize("path", ["/ping", "/healthy", "/ready"])
def test_health_is_for_everybody(path):
    """A supervisor has no key."""
    guarded = Application(keyless_from=())

    async def run():
        async with opened(guarded) as connect:
            return (await exchange(connect, [request(path, method="GET")]))[0]

    assert 200 == asyncio.run(run())


@pytest.mark.parametrize(
    ("keyless", "said"),
    [((), "the database cannot be used"), (("127.0.0.1",), "/srv/mail.db is away")],
)
def test_strangers_see_no_path_of_a_database_that_is_away(monkeypatch, keyless, said):
    """The reason is for clients of this machine, and for the log."""
    app = Application(keyless_from=keyless)

    def ping():
        raise DatabaseUnavailable("/srv/mail.db is away", confidential=True)

    monkeypatch.setattr(app, "ping", ping)
    [(status, told)] = ask(request("/ready", method="GET"), application=app)

    assert 503 == status
    assert told["error"].startswith(said)


def test_a_proxy_lets_nobody_teach_without_a_key():
    """Everybody comes from its address."""
    app = Application(named(KEY, Right.TEACH))
    proxied = "X-Forwarded-For: 127.0.0.1"
    told = ask(
        request("/learnspam", proxied),
        request("/learnspam", proxied, f"Password: {KEY}"),
        application=app,
    )

    assert [401, 200] == [status for status, _ in told]


def test_the_ledger_has_the_key_unless_it_may_name_others():
    """A mail server that knows its users says who taught."""
    sources = []
    for may in (False, True):
        app = Application(named(KEY, Right.TEACH, names_sources=may), keyless_from=())
        ask(request("/learnspam", "User: ann", f"Password: {KEY}"), application=app)
        sources += app.feedback.sources

    assert ["key:mx1", "rspamd:ann"] == sources


def test_a_key_of_one_profile_teaches_and_scores_no_other():
    """As its recipients have it."""
    mine = frozenset({"bob@example.org"})
    rights = {Right.TEACH, Right.CLASSIFY, Right.READ}
    app = Application(named(KEY, *rights, profiles=mine), keyless_from=())
    key = f"Password: {KEY}"
    told = ask(
        request("/learnspam", key, "Rcpt: bob@example.org"),
        request("/learnspam", key, "Rcpt: carl"),
        request("/checkv2", key, "Rcpt: bob@example.org"),
        request("/checkv2", key, "Rcpt: carl"),
        request("/checkv2", key, message=b""),
        request("/stat", key, method="GET"),
        application=app,
    )

    assert [200, 403, 200, 403, 403, 403] == [status for status, _ in told]


def test_who_may_write_to_the_unix_socket_may_teach(tmp_path):
    """Its clients have no address."""
    app = Application(keyless_from=())
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
        "server": ("127.0.0.1", 11334),
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": SPAM, "more_body": False}

    async def send(message):
        sent.append(message)

    app = Application()
    asyncio.run(Rspamd(app)(scope, receive, send))

    assert 401 == sent[0]["status"]
    assert {} == app.feedback.learned


def test_a_network_that_is_none_stops_the_start():
    """Before anything listens."""
    with pytest.raises(InvalidSetting, match="POSTBAYES_KEYLESS_FROM"):
        Rspamd(Application(keyless_from=("nowhere",)))
