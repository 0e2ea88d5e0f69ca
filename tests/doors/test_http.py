"""The HTTP door: shapes, statuses, and sentences that say what to do."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastapi.testclient import TestClient

from app.doors.http.app import create_app
from app.doors.http.body import MAX_JSON_BYTES
from app.doors.serving import request as intake
from app.errors import DatabaseUnavailable
from app.services.application import Application
from app.settings import Settings
from app.storage import profiles
from app.storage.database.engine import writing
from tests.support.application import served, taught_client
from tests.support.databases import sqlite_url
from tests.support.messages import HAM, SPAM, ham, spam

RAW = {"content-type": "message/rfc822"}


@pytest.fixture
def client(tmp_path):
    """A client of a service that has learned six messages."""
    with taught_client(sqlite_url(tmp_path)) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A client of one that no test changes."""
    with taught_client(sqlite_url(tmp_path_factory.mktemp("shared"))) as client:
        yield client


def test_what_stands_beside_the_door_is_there_while_the_application_runs(tmp_path):
    """Other doors open after the application started, and close before it stops."""
    url = sqlite_url(tmp_path)
    application = Application(Settings(database_url=url))
    alive = []

    @asynccontextmanager
    async def beside():
        alive.append(application.writer.is_alive())
        yield
        alive.append(application.writer.is_alive())

    with TestClient(create_app(application, beside)):
        assert [True] == alive

    assert [True, True] == alive
    assert not application.writer.is_alive()


def problem(answer):
    """Return status, short type and detail of a problem document."""
    assert "application/problem+json" == answer.headers["content-type"]
    document = answer.json()
    assert document["status"] == answer.status_code
    return (
        answer.status_code,
        document["type"].removeprefix("urn:postbayes:problem:"),
        document["detail"],
    )


def parts(answer):
    """Return the features that an answer names."""
    return {
        part["feature"] for entry in answer["explanation"] for part in entry["parts"]
    }


def test_a_raw_message_is_classified(shared):
    """The answer has the documented fields, and they agree with each other."""
    answer = shared.post("/classify", content=spam(7), headers=RAW).json()

    assert "spam" == answer["decision"] == answer["label"]
    assert answer["probability"] == pytest.approx(
        1 / (1 + math.exp(-answer["log_odds"]))
    )
    assert {"ham", "spam"} == answer["log_posterior"].keys()
    # Those that decide: the others may be at any number of nats.
    assert [
        "words",
        "headers",
        "pairs",
        "corrections",
        "header_corrections",
        "grams",
    ] == list(answer["views"])
    assert "multinomial" == answer["views"]["words"]["event_model"]
    assert ("default", 6, []) == (
        answer["profile"],
        answer["revision"],
        answer["defects"],
    )


@pytest.mark.parametrize("explain", [0, 1, 5, 1000])
def test_the_explanation_sums_to_the_log_odds(shared, explain):
    """Prior, strongest features and rest add up, however many are asked for."""
    answer = shared.post(
        f"/classify?explain={explain}", content=spam(7), headers=RAW
    ).json()

    entries = answer["explanation"]
    assert answer["log_odds"] == pytest.approx(
        sum(entry["log_odds"] for entry in entries), abs=1e-9
    )
    assert ("prior", "rest") == (entries[0]["kind"], entries[-1]["kind"])
    assert answer["log_odds"] == pytest.approx(
        sum(answer["families"].values()), abs=1e-9
    )
    sides = [entry["log_odds"] > 0 for entry in entries[1:-1]]
    assert max(sides.count(True), sides.count(False)) <= explain
    assert sides == sorted(sides, reverse=answer["log_odds"] > 0)
    shown = sum(entry["log_odds"] for entry in entries[1:-1])
    assert answer["explained_pct"] == pytest.approx(100 * shown / answer["log_odds"])


def test_json_and_raw_give_the_same_answer(shared):
    """A message inside JSON is the message itself."""
    raw = shared.post("/classify", content=SPAM[0], headers=RAW).json()

    wrapped = shared.post("/classify", json={"message": SPAM[0].decode()}).json()

    assert raw == wrapped


def test_the_fields_of_a_form_are_a_message(shared):
    """A contact form posts subject, from and body, and no RFC 5322."""
    answer = shared.post(
        "/classify",
        json={
            "subject": "cheap pills",
            "from": "a@pills.example",
            "body": "free money",
        },
    ).json()

    assert "spam" == answer["label"]
    assert "subject:pills" in parts(answer)


