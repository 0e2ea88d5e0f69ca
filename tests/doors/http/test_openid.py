"""Sign-in at a provider of OpenID Connect: one that is right, and ones that are not."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import logging
import re
import time
import warnings
from html import unescape
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from starlette.testclient import TestClient

from app.doors.http.app import create_app
from app.errors import InvalidSetting
from app.services import openid
from app.services.application import Application
from app.services.clock import Failures
from app.services.log import keep_log
from app.services.openid import oidc_secret
from app.settings import Settings
from tests.support.databases import sqlite_url
from tests.support.service import served

SECRET = "0123456789abcdef"  # noqa: S105  of a test
CLIENT = "postbayes"
STRANGER = ("198.51.100.9", 50000)


@pytest.fixture(scope="module")
def key():
    """The key of the provider."""
    return RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})


class Provider(http.server.ThreadingHTTPServer):
    """A provider that signs in whoever asks, as `claims`."""

    def __init__(self, key):
        super().__init__(("127.0.0.1", 0), Answer)
        self.key = key
        self.issuer = f"http://127.0.0.1:{self.server_port}/realm"
        self.claims = {"email": "Anna@example.org", "email_verified": True}
        self.header = {"alg": "RS256", "kid": "one"}
        self.said = {}
        self.metadata = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?realm=staff",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        self.codes = {}
        self.asked = []

    def authorize(self, address):
        """Sign a person in; return the code and the state of the way back."""
        query = dict(parse_qsl(urlsplit(address).query))
        code = f"code{len(self.codes)}"
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def answer(self, path, form, authorization):
        """Return the status and the document for a request."""
        self.asked.append(path)
        if path in self.said:
            return self.said[path]
        if path == "/realm/.well-known/openid-configuration":
            return 200, self.metadata
        if path == "/realm/keys":
            return 200, {"keys": [self.key.as_dict(private=False)]}
        if path == "/realm/token":
            return self.token(form, authorization)
        return 404, {}

    def token(self, form, authorization):
        """Return the tokens for a code."""
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if "token_endpoint_auth_methods_supported" in self.metadata:
            given = f"{form.get('client_id')}:{form.get('client_secret')}"
        query = self.codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            given != f"{CLIENT}:{SECRET}"
            or query.get("code_challenge") != challenge
            or query["redirect_uri"] != form["redirect_uri"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "1",
            "aud": query["client_id"],
            "exp": now + 300,
            "iat": now,
            "nonce": query["nonce"],
            **self.claims,
        }
        return 200, {"access_token": "a", "id_token": self.signed(claims)}

    def signed(self, claims):
        """Return an ID token."""
        if self.header["alg"] == "none":
            parts = [
                base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
                for each in (self.header, claims)
            ]
            return b".".join([*parts, b""]).decode()
        return jwt.encode(self.header, claims, self.key)


class Answer(http.server.BaseHTTPRequestHandler):
    """Answers one request."""

    def do_GET(self):
        """Answer a question."""
        self.reply({})

    def do_POST(self):
        """Answer a form."""
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.reply(dict(parse_qsl(body)))

    def reply(self, form):
        """Send what the provider answers."""
        authorization = self.headers.get("authorization", "")
        status, document = self.server.answer(self.path, form, authorization)
        body = (
            document if isinstance(document, bytes) else json.dumps(document).encode()
        )
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture
def provider(key):
    """A provider on this machine."""
    with served(Provider(key)) as server:
        yield server


@pytest.fixture
def given(provider, tmp_path):
    """The settings for the provider."""
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    return {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": file,
    }


@pytest.fixture
def make(given, tmp_path, monkeypatch):
    """A function that returns a browser at a service that knows two people."""
    # A provider in a thread of a busy machine may be slow.
    monkeypatch.setattr(openid, "TIMEOUT", 600.0)
    opened = []
    url = sqlite_url(tmp_path)

    def browser(**more):
        settings = Settings(database_url=url, **{**given, **more})
        app = Application(settings)
        for name in ("anna@example.org", "kim@example.org", "tim"):
            app.add_person(name, role="admin", password=None, actor="test")
        served = create_app(app)
        local = TestClient(served, client=("127.0.0.1", 50000))
        opened.append(local.__enter__())
        return TestClient(served, client=STRANGER, follow_redirects=False)

    yield browser
    for each in opened:
        each.__exit__(None, None, None)


def begin(client, page="/ui/history?search=a%26b"):
    """Go to the provider; return its address with what it is asked."""
    return client.get("/ui/sign-in/oidc", params={"next": page}).headers["location"]


def finish(client, answer):
    """Come back from the provider."""
    return client.get("/ui/sign-in/oidc/callback", params=answer)


def sign_in(client, provider):
    """Sign in at the provider, and come back."""
    return finish(client, provider.authorize(begin(client)))


def refusals(client):
    """Return how many sign-ins were refused, by the reason."""
    app = client.app.state.application
    return {
        sample.labels["reason"]: sample.value
        for family in app.tally.registry.collect()
        if family.name == "postbayes_sign_in_refused"
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def sentence(answer):
    """Return the sentence of a sign-in page that refuses, without its capital."""
    found = unescape(re.search(r'role="alert">([^<]*)<', answer.text)[1])
    return found[:1].lower() + found[1:]


def test_a_person_signs_in_at_the_provider(make, provider):
    """The request has a challenge, state and nonce, and returns to the first page."""
    client = make()
    form = client.get("/ui/sign-in?next=/ui/ledger").text
    address = begin(client)
    asked = {name: each[0] for name, each in parse_qs(urlsplit(address).query).items()}
    kept = client.cookies["postbayes_sign_in"]
    answer = finish(client, provider.authorize(address))
    events = client.get("/events").json()["events"]

    assert 'href="/ui/sign-in/oidc?next=%2Fui%2Fledger">Sign in at 127.0.0.1<' in form
    assert address.startswith(f"{provider.issuer}/authorize?realm=staff&")
    assert ("code", "S256", "openid profile email") == (
        asked["response_type"],
        asked["code_challenge_method"],
        asked["scope"],
    )
    assert "http://testserver/ui/sign-in/oidc/callback" == asked["redirect_uri"]
    assert asked["state"] not in kept
    assert 303 == answer.status_code
    assert "/ui/history?search=a%26b" == answer.headers["location"]
    assert "postbayes_sign_in" not in client.cookies
    assert 200 == client.get("/ui/history").status_code
    assert ("user:anna@example.org", "signed in") == (
        events[0]["who"],
        events[0]["act"],
    )
    assert {} == refusals(client)


def test_the_addresses_of_a_provider_are_asked_for_once(make, provider):
    """Only the keys are fetched each time, because they may change."""
    client = make()
    for _ in range(2):
        assert 303 == sign_in(client, provider).status_code

    assert [1, 2] == [
        sum(path.endswith(end) for path in provider.asked)
        for end in ("openid-configuration", "/keys")
    ]


def test_a_secret_in_the_form(make, provider):
    """Some providers accept the secret only in the form."""
    methods = ["client_secret_post"]
    provider.metadata["token_endpoint_auth_methods_supported"] = methods

    assert 303 == sign_in(make(), provider).status_code


@pytest.mark.parametrize(
    ("claim", "claims", "status"),
    [
        ("preferred_username", {"preferred_username": "tim"}, 303),
        ("preferred_username", {"email": "anna@example.org"}, 401),
        ("email", {"email_verified": "true"}, 303),
        ("email", {"email_verified": False}, 401),
        ("email", {"email_verified": "false"}, 401),
        ("email", {"email": ["anna@example.org"]}, 401),
        ("email", {"email": "eve@example.org"}, 401),
        ("email", {"email": "Kim@example.org"}, 303),
        # In lower case, the Kelvin sign is a k.
        ("email", {"email": "\u212aim@example.org"}, 401),
        ("email", {"email": "tim"}, 303),
    ],
)
def test_who_a_person_is(make, provider, claim, claims, status):
    """The settings name the claim; an e-mail address must be verified."""
    provider.claims |= claims

    assert status == sign_in(make(oidc_claim=claim), provider).status_code


@pytest.mark.parametrize(("subject", "status"), [("1", 303), ("2", 401)])
def test_what_a_token_lacks_the_provider_is_asked_for(make, provider, subject, status):
    """The answer counts if it is about the same person."""
    said = {"sub": subject, **provider.claims}
    provider.claims = {}
    provider.metadata["userinfo_endpoint"] = f"{provider.issuer}/userinfo"
    provider.said["/realm/userinfo"] = 200, said

    assert status == sign_in(make(), provider).status_code


def test_an_unknown_person_is_not_let_in(make, provider, caplog):
    """The page and the log name the person, and who can add them."""
    provider.claims["email"] = "eve@example.org"
    client = make()
    answer = sign_in(client, provider)

    assert 401 == answer.status_code
    for told in (sentence(answer), caplog.text):
        assert "you signed in as 'eve@example.org', who is not among the people" in told
    assert "postbayes_session" not in client.cookies
    assert {"provider": 1.0} == refusals(client)


def test_a_removed_person_is_not_let_in(make, provider):
    """A valid answer of the provider does not change that."""
    client = make()
    client.app.state.application.remove_person("anna@example.org", actor="test")

    assert 401 == sign_in(client, provider).status_code


@pytest.mark.parametrize(
    "change",
    [{"state": "x"}, {"state": ""}, {"state": "\u00e9"}],
)
def test_a_wrong_state(make, provider, change):
    """A link of another person signs nobody in."""
    client = make()
    answer = finish(client, provider.authorize(begin(client)) | change)

    assert 401 == answer.status_code
    assert "started in another browser" in sentence(answer)
    assert not any(path.endswith("/token") for path in provider.asked)


def test_a_browser_that_did_not_begin(make, provider):
    """A sign-in needs the cookie with which it began."""
    client, statuses = make(), []
    answer = provider.authorize(begin(client))
    first = client.cookies["postbayes_sign_in"]
    begin(client)
    for cookie in (None, client.cookies["postbayes_sign_in"], "x", first + "x"):
        client.cookies.clear()
        if cookie is not None:
            client.cookies["postbayes_sign_in"] = cookie
        statuses.append(finish(client, answer).status_code)

    assert [401] * 4 == statuses


def test_a_sign_in_that_takes_too_long(make, provider, monkeypatch):
    """The cookie is valid for ten minutes."""
    client = make()
    answer = provider.authorize(begin(client))
    sessions = client.app.state.application.sessions
    monkeypatch.setattr(sessions, "clock", lambda: time.time() + 700)

    assert "too long ago" in sentence(finish(client, answer))


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another"}, "aud"),
        ({"aud": ["another", "third"]}, "aud"),
        ({"aud": ["another", CLIENT]}, "azp"),
        ({"iss": "https://id.example.net"}, "iss"),
        ({"exp": 1_700_000_000}, "expired"),
        ({"exp": "soon"}, "exp"),
        ({"iat": 9_000_000_000}, "future"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in(make, provider, caplog, claims, why):
    """The page has one sentence, and the log names the claim."""
    provider.claims |= claims
    client = make()
    answer = sign_in(client, provider)

    assert 401 == answer.status_code
    assert "cannot be trusted" in sentence(answer)
    assert why in caplog.text
    assert "postbayes_session" not in client.cookies
    assert {"provider": 1.0} == refusals(client)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_that_anybody_can_sign(make, provider, algorithm):
    """Unsigned tokens, and those signed with the public key as a secret, fail."""
    provider.header = {"alg": algorithm, "kid": "one"}
    if algorithm == "HS256":
        secret = provider.key.as_pem(private=False)
        provider.signed = lambda claims: forged(claims, secret)
    answer = sign_in(make(), provider)

    assert "cannot be trusted" in sentence(answer)


def forged(claims, secret):
    """Return a token that is signed by a public key as a shared secret."""
    import hmac  # noqa: PLC0415

    head, body = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"alg": "HS256", "kid": "one"}, claims)
    )
    signed = hmac.digest(secret, head + b"." + body, "sha256")
    tail = base64.urlsafe_b64encode(signed).rstrip(b"=")
    return b".".join([head, body, tail]).decode()


def test_a_token_of_another_key(make, provider):
    """The other key has the same name."""
    other = RSAKey.generate_key(2048, {"kid": "one"})
    provider.signed = lambda claims: jwt.encode(provider.header, claims, other)

    assert "cannot be trusted" in sentence(sign_in(make(), provider))


def test_the_provider_has_signed_nobody_in(make, provider):
    """The page shows the provider's reason as text."""
    client = make()
    back = provider.authorize(begin(client)) | {"error": "<b>denied"}
    del back["code"]
    answer = finish(client, back)

    assert 401 == answer.status_code
    assert "<b>denied" not in answer.text
    assert "has not signed you in: <b>denied" in sentence(answer)


