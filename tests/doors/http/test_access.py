"""Who gets in, with which key, and to which profiles."""

from __future__ import annotations

import base64
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from starlette.testclient import TestClient

from app.access.rights import Right
from app.doors.http.app import create_app
from app.errors import InvalidInput
from app.services.access import expire_events, list_events, list_keys, made_key
from app.services.application import Application
from app.services.clock import Buckets
from app.settings import Settings
from tests.support.application import add_profiles
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam

RAW = {"Content-Type": "message/rfc822"}
STRANGER = "198.51.100.9"

ADMIN = [right.value for right in Right]


@pytest.fixture
def application(tmp_path):
    """Return a function that makes an application over one database."""
    url = sqlite_url(tmp_path)

    def make(**settings):
        return Application(Settings(database_url=url, **settings))

    return make


@contextmanager
def serving(app):
    """Serve an application; give a function that makes clients of some addresses."""
    served = create_app(app)
    with TestClient(served, client=("127.0.0.1", 50000)) as local:

        def client(host="127.0.0.1", key=None, **headers):
            given = {} if key is None else {"Authorization": f"Bearer {key}"}
            return TestClient(
                served,
                client=(host, 50000),
                headers=given | {k.replace("_", "-"): v for k, v in headers.items()},
            )

        client.local = local
        yield client


def add(app, name="mx1", rights=ADMIN, **limits):
    """Make a key, and return its text."""
    text, key = made_key(name, rights, **limits)
    app.add_key(key, actor="test")
    return text


def test_only_clients_of_this_machine_need_no_key(application):
    """Other clients get an error that explains how to send a key."""
    with serving(application()) as client:
        inside = client().get("/profiles")
        outside = client(STRANGER).get("/profiles")

    assert 200 == inside.status_code
    assert 401 == outside.status_code
    assert 'Bearer realm="Postbayes"' == outside.headers["www-authenticate"]
    assert "urn:postbayes:problem:unauthenticated" == outside.json()["type"]
    assert "POSTBAYES_KEYLESS_FROM" in outside.json()["detail"]


def test_whoever_is_named_needs_no_key(application):
    """If no network is named, every client needs a key."""
    named = application(keyless_from=("198.51.100.0/24",))
    with serving(named) as client:
        answers = [client(host).get("/profiles") for host in (STRANGER, "127.0.0.1")]
    with serving(application(keyless_from=())) as client:
        answers.append(client().get("/profiles"))

    assert [200, 401, 401] == [each.status_code for each in answers]


def test_a_key_is_shown_in_three_ways(application):
    """As a token, in a header of its own, and as the password of any user."""
    app = application()
    key = add(app)
    basic = base64.b64encode(f"prometheus:{key}".encode()).decode()
    with serving(app) as client:
        answers = [
            client(STRANGER, **headers).get("/metrics").status_code
            for headers in (
                {"Authorization": f"Bearer {key}"},
                {"Authorization": f"bearer  {key}"},
                {"X_API_Key": key},
                {"Authorization": f"Basic {basic}"},
                {"Authorization": f"Basic {key}"},
                {"Authorization": f"Digest {key}"},
                {"Authorization": "Basic *"},
                {"Password": key},
            )
        ]

    assert [200, 200, 200, 200, 401, 401, 401, 401] == answers


def test_a_right_covers_nothing_but_itself(application):
    """Each route answers only keys with its right; *manage* includes *lists*."""
    # The routes are asked as they are written.
    app = application(offer=("{name}",))
    keys = {right: add(app, right.value, [right]) for right in Right}
    asked = {}
    with serving(app) as client:
        paths = client.local.get("/openapi.json").json()["paths"]
        for right, key in keys.items():
            covers = {right, None, *(["lists"] if right is Right.MANAGE else [])}
            stranger = client(STRANGER, key)
            for path, methods in paths.items():
                for method, operation in methods.items():
                    refused = 403 == stranger.request(method, path).status_code
                    asked[right, method, path] = refused == (
                        operation.get("x-right") not in covers
                    )

    assert len(asked) > 12 * len(Right)
    assert [] == [place for place, as_said in asked.items() if not as_said]


