"""The pages of history and review, and their JSON twins: found, taught, taken back."""

from __future__ import annotations

import re
from html import unescape

import pytest

from app.classifier.statement import Origin
from app.doors.http.app import create_app
from app.services.application import Application
from app.services.clock import now
from app.services.profiles import create_profile
from app.settings import Settings
from tests.support.application import PageClient
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam

# Both databases find and teach: tests/services/test_history.py.
pytestmark = on_sqlite
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }} </title><b>",
    "invoice \u202egpj.exe",
    "y" * 10_000,
    "bell \x07 escape \x1b[2J",
)
LOOKS = re.compile(r'name="csrf" value="([^"]*)"')


@pytest.fixture
def app(database_url):
    """A service that has learned a little."""
    app = Application(Settings(database_url=database_url))
    with PageClient(create_app(app), client=("127.0.0.1", 50000)) as client:
        for n in range(4):
            app.feedback.teach("default", ham(n), label="ham", source="test")
            app.feedback.teach("default", spam(n), label="spam", source="test")
        app.client = client
        yield app


@pytest.fixture
def client(app):
    """A client of this service."""
    return app.client


def score(app, raw, *, strongest=3, sender=""):
    """Have a message scored as a mail server has, and return its id."""
    delivered = app.delivery.together(
        ["ann@example.org"],
        raw,
        strongest=strongest,
        door="milter",
        origin=Origin(sender),
    )
    app.recent.flush(app.engine)
    return delivered.classified.observation.id


def post(client, url, **fields):
    """Post the form of a page, as a browser of this site does."""
    return client.post(
        url,
        data={**_token(client), **fields},
        headers={"Origin": "http://testserver"},
        follow_redirects=False,
    )


def _token(client):
    # The history has no form while it has no verdict.
    found = LOOKS.search(client.get("/ui/ledger").text)
    return {"csrf": unescape(found[1])}


def test_the_history_has_a_verdict_with_what_it_is_found_by(app, client):
    """Rows are newest first, with their reasons; the page shows the same."""
    score(app, ham(9))
    id_ = score(app, spam(9), sender="bounce@prizes.example")
    document = client.get("/history").json()
    first = document["entries"][0]

    assert id_ == first["id"]
    assert ("You are a WINNER", "Winner <win@prizes.example>") == (
        first["subject"],
        first["sender"],
    )
    assert ("ann@example.org", "bounce@prizes.example", "milter") == (
        first["recipients"],
        first["envelope"],
        first["door"],
    )
    assert first["reasons"]
    assert (None, True) == (first["label"], first["teachable"])
    page = client.get("/ui/history")
    assert page.text.index(f"row-{id_}") < page.text.index("Lunch on Friday")
    assert "no-store" == page.headers["cache-control"]


def test_pages_of_the_history_follow_each_other(app, client):
    """The cursor of an answer gives the next page; an invented one is refused."""
    ids = [score(app, ham(n)) for n in range(5)]
    first = client.get("/history?limit=3").json()
    second = client.get("/history", params={"limit": 3, "before": first["next"]})

    found = first["entries"] + second.json()["entries"]
    assert ids[::-1] == [each["id"] for each in found]
    assert second.json()["next"] is None
    assert f"before={first['next']}" in client.get("/ui/history?limit=3").text
    assert 400 == client.get("/history?before=yesterday").status_code
    assert (
        "use the value of the previous answer"
        in client.get("/ui/history?before=x").text
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"search": "winner"}, 1),
        ({"search": "%"}, 0),
        ({"door": "http"}, 0),
        ({"taught": "true"}, 0),
        ({"from": "2020-01-01T00:00:00Z"}, 2),
        ({"until": "2020-01-01T00:00:00Z"}, 0),
    ],
)
def test_the_history_is_searched(app, client, query, expected):
    """Every filter of the JSON is also one of the page."""
    score(app, ham(9))
    score(app, spam(9))

    assert expected == len(client.get("/history", params=query).json()["entries"])
    as_form = {
        **query,
        **({"taught": "yes"} if "taught" in query else {}),
        "verdict": "",
        "until": query.get("until", "").removesuffix("Z"),
    }
    page = client.get("/ui/history", params=as_form).text
    assert expected == page.count("<tr data-row")