def test_the_log_has_what_a_provider_says_about_an_error(make, provider, caplog):
    """On both ways: through the browser, and about a code."""
    client = make()
    back = provider.authorize(begin(client)) | {
        "error": "invalid_request",
        "error_description": "a pushed request is required",
    }
    del back["code"]
    finish(client, back)
    said = {"error": "invalid_grant", "error_description": "the code has expired"}
    provider.said["/realm/token"] = 400, said
    sign_in(client, provider)

    assert "signed you in: invalid_request: a pushed request is required" in caplog.text
    assert "answered 'invalid_grant': the code has expired" in caplog.text


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client"])
def test_a_client_that_the_provider_does_not_accept(make, provider, caplog, error):
    """Nobody can sign in: the log names the settings, and the page blames nobody."""
    said = {"error": error, "error_description": "the secret has expired"}
    provider.said["/realm/token"] = 401, said
    answer = sign_in(make(), provider)

    assert 503 == answer.status_code
    assert "nobody can sign in at 127.0.0.1" in sentence(answer)
    assert f"answered '{error}' the secret has expired: check" in caplog.text
    assert "POSTBAYES_OIDC_CLIENT_SECRET_FILE" in caplog.text


def test_strangers_fill_no_log(make, provider, caplog):
    """A refusal that they repeat is logged once a minute, and does not hide others."""
    client = make()
    for number in range(5):
        finish(client, {"code": str(number), "state": ""})
        back = provider.authorize(begin(client)) | {"error": f"error{number}"}
        del back["code"]
        finish(client, back)
    provider.claims["email"] = "eve@example.org"
    sign_in(client, provider)

    assert 3 == len([line for line in caplog.messages if "was refused: " in line])
    assert "'eve@example.org'" in caplog.messages[-1]
    assert {"provider": 11.0} == refusals(client)


