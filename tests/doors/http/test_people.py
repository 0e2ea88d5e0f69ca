"""Pages of people and keys: sign-in, sign-out, and what each of them may do."""

from __future__ import annotations

import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from app.doors.http.app import create_app
from app.doors.http.page.people import safe
from app.services.access import made_key
from app.services.application import Application
from app.settings import Settings
from tests.support.databases import sqlite_url
from tests.support.messages import spam

pytestmark = pytest.mark.usefixtures("hashed_at_once")
PASSWORD = "correct horse"  # noqa: S105  of a test
STRANGER = ("198.51.100.9", 50000)
CSRF = re.compile(r'name="csrf" value="([^"]*)"')
ACT = re.compile(r'data-is="Event">([^<]*)')
KEY = re.compile(r"pb_[A-Za-z0-9_-]{43}")


@pytest.fixture
def make(tmp_path):
    """A function that serves a database, and makes clients of it."""
    url = sqlite_url(tmp_path)
    opened = []

    def serve(**settings):
        app = Application(Settings(database_url=url, **settings))
        people = (("anna", "admin", None), ("tim", "teacher", None))
        for name, role, profile in (*people, ("rita", "reader", "rita")):
            app.add_person(
                name, role=role, password=PASSWORD, profile=profile, actor="test"
            )
        served = create_app(app)
        local = TestClient(served, client=("127.0.0.1", 50000))
        opened.append(local.__enter__())

        def client(address=STRANGER, **given):
            return TestClient(served, client=address, follow_redirects=False, **given)

        return client

    yield serve
    for each in opened:
        each.__exit__(None, None, None)


def sign_in(client, name, password=PASSWORD, **more):
    """Post the form of the page, and return the answer."""
    return client.post("/ui/sign-in", data={"name": name, "password": password, **more})


def require_learned(client):
    """Wait until the counts have what was taught.

    The writer logs a feedback before it learns, but perhaps after the answer.
    """
    assert client.app.state.application.live.get("default").revision


def token(client, page):
    """Return what the forms of a page post."""
    return {"csrf": unescape(CSRF.search(client.get(page).text)[1])}


