"""The base of the pages: static files, security headers, the way from `/`, problems."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from app.doors.http.page import (
    HERE,
    TEMPLATES,
    link,
    page_response,
    sentence,
    static,
)
from tests.support.application import served
from tests.support.messages import spam

POLICY = "Content-Security-Policy"


@pytest.fixture
def client(tmp_path):
    """A client of an empty service."""
    with served(tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The same for tests that do again what another has done."""
    with served(tmp_path_factory.mktemp("shared")) as client:
        yield client


def test_a_browser_is_sent_from_the_root_to_the_pages(shared):
    """People may type only the address of the service."""
    answer = shared.get("/", headers={"Accept": "text/html"}, follow_redirects=False)

    assert (303, "/ui") == (answer.status_code, answer.headers["location"])


def test_a_program_is_told_that_nothing_is_at_the_root(shared):
    """A program gets a problem document."""
    answer = shared.get("/", headers={"Accept": "application/json"})

    assert (404, "application/problem+json") == (
        answer.status_code,
        answer.headers["content-type"],
    )


@pytest.mark.parametrize("name", ["icon.svg", "page.js", "style.css"])
def test_static_files_are_cached_by_what_they_hold(shared, name):
    """An address with the digest is cached for a year, others are checked each time."""
    plain = shared.get(f"/ui/static/{name}")
    dated = shared.get(static(name))
    again = shared.get(
        f"/ui/static/{name}", headers={"If-None-Match": plain.headers["etag"]}
    )

    content = (HERE / "static" / name).read_bytes()
    assert content == plain.content == dated.content
    assert "no-cache" == plain.headers["cache-control"]
    assert "immutable" in dated.headers["cache-control"]
    assert (304, b"") == (again.status_code, again.content)
    assert "nosniff" == plain.headers["x-content-type-options"]
    assert "default-src 'self'" in plain.headers[POLICY]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "path", ["/history", "/keys", "/metrics", "/nothing", "/words/money?unknown=1"]
)
def test_no_cache_keeps_what_a_client_reads(shared, method, path):
    """Nor does the Back button of a browser show it after its reader signed out."""
    headers = shared.request(method, path).headers

    assert ["no-store"] == headers.get_list("cache-control")
    assert ["nosniff"] == headers.get_list("x-content-type-options")


def test_a_missing_page_is_a_page_that_says_so(shared):
    """A browser gets a page, with the path escaped."""
    answer = shared.get("/ui/static/%3Cscript%3E")

    assert 404 == answer.status_code
    assert answer.headers["content-type"].startswith("text/html")
    assert "no-store" == answer.headers["cache-control"]
    assert "frame-ancestors 'none'" in answer.headers[POLICY]
    assert "<script>" not in answer.text


def test_a_mistyped_address_leads_to_the_pages(shared):
    """The page says so in words of its own, and has the navigation."""
    answer = shared.get("/ui/hystory")
    bare = shared.get("/ui/", follow_redirects=False)

    assert 404 == answer.status_code
    assert "There is no page /ui/hystory" in answer.text
    assert 'href="/ui/history"' in answer.text
    assert (303, "/ui/overview") == (bare.status_code, bare.headers["location"])


@pytest.mark.parametrize(
    ("action", "page", "form"),
    [
        ("keys", "Keys", {"name": "mx1", "right-read": "1", "days": "soon"}),
        ("people", "People", {"name": "ann", "role": "teacher", "password": "short"}),
        ("people/password", "People", {"name": "nobody", "password": "long enough"}),
        ("people/remove", "People", {"name": "nobody"}),
        ("lists", "Lists", {"verb": "deny", "entry": "ann", "note": "of the club"}),
        ("site/profiles", "Site", {"name": "a b", "kind": "mail"}),
        ("site/policy", "Site", {"ham_cost": "much", "reject_from": "99.9 %"}),
        ("ledger/undo", "Ledger", {"source": "ann", "from": "noon"}),
    ],
)
def test_a_refused_form_is_shown_again_as_it_was_typed(shared, action, page, form):
    """With the reason on top, and without passwords."""
    shared.post("/people", json={"name": "tim", "role": "reader", "password": "a" * 9})
    answer = shared.post(f"/ui/{action}", data=form)

    assert 400 <= answer.status_code < 500
    assert f"<title>Not done: {page} " in answer.text
    assert f"<h1>{page}</h1>" in answer.text
    assert 'role="alert"' in answer.text
    if action == "people/remove":
        return
    for name, text in form.items():
        shown = {
            "password": "",
            "verb": '<option value="deny" selected>',
            "role": '<option value="teacher" selected>',
            "kind": '<option value="mail" selected>',
            "right-read": 'name="right-read" value="1" checked',
        }.get(name, f'name="{name}" value="{text}"')
        assert shown in answer.text
        assert name != "password" or text not in answer.text