def test_the_answer_of_another_provider(make, provider):
    """The issuer in the answer is checked (RFC 9207)."""
    client = make()
    answer = provider.authorize(begin(client))

    assert 401 == finish(client, answer | {"iss": "https://x"}).status_code
    answer = provider.authorize(begin(client))
    assert 303 == finish(client, answer | {"iss": provider.issuer}).status_code


def test_a_code_counts_once(make, provider):
    """The provider refuses the second use, and the page has a sentence."""
    client = make()
    answer = provider.authorize(begin(client))
    kept = client.cookies["postbayes_sign_in"]
    finish(client, answer)
    client.cookies["postbayes_sign_in"] = kept
    again = finish(client, answer)

    assert 401 == again.status_code
    assert "cannot be trusted" in sentence(again)


@pytest.mark.parametrize("said", [(403, b"<html>"), (413, {}), (429, b"[]")])
def test_a_refused_code_keeps_nobody_else_out(make, provider, said):
    """Anybody can send a code that the provider refuses, in one way or another."""
    client = make()
    provider.said["/realm/token"] = said
    refused = sign_in(client, provider)
    del provider.said["/realm/token"]

    assert 401 == refused.status_code
    assert 303 == sign_in(client, provider).status_code


CONFIGURATION = "/realm/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (CONFIGURATION, (503, {})),
        (CONFIGURATION, (200, b"<html>")),
        (CONFIGURATION, (200, b"[" * 200_000)),
        (CONFIGURATION, (200, b"[]")),
        (CONFIGURATION, (200, b" " * 300_000)),
        (CONFIGURATION, (302, {})),
        (CONFIGURATION, (200, {"issuer": "https://another.example"})),
        ("/realm/token", (500, {})),
        ("/realm/keys", (404, {})),
    ],
)
def test_a_provider_that_does_not_answer_as_one(make, provider, caplog, path, said):
    """The page has a sentence, and the log another one."""
    provider.said[path] = said
    client = make()
    answer = client.get("/ui/sign-in/oidc")
    if path != CONFIGURATION:
        answer = finish(client, provider.authorize(answer.headers["location"]))

    assert 503 == answer.status_code
    assert "nobody can sign in at 127.0.0.1 at the moment" in sentence(answer)
    assert "nobody can sign in at " in caplog.text