def test_a_page_sends_a_stranger_to_sign_in_and_back(make):
    """The JSON answers 401; the session is a cookie that no script can read."""
    client = make()()
    first = client.get("/ui/history", params={"search": "a&b"})
    form = client.get(first.headers["location"])
    there = unescape(re.search(r'name="next" value="([^"]*)"', form.text)[1])
    answer = sign_in(client, "anna", next=there)
    cookie = answer.headers["set-cookie"]

    assert (303, 200, 303) == (first.status_code, form.status_code, answer.status_code)
    assert "/ui/history?search=a%26b" == answer.headers["location"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert 200 == client.get(answer.headers["location"]).status_code
    assert 200 == client.get("/history").status_code


@pytest.mark.parametrize(("scheme", "secure"), [("https", True), ("http", False)])
def test_the_cookie_of_https_is_for_https(make, scheme, secure):
    """The rule also holds behind a proxy, whether or not it terminates TLS."""
    client = make(proxies=("10.0.0.1",))(("10.0.0.1", 1))
    client.headers |= {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": scheme}

    assert secure == ("Secure" in sign_in(client, "anna").headers["set-cookie"])


def test_a_wrong_password_is_told_and_slowed(make):
    """The page repeats the name, but not the password."""
    client = make()()
    answers = [sign_in(client, "anna", "wr<o>ng") for _ in range(6)]

    assert [401] * 5 + [429] == [each.status_code for each in answers]
    assert "The name or the password is wrong" in answers[0].text
    assert 'value="anna"' in answers[0].text
    assert "ng" not in re.findall(r'type="password"[^>]*', answers[0].text)[0][20:]
    assert "set-cookie" not in answers[0].headers
    assert int(answers[5].headers["retry-after"]) > 0
    assert int(answers[5].headers["content-length"]) == len(answers[5].content) > 0


def test_whoever_signs_out_is_out(make):
    """The browser deletes the cookie."""
    client = make()()
    sign_in(client, "anna")
    before = client.get("/profiles").status_code
    client.post("/ui/sign-out", data=token(client, "/ui/keys"))

    assert (200, 401) == (before, client.get("/profiles").status_code)


def test_a_role_is_a_set_of_rights(make):
    """The rights are the same on the pages and over HTTP."""
    clients = make()
    found = {}
    for name in ("anna", "tim"):
        client = clients()
        sign_in(client, name)
        found[name] = [
            client.get("/ui/history").status_code,
            client.post(
                "/feedback?label=spam",
                content=spam(1),
                headers={"Content-Type": "message/rfc822"},
            ).status_code,
            client.get("/ui/keys").status_code,
            client.get("/events").status_code,
        ]

    assert {"anna": [200, 200, 200, 200], "tim": [200, 200, 403, 403]} == found


def test_a_page_has_the_buttons_of_a_role_alone(make):
    """A reader has none, a teacher those that teach, an administrator also the undo."""
    clients = make()
    app = clients().app.state.application
    app.add_person("rob", role="reader", password=PASSWORD, profile=None, actor="test")
    found = {}
    for name in ("anna", "tim", "rob"):
        client = clients()
        sign_in(client, name)
        client.post(
            "/classify", content=spam(9), headers={"Content-Type": "message/rfc822"}
        ).raise_for_status()
        app.recent.flush(app.engine)
        mail = {"message": (None, spam(9).decode())}
        mail |= {"csrf": (None, token(client, "/ui/message")["csrf"])}
        pages = [
            client.get("/ui/history").text,
            client.post("/ui/message", files=mail).text,
            client.get("/ui/ledger").text,
        ]
        assert "WINNER" in pages[0]
        assert "WINNER" in pages[1]
        found[name] = [
            what in page
            for what, page in zip(
                ('name="label" value="spam"', "Teach as spam", "Dry run"),
                pages,
                strict=True,
            )
        ]

    assert {
        "anna": [True, True, True],
        "tim": [True, True, False],
        "rob": [False, False, False],
    } == found


def hidden(answer):
    """Return the hidden fields of a page."""
    found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', answer.text)
    return {unescape(name): unescape(value) for name, value in found}


def test_a_form_after_a_session_is_kept_until_its_sender_is_back(make):
    """Whoever signs in sees what it holds, and sends it again with one button."""
    client = make()()
    sign_in(client, "anna")
    form = token(client, "/ui/lists") | {"verb": "deny", "entry": "ann@example.org"}
    form |= {"note": "of the <club> and 'others'", "nats": "4"}
    client.cookies.clear()
    page = client.post("/ui/lists?profile=default", data=form)
    wrong = sign_in(client, "anna", "wrong", **hidden(page))
    back = sign_in(client, "anna", **hidden(wrong))
    before = client.get("/profiles/default/lists").json()["entries"]
    again = client.post("/ui/lists?profile=default", data=hidden(back))

    assert [401, 401, 200] == [each.status_code for each in (page, wrong, back)]
    assert "Nothing was changed" in page.text
    assert "<club>" not in page.text + back.text
    assert "<dd><bdi>ann@example.org</bdi></dd>" in back.text
    assert 'action="/ui/lists?profile=default"' in back.text
    assert [] == before
    assert 303 == again.status_code
    [entry] = client.get("/profiles/default/lists").json()["entries"]
    assert ("ann@example.org", 4) == (entry["entry"], entry["nats"])


def test_no_password_is_kept_while_somebody_signs_in(make):
    """The page to send the form again asks for it."""
    client = make()()
    sign_in(client, "anna")
    form = token(client, "/ui/people") | {"name": "eve", "role": "reader"}
    client.cookies.clear()
    page = client.post("/ui/people", data=form | {"password": "a long horse"})
    back = sign_in(client, "anna", **hidden(page))
    added = client.post("/ui/people", data=hidden(back) | {"password": PASSWORD})

    assert "a long horse" not in page.text + back.text
    assert 'type="password" name="password" required' in back.text
    assert 303 == added.status_code


def test_a_pasted_message_is_kept_and_a_file_is_not(make):
    """A file is still there, and a text may be nowhere else."""
    client = make()()
    sign_in(client, "anna")
    client.cookies.clear()
    page = client.post(
        "/ui/message", files={"message": (None, "Subject: x"), "file": b"y" * 99}
    )
    long = client.post("/ui/message", files={"message": (None, "z" * 60_000)})

    assert "Subject: x" == hidden(page)["kept-message"]
    assert "kept-file" not in hidden(page)
    assert {"next"} == {*hidden(long)}


@pytest.mark.parametrize(
    "to", ["https://example.net/ui/", "//example.net", "/classify", "/ui/\\x", ""]
)
def test_a_kept_form_goes_to_pages_of_this_service_alone(make, to):
    """An address of another site is no address of a form."""
    answer = sign_in(make()(), "anna", to=to, **{"kept-note": "x"})

    assert (303, "/ui/overview") == (answer.status_code, answer.headers["location"])


def test_a_request_without_a_session_leads_to_sign_in_and_back_to_its_page(make):
    """A form that has no input leads back to its page too."""
    client = make()()
    answer = client.post(
        f"/ui/history/{'ab' * 16}/teach",
        data={"label": "spam"},
        headers={"Referer": "http://testserver/ui/review?profile=x"},
    )

    assert 401 == answer.status_code
    assert "/ui/review?profile=x" == hidden(answer)["next"]
    assert "Nothing was changed" not in client.get("/ui/sign-in").text


def test_strangers_see_no_path_of_a_database_that_is_away(make, tmp_path):
    """The reason is for those who may read all profiles, and for the log."""
    clients = make()
    anna, stranger, local = clients(), clients(), clients(("127.0.0.1", 1))
    sign_in(anna, "anna")
    [path] = tmp_path.glob("*.db")
    path.rename(tmp_path / "away")
    asked = sign_in(stranger, "tim")
    seen = [each.get("/ui/history") for each in (anna, local)]
    (tmp_path / "away").rename(path)

    assert [503] * 3 == [each.status_code for each in (asked, *seen)]
    assert "The database cannot be used at the moment" in asked.text
    assert str(tmp_path) not in asked.text
    assert all(path.name in each.text for each in seen)


def test_the_page_of_a_problem_leads_back_to_the_form(make):
    """It leads to pages of this service alone, and says in words what is wrong."""
    client = make()()
    sign_in(client, "anna")
    form = {"name": "mx1", "csrf": "old"}
    links = []
    for came in ("http://testserver/ui/keys?x=1", "https://example.net/a", "http://["):
        answer = client.post("/ui/keys", data=form, headers={"Referer": came})
        assert 403 == answer.status_code
        assert "<h1>Not allowed</h1>" in answer.text
        links += re.findall('class="button" href="([^"]*)"', answer.text)

    assert ["/ui/keys?x=1", "/ui/overview", "/ui/overview"] == links


def test_the_owner_of_a_mailbox_sees_that_alone(make):
    """Requests that name no profile use that of the mailbox."""
    clients = make()
    app = clients().app.state.application
    rita = clients()
    sign_in(rita, "rita")
    missing = rita.get("/ui/history").status_code
    others = [
        rita.get(path).status_code
        for path in (
            "/ui/history?profile=default",
            "/ui/site?profile=default",
            "/metrics",
            "/settings",
        )
    ]

    assert "rita" not in app.live
    assert 404 == missing
    assert [403] * 4 == others


def test_the_ledger_names_the_person(make):
    """The source is `user:` and the name."""
    client = make()()
    sign_in(client, "tim")
    client.post(
        "/feedback?label=spam&source=another",
        content=spam(1),
        headers={"Content-Type": "message/rfc822"},
    ).raise_for_status()

    assert ["user:tim"] == [
        row["source"] for row in client.get("/ledger").json()["rows"]
    ]


def test_a_key_is_made_and_revoked_on_its_page(make):
    """The key is shown once, and not when the page is loaded again."""
    clients = make()
    client = clients()
    sign_in(client, "anna")
    form = token(client, "/ui/keys") | {
        "name": "mx1",
        "right-read": "1",
        "profiles": "default, other",
        "days": "30",
    }
    made = client.post("/ui/keys", data=form)
    key = KEY.search(made.text)[0]
    keyed = clients()
    keyed.headers["Authorization"] = f"Bearer {key}"
    used = [keyed.get(path).status_code for path in ("/ledger", "/words/x", "/events")]
    page = client.get("/ui/keys").text
    gone = client.post(
        "/ui/keys/revoke", data=token(client, "/ui/keys") | {"name": "mx1"}
    )
    refused = keyed.get("/ledger").status_code

    assert (200, 303) == (made.status_code, gone.status_code)
    assert [200, 200, 403] == used
    assert KEY.search(page) is None
    assert "profiles default, other" in page
    assert 401 == refused
    assert "mx1 is revoked" in client.get(gone.headers["location"]).text


@pytest.mark.parametrize(
    ("sentence", "fields"),
    [
        ("A key must have a name", {"name": "a b", "right-read": "1"}),
        ("got none", {"name": "x"}),
        ("a number of days such as", {"name": "x", "right-read": "1", "days": "<b>"}),
        ("100 years", {"name": "x", "right-read": "1", "days": "40000"}),
        ("cannot give the right replicate", {"name": "x", "right-replicate": "1"}),
        ("is not an address", {"name": "x", "right-read": "1", "networks": "<i>"}),
    ],
)
def test_a_key_that_cannot_be_made_is_a_page_that_says_why(make, sentence, fields):
    """The page has an escaped sentence."""
    client = make()()
    sign_in(client, "anna")
    answer = client.post("/ui/keys", data=token(client, "/ui/keys") | fields)

    assert 400 < answer.status_code < 500
    assert sentence in unescape(answer.text)
    assert "<b>" not in answer.text.split("<main")[1].split("Profile <b>")[0]


def test_people_are_added_and_removed_on_their_page(make):
    """A removed person is signed out at once."""
    clients = make()
    client, tim = clients(), clients()
    sign_in(client, "anna")
    sign_in(tim, "tim")
    new = {"name": "eve", "role": "reader", "password": PASSWORD}
    added = client.post("/ui/people", data=token(client, "/ui/people") | new)
    shown = client.get(added.headers["location"]).text
    removed = client.post(
        "/ui/people/remove", data=token(client, "/ui/people") | {"name": "tim"}
    )

    assert (303, 303) == (added.status_code, removed.status_code)
    assert "They can sign in now." in shown
    assert 303 == sign_in(clients(), "eve").status_code
    assert 401 == tim.get("/profiles").status_code


def test_a_link_puts_no_words_into_a_page(make):
    """The sentences of a page do not come from its address."""
    client = make()()
    sign_in(client, "anna")
    words = "your account, to be confirmed at example.net"
    pages = [
        client.get(path, params={name: words})
        for path, name in (("/ui/keys", "revoked"), ("/ui/people", "done"))
    ]

    assert [200, 200] == [each.status_code for each in pages]
    assert not any("example.net" in each.text for each in pages)


@pytest.mark.parametrize(
    "path",
    [
        *("/ui/keys", "/ui/keys/revoke", "/ui/people", "/ui/people/remove"),
        *("/ui/people/password", "/ui/password"),
    ],
)
def test_a_form_of_another_site_changes_nothing(make, path):
    """The token is missing, of another browser, or of another person."""
    clients = make()
    client, other, local = clients(), clients(), clients(("127.0.0.1", 1))
    sign_in(client, "anna")
    sign_in(other, "anna")
    fields = {"name": "x", "right-read": "1", "role": "reader", "password": PASSWORD}
    forms = [{}, {"csrf": ""}, token(other, "/ui/keys"), token(local, "/ui/keys")]
    answers = [client.post(path, data=fields | form) for form in forms]
    crossed = client.post(
        path,
        data=fields | token(client, "/ui/keys"),
        headers={"Origin": "https://example.net"},
    )

    assert [403] * 5 == [each.status_code for each in (*answers, crossed)]
    assert "reload the page" in answers[0].text


def test_a_client_of_this_machine_has_forms_of_its_own(make):
    """The tokens belong to the browser, because nobody has signed in."""
    client = make()(("127.0.0.1", 1))
    form = token(client, "/ui/keys") | {"name": "mx1", "right-read": "1"}

    assert 200 == client.post("/ui/keys", data=form).status_code
    assert 403 == client.post("/ui/keys", data=form | {"csrf": "x"}).status_code


def test_a_proxy_says_who_has_signed_in(make):
    """Only a listed proxy is believed, and only about known people."""
    clients = make(sign_in_header="Remote-User", proxies=("127.0.0.1",))
    asked = {
        (host, name): clients((host, 1)).get("/keys", headers={"remote-user": name})
        for host, name in (
            ("127.0.0.1", "anna"),
            ("127.0.0.1", "tim"),
            ("127.0.0.1", "nobody"),
            ("192.0.2.1", "anna"),
        )
    }

    assert [200, 403, 403, 401] == [each.status_code for each in asked.values()]
    assert "postbayes people add" in asked["127.0.0.1", "nobody"].json()["detail"]


def test_a_stranger_whom_a_proxy_signed_in_is_not_asked_for_a_password(make):
    """The password of somebody else would lead back to the same form."""
    client = make(sign_in_header="Remote-User", proxies=("127.0.0.1",))(
        ("127.0.0.1", 1)
    )
    answer = client.get("/ui/overview", headers={"remote-user": "nobody"})

    assert 403 == answer.status_code
    assert "A proxy signed in &#39;nobody&#39;, who is not among" in answer.text


def test_only_who_signed_in_here_can_sign_out(make):
    """A proxy passes the name of its person with the next request as well."""
    clients = make(sign_in_header="Remote-User", proxies=("127.0.0.1",))
    here, proxied = clients(), clients(("127.0.0.1", 1))
    sign_in(here, "anna")
    proxied.headers["remote-user"] = "anna"
    pages = [each.get("/ui/overview").text for each in (here, proxied)]

    assert [True, True] == ['href="/ui/password"' in page for page in pages]
    assert [True, False] == ["Sign out" in page for page in pages]


def test_a_name_beside_that_of_the_proxy_signs_nobody_in(make):
    """It was sent by the client, and the proxy added its own instead of replacing it."""
    client = make(sign_in_header="Remote-User", proxies=("127.0.0.1",))(
        ("127.0.0.1", 1)
    )
    both = [("remote-user", "anna"), ("remote-user", "tim")]
    answers = [client.get("/keys", headers=given) for given in (both, both[:1])]

    assert [403, 200] == [each.status_code for each in answers]
    assert "anna, tim" in answers[0].json()["detail"]


@pytest.mark.parametrize(
    "there",
    ["https://example.net", "//example.net/ui/", "/ui/\\x", "/ui/\n", "/", "ui/x"],
)
def test_nobody_is_sent_to_another_site(there):
    """After sign-in, a person is sent only to pages of this service."""
    assert "/ui/overview" == safe(there)


def test_sign_ins_are_on_record(make):
    """Failed attempts are not recorded as events."""
    client = make()()
    sign_in(client, "anna", "wrong")
    sign_in(client, "anna")
    found = [
        (each["who"], each["act"]) for each in client.get("/events").json()["events"]
    ]

    assert ("user:anna", "signed in") == found[0]
    assert 4 == len(found)


def test_events_have_a_page(make):
    """They are listed newest first, to those who manage all profiles."""
    clients = make()
    anna, tim = clients(), clients()
    sign_in(tim, "tim")
    sign_in(anna, "anna")
    anna.patch("/profiles/default", json={"ham_cost": 20}).raise_for_status()
    first = anna.get("/ui/events?limit=2").text
    older = re.search(r'href="(/ui/events\?before=\d+)"', first)[1]
    second = anna.get(f"{older}&limit=2").text

    assert ["policy changed", "signed in"] == ACT.findall(first)
    assert "user:anna" in first
    assert '{"ham_cost": 20.0}' in unescape(first)
    assert ["signed in", "person added"] == ACT.findall(second)
    assert 403 == tim.get("/ui/events").status_code


def test_the_rights_of_a_key_are_a_list_on_the_page_of_events(make):
    """Not the JSON of one."""
    anna = make()()
    sign_in(anna, "anna")
    key = {"name": "mx1", "rights": ["classify", "teach"]}
    anna.post("/keys", json=key).raise_for_status()

    assert "rights <bdi>classify, teach</bdi>" in anna.get("/ui/events").text


def test_wrong_sign_ins_are_counted(make):
    """They are counted together with refused requests."""
    clients = make()
    client = clients()
    for _ in range(6):
        sign_in(client, "anna", "wrong")
    sign_in(clients(("192.0.2.1", 1)), "eve")
    figures = clients(("127.0.0.1", 1)).get("/metrics").text

    assert 'postbayes_sign_in_refused_total{reason="password"} 6.0' in figures
    assert 'postbayes_sign_in_refused_total{reason="rate"} 1.0' in figures


def test_people_over_http(make):
    """The answers contain no password."""
    clients = make()
    client, tim = clients(), clients()
    sign_in(client, "anna")
    sign_in(tim, "tim")
    added = client.post(
        "/people", json={"name": "eve", "role": "reader", "password": PASSWORD}
    )
    proxied = client.post("/people", json={"name": "ida", "role": "teacher"})
    listed = client.get("/people")
    removed = client.delete("/people/tim")

    assert [200, 200, 200, 200] == [
        each.status_code for each in (added, proxied, listed, removed)
    ]
    assert [
        ("anna", "admin", None, True),
        ("eve", "reader", None, True),
        ("ida", "teacher", None, False),
        ("rita", "reader", "rita", True),
        ("tim", "teacher", None, True),
    ] == [
        (each["name"], each["role"], each["profile"], each["has_password"])
        for each in listed.json()["people"]
    ]
    assert "argon2" not in added.text + listed.text
    assert ["anna", "eve", "ida", "rita"] == [
        each["name"] for each in removed.json()["people"]
    ]
    assert 303 == sign_in(clients(), "eve").status_code
    assert 401 == tim.get("/profiles").status_code


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (422, {"role": "king"}),
        (422, {"password": "short"}),
        (422, {"password": None, "profile": "a b"}),
        (422, {"name": "a b"}),
        (409, {"name": "tim"}),
        (400, {"colour": "red"}),
    ],
)
def test_a_person_who_cannot_be_added(make, status, fields):
    """The answer is a problem document."""
    client = make()()
    sign_in(client, "anna")
    person = {"name": "eve", "role": "reader", "password": PASSWORD}
    answer = client.post("/people", json=person | fields)

    assert status == answer.status_code
    assert answer.json()["detail"]