def test_one_click_teaches_and_one_takes_back(app, client):
    """Each button reports its effect, and returns to the row and the search."""
    id_ = score(app, spam(9))
    back = "/ui/history?search=winner"
    taught = post(
        client,
        f"/ui/history/{id_}/teach",
        label="spam",
        back=back,
        anchor=f"row-{id_}",
    )

    assert 303 == taught.status_code
    assert taught.headers["location"].startswith("/ui/history?search=winner&said=")
    assert taught.headers["location"].endswith(f"#row-{id_}")
    page = client.get(taught.headers["location"]).text
    assert "learned as spam" in page
    assert "taught spam" in page
    assert "spam" == client.get("/history").json()["entries"][0]["label"]
    undone = post(client, f"/ui/history/{id_}/undo", back=back)
    assert "taken back" in client.get(undone.headers["location"]).text
    entry = client.get("/history").json()["entries"][0]
    assert (None, True) == (entry["label"], entry["teachable"])
    again = post(client, f"/ui/history/{id_}/undo", back=back)
    assert "nothing to take back" in client.get(again.headers["location"]).text


def test_teaching_again_moves_a_message_or_changes_nothing(app, client):
    """The buttons have the same effects as a feedback."""
    id_ = score(app, spam(9))
    said = []
    for label in ("ham", "spam", "spam"):
        answer = post(client, f"/ui/history/{id_}/teach", label=label)
        assert 303 == answer.status_code, answer.text
        said.append(re.search(r"said=(\w+)", answer.headers["location"])[1])

    assert ["learned", "relabelled", "unchanged"] == said


@pytest.mark.parametrize(
    "back",
    [
        *("https://evil.example/ui/", "//evil.example/ui/x", "javascript:x"),
        *("\r\nX: y", "//[/ui/"),
    ],
)
def test_a_form_leads_back_to_these_pages_alone(app, client, back):
    """Whatever a form contains, it leads back to a page of this service."""
    id_ = score(app, spam(9))
    answer = post(client, f"/ui/history/{id_}/teach", label="spam", back=back)

    assert answer.headers["location"].startswith("/ui/")


def test_an_empty_table_says_why_it_is_empty(app, client):
    """Nothing was scored or taught yet, or nothing matches."""
    before = client.get("/ui/history").text
    score(app, ham(9))
    found = client.get("/ui/history").text
    asked = client.get("/ui/history?search=zzzz").text
    ledger = client.get("/ui/ledger?source=zzzz").text

    assert "Nothing has been scored yet." in before
    assert "Nothing has been scored yet." not in found
    assert "No message matches." in asked
    assert "No row matches." in ledger


def test_what_cannot_be_taught_is_a_page_that_says_so(client):
    """The page has the sentence of the HTTP API."""
    answer = post(client, f"/ui/history/{'ab' * 16}/teach", label="spam")

    assert 404 == answer.status_code
    assert "send the message itself" in answer.text
    assert 404 == client.get(f"/history/{'ab' * 16}").status_code
    assert 404 == client.get(f"/ui/history/{'ab' * 16}").status_code


def test_one_message_is_explained(app, client):
    """The page has the verdict of the time, the feedback, and the current reasons."""
    id_ = score(app, spam(9), strongest=0)
    post(client, f"/ui/history/{id_}/teach", label="spam")
    document = client.get(f"/history/{id_}").json()

    assert [None] == [each["reasons"] for each in document["entries"]]
    assert ["spam"] == [each["label"] for each in document["taught"]]
    assert document["now"]["explanation"]
    page = client.get(f"/ui/history/{id_}").text
    assert "not computed; see below" in page
    assert re.search(r"spam with a probability of 9\d[.\d]* %, with the message", page)
    # The words of a header, and not its name alone.
    assert re.search(r"<bdi>subject: \w", page)


def test_an_address_stands_apart_from_a_name_in_arabic(app, client):
    """In the list and on the page of the message."""
    raw = "From: أحمد <ahmed@example.org>\nSubject: x\n\nnoon".encode()
    id_ = score(app, raw)

    for path in ("/ui/history", f"/ui/history/{id_}"):
        page = client.get(path).text
        assert '<bdi>أحمد <bdi dir="ltr">&lt;ahmed@example.org&gt;</bdi></bdi>' in page