@pytest.mark.parametrize("address", ["http://id.example.org/token", 7, None])
def test_an_address_that_anybody_can_read_along(make, provider, address):
    """Secrets are sent only over https, and to an address."""
    provider.metadata["token_endpoint"] = address
    answer = make().get("/ui/sign-in/oidc")

    assert 503 == answer.status_code


@pytest.mark.parametrize(
    "other",
    [
        {"kty": "EC", "crv": "of tomorrow", "x": "AA", "y": "AA"},
        {"kty": "OKP", "crv": "Ed25519", "x": "AA"},
        {"kty": "of tomorrow"},
        {},
    ],
)
def test_a_key_that_is_not_understood_is_ignored(make, provider, other):
    """A provider may publish one for others, and signs with a known one."""
    keys = [other | {"kid": "two"}, provider.key.as_dict(private=False)]
    provider.said["/realm/keys"] = 200, {"keys": keys}

    assert 303 == sign_in(make(), provider).status_code


@pytest.mark.parametrize("header", [{"alg": "RS256"}, {"alg": "RS256", "kid": "one"}])
@pytest.mark.parametrize("names", [("one", "one"), (None, None), ("old", "one")])
@pytest.mark.parametrize("other", ["RSA", "EC", "enc"])
def test_a_token_of_which_several_keys_may_be(make, provider, header, names, other):
    """An old key, one of another kind, or one for encryption comes before it."""
    more = {"use": "enc"} if other == "enc" else {}
    kind = ECKey if other == "EC" else RSAKey
    wrong = kind.generate_key("P-256" if other == "EC" else 2048, more)
    keys = [
        {**each.as_dict(private=False), "kid": name}
        for each, name in zip((wrong, provider.key), names, strict=True)
    ]
    keys = [{n: v for n, v in each.items() if v is not None} for each in keys]
    provider.header = header
    provider.said["/realm/keys"] = 200, {"keys": keys}

    assert 303 == sign_in(make(), provider).status_code