def test_somebody_gets_another_password(make):
    """A manager sets it, on the page or over HTTP; the old sessions end."""
    clients = make()
    anna, tim, rita = clients(), clients(), clients()
    sign_in(anna, "anna")
    sign_in(tim, "tim")
    sign_in(rita, "rita")
    new = {"password": "another horse"}
    refused = tim.put("/people/anna/password", json=new)
    changed = anna.post(
        "/ui/people/password", data=token(anna, "/ui/people") | new | {"name": "tim"}
    )
    shown = anna.get(changed.headers["location"]).text
    answers = [
        anna.put("/people/rita/password", json=new),
        anna.put("/people/nobody/password", json=new),
        anna.put("/people/rita/password", json={"password": "short"}),
    ]

    assert (403, 303) == (refused.status_code, changed.status_code)
    assert "their sessions have ended" in shown
    assert [200, 404, 422] == [each.status_code for each in answers]
    assert "argon2" not in answers[0].text
    assert [401, 401] == [each.get("/ledger").status_code for each in (tim, rita)]
    assert [303, 303] == [
        sign_in(clients(), name, "another horse").status_code
        for name in ("tim", "rita")
    ]
    assert ("user:anna", "password changed", "rita") in [
        (each["who"], each["act"], each["object"])
        for each in anna.get("/events").json()["events"]
    ]