def test_a_form_cannot_add_headers(shared):
    """Line ends in a field are spaces: they start no header."""
    plain = shared.post("/classify", json={"subject": "hi X-Evil: yes", "body": "b"})
    folded = shared.post(
        "/classify", json={"subject": "hi\r\nX-Evil: yes", "body": "b"}
    )

    assert plain.json()["id"] == folded.json()["id"]


def test_html_of_a_form_is_read(shared):
    """The HTML of a form counts as an alternative of its text."""
    answer = shared.post(
        "/classify?explain=50", json={"html": "<p>Claim your <b>money</b></p>"}
    ).json()

    assert "money" in parts(answer)


def test_feedback_is_learned_once_and_moved(client):
    """learned, unchanged, relabelled: the outcome says which."""
    first = client.post("/feedback?label=spam", content=ham(50), headers=RAW).json()
    again = client.post("/feedback?label=spam", content=ham(50), headers=RAW).json()
    moved = client.post("/feedback?label=ham", content=ham(50), headers=RAW).json()

    assert ("learned", 7) == (first["outcome"], first["revision"])
    assert ("unchanged", 7) == (again["outcome"], again["revision"])
    assert ("relabelled", 8) == (moved["outcome"], moved["revision"])
    assert ("spam", "ham") == (moved["label_before"], moved["label"])
    assert first["id"] == again["id"] == moved["id"]
    assert first["score_before"]["log_odds"] < again["score_before"]["log_odds"]


def test_teaching_by_id_needs_no_second_upload(client):
    """The id of an answer and a label are a feedback."""
    scored = client.post("/classify", content=spam(9), headers=RAW).json()

    taught = client.post("/feedback", json={"id": scored["id"], "label": "spam"}).json()

    assert ("learned", scored["id"]) == (taught["outcome"], taught["id"])
    assert scored["log_odds"] == taught["score_before"]["log_odds"]


def test_feedback_as_json_with_a_message_and_a_source(client):
    """A message in JSON with its label; the label may stand in the query too."""
    document = {"message": spam(8).decode(), "label": "spam", "source": "ann"}
    one = client.post("/feedback", json=document).json()
    document = {"subject": "lunch", "body": "noon?", "source": "ann"}
    two = client.post("/feedback?label=ham", json=document).json()

    assert ("learned", "learned") == (one["outcome"], two["outcome"])


def test_two_labels_of_one_message_are_refused(client):
    """The meaning is unclear; the same label in both places is allowed."""
    document = {"body": "noon?", "label": "spam"}
    two = client.post("/feedback?label=ham", json=document)
    one = client.post("/feedback?label=spam", json=document)

    assert (400, "learned") == (two.status_code, one.json()["outcome"])
    assert "different labels; send one" in two.json()["detail"]


def test_a_message_is_forgotten_by_its_id(client):
    """DELETE takes it back, and what was stored when it was scored again."""
    score = client.post("/classify", content=spam(3), headers=RAW).json()["log_odds"]
    taught = client.post("/feedback?label=spam", content=spam(3), headers=RAW).json()

    gone = client.delete(f"/feedback/{taught['id']}").json()

    assert ("forgotten", None, "spam") == (
        gone["outcome"],
        gone["label"],
        gone["label_before"],
    )
    after = client.post("/classify", content=spam(3), headers=RAW).json()["log_odds"]
    assert score == after
    scored = client.delete(f"/feedback/{taught['id']}").json()
    assert ("forgotten", None, None) == (
        scored["outcome"],
        scored["label"],
        scored["label_before"],
    )
    again = problem(client.delete(f"/feedback/{taught['id']}"))
    assert (404, "unknown-message") == again[:2]


def test_a_profile_says_what_it_has_learned(client):
    """Labels, messages and features of a profile are there to read."""
    profile = client.get("/profiles/default").json()

    assert {"ham": 3, "spam": 3} == profile["messages"]
    assert ["ham", "spam"] == profile["labels"]
    assert profile["views"]["words"]["features"] > 20
    assert 6 == profile["revision"]