def test_a_refusal_names_the_right_that_lacks_and_those_that_are_there(application):
    """So the operator sees what to add to the key, or to the person's role."""
    app = application()
    key = add(app, rights=[Right.READ])
    with serving(app) as client:
        answer = client(STRANGER, key).post("/classify", content=b"Subject: x")
        text = client.local.get("/metrics").text

    assert 403 == answer.status_code
    assert 'postbayes_access_refused_total{reason="right"} 1.0' in text
    assert "lacks the right 'classify'; it has: read" in answer.json()["detail"]


def test_a_wrong_key_opens_nothing_even_from_here(application):
    """A request with a key is judged by that key."""
    app = application()
    key = add(app)
    with serving(app) as client:
        answers = [
            client("127.0.0.1", wrong).get("/profiles")
            for wrong in ("pb_", key[:-1], key + "x")
        ]

    assert [401] * 3 == [each.status_code for each in answers]
    assert "revoked, expired" in answers[0].json()["detail"]


def test_a_token_of_another_program_is_no_key(application):
    """A proxy that asks for passwords passes them on."""
    with serving(application()) as client:
        assert 200 == client("127.0.0.1", "eyJhbGciOi").get("/profiles").status_code
        assert 401 == client(STRANGER, "eyJhbGciOi").get("/profiles").status_code


@pytest.mark.parametrize(
    "header",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"X-Real-IP": "127.0.0.1"},
        {"X-Forwarded-Proto": "https"},
        {"Via": "1.1 proxy"},
    ],
)
def test_what_a_proxy_passes_on_is_not_of_this_machine(application, header):
    """Otherwise everybody would seem to connect from the proxy's address."""
    app = application()
    key = add(app)
    with serving(app) as client:
        answer = client().get("/profiles", headers=header)
        keyed = client("127.0.0.1", key).get("/profiles", headers=header)
        claimed = client(STRANGER).get("/profiles", headers=header)

    assert [401, 200, 401] == [each.status_code for each in (answer, keyed, claimed)]
    assert "sends no X-Forwarded-For" in answer.json()["detail"]
    assert "POSTBAYES_PROXIES" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("status", "chain"),
    [
        (200, "10.1.1.1"),
        (200, "10.1.1.1, 127.0.0.2"),
        (200, "198.51.100.9, 10.1.1.1"),
        (401, "10.1.1.1, 198.51.100.9"),
        (401, "198.51.100.9"),
        (401, "unknown"),
        (401, ""),
    ],
)
def test_the_client_of_a_named_proxy_counts(application, status, chain):
    """The last address that is not a proxy is the client; earlier ones are ignored."""
    app = application(proxies=("127.0.0.0/8",), keyless_from=("10.0.0.0/8",))
    with serving(app) as client:
        answer = client().get("/profiles", headers={"X-Forwarded-For": chain})

    assert status == answer.status_code


def test_a_named_proxy_that_names_nobody_admits_nobody(application):
    """RFC 7239's header is not read."""
    app = application(proxies=("127.0.0.0/8",))
    with serving(app) as client:
        answer = client().get("/profiles", headers={"Forwarded": "for=127.0.0.1"})

    assert 401 == answer.status_code


def test_a_key_counts_in_its_networks_and_until_it_expires(application):
    """Behind a proxy, the network of the client decides."""
    app = application(proxies=("10.0.0.1",))
    key = add(app, networks=["192.0.2.0/24"])
    brief = add(app, "brief", expires_at=datetime.now(UTC) + timedelta(days=1))
    with serving(app) as client:
        proxied = {"X-Forwarded-For": "192.0.2.7"}
        answers = [
            client("192.0.2.9", key).get("/profiles"),
            client(STRANGER, key).get("/profiles"),
            client("10.0.0.1", key).get("/profiles", headers=proxied),
            client("10.0.0.2", key).get("/profiles", headers=proxied),
            client(STRANGER, brief).get("/profiles"),
        ]

    assert [200, 401, 200, 401, 200] == [each.status_code for each in answers]


@pytest.mark.parametrize(
    ("expires", "status"),
    [
        ("2001-01-01T00:00:00Z", 422),
        ("9999-12-31T23:59:59Z", 422),
        ("9999-12-31T23:59:59-14:00", 400),
    ],
)
def test_a_key_expires_within_a_century(application, expires, status):
    """A later time could not be displayed, nor could the list of keys."""
    with serving(application()) as client:
        wanted = {"name": "x", "rights": ["read"], "expires_at": expires}
        refused = client.local.post("/keys", json=wanted)
        listed = client.local.get("/keys")

    assert status == refused.status_code
    assert [] == listed.json()["keys"]


