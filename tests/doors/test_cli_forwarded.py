"""`postbayes forwarded`: who teaches, what, and when a mail server tries again."""

from __future__ import annotations

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.support.messages import SPAM
from tests.support.service import served

ANN = "ann@example.org"
ID = "0123456789abcdef" * 2
HEAD = b"From: ann@example.org\nTo: spam@example.org\nSubject: Fwd\n"
QUOTED = HEAD + b"\nX-Postbayes-Id: " + ID.encode()
TAUGHT = {"id": ID, "outcome": "learned", "label": "spam", "label_before": None}
PROBLEM = {"detail": "the reason"}


def attached(*messages):
    """Return a message that has others attached."""
    parts = [b"--b\nContent-Type: message/rfc822\n\n%b\n" % each for each in messages]
    return HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n%b--b--\n" % (
        b"".join(parts)
    )


class Teacher(ThreadingHTTPServer):
    """A service that notes what it is taught, and answers as it is told."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked = []
        self.statuses = []
        self.document = {**TAUGHT, "revision": 1, "score_before": None}


class Answers(BaseHTTPRequestHandler):
    """A connection to it."""

    def do_POST(self):
        """Note a message, or the id of one, and the query."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        query = parse_qs(urlsplit(self.path).query)
        said = {name: value for name, (value,) in query.items()}
        self.server.asked.append((body, said))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        document = self.server.document if status == 200 else PROBLEM
        answer = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def teacher():
    """A service on this machine."""
    with served(Teacher()) as found:
        yield found


@pytest.fixture
def forward(run_anew, teacher):
    """Run the command as a mail server does, for Ann if nothing else is said."""
    url = f"http://127.0.0.1:{teacher.server_port}"

    def call(raw, *arguments, sender=ANN, label="spam"):
        return run_anew(
            "forwarded",
            f"--label={label}",
            f"--sender={sender}",
            f"--url={url}",
            *arguments,
            stdin=raw,
        )

    return call


def test_each_attached_message_is_taught_as_its_sender(forward, teacher):
    """The profile is that of the sender, and so is the source in the ledger."""
    said = {"label": "spam", "recipient": ANN, "source": ANN}

    assert (0, f"{ANN}: 2 taught as spam\n", "") == forward(attached(*SPAM[:2]))
    assert [(each, said) for each in SPAM[:2]] == teacher.asked


def test_a_profile_that_is_named_learns(forward, teacher):
    """As where one filter serves the whole site."""
    forward(attached(SPAM[0]), "--profile", "site")

    assert {"label": "spam", "profile": "site", "source": ANN} == teacher.asked[0][1]


def test_it_compiles_nothing(teacher):
    """The unit of Postfix in Debian 13 has ``MemoryDenyWriteExecute=yes``."""
    program = (
        "import sys; sys.modules['numba'] = None; from app.doors.cli.main import *"
    )
    program += "; main(sys.argv[1:])"
    url = f"--url=http://127.0.0.1:{teacher.server_port}"
    command = ["forwarded", "--label=spam", f"--sender={ANN}", url]
    done = subprocess.run(
        [sys.executable, "-c", program, *command],
        input=attached(SPAM[0]),
        capture_output=True,
        check=False,
    )

    assert (0, b"") == (done.returncode, done.stderr)
    assert SPAM[0] == teacher.asked[0][0]


@pytest.mark.parametrize("sender", ["", " ", "\t"])
def test_a_stranger_teaches_nothing_and_gets_no_answer(forward, teacher, sender):
    """A mail server that has authenticated nobody gives an empty name."""
    code, out, err = forward(attached(SPAM[0]), sender=sender)

    assert (
        0,
        "",
        "postbayes: nothing was taught: the sender is not authenticated\n",
    ) == (
        code,
        out,
        err,
    )
    assert [] == teacher.asked


def test_a_source_is_as_long_as_the_ledger_takes(forward, teacher):
    """A name of any length is that of somebody."""
    forward(attached(SPAM[0]), sender="x" * 100)

    assert ("x" * 64, "x" * 100) == (
        teacher.asked[0][1]["source"],
        teacher.asked[0][1]["recipient"],
    )


def test_a_quoted_id_is_taught(forward, teacher):
    """The message itself is not there."""
    assert 0 == forward(QUOTED)[0]
    assert {"id": ID} == json.loads(teacher.asked[0][0])
    assert {"label": "spam", "recipient": ANN, "source": ANN} == teacher.asked[0][1]


def test_text_alone_teaches_nothing(forward, teacher):
    """The log says what the sender has to do."""
    code, out, err = forward(HEAD + b"\nsee below\n")

    assert (0, "") == (code, out)
    assert f"{ANN} forwarded no message; it must be attached" in err
    assert [] == teacher.asked


@pytest.mark.parametrize("status", [409, 413])
def test_a_message_that_is_refused_is_passed_over(forward, teacher, status):
    """Another try would end the same, and the next one may be taken."""
    teacher.statuses = [status]
    code, out, err = forward(attached(*SPAM[:2]))

    assert (0, f"{ANN}: 1 taught as spam\n") == (code, out)
    assert "postbayes: a message was skipped: the reason\n" == err


def test_an_id_that_is_unknown_is_passed_over(forward, teacher):
    """The message was scored too long ago, or elsewhere."""
    teacher.statuses = [404]

    assert (0, "postbayes: a message was skipped: the reason\n") == (
        forward(QUOTED)[::2]
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
def test_a_mail_server_tries_again(forward, teacher, status):
    """Where the service is away, and until somebody mends a wrong configuration."""
    teacher.statuses = [200, status]
    code, out, err = forward(attached(*SPAM[:2]))

    assert (75, "", "postbayes: the reason\n") == (code, out, err)


def test_a_service_that_is_away_is_asked_again(run_anew):
    """The address has no listener."""
    url = "http://127.0.0.1:1"
    arguments = ["--label=spam", f"--sender={ANN}", f"--url={url}"]
    code, _, err = run_anew("forwarded", *arguments, stdin=attached(SPAM[0]))

    assert 75 == code
    assert f"the service at {url} does not answer" in err


def test_the_service_of_the_settings_may_have_an_ipv6_address(run_anew, monkeypatch):
    """It stands in brackets in a URL."""
    monkeypatch.setenv("POSTBAYES_HOST", "::1")
    monkeypatch.setenv("POSTBAYES_PORT", "1")
    arguments = ["--label=spam", f"--sender={ANN}"]
    code, _, err = run_anew("forwarded", *arguments, stdin=attached(SPAM[0]))

    assert 75 == code
    assert "the service at http://[::1]:1 does not answer" in err


def test_another_service_teaches_nothing(forward, teacher):
    """Its status 200 does not prove that a message was taught."""
    teacher.document = {"status": "fine"}

    assert 75 == forward(attached(SPAM[0]))[0]


def test_a_label_has_to_be_there(forward):
    """It is a mistake in the mail server's configuration."""
    code, _, err = forward(attached(SPAM[0]), label="")

    assert (75, "postbayes: give the label of the messages with --label\n") == (
        code,
        err,
    )


def test_a_wrong_setting_is_mended_without_a_bounce(run_anew, monkeypatch):
    """Where no address is given, that of the settings counts."""
    monkeypatch.setenv("POSTBAYES_PORT", "eighty")
    arguments = ["--label=spam", f"--sender={ANN}"]
    code, _, err = run_anew("forwarded", *arguments, stdin=attached(SPAM[0]))

    assert (75, True) == (code, "POSTBAYES_PORT" in err)