def test_review_begins_with_what_is_unsure(app, client):
    """Taught messages are not listed, and the page links to the next step."""
    for n in range(5, 9):
        score(app, spam(n))
    unsure = score(app, b"From: x@y.example\nSubject: new\n\nNothing known at all.\n")
    entries = client.get("/review").json()["entries"]
    ranks = [(each["decision"] != "unsure", -each["worth"]) for each in entries]

    assert ranks == sorted(ranks)
    assert unsure in {each["id"] for each in entries}
    first = entries[0]["id"]
    answer = post(client, f"/ui/history/{first}/teach", label="ham", back="/ui/review")
    assert answer.headers["location"].startswith("/ui/review?said=learned")
    page = client.get(answer.headers["location"]).text
    assert f'id="row-{first}' not in page


def test_each_row_has_an_anchor_and_review_goes_on_to_its_neighbour(app, client):
    """The history lists a message as often as it was scored; a review, once."""
    for n in (5, 6, 6, 7):
        score(app, spam(n))
    listed, reviewed = (client.get(path).text for path in ("/ui/history", "/ui/review"))
    rows = [re.findall(r'<tr data-row id="(.*?)"', page) for page in (listed, reviewed)]
    then = re.findall(r'name="anchor" value="(.*?)"', reviewed)

    assert [4, 3] == [len(set(each)) for each in rows]
    assert rows[0] == re.findall(r'name="anchor" value="(.*?)"', listed)
    assert [*rows[1][1:], rows[1][-2]] == then


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_on_every_page(app, client, text):
    """It is escaped and shortened, and hidden characters are shown."""
    head = text.encode()
    raw = b"From: " + head + b" <a@b.example>\nTo: " + head + b"\nSubject: " + head
    id_ = score(app, raw + b"\n\nmoney " + text.encode() + b"\n", sender=text)
    post(client, f"/ui/history/{id_}/teach", label="spam")
    paths = ("/ui/history", "/ui/review", f"/ui/history/{id_}", "/ui/ledger")
    pages = [client.get(path).text for path in paths]
    searched = client.get("/ui/history", params={"search": text[:100]}).text
    pages.append(searched)

    assert 1 == searched.count("<tr data-row")
    for page in pages:
        assert "<script>alert" not in page
        assert "<img" not in page
        assert "</title><b>" not in page
        assert "49 </title>" not in page
        assert "\u202e" not in page
        assert "y" * 500 not in page
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", page)


def test_said_and_label_of_an_address_are_not_shown_as_they_are(client):
    """A link cannot put text of its own on the page."""
    page = client.get("/ui/history?said=learned&label=viagra&about=%3Cb%3E").text
    other = client.get("/ui/history?said=hello").text

    assert "viagra" not in page
    assert "<b>" not in page.split("<main")[1].split("<form")[0]
    assert "hello" not in other.split("<main")[1]


@pytest.mark.parametrize("act", ["teach", "undo"])
def test_a_form_is_denied_before_its_id_is_read(client, act):
    """As before everything else that it says."""
    form = {"csrf": "of another site", "label": "ham"}

    assert 403 == client.post(f"/ui/history/00ff/{act}", data=form).status_code
    del form["csrf"]
    assert 404 == client.post(f"/ui/history/00ff/{act}", data=form).status_code


def test_a_form_of_another_site_teaches_nothing(app, client):
    """The request has another origin."""
    id_ = score(app, spam(9))
    answer = client.post(
        f"/ui/history/{id_}/teach",
        data={"label": "ham"},
        headers={"Origin": "https://evil.example"},
    )

    assert 403 == answer.status_code
    assert client.get("/history").json()["entries"][0]["label"] is None


def test_labels_of_a_profile_have_buttons_and_two_of_them_keys(app, client):
    """The keys belong to the first label of each side, whatever its name."""
    create_profile(
        app.engine,
        "third",
        labels=("news", "mail", "junk", "fraud"),
        spam_labels=("junk", "fraud"),
        time=now(),
    )
    app.live.refresh()
    asked = app.delivery.address([], profile="third")
    app.delivery.answer(asked, spam(9), strongest=0, door="http")
    app.recent.flush(app.engine)
    page = client.get("/ui/history?profile=third").text
    buttons = re.findall(r'<button name="label" value="(\w+)"[^>]*?>', page)
    keys = re.findall(r'value="(\w+)"[^>]*data-key="([sh])"', page)

    assert ["news", "mail", "junk", "fraud"] == buttons
    assert [("news", "h"), ("junk", "s")] == keys
    assert 'action="/ui/history/' in page
    assert "/teach?profile=third" in page
