"""`POST /sent`: mail that leaves, for mail servers without a milter."""

from __future__ import annotations

import pytest

from tests.support.application import served

CARL = ["<Carl@Friends.example>", "dora@friends.example"]
RESULT = "mx.example.org; dkim=pass header.d=friends.example"
MAIL = (
    f"Authentication-Results: {RESULT}\r\n"
    "From: Carl <carl@friends.example>\r\nSubject: noon\r\n\r\nAt noon?\r\n"
)


@pytest.fixture
def client(tmp_path):
    """A client of a service that believes one server."""
    with served(tmp_path, authserv_id=("mx.example.org",)) as client:
        yield client


def test_whom_somebody_has_written_to_is_evidence_of_ham(client):
    """The reason has a sentence, and the parts still sum to the log-odds."""
    headers = {"content-type": "message/rfc822"}
    before = client.post("/classify", content=MAIL, headers=headers).json()
    for _ in range(2):
        sent = client.post("/sent", json={"sender": "ann", "recipients": CARL})
        assert {"counted": 2} == sent.json()
    after = client.post("/classify?explain=9", content=MAIL, headers=headers).json()
    nats = {
        each["text"]: each["log_odds"]
        for each in after["explanation"]
        if each["family"] == "people"
    }

    ((sentence, said),) = nats.items()
    assert "this site has written to this address 2 times" == sentence
    assert said == pytest.approx(-2.197, abs=1e-3)
    assert after["log_odds"] == pytest.approx(before["log_odds"] + said)
    total = sum(each["log_odds"] for each in after["explanation"])
    assert total == pytest.approx(after["log_odds"])
    assert "postbayes_correspondents 2.0" in client.get("/metrics").text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"sender": "ann"}, "recipients"),
        ({"sender": "ann", "recipients": []}, "recipients"),
        ({"sender": "ann", "recipients": ["a@b.example"], "cc": []}, "cc"),
        ({"sender": "ann" * 200, "recipients": ["a@b.example"]}, "sender"),
        ({"sender": "ann", "recipients": ["a@b.example"] * 1001}, "recipients"),
    ],
)
def test_what_is_no_message_counts_nothing(client, body, field):
    """The problem names the field."""
    answer = client.post("/sent", json=body)

    assert 400 == answer.status_code
    assert field in answer.json()["detail"]
    assert 415 == client.post("/sent", content=b"{}").status_code
    assert 0 == len(client.app.state.application.correspondents)


def test_nothing_is_counted_where_no_server_is_believed(tmp_path):
    """The request succeeds, so scripts need not know the setting."""
    with served(tmp_path) as client:
        answer = client.post("/sent", json={"sender": "ann", "recipients": CARL})

    assert {"counted": 0} == answer.json()


WRITTEN = "/profiles/default/correspondents"


def test_correspondents_are_counted_and_forgotten(client):
    """The worker that answers forgets at once, including unsaved counts."""
    for people in (CARL, CARL[:1]):
        client.post("/sent", json={"sender": "ann", "recipients": people})
    client.app.state.application.correspondents.flush()
    all_of_them = client.get(WRITTEN).json()
    carl = client.get(WRITTEN, params={"address": "carl@Friends.example"}).json()
    client.post("/sent", json={"sender": "ann", "recipients": CARL[:1]})
    left = client.delete(WRITTEN, params={"address": CARL[0]}).json()

    assert (2, 3) == (all_of_them["addresses"], all_of_them["messages"])
    assert (1, 2) == (carl["addresses"], carl["messages"])
    assert all_of_them["last"] == carl["last"] == left["last"]
    assert (1, 1) == (left["addresses"], left["messages"])
    assert 1 == len(client.app.state.application.correspondents)
    nobody = client.get(WRITTEN, params={"address": CARL[0]}).json()
    assert {"addresses": 0, "messages": 0, "last": None} == nobody


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("get", f"{WRITTEN}?address=carl", 422, "'carl' is not an address"),
        ("delete", f"{WRITTEN}?address=carl", 422, "'carl' is not an address"),
        ("delete", WRITTEN, 422, "address"),
        ("delete", "/profiles/x/correspondents?address=a@b.example", 404, "no profile"),
        ("get", "/profiles/x/correspondents", 404, "no profile"),
        ("get", "/profiles/x/lists", 404, "no profile"),
        ("delete", "/profiles/x/lists?entry=a@b.example", 404, "no profile"),
    ],
)
def test_what_is_nobody_is_refused(client, method, path, status, sentence):
    """The error is a sentence, and nothing is forgotten."""
    client.post("/sent", json={"sender": "ann", "recipients": CARL})
    answer = client.request(method, path)

    assert (status, True) == (answer.status_code, sentence in answer.json()["detail"])
    assert 2 == len(client.app.state.application.correspondents)