def test_whoever_manages_takes_over_nobody_with_more_rights(make):
    """A key that only manages cannot sign in as an admin, who also teaches."""
    clients = make()
    app = clients().app.state.application
    text, key = made_key("manager", ["manage"])
    app.add_key(key, actor="test")
    answer = clients(headers={"X-API-Key": text}).put(
        "/people/anna/password", json={"password": "another horse"}
    )

    assert 403 == answer.status_code
    assert "cannot give the right" in answer.json()["detail"]
    assert 303 == sign_in(clients(), "anna").status_code


def test_people_are_for_those_who_manage_all(make):
    """Teachers, limited keys, and keys without the granted right are refused."""
    clients = make()
    tim = clients()
    sign_in(tim, "tim")
    app = tim.app.state.application
    keyed = []
    for name, limits in (("one", {"profiles": ["rita"]}), ("two", {})):
        text, key = made_key(name, ["manage"], **limits)
        app.add_key(key, actor="test")
        keyed.append(clients(headers={"X-API-Key": text}))
    person = {"name": "eve", "role": "reader", "password": PASSWORD}
    answers = [
        tim.get("/people"),
        keyed[0].get("/people"),
        keyed[0].post("/people", json=person),
        keyed[0].delete("/people/tim"),
        keyed[1].post("/people", json=person),
    ]

    assert [403] * 5 == [each.status_code for each in answers]
    assert {"anna", "tim", "rita"} == {*app.keys.people}