def test_a_token_with_the_certificates_of_its_key(make, provider):
    """Two certificates in a header take some kilobytes."""
    provider.signed = lambda claims: jwt.encode(
        {"alg": "RS256", "kid": "one", "x5c": ["A" * 1600] * 2},
        claims,
        provider.key,
        registry=large_headers(),
    )

    assert 303 == sign_in(make(), provider).status_code


def large_headers():
    """Return a registry whose headers may be large."""
    registry = JWSRegistry()
    registry.max_header_length = 8192
    return registry


def test_a_provider_of_ed25519_is_no_reason_for_a_warning(make, provider, caplog):
    """Most name the algorithm `EdDSA`, which RFC 9864 has deprecated."""
    provider.key = OKPKey.generate_key("Ed25519", {"kid": "one"})
    provider.header = {"alg": "EdDSA", "kid": "one"}
    provider.signed = lambda claims: jwt.encode(
        provider.header, claims, provider.key, algorithms=["EdDSA"]
    )
    client = make()
    with warnings.catch_warnings():
        # As pytest does not show each again.
        warnings.simplefilter("always")
        keep_log(Settings())
        try:
            status = sign_in(client, provider).status_code
        finally:
            logging.captureWarnings(False)

    assert 303 == status
    assert "EdDSA" not in caplog.text


def test_a_token_of_no_end(make, provider):
    """A header nested without end is refused like any other that is none."""
    head = base64.urlsafe_b64encode(b"[" * 50_000).decode()
    provider.signed = lambda _: f"{head}.e30.e30"

    assert "cannot be trusted" in sentence(sign_in(make(), provider))


def test_keys_that_are_none(make, provider):
    """Without valid keys, no token can be checked."""
    provider.said["/realm/keys"] = 200, {"keys": [{"kty": "RSA", "n": "!"}]}

    assert "cannot be trusted" in sentence(sign_in(make(), provider))