def test_health_readiness_and_docs_answer(client):
    """A supervisor and a developer find what they look for."""
    assert {"status": "ok"} == client.get("/healthz").json()
    assert {"status": "ready"} == client.get("/readyz").json()
    assert 200 == client.get("/docs").status_code
    paths = client.get("/openapi.json").json()["paths"]
    body = paths["/classify"]["post"]["requestBody"]["content"]
    assert {"message/rfc822", "application/json"} == body.keys()


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/ui/history", "/nothing"])
def test_a_head_is_that_of_get(shared, path):
    """Load balancers and monitors ask so."""
    got, head = shared.get(path), shared.head(path)

    assert (got.status_code, b"") == (head.status_code, head.content)
    assert got.headers["content-type"] == head.headers["content-type"]


def test_what_changes_something_has_no_head(shared):
    """It is refused as GET is, and nothing is done."""
    refused = shared.head("/feedback")

    assert (405, "POST") == (refused.status_code, refused.headers["allow"])


def test_a_writer_that_died_is_not_ready(client):
    """Readiness fails when nothing could be learned any more."""
    client.app.state.application.writer.stop()

    status, kind, detail = problem(client.get("/readyz"))

    assert (503, "database-unavailable") == (status, kind)
    assert "restart" in detail


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "request_", "status", "kind", "says"),
    [
        ("POST", "/classify", {"headers": RAW}, 400, "empty-message", "no body"),
        (
            "POST",
            "/classify",
            {"content": b"x", "headers": {"content-type": "text/css"}},
            415,
            "unsupported-content-type",
            "message/rfc822",
        ),
        (
            "POST",
            "/classify",
            {"data": {"a": "b"}},
            415,
            "unsupported-content-type",
            "--data-binary",
        ),
        (
            "POST",
            "/classify",
            {"content": b'{"message": ', "headers": JSON},
            400,
            "malformed-request",
            "Invalid JSON",
        ),
        (
            "POST",
            "/classify",
            {"content": b"[1, 2]", "headers": JSON},
            400,
            "malformed-request",
            "cannot be used",
        ),
        (
            "POST",
            "/classify/batch",
            {"content": b'{"messages":[' + b"{}," * 40_000 + b"{}]}", "headers": JSON},
            400,
            "malformed-request",
            "strings, commas and brackets",
        ),
        (
            "POST",
            "/classify",
            {"json": {"subjekt": "x"}},
            400,
            "malformed-request",
            "subjekt",
        ),
        ("POST", "/classify", {"json": {}}, 400, "empty-message", "has no message"),
        (
            "POST",
            "/classify",
            {"json": {"message": "x", "body": "y"}},
            400,
            "malformed-request",
            "not both",
        ),
        (
            "POST",
            "/classify?explain=-1",
            {"content": b"x", "headers": RAW},
            422,
            "malformed-request",
            "explain",
        ),
        (
            "POST",
            "/classify?profile=nobody",
            {"content": b"x", "headers": RAW},
            404,
            "unknown-profile",
            "'nobody'",
        ),
        (
            "POST",
            "/feedback",
            {"content": b"x", "headers": RAW},
            422,
            "missing-label",
            "?label=spam",
        ),
        (
            "POST",
            "/feedback?label=junk",
            {"content": b"x", "headers": RAW},
            422,
            "unknown-label",
            "ham, spam",
        ),
        (
            "POST",
            "/feedback",
            {"json": {"id": "00" * 16}},
            422,
            "missing-label",
            "label",
        ),
        (
            "POST",
            "/feedback",
            {"json": {"id": "00" * 16, "label": "spam"}},
            404,
            "unknown-message",
            "send the message itself",
        ),
        (
            "POST",
            "/feedback",
            {"json": {"id": "zz", "label": "spam"}},
            404,
            "unknown-message",
            "32 hexadecimal digits",
        ),
        (
            "POST",
            "/feedback",
            {"json": {"id": "00" * 16, "label": "spam", "body": "x"}},
            400,
            "malformed-request",
            "not both",
        ),
        (
            "POST",
            "/feedback?label=ham&source=a%00b",
            {"content": b"x", "headers": RAW},
            422,
            "malformed-request",
            "source",
        ),
        (
            "POST",
            "/feedback",
            {"json": {"body": "x", "label": "ham", "source": "a\0b"}},
            400,
            "malformed-request",
            "source",
        ),
        ("POST", "/keys", {"headers": JSON}, 400, "empty-message", "send the JSON"),
        ("POST", "/keys", {"headers": RAW}, 415, "unsupported-content-type", "JSON"),
        ("DELETE", "/feedback/abc", {}, 404, "unknown-message", "32 hexadecimal"),
        ("GET", "/profiles/nobody", {}, 404, "unknown-profile", "'nobody'"),
        (
            "POST",
            "/keys",
            {"data": {"a": "b"}},
            415,
            "unsupported-content-type",
            "send JSON",
        ),
        ("GET", "/nowhere", {}, 404, "about:blank", "no '/nowhere'; the interface"),
        ("GET", "/keys/", {}, 404, "about:blank", "no '/keys/', but '/keys'; the"),
        ("PUT", "/classify", {}, 405, "about:blank", "takes POST, not PUT; the"),
    ],
)
def test_each_bad_request_has_its_status_and_a_way_out(
    shared, method, path, request_, status, kind, says
):
    """Status, problem type, and a sentence that says what to do."""
    got = problem(shared.request(method, path, **request_))

    assert (status, kind) == got[:2]
    assert says in got[2]
    assert 6 == shared.get("/profiles/default").json()["revision"]