def test_a_form_can_be_sent_again_once_the_database_is_back(client, tmp_path):
    """Its page keeps everything but the password, and changes nothing meanwhile."""
    [path] = tmp_path.glob("*.db")
    form = {"name": "tim", "role": "teacher", "password": "long enough"}
    entry = {"verb": "deny", "entry": "ann@example.org"}
    path.rename(tmp_path / "away")
    page = client.get("/ui/history")
    sent = client.post("/ui/people", data=form)
    other = client.post("/ui/lists?profile=default", data=entry)
    (tmp_path / "away").rename(path)
    kept = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', sent.text))
    again = client.post("/ui/people", data=kept | {"password": "long enough"})

    assert [503, 503, 200] == [each.status_code for each in (page, sent, again)]
    assert '<a class="button" href="/ui/history">Try again</a>' in page.text
    assert 'action="/ui/people"' in sent.text
    assert 'action="/ui/lists?profile=default"' in other.text
    assert 'href="/ui/lists?profile=default">Back<' in other.text
    assert {"csrf": kept["csrf"], "name": "tim", "role": "teacher"} == kept
    assert "long enough" not in sent.text
    assert "They can sign in now" in again.text


@pytest.mark.parametrize(
    "path",
    [
        *("lists", "lists?entry={}", "overview", "ledger", "ledger?source={}", "site"),
        *("keys?revoked={}", "people?done={}", "sign-in?next={}", "words?word={}"),
        "events",
    ],
)
def test_names_that_somebody_chose_stay_text(shared, path):
    """Sources, notes and query parameters are escaped."""
    hostile = "<script>alert(1)</script>'\"{{7*7}}"
    entry = {"verb": "allow", "entry": "ann@example.org", "note": hostile}
    shared.post("/ui/lists", data=entry).raise_for_status()
    shared.post(
        "/feedback",
        params={"label": "spam", "source": hostile},
        content=spam(1),
        headers={"Content-Type": "message/rfc822"},
    ).raise_for_status()
    page = shared.get(f"/ui/{path}".format(quote(hostile)))

    assert 200 == page.status_code
    assert "<script>alert" not in page.text
    assert "'\"49" not in page.text


def test_no_template_has_inline_script_or_style():
    """The content security policy forbids both."""
    for name in TEMPLATES.list_templates():
        text, _, _ = TEMPLATES.loader.get_source(TEMPLATES, name)

        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:", text), name
        assert all("src=" in each for each in re.findall(r"<script[^>]*>", text))
        assert "|safe" not in text.replace(" ", "")


def luminance(colour):
    """Return the relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_its_ground(scheme):
    """The contrast is at least 4.5 to 1 (WCAG 2.2, 1.4.3, level AA)."""
    style = (HERE / "static" / "style.css").read_text()
    root = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]
    light = {
        name: luminance(colour)
        for name, colour in re.findall(r"--([\w-]+): (#\w{6})", root)
    }
    inks = ("ink", "soft", "link", "ham", "spam", "unsure", "good", "bad")
    grounds = [(ink, ground) for ink in inks for ground in ("paper", "card", "hover")]
    grounds += [(ink, f"wash-{ink}") for ink in inks[3:]] + [("card", "link")]
    contrasts = {
        pair: (max(each) + 0.05) / (min(each) + 0.05)
        for pair in grounds
        for each in [[light[name] for name in pair]]
    }

    assert {} == {pair: x for pair, x in contrasts.items() if x < 4.5}


def test_half_a_surrogate_pair_cannot_break_a_page():
    """UTF-8 cannot encode half a pair."""
    assert b"a?b" == page_response("a\ud83db", 200).body


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ends, or not", "Ends, or not"),
        ("'soon' is not a time", "'soon' is not a time"),
        ("`from` is missing", "`from` is missing"),
        ("key:mx1 lacks the right", "key:mx1 lacks the right"),
        ("", ""),
    ],
)
def test_a_notice_begins_with_a_capital_or_with_a_name(given, shown):
    """A name is written as it is, quoted or not."""
    assert shown == sentence(given)


def test_links_keep_only_parameters_with_a_value():
    """An empty field of a form is not a filter."""
    assert "/ui?a=1" == link("/ui", {"a": 1, "b": None}, c="")


def test_a_reason_that_would_read_as_zero_is_not_shown():
    """A page shows one decimal, and 0.0 nats are no reason."""
    given = [{"text": "prize", "log_odds": 2.3}, {"text": "dot", "log_odds": -0.04}]
    shown = str(TEMPLATES.get_template("entries.html").module.reasons(given))

    assert "prize" in shown
    assert "dot" not in shown