def test_people_change_their_own_password(make):
    """The session of the browser that changed it continues, all others end."""
    clients = make()
    tim, other, thief = clients(), clients(), clients()
    sign_in(tim, "tim")
    sign_in(other, "tim")
    thief.cookies.update(tim.cookies)
    form = token(tim, "/ui/password")
    new = {"new": "another horse", "again": "another horse"}
    wrong = [
        tim.post("/ui/password", data=form | given)
        for given in (
            new | {"password": "wrong"},
            new | {"password": PASSWORD, "again": "another hose"},
            {"password": PASSWORD, "new": "short", "again": "short"},
        )
    ]
    changed = tim.post("/ui/password", data=form | new | {"password": PASSWORD})

    assert [401, 422, 422, 200] == [each.status_code for each in (*wrong, changed)]
    assert "The current password is wrong" in wrong[0].text
    assert "The two new passwords differ" in wrong[1].text
    assert "from 8 to 1,024 characters" in wrong[2].text
    assert "Your password is changed." in changed.text
    assert [200, 401, 401] == [
        each.get("/profiles").status_code for each in (tim, other, thief)
    ]
    assert 303 == sign_in(clients(), "tim", "another horse").status_code


def test_an_old_session_is_not_renewed_while_its_password_changes(make):
    """The browser gets one cookie, that of the new session."""
    tim = make()()
    sign_in(tim, "tim")
    sessions = tim.app.state.application.sessions
    form, clock = token(tim, "/ui/password"), sessions.clock
    sessions.clock = lambda: clock() + sessions.idle / 5
    new = {"password": PASSWORD, "new": "another horse", "again": "another horse"}
    changed = tim.post("/ui/password", data=form | new)

    assert "Your password is changed." in changed.text
    assert 1 == len(changed.headers.get_list("set-cookie"))
    assert 200 == tim.get("/profiles").status_code