def test_a_body_over_the_limit_is_refused_before_it_is_read(tmp_path):
    """413, whether the length is announced or the body is chunked."""
    with served(tmp_path, max_request_bytes=2048) as client:
        announced = client.post("/classify", content=b"x" * 4096, headers=RAW)
        chunked = client.post("/classify", content=iter([b"x" * 1024] * 4), headers=RAW)
        within = client.post("/classify", content=b"x" * 2048, headers=RAW)

    for answer in (announced, chunked):
        status, kind, detail = problem(answer)
        assert (413, "message-too-large") == (status, kind)
        assert "POSTBAYES_MAX_REQUEST_BYTES" in detail
    assert 200 == within.status_code


def test_what_the_parser_does_not_look_at_is_not_kept(tmp_path):
    """A large message is scored by its first part, and the answer says so."""
    with served(tmp_path) as client:
        raw = HAM[0] + b"word\n" * 2_000_000
        answer = client.post("/classify", content=raw, headers=RAW).json()
        document = client.post("/classify", json={"message": raw.decode()})

    status, kind, detail = problem(document)
    assert answer["defects"] != []
    assert (413, "message-too-large") == (status, kind)
    # Of JSON no setting raises the limit, and a message needs not be longer.
    assert "message/rfc822; its first 4194304 bytes are enough" in detail
    assert f"up to {MAX_JSON_BYTES >> 20} MiB for JSON" in detail


def test_half_a_character_does_not_get_around_the_filter(client):
    """JSON with a lone surrogate is read: the half becomes a replacement."""
    body = b'{"subject": "cheap pills", "body": "free money \\ud83d"}'
    answer = client.post("/classify", content=body, headers=JSON)

    assert (200, "spam") == (answer.status_code, answer.json()["label"])


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"body": "\\ud83d', b"\xff"])
def test_json_that_is_none_is_refused(shared, body):
    """Neither depth nor broken text is more than a bad request."""
    status, kind, _ = problem(shared.post("/classify", content=body, headers=JSON))

    assert (400, "malformed-request") == (status, kind)


@pytest.mark.parametrize("url", ["/classify", "/feedback?label=ham", "/message"])
@pytest.mark.parametrize("between", [b"", b"\n  "])
def test_json_without_a_type_is_not_taken_for_a_message(client, url, between):
    """Clients forget the type, and would get verdicts on braces and names of fields."""
    body = b"{" + between + b'"subject": "Lunch", "body": "At noon?"}'

    status, kind, detail = problem(client.post(url, content=body))

    assert (415, "unsupported-content-type") == (status, kind)
    assert "send it as application/json" in detail
    assert 200 == client.post(url, content=body, headers=RAW).status_code
    assert 200 == client.post("/classify", content=b"A: b\n\n" + body).status_code


def test_a_compressed_body_is_not_taken_for_text(shared):
    """A body that is encoded would be scored as the garbage that it looks like."""
    answer = shared.post(
        "/classify", content=b"x", headers=RAW | {"content-encoding": "gzip"}
    )

    status, kind, detail = problem(answer)
    assert (415, "unsupported-content-type") == (status, kind)
    assert "gzip" in detail


@pytest.mark.parametrize(
    ("length", "status"), [("0" * 5000 + "1", 200), ("9" * 5000, 413)]
)
def test_a_length_of_many_digits_is_a_length(shared, length, status):
    """Python reads no number of thousands of digits; a header may have them."""
    headers = RAW | {"content-length": length}
    answer = shared.post("/classify", content=iter([b"x"]), headers=headers)

    assert status == answer.status_code