@pytest.mark.parametrize("limit", ["profiles", "labels", "networks"])
def test_a_key_has_as_many_limits_as_somebody_may_write(limit):
    """Every process keeps them in memory."""
    made_key("mx1", ["read"], **{limit: ["192.0.2.1"] * 1000})

    with pytest.raises(InvalidInput, match="at most 1000 profiles"):
        made_key("mx1", ["read"], **{limit: ["192.0.2.1"] * 1001})


def test_health_and_the_reference_are_for_everybody(application):
    """Supervisors have no key, and the interface is public."""
    with serving(application(keyless_from=())) as client:
        assert [200] * 4 == [
            client(STRANGER).get(path).status_code
            for path in ("/healthz", "/readyz", "/docs", "/openapi.json")
        ]


def test_strangers_see_no_path_of_a_database_that_is_away(
    application, tmp_path, caplog
):
    """The reason is for those who may read all profiles, and for the log."""
    with serving(application()) as client:
        made = client.local.post("/keys", json={"name": "a", "rights": ["teach"]})
        keyed = client(STRANGER, made.json()["key"])
        [path] = tmp_path.glob("*.db")
        path.rename(tmp_path / "away")
        seen = [
            client(STRANGER).get("/readyz"),
            keyed.post("/feedback?label=spam", content=spam(1), headers=RAW),
            client.local.get("/readyz"),
        ]
        (tmp_path / "away").rename(path)

    assert [503] * 3 == [each.status_code for each in seen]
    neutral, other, whole = (each.json()["detail"] for each in seen)
    assert neutral == other
    assert neutral.startswith("the database cannot be used at the moment")
    assert str(path) in whole
    assert str(path) in caplog.text


def test_a_key_is_made_listed_and_revoked(application):
    """Its text is in the first answer, and nowhere else."""
    with serving(application()) as client:
        wanted = {"name": "mx1", "rights": ["read"], "labels": ["spam"]}
        made = client.local.post("/keys", json=wanted)
        key = made.json()["key"]
        listed = client.local.get("/keys")
        twice = client.local.post("/keys", json=wanted)
        used = client(STRANGER, key).get("/profiles")
        gone = client.local.delete("/keys/mx1")
        refused = client(STRANGER, key).get("/profiles")
        unknown = client.local.delete("/keys/mx1")
        again = client.local.post("/keys", json=wanted)
        other = client(STRANGER, again.json()["key"]).get("/profiles")
        old = client(STRANGER, key).get("/profiles")

    assert 200 == made.status_code
    assert key not in listed.text
    assert [["mx1", ["read"], None, ["spam"]]] == [
        [each["name"], each["rights"], each["profiles"], each["labels"]]
        for each in listed.json()["keys"]
    ]
    assert (409, 200, 200) == (twice.status_code, used.status_code, gone.status_code)
    assert gone.json()["revoked_at"] is not None
    assert (401, 404) == (refused.status_code, unknown.status_code)
    assert [200, 401] == [other.status_code, old.status_code]


def test_whoever_manages_gives_no_right_that_it_lacks(application):
    """Otherwise it could give itself every right."""
    app = application()
    key = add(app, rights=["manage"])
    with serving(app) as client:
        manager = client(STRANGER, key)
        refused = manager.post("/keys", json={"name": "x", "rights": ["read"]})
        given = manager.post("/keys", json={"name": "x", "rights": ["manage"]})

    assert [403, 200] == [refused.status_code, given.status_code]
    assert "cannot give the right read" in refused.json()["detail"]


def test_the_ledger_has_the_key_as_its_source(application):
    """The source is `key:NAME`, unless the key may name others."""
    app = application()
    plain = add(app, "plain")
    naming = add(app, "naming", names_sources=True)
    with serving(app) as client:
        for number, key in enumerate((plain, naming)):
            client(STRANGER, key).post(
                "/feedback?label=spam&source=ann", content=spam(number), headers=RAW
            ).raise_for_status()
        sources = {
            row["source"]: row["spam"]
            for row in client.local.get("/profiles/default/figures").json()["sources"]
        }

    assert {"key:plain": 1, "ann": 1} == sources