@pytest.mark.parametrize("headers", [1, 2])
def test_a_session_is_found_beside_other_cookies(make, headers):
    """Also where a proxy leaves them in headers of their own, as HTTP/2 allows."""
    clients = make()
    anna, beside = clients(), clients()
    sign_in(anna, "anna")
    cookies = ["theme=dark", f"postbayes_session={anna.cookies['postbayes_session']}"]
    given = cookies if headers == 2 else ["; ".join(cookies)]
    answer = beside.get("/profiles", headers=[("Cookie", each) for each in given])

    assert 200 == answer.status_code


def test_a_password_is_changed_over_http(make):
    """The answer sets a new session; only a person can do this."""
    clients = make()
    rita, local = clients(), clients(("127.0.0.1", 1))
    sign_in(rita, "rita")
    passwords = {"password": PASSWORD, "new_password": "another horse"}
    answers = [
        rita.post("/password", json=passwords | {"password": "wrong"}),
        rita.post("/password", json=passwords),
        local.post("/password", json=passwords),
    ]

    assert [401, 200, 403] == [each.status_code for each in answers]
    assert ("rita", "reader") == tuple(
        answers[1].json()[each] for each in ("name", "role")
    )
    assert "horse" not in answers[1].text
    assert 404 == rita.get("/profiles/rita").status_code
    assert "does not sign in with a password" in answers[2].json()["detail"]


