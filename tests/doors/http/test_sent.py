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
    """It is a reason with a sentence, and the summands still sum to the log-odds."""
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
    """A script need not know whether the service has a use for it."""
    with served(tmp_path) as client:
        answer = client.post("/sent", json={"sender": "ann", "recipients": CARL})

    assert {"counted": 0} == answer.json()