def test_a_key_of_a_label_teaches_no_other(application):
    """The key of a spam trap, for example, can teach only spam."""
    app = application()
    key = add(app, labels=["spam"])
    with serving(app) as client:
        trap = client(STRANGER, key, **RAW)
        answers = [
            trap.post("/feedback?label=spam", content=spam(1)),
            trap.post("/feedback?label=ham", content=ham(1)),
        ]

    assert [200, 403] == [each.status_code for each in answers]
    assert "its labels: spam" in answers[1].json()["detail"]


def test_a_key_of_a_label_takes_nothing_back(application):
    """Forgetting and undoing concern messages of other labels too."""
    app = application()
    key = add(app, labels=["spam"])
    with serving(app) as client:
        lesson = client.local.post("/feedback?label=ham", content=ham(1), headers=RAW)
        trap, taught = client(STRANGER, key), lesson.json()["id"]
        answers = [
            trap.delete(f"/feedback/{taught}"),
            trap.post(f"/ui/history/{taught}/undo", data={"back": ""}),
            trap.post("/feedback/undo", json={"ids": [taught]}),
            trap.post("/ui/ledger/undo", data={"id": taught, "act": "undo"}),
        ]
        kept = client.local.get(f"/history/{taught}").json()["taught"]

    assert 4 * [403] == [each.status_code for each in answers]
    assert "limited to some labels" in answers[0].json()["detail"]
    assert ["ham"] == [each["label"] for each in kept]


def test_a_key_of_a_label_gives_no_rights(application):
    """Otherwise its new key, or the person whom it adds, could teach every label."""
    app = application()
    key = add(app, labels=["spam"])
    with serving(app) as client:
        trap = client(STRANGER, key)
        person = {"name": "eve", "role": "teacher", "password": "correct horse"}
        answers = [
            trap.post("/keys", json={"name": "x", "rights": ["teach"]}),
            trap.post("/people", json=person),
        ]

    assert [403, 403] == [each.status_code for each in answers]


BODIES = {
    ("post", "/profiles/{name}/lists"): (
        {},
        b'{"entries": [{"entry": "ann@example.org", "nats": -5}]}',
    ),
    ("post", "/classify"): (RAW, spam(9)),
    ("post", "/feedback"): (RAW, spam(9)),
    ("post", "/message"): (RAW, spam(9)),
    ("post", "/classify/batch"): ({}, b'{"messages": [{"body": "hello"}]}'),
    ("patch", "/profiles/{name}"): ({}, b'{"ham_cost": 20}'),
    ("post", "/feedback/undo"): ({}, b'{"source": "test", "dry_run": true}'),
    ("post", "/keys"): ({}, b'{"name": "x", "rights": ["read"]}'),
    ("post", "/people"): ({}, b'{"name": "x", "role": "reader"}'),
    ("post", "/profiles"): ({}, b'{"name": "PROFILE"}'),
    ("put", "/people/{name}/password"): ({}, b'{"password": "a long sentence"}'),
    ("post", "/password"): ({}, b'{"password": "x", "new_password": "y"}'),
    ("post", "/sent"): ({}, b'{"sender": "PROFILE", "recipients": ["x@example.net"]}'),
}
OF_ALL = {
    *("/settings", "/metrics", "/events"),
    *("/keys", "/keys/{name}", "/people", "/people/{name}"),
    "/people/{name}/password",
}


@pytest.fixture
def limited(application):
    """A client with a key of one profile, the OpenAPI document, and a look at all."""
    app = application(offer=("ann@example.org",))
    add_profiles(app, "ann@example.org", "bob@example.org")
    key = add(app, rights=ADMIN, profiles=["ann@example.org"])
    with serving(app) as client:
        for name in ("ann@example.org", "bob@example.org"):
            for number in range(3):
                for label, raw in (("spam", spam(number)), ("ham", ham(number))):
                    client.local.post(
                        f"/feedback?label={label}&profile={name}&source=test",
                        content=raw,
                        headers=RAW,
                    ).raise_for_status()
        id_ = client.local.post(
            "/classify?profile=bob@example.org", content=spam(0), headers=RAW
        ).json()["id"]
        paths = client.local.get("/openapi.json").json()["paths"]
        yield client(STRANGER, key), paths, id_, client.local