def test_nothing_known_of_a_message_is_unsure(shared):
    """Only the letters of new words speak, and they do not decide."""
    new = shared.post("/classify", json={"body": "xyzzy"}).json()
    empty = shared.post("/classify", json={"body": "~"}).json()

    reasons = [e for e in new["explanation"] if e["kind"] == "reason"]
    assert ["grams"] == [reason["family"] for reason in reasons]
    assert [] == [e for e in empty["explanation"] if e["kind"] == "reason"]
    assert empty["explained_pct"] is None
    assert "unsure" == new["decision"] == empty["decision"]


async def trickle():
    """Send one byte, and then nothing for a while."""
    yield b"x"
    await asyncio.sleep(5)


def test_a_body_that_does_not_arrive_is_given_up(tmp_path, monkeypatch):
    """408, and the connection is free again."""
    monkeypatch.setattr(intake, "BODY_SECONDS", 0.05)
    application = Application(Settings(database_url=sqlite_url(tmp_path, "p.db")))

    async def request():
        app = create_app(application)
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            return await client.post("/classify", content=trickle(), headers=RAW)

    answer = asyncio.run(request())

    assert (408, "slow-request") == problem(answer)[:2]


def test_a_database_that_is_away_is_a_503_with_retry_after(tmp_path):
    """Feedback that cannot be stored says when to try again."""
    with served(tmp_path) as client:
        client.app.state.application.writer.stop()
        answer = client.post("/feedback?label=ham", content=HAM[0], headers=RAW)
        scored = client.post("/classify", content=HAM[0], headers=RAW)

    assert (503, "database-unavailable") == problem(answer)[:2]
    assert "5" == answer.headers["retry-after"]
    assert 200 == scored.status_code


def make(client, *names, labels=("ham", "spam")):
    """Make profiles in the database of a client's service, and have it notice."""
    application = client.app.state.application
    with writing(application.engine) as connection:
        for name in names:
            profiles.create(
                connection,
                name=name,
                labels=labels,
                spam_labels=labels[1:],
                feature_set=1,
                created_at=application.live.get("default").row.created_at,
            )
    application.live.refresh()


def test_a_new_profile_answers_as_the_one_above_it(client):
    """It would be unsure of all mail by itself; the answer says what each level adds."""
    make(client, "example.org", "ann@example.org")
    site = client.post("/classify", content=spam(7), headers=RAW).json()
    path = "/classify?recipient=ann@example.org"
    new = client.post(path, content=spam(7), headers=RAW).json()
    short = client.post(f"{path}&explain=0", content=spam(7), headers=RAW).json()

    assert (new["log_odds"], new["levels"]) == (short["log_odds"], short["levels"])
    assert "0.0" == str(short["explained_pct"])
    assert "ann@example.org" == new["profile"]
    assert "ann@example.org" == new["recipients"]["ann@example.org"]["profile"]
    assert site["decision"] == new["decision"] != "unsure"
    assert site["log_odds"] == new["log_odds"]
    assert [
        ("ann@example.org", 0),
        ("example.org", 0),
        ("default", site["log_odds"]),
    ] == [(each["profile"], each["log_odds"]) for each in new["levels"]]


def test_a_profile_for_a_purpose_of_its_own_answers_itself(client):
    """It is named like no address, so no level is above it."""
    make(client, "comments")

    answer = client.post(
        "/classify?profile=comments", content=spam(7), headers=RAW
    ).json()

    assert ("comments", "unsure") == (answer["profile"], answer["decision"])
    assert [] == answer["levels"]


def test_what_another_profile_answered_is_taught_to_the_own_by_its_id(client):
    """Or one with labels of its own would never learn; the other one learns nothing."""
    make(client, "ann@example.org", labels=("good", "bad"))
    scored = client.post(
        "/classify?recipient=ann@example.org", content=spam(7), headers=RAW
    ).json()

    taught = client.post(
        "/feedback?recipient=ann@example.org",
        json={"id": scored["id"], "label": "bad"},
    ).json()

    ann = client.get("/profiles/ann@example.org").json()
    assert ("default", "learned") == (scored["profile"], taught["outcome"])
    assert {"good": 0, "bad": 1} == ann["messages"]
    assert 6 == client.get("/profiles/default").json()["revision"]