def test_a_provider_that_is_away(make, provider, monkeypatch):
    """No client waits for it a second time, and it is asked again later."""
    client = make()
    app = client.app.state.application
    later = [0.0]
    monkeypatch.setattr(app.provider, "_failures", Failures(lambda: later[0]))
    asked, ask = [], openid.ask

    def away(method, url, **given):
        asked.append(url)
        return ask(method, "http://127.0.0.1:1/", **given)

    monkeypatch.setattr(openid, "ask", away)
    answers = [client.get("/ui/sign-in/oidc") for _ in range(3)]
    monkeypatch.setattr(openid, "ask", ask)
    later[0] = 60.0

    assert [503] * 3 == [each.status_code for each in answers]
    assert 1 == len(asked)
    assert "try again in a minute" in sentence(answers[2])
    assert 303 == sign_in(client, provider).status_code


def test_a_slow_provider_is_not_waited_for(make, provider, monkeypatch):
    """Silence and an endless answer are both cut off."""
    monkeypatch.setattr(openid, "TIMEOUT", 0.0)
    answer = make().get("/ui/sign-in/oidc")

    assert 503 == answer.status_code


def test_too_many_come_back(make, provider):
    """The limit counts per address, before the provider is asked."""
    client = make()
    statuses = [finish(client, {"state": "x"}).status_code for _ in range(31)]

    assert [401] * 30 + [429] == statuses
    assert {"provider": 30.0, "rate": 1.0} == refusals(client)
    assert [] == provider.asked


def test_without_a_provider_there_is_no_button(make):
    """Its page does not exist either."""
    client = make(oidc_issuer=None)

    shown = client.get("/ui/sign-in").text

    assert "/ui/sign-in/oidc" not in shown
    # Nobody has signed in, so there is no page to go to.
    assert [] == re.findall(r'<li><a href="/ui', shown)
    assert 404 == client.get("/ui/sign-in/oidc").status_code
    assert 404 == client.get("/ui/sign-in/oidc/callback").status_code


@pytest.mark.parametrize("there", ["https://example.net/", "//example.net/ui/"])
def test_nobody_is_sent_elsewhere_afterwards(make, provider, there):
    """The rule is the same as for passwords."""
    client = make()
    answer = finish(client, provider.authorize(begin(client, there)))

    assert "/ui/overview" == answer.headers["location"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"oidc_issuer": "http://id.example.org"}, "https address"),
        ({"oidc_issuer": "id.example.org"}, "https address"),
        ({"oidc_issuer": "https://[::1"}, "https address"),
        ({"oidc_client_id": None}, "POSTBAYES_OIDC_CLIENT_ID"),
        ({"oidc_client_secret_file": None}, "POSTBAYES_OIDC_CLIENT_SECRET_FILE"),
    ],
)
def test_settings_that_cannot_be_used_end_the_start(given, wrong, words):
    """The error is a sentence."""
    with pytest.raises(InvalidSetting, match=words):
        oidc_secret(Settings(**{**given, **wrong}))


def test_a_secret_that_is_no_text(given):
    """The secret is compared with the text that the provider shows."""
    given["oidc_client_secret_file"].write_bytes(b"\xff" * 20)
    with pytest.raises(InvalidSetting, match="is not text"):
        oidc_secret(Settings(**given))


def test_the_provider_decides_how_long_its_secret_is(given):
    """A short one is taken, and only an empty file is refused."""
    file = given["oidc_client_secret_file"]
    file.write_bytes(b"s3cret\n")
    assert "s3cret" == oidc_secret(Settings(**given))

    file.write_bytes(b"\n")
    with pytest.raises(InvalidSetting, match=r"0 bytes; a secret needs at least 1$"):
        oidc_secret(Settings(**given))


@pytest.mark.parametrize("name", ["authlib", "joserfc"])
def test_without_the_extra_the_start_says_so(given, monkeypatch, name):
    """The error names the command that installs it."""
    monkeypatch.setattr(
        openid, "find_spec", lambda asked: None if asked == name else True
    )
    with pytest.raises(InvalidSetting, match=r"'\.\[oidc\]'"):
        oidc_secret(Settings(**given))