def test_the_way_to_the_password_is_there_for_people(make):
    """Keys and keyless clients have no password and see no link."""
    clients = make()
    tim, keyed = clients(), clients()
    sign_in(tim, "tim")
    text, key = made_key("mx1", ["read"])
    tim.app.state.application.add_key(key, actor="test")
    keyed.headers["X-API-Key"] = text

    assert 'href="/ui/password"' in tim.get("/ui/history").text
    assert 'name="new"' in tim.get("/ui/password").text
    for without in (keyed, clients(("127.0.0.1", 1))):
        assert "/ui/password" not in without.get("/ui/history").text
        assert 'name="new"' not in without.get("/ui/password").text
    assert "mx1" in keyed.get("/ui/history").text


def places(page):
    """Return the pages that the navigation leads to."""
    navigation = page.split("<nav")[1].split("</nav>")[0]
    return re.findall(r'href="/ui/(\w+)', navigation)


def test_the_navigation_leads_where_a_person_may_go(make):
    """The links are also limited on a page that refuses access."""
    clients = make()
    found = {}
    for name in ("anna", "tim", "rita"):
        client = clients()
        sign_in(client, name)
        found[name] = places(client.get("/ui/history").text)
        assert found[name] == places(client.get("/ui/keys").text)
    local = places(clients(("127.0.0.1", 1)).get("/ui/history").text)
    few = ["overview", "history", "review", "message", "ledger", "words"]
    few += ["lists", "site"]

    assert {"anna": [*few, "keys"], "tim": few, "rita": few} == found
    assert [*few, "keys"] == local