def asked(client, method, path, operation, profile, id_):
    """Yield the answers about a profile, in each way that a route takes one."""
    names = {each["name"]: each["in"] for each in operation.get("parameters", ())}
    place = path.format(name=profile, id=id_, word="money")
    headers, body = BODIES.get((method, path), ({}, None))
    if body is not None and not headers:
        headers = {"Content-Type": "application/json"}
        body = body.replace(b"PROFILE", profile.encode())
    label = {"label": "spam"} if "label" in names else {}
    for each in {"entry", "address"} & names.keys():
        label[each] = "ann@example.org"
    ways = [
        {way: profile} for way in ("profile", "recipient") if names.get(way) == "query"
    ]
    for way in ways or [{}]:
        yield client.request(
            method, place, params=way | label, content=body, headers=headers
        )


def test_a_key_of_one_profile_reaches_no_other_through_any_route(limited):
    """Neither by name nor by recipient, and it cannot see data of all profiles."""
    client, paths, id_, everything = limited
    before = everything.get("/profiles/bob@example.org").json()
    answers = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            if "x-right" in operation and (method, path) != ("get", "/profiles"):
                found = asked(client, method, path, operation, "bob@example.org", id_)
                answers[method, path] = {each.status_code for each in found}
    listed = client.get("/profiles").json()["profiles"]

    assert len(answers) > 12
    assert {} == {each: found for each, found in answers.items() if found != {403}}
    assert ["ann@example.org"] == [each["name"] for each in listed]
    assert before == everything.get("/profiles/bob@example.org").json()


def test_a_key_of_one_profile_learns_of_no_other_from_a_refusal(limited):
    """Whether an address has a profile is nothing to its neighbours."""
    client, *_ = limited
    refusals = {
        client.post(path, params={"recipient": each}, content=spam(9), headers=RAW).text
        for path in ("/classify", "/feedback")
        for each in ("bob@example.org", "nobody@example.org", "a@example.net", "bob")
    }

    assert 1 == len(refusals)
    assert "its profiles: ann@example.org" in refusals.pop()


def test_a_key_of_one_profile_reaches_its_own_through_every_route(limited):
    """Such a key uses its own profile if a request names none."""
    client, paths, _, everything = limited
    mine = everything.post(
        "/classify?profile=ann@example.org", content=spam(0), headers=RAW
    ).json()["id"]
    answers = {}
    for path, methods in paths.items():
        for method, operation in methods.items():
            if "x-right" in operation and path not in {*OF_ALL, "/password"}:
                found = asked(client, method, path, operation, "ann@example.org", mine)
                answers[method, path] = {each.status_code for each in found}
    unnamed = client.post("/feedback?label=spam", content=spam(7), headers=RAW)
    state = everything.get("/profiles/ann@example.org").json()

    # A message is forgotten once, however it is named.
    assert {("delete", "/feedback/{id}"): {200, 404}} == {
        each: found for each, found in answers.items() if found != {200}
    }
    assert 200 == unnamed.status_code
    assert state["messages"]["spam"] >= 4


def test_a_key_of_a_domain_reaches_its_addresses(limited, application):
    """The key reaches the profile of the domain as well."""
    client, _, _, everything = limited
    app = everything.app.state.application
    key = add(app, "domain", profiles=["@example.org"])
    client.headers["Authorization"] = f"Bearer {key}"
    answers = [
        client.get(f"/profiles/{name}").status_code
        for name in ("ann@example.org", "bob@example.org", "default", "example.org")
    ]

    assert [200, 200, 403, 404] == answers


def test_wrong_keys_are_slowed_and_a_right_one_is_not(application):
    """The wrong keys come from the same address; other addresses are unaffected."""
    app = application()
    key = add(app)
    with serving(app) as client:
        guesses = [
            client(STRANGER, f"pb_{number}").get("/profiles") for number in range(12)
        ]
        right = client(STRANGER, key).get("/profiles")
        elsewhere = client("192.0.2.7", "pb_1").get("/profiles")

        text = client.local.get("/metrics").text

    assert 'postbayes_access_refused_total{reason="key"} 13.0' in text
    assert [401] * 10 + [429] * 2 == [each.status_code for each in guesses]
    assert 1 <= int(guesses[-1].headers["retry-after"]) <= 6
    assert [200, 401] == [right.status_code, elsewhere.status_code]