def test_recipients_have_an_answer_each(client):
    """Their own profiles answer for them, and the one that they share for all."""
    make(client, "example.org", "ann@example.org")
    client.post(
        "/feedback?label=spam&recipient=Ann@example.org", content=HAM[0], headers=RAW
    )

    answer = client.post(
        "/classify?recipient=ann%2Bnews@example.org&recipient=bob@example.org",
        content=HAM[0],
    ).json()

    assert "example.org" == answer["profile"]
    assert {
        "ann+news@example.org": "ann@example.org",
        "bob@example.org": "example.org",
    } == {name: each["profile"] for name, each in answer["recipients"].items()}
    ann, bob = answer["recipients"].values()
    assert ann["log_odds"] > bob["log_odds"] == answer["log_odds"]


def test_a_profile_that_is_named_wins_over_the_recipients(client):
    """An explicit profile is more specific."""
    make(client, "example.org")

    answer = client.post(
        "/classify?profile=default&recipient=bob@example.org", content=HAM[0]
    ).json()

    assert "default" == answer["profile"]
    assert "example.org" == answer["recipients"]["bob@example.org"]["profile"]


def test_feedback_goes_to_the_profile_of_its_recipient(client):
    """It is learned and forgotten where the recipient is scored."""
    make(client, "example.org")
    taught = client.post(
        "/feedback?label=ham&recipient=bob@example.org",
        content=HAM[0],
        headers={"content-type": "message/rfc822"},
    ).json()

    taken = client.delete(f"/feedback/{taught['id']}?recipient=bob@example.org")

    assert ("learned", 1) == (taught["outcome"], taught["revision"])
    assert ("forgotten", 2) == (taken.json()["outcome"], taken.json()["revision"])


def test_more_recipients_than_a_message_has_are_refused(client):
    """Each may be another profile to score with."""
    query = "&".join(["recipient=a"] * 101)

    assert (422, "malformed-request") == problem(
        client.post(f"/classify?{query}", content=HAM[0])
    )[:2]


@pytest.mark.parametrize("source", ["auto", "prune", "undo:1", "import:dump:12"])
def test_nobody_speaks_in_the_name_of_the_filter(client, source):
    """What is undone by its source is not mixed with what a person said."""
    answer = client.post(
        f"/feedback?label=ham&source={source}", content=HAM[0], headers=RAW
    )

    assert 422 == answer.status_code
    assert f"the source {source!r}" in answer.json()["detail"]


def test_a_profile_shows_and_changes_what_it_decides_by(client):
    """In log-odds and as a probability, and said in either."""
    shown = client.get("/profiles/default").json()
    changed = client.patch(
        "/profiles/default",
        json={"ham_cost": 20, "reject_from": "99.99%"},
    ).json()
    log_odds = {"quarantine_from": 7, "reject_from": "never"}
    again = client.patch("/profiles/default", json=log_odds).json()
    # What is read can be written.
    same = client.patch("/profiles/default", json=again["policy"]).json()
    back = client.patch(
        "/profiles/default",
        json=dict.fromkeys(["ham_cost", "quarantine_from", "reject_from"]),
    ).json()

    assert (None, {}) == (shown["reject_from"], shown["policy"])
    assert shown == back
    assert pytest.approx(0.9999) == changed["reject_from"]["probability"]
    assert pytest.approx(math.log(9999)) == changed["reject_from"]["log_odds"]
    assert pytest.approx(1 / 21) == changed["ham_threshold"]["probability"]
    assert {"log_odds": 7.0, "probability": pytest.approx(0.99909, abs=1e-5)} == again[
        "quarantine_from"
    ]
    assert {"ham_cost": 20.0, "quarantine_from": 7.0, "reject_from": "never"} == again[
        "policy"
    ]
    assert again["reject_from"] is None
    assert again == same


def test_the_policy_decides_what_is_answered(client):
    """The decision, and what a mail server would be asked to do."""
    before = client.post("/classify", content=spam(7), headers=RAW).json()
    client.patch("/profiles/default", json={"reject_from": before["log_odds"]})
    rejected = client.post("/classify", content=spam(7), headers=RAW).json()
    client.patch("/profiles/default", json={"reject_from": None, "ham_cost": 1e9})
    unsure = client.post("/classify", content=spam(7), headers=RAW).json()

    assert ("spam", "add header") == (before["decision"], before["action"])
    assert ("spam", "reject") == (rejected["decision"], rejected["action"])
    assert ("unsure", "none") == (unsure["decision"], unsure["action"])
    assert before["log_odds"] == rejected["log_odds"] == unsure["log_odds"]