def test_the_line_of_a_verdict_names_who_asked(make, caplog):
    """A keyless client has no name."""
    clients = make()
    tim, local = clients(), clients(("127.0.0.1", 1))
    sign_in(tim, "tim")
    text, key = made_key("mx1", ["classify"])
    tim.app.state.application.add_key(key, actor="test")
    keyed = clients(headers={"X-API-Key": text})
    with caplog.at_level("INFO", logger="app.services.delivery"):
        for client in (keyed, tim, local):
            client.post(
                "/classify",
                content=spam(1),
                headers={"Content-Type": "message/rfc822"},
            ).raise_for_status()
    lines = [line for line in caplog.messages if line.startswith("verdict ")]

    assert [["key:mx1"], ["user:tim"], []] == [
        re.findall(r" by=(\S+)", line) for line in lines
    ]


def test_the_line_of_a_feedback_names_door_and_teacher(make, caplog):
    """Teaching on a page, and forgetting, have a line too."""
    client = make()()
    sign_in(client, "tim")
    with caplog.at_level("INFO", logger="app.services.feedback"):
        taught = client.post(
            "/feedback?label=spam",
            content=spam(1),
            headers={"Content-Type": "message/rfc822"},
        ).json()
        form, page = token(client, "/ui/message"), f"/ui/history/{taught['id']}/teach"
        client.post(page, data=form | {"label": "ham"})
        client.post(page, data=form | {"label": "spam"})
        client.delete(f"/feedback/{taught['id']}").raise_for_status()
        require_learned(client)
    lines = [line for line in caplog.messages if line.startswith("feedback ")]

    assert ["learned", "relabelled", "relabelled", "forgotten"] == [
        re.search(r" outcome=(\w+)", line)[1] for line in lines
    ]
    assert all(" door=http " in line and "source=user:tim" in line for line in lines)
    assert not any(" by=" in line for line in lines)


@pytest.mark.parametrize(
    ("names_sources", "named"),
    [(True, " by=key:mx1 profile=default source=ann "), (False, " source=key:mx1 ")],
)
def test_a_key_is_in_the_line_of_its_feedback(make, caplog, names_sources, named):
    """The key is named even if it teaches in the name of users."""
    clients = make()
    text, key = made_key("mx1", ["teach"], names_sources=names_sources)
    clients().app.state.application.add_key(key, actor="test")
    with caplog.at_level("INFO", logger="app.services.feedback"):
        taught = clients(headers={"X-API-Key": text}).post(
            "/feedback?label=spam&source=ann",
            content=spam(1),
            headers={"Content-Type": "message/rfc822"},
        )
        require_learned(clients())
    [line] = [line for line in caplog.messages if line.startswith("feedback ")]

    assert 200 == taught.status_code
    assert named in line