def test_a_key_and_an_address_have_rates_of_their_own(application, monkeypatch):
    """A client over its rate gets `Retry-After`; other clients are unaffected."""
    # On a slow machine a second passes between two requests, and grants another.
    monkeypatch.setattr(
        "app.services.access.Buckets",
        partial(Buckets, clock=lambda: 0.0),
    )
    app = application(rate_per_key=0.5, rate_per_address=1.0)
    first, second = add(app, "first"), add(app, "second")
    with serving(app) as client:
        statuses = [
            client(host, key).get("/profiles").status_code
            for host, key in (
                ("192.0.2.1", first),
                ("192.0.2.2", first),
                ("192.0.2.2", second),
                ("192.0.2.2", second),
                ("127.0.0.1", None),
                ("127.0.0.1", None),
                ("127.0.0.1", None),
            )
        ]
        late = client("192.0.2.3", first).get("/profiles")
        health = [
            client(host).get("/healthz").status_code
            for host in ("192.0.2.4", "192.0.2.4", "192.0.2.4", *["127.0.0.1"] * 4)
        ]

    assert [200, 429, 200, 429, 200, 200, 200] == statuses
    assert [200, 200, 429, 200, 200, 200, 200] == health
    assert 1 <= int(late.headers["retry-after"]) <= 2


def test_what_somebody_did_is_on_record(application):
    """Each event names its author, and the newest comes first."""
    app = application()
    key = add(app)
    with serving(app) as client:
        admin = client(STRANGER, key)
        json_ = {"Content-Type": "application/json"}
        policy = json.dumps({"ham_cost": 20})
        admin.patch("/profiles/default", content=policy, headers=json_)
        admin.post("/feedback?label=spam", content=spam(1), headers=RAW)
        admin.post("/feedback/undo", content='{"source": "key:mx1"}', headers=json_)
        admin.post("/keys", json={"name": "other", "rights": ["read"]})
        admin.delete("/keys/other")
        found = admin.get("/events", params={"limit": 4}).json()
        older = admin.get("/events", params={"before": found["next"]}).json()
        every = admin.get("/events", params={"limit": 5}).json()

    assert [
        ["key:mx1", "key revoked", "other"],
        ["key:mx1", "key created", "other"],
        ["key:mx1", "undo", "default"],
        ["key:mx1", "policy changed", "default"],
    ] == [[each["who"], each["act"], each["object"]] for each in found["events"]]
    assert {"rights": ["read"]} == found["events"][1]["details"]
    assert [["test", "key created", "mx1"]] == [
        [each["who"], each["act"], each["object"]] for each in older["events"]
    ]
    assert older["next"] is None
    assert (5, None) == (len(every["events"]), every["next"])


def test_other_processes_follow_keys(application):
    """Maintenance loads keys, and stores their last use after the requests."""
    first, second = application(), application()
    key = add(first)
    second.keys.refresh()
    with serving(second) as client:
        before = client(STRANGER, key).get("/profiles").status_code
        first.revoke_key("mx1", actor="test")
        second.keys.refresh()
        after = client(STRANGER, key).get("/profiles").status_code
        second.keys.flush()
        used = client.local.get("/keys").json()["keys"][0]["last_used_at"]
    first.engine.dispose()

    assert (200, 401) == (before, after)
    assert used is not None


def test_the_last_use_of_a_key_outlives_the_service(application):
    """It is stored once a minute, and when the service stops."""
    first, second = application(), application()
    key = add(first)
    first.keys.refresh()
    with serving(first) as client:
        client(STRANGER, key).get("/profiles")
    (found,) = list_keys(second.engine)
    second.engine.dispose()

    assert found.last_used_at is not None


def test_events_are_removed_when_they_are_old(application):
    """Each step removes a few, the oldest first."""
    app = application()
    add(app)
    gone = [
        expire_events(app.engine, before=datetime.now(UTC) + timedelta(days=days))
        for days in (-1, 1, 1)
    ]

    assert [0, 1, 0] == gone
    assert [] == list_events(app.engine, limit=10)
    app.engine.dispose()