@pytest.mark.parametrize(
    ("policy", "status", "kind", "says"),
    [
        ({"reject_from": 1}, 422, "invalid-policy", "below the spam thr"),
        # A probability that is taken for nats.
        ({"reject_from": 0.99}, 422, "invalid-policy", "below the spam thr"),
        ({"ham_threshold": "99%"}, 422, "invalid-policy", "above the"),
        ({"ham_threshold": "never"}, 422, "invalid-policy", "ham_threshold must be"),
        ({"reject_from": "100%"}, 422, "invalid-policy", "such as 99.9%, never"),
        ({"reject_from": "soon"}, 422, "invalid-policy", "got 'soon'"),
        ({"ham_cost": 0}, 400, "malformed-request", "`ham_cost` should be great"),
        ({"spam_cost": 2}, 400, "malformed-request", "unknown field `spam_cost`"),
        (
            {"reject_from": {}},
            400,
            "malformed-request",
            "`reject_from` should be log-odds in nats",
        ),
        ([], 400, "malformed-request", "body"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(shared, policy, status, kind, says):
    """The sentence has the field, and nothing is changed."""
    answer = shared.patch("/profiles/default", json=policy)

    assert (status, kind) == problem(answer)[:2]
    assert says in problem(answer)[2]
    assert {} == shared.get("/profiles/default").json()["policy"]


def test_a_policy_that_cannot_be_read_again_is_changed(client, monkeypatch):
    """The answer does not say that nothing came of it."""

    def failing():
        msg = "away. Nothing was stored"
        raise DatabaseUnavailable(msg)

    with monkeypatch.context() as patched:
        patched.setattr(client.app.state.application.live, "refresh", failing)
        answer = client.patch("/profiles/default", json={"ham_cost": 20})
    while not client.get("/profiles/default").json()["policy"]:
        time.sleep(0.01)

    assert 503 == answer.status_code
    assert answer.json()["detail"].startswith("the policy is changed")


def test_numbers_that_are_none_are_no_thresholds(client):
    """Python reads and writes them in JSON, and no one can decide by them."""
    for number in ("NaN", "Infinity", "1e999"):
        answer = client.patch(
            "/profiles/default",
            content=f'{{"reject_from": {number}}}',
            headers={"content-type": "application/json"},
        )

        assert (400, "malformed-request") == problem(answer)[:2]


def test_a_profile_that_is_not_there_cannot_be_changed(client):
    """It is not created either."""
    answer = client.patch("/profiles/nowhere", json={"ham_cost": 9})

    assert (404, "unknown-profile") == problem(answer)[:2]


def test_a_message_is_rejected_for_all_recipients_or_for_none(client):
    """What one of them chose does not lose the mail of another."""
    make(client, "ann@example.org")
    client.patch("/profiles/ann@example.org", json={"ham_cost": 1e12})
    log_odds = client.post("/classify", content=spam(7), headers=RAW).json()["log_odds"]
    client.patch("/profiles/default", json={"reject_from": log_odds})

    bob = client.post("/classify?recipient=bob@example.org", content=spam(7)).json()
    both = client.post(
        "/classify?recipient=bob@example.org&recipient=ann@example.org",
        content=spam(7),
    ).json()

    assert "reject" == bob["action"] == bob["recipients"]["bob@example.org"]["action"]
    assert "add header" == both["action"]
    assert "none" == both["recipients"]["ann@example.org"]["action"]


def test_profiles_are_listed_in_pages(client):
    """By name, with what they have learned; the last page says so."""
    make(client, "b.example", "a.example")
    first = client.get("/profiles?limit=2").json()
    second = client.get(f"/profiles?limit=2&after={first['next']}").json()

    assert ["a.example", "b.example"] == [each["name"] for each in first["profiles"]]
    assert {
        "profiles": [
            {"name": "default", "revision": 6, "messages": {"ham": 3, "spam": 3}}
        ],
        "next": None,
    } == second
    assert [] == client.get("/profiles?after=z").json()["profiles"]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=" + 129 * "x"])
def test_a_page_of_profiles_has_its_limits(client, query):
    """A request for more gets an error."""
    assert 422 == client.get(f"/profiles?{query}").status_code
