"""The page of a message and its twin: what is pasted is explained, taught, and inert."""

from __future__ import annotations

import math
import re
import threading

import pytest

from app.doors.documents.verdict import MessageOut
from app.doors.http.page import forms, mail_text
from app.mail.limits import MAX_BYTES
from tests.support.application import add_profiles, served, teach
from tests.support.messages import ham, spam

RAW = {"content-type": "message/rfc822"}
HOSTILE = (
    'From: "<script>alert(1)</script>" <x@"><img src=http://t.example/1.gif>.example>\n'
    "To: =?utf-8?q?=E2=80=AEsdrawkcab=00?=\n"
    "Subject: free '\"><svg onload=alert(2)> {{ 7*7 }} \u202egpj.exe\n"
    'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
    "--b\nContent-Type: text/html; charset=utf-8\n\n"
    "<p>free money <img src='http://t.example/2.gif' alt='&lt;script&gt;alert(3)&lt;/script&gt;'>"
    "<a href='javascript:alert(4)'>free</a><a href='http://evil.example/?a=1'>x</a>\n"
    "&lt;script&gt;alert(5)&lt;/script&gt; <b style='display:none'>&lt;img src=x&gt;</b></p>\n"
    "--b\nContent-Type: application/zip\n"
    'Content-Disposition: attachment; filename="<img src=x onerror=alert(6)>.zip"\n\nPK\n--b--\n'
).encode()


@pytest.fixture
def client(tmp_path):
    """A client of a service that was taught some mail of both sides."""
    with served(tmp_path) as client:
        app = client.app.state.application
        for n in range(6):
            teach(app, spam(n), "spam")
            teach(app, ham(n), "ham")
        yield client


def shown(client, raw, **query):
    """Return the page of a message that is posted as a file."""
    files = {"file": ("mail.eml", raw, "message/rfc822")}
    return client.post("/ui/message", files=files, params=query)


def verdicts(client):
    """Return how many messages were classified."""
    tally = client.app.state.application.tally
    return tally.counts("postbayes_classified", "decision")


def test_segments_features_elsewhere_and_the_prior_are_the_log_odds(client):
    """The rest of the document equals the answer of `/classify`."""
    found = client.post("/message", content=spam(7), headers=RAW).json()
    plain = client.post("/classify", content=spam(7), headers=RAW).json()
    segments = [s["log_odds"] for p in found["passages"] for s in p["segments"]]
    rest = [*found["elsewhere"].values(), found["prior"]]

    assert plain == {name: found[name] for name in plain}
    assert found == MessageOut.model_validate(found).model_dump(mode="json")
    assert math.isclose(found["log_odds"], math.fsum([*segments, *rest]), abs_tol=1e-9)
    assert math.fsum(segments) > 0


def test_a_form_is_taken_as_json(client):
    """The fields are those of `/classify`."""
    given = {"subject": "free money", "body": "claim"}
    found = client.post("/message", json=given).json()

    assert ["free", " ", "money"] == [
        each["text"] for p in found["passages"][:1] for each in p["segments"]
    ]


def test_looking_at_a_message_is_no_traffic(client):
    """No counter counts such a message, but it can be taught by its id."""
    before = verdicts(client)
    found = client.post("/message", content=spam(7), headers=RAW).json()
    taught = client.post("/feedback", json={"id": found["id"], "label": "spam"})

    assert before == verdicts(client)
    assert "learned" == taught.json()["outcome"]


def test_a_pasted_message_is_explained(client):
    """Words with strong evidence are marked, with the number of their messages."""
    files = {"message": (None, spam(7).decode())}
    text = client.post("/ui/message", files=files).text

    assert re.search(r'<mark class="spam s[123]"[^>]*title="[^"]*spam \d', text)
    assert "badge spam" in text
    assert "Teach as spam" in text


def test_the_sum_on_the_page_is_the_log_odds(client):
    """The sum equals the log-odds at the top of the page."""
    text = shown(client, spam(7)).text
    above = re.search(r"Log-odds of spam</span><b>([^<]+)</b>", text)[1]

    assert f"<b>{above}</b></td></tr>" in text


def test_a_file_wins_over_pasted_text(client):
    """A page may still hold an earlier paste when a file is dropped."""
    files = {
        "message": (None, "Subject: pasted\n\nx"),
        "file": ("a", b"Subject: filed\n\nx"),
    }
    text = client.post("/ui/message", files=files).text

    assert "filed" in text
    assert "pasted" not in text


def test_nothing_of_a_mail_acts_on_the_page(client):
    """It makes no element, link or image, and hidden text is shown."""
    text = shown(client, HOSTILE).text

    assert not re.search(r"<(script|img|svg)(?! src=\"/ui/static)", text)
    assert "t.example" not in " ".join(re.findall(r"(?:src|href)=\"[^\"]*\"", text))
    assert not re.search(r"href=\"(?![/#])", text)
    assert "&lt;script&gt;alert(5)&lt;/script&gt;" in text
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "\0" not in text
    assert "7*7" in text
    assert "http://evil.example/?a=1" in text
    assert "&lt;img src=x onerror=alert(6)&gt;.zip" in text


def test_tricks_are_named(client):
    """The characters that play tricks are shown as escapes."""
    raw = "Subject: x\n\nfr\u200bee p\u0430ypal v i a g r a".encode()
    found = client.post("/message", content=raw, headers=RAW).json()

    assert {"invisible", "mixed", "spaced"} == set(found["tricks"])
    assert "fr\\u200bee" in shown(client, raw).text


def test_attachments_are_named_with_type_and_size(client):
    """Their content is not shown."""
    raw = (
        b"Content-Type: application/pdf; name=bill.pdf\n"
        b"Content-Disposition: attachment\n\n%PDF-secret words"
    )
    text = shown(client, raw).text

    assert "bill.pdf" in text
    assert "application/pdf" in text
    assert "17 B" in text
    assert "secret" not in text


def test_a_message_is_taught_from_its_page(client):
    """The next page asks for another message, and links to what was taught."""
    text = shown(client, spam(9)).text
    form, id_ = re.search(r'action="(/ui/history/([0-9a-f]{32})/teach)"', text).groups()
    back = re.search(r'name="back" value="([^"]*)"', text)[1]
    after = client.post(form, data={"label": "spam", "back": back})

    assert "/ui/message" == after.url.path
    assert f"/ui/history/{id_}" in after.text
    assert "learned as spam" in after.text
    assert {"ham": 6, "spam": 7} == client.get("/profiles/default").json()["messages"]


def test_an_address_writes_nothing_on_the_page(client):
    """A link cannot claim that something was taught."""
    query = {"said": "learned", "about": "0" * 32, "label": "spam; call 555-0100"}

    assert "555-0100" not in client.get("/ui/message", params=query).text


def test_an_empty_form_is_refused_with_what_to_do(client):
    """The answer is a page."""
    answer = client.post("/ui/message", files={"message": (None, " \n")})

    assert 400 == answer.status_code
    assert "choose its file" in answer.text


def test_a_large_file_is_read_as_far_as_the_parser_reads(client):
    """The rest of the file is discarded, with the end of the form."""
    raw = b"Subject: free\n\n" + b"A" * 76 + b"\n" * (MAX_BYTES + 200_000)
    answer = shown(client, raw)

    assert 200 == answer.status_code
    assert "message-too-large" in answer.text


def test_a_file_over_the_limit_is_refused(tmp_path):
    """The limit is that of a body of `/classify`."""
    with served(tmp_path, max_request_bytes=2048) as client:
        assert 413 == shown(client, b"Subject: x\n\n" + b"y" * 4096).status_code


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"x", "multipart/form-data", 415),
        (b"x", "multipart/form-data; boundary=b", 400),
        (b"&".join([b"a=1"] * 99), "application/x-www-form-urlencoded", 400),
        (
            b"".join(
                b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
                for _ in range(99)
            )
            + b"--b--\r\n",
            "multipart/form-data; boundary=b",
            400,
        ),
        (b"message=" + b"x" * 70_000, "application/x-www-form-urlencoded", 413),
    ],
)
def test_what_is_no_form_is_refused(client, body, content_type, status):
    """The answer is a page."""
    answer = client.post(
        "/ui/message", content=body, headers={"content-type": content_type}
    )

    assert (status, True) == (answer.status_code, "<h1>" in answer.text)


def test_a_form_that_ends_early_is_refused(client):
    """Only a file that is longer than a message is read as far as it was kept."""
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="m"\r\n\r\n'
    early, whole, long = (
        client.post(
            "/ui/message",
            content=head + content,
            headers={"content-type": "multipart/form-data; boundary=b"},
        )
        for content in (
            b"Subject: x\n\ny\r\n--b",
            b"Subject: x\n\ny\r\n--b--\r\n",
            b"Subject: x\n\n" + b"y" * (5 << 20) + b"\r\n--b--\r\n",
        )
    )

    assert (400, True) == (early.status_code, "lacks its last boundary" in early.text)
    assert "lacks its last boundary" not in whole.text + long.text
    assert whole.status_code == long.status_code


def test_a_large_form_is_split_beside_the_event_loop(client, monkeypatch):
    """Beginnings of its boundary take a second of CPU time in 4 MiB."""
    threads = []

    class Parser(forms.FormParser):
        def write(self, data):
            threads.append(threading.current_thread().name)
            return super().write(data)

    monkeypatch.setattr(forms, "FormParser", Parser)
    answer = shown(client, b"Subject: x\n\n" + b"y" * (1 << 20))

    assert (200, ["AnyIO worker thread"]) == (answer.status_code, threads)


@pytest.mark.parametrize("path", ["/ui/sign-in", "/ui/sign-out", "/ui/digest/x"])
def test_a_form_that_strangers_may_post_is_small(client, path):
    """None of them has a file."""
    parts = {"name": (None, "x" * (1 << 17))}

    assert 413 == client.post(path, files=parts).status_code


def test_hiding_characters_are_shown_as_escapes():
    """Line ends are kept, and all blanks become blanks."""
    assert "a\tb\n\\u200b\\x00 é" == mail_text("a\tb\n\u200b\0\u2003é")


def test_the_levels_of_a_personal_profile_are_shown(client):
    """The page shows the parts of the site and of the user, and their sum."""
    app = client.app.state.application
    add_profiles(app, "ann@example.org")
    for number in (90, 91):
        teach(app, spam(number), "ham", profile="ann@example.org")
    query = {"profile": "ann@example.org"}
    found = client.post("/message", content=spam(7), headers=RAW, params=query).json()
    page = shown(client, spam(7), **query).text

    assert [
        ("ann@example.org", {"ham": 2, "spam": 0}, 1),
        ("default", {"ham": 6, "spam": 6}, 1),
    ] == [(e["profile"], e["messages"], e["weight"]) for e in found["levels"]]
    assert math.isclose(found["log_odds"], sum(e["log_odds"] for e in found["levels"]))
    assert found["levels"][0]["log_odds"] < 0 < found["levels"][1]["log_odds"]
    assert "By level" in page
    assert "By level" not in shown(client, spam(7)).text
