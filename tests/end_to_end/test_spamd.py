"""The real client of spamd: spamc does all that it can."""

from __future__ import annotations

import subprocess

import pytest

from tests.support import clients
from tests.support.command import PATIENCE
from tests.support.messages import ham, spam

pytestmark = pytest.mark.clients

EX_UNAVAILABLE = 69
EX_IOERR = 74
EX_TEMPFAIL = 75


@pytest.fixture
def spamc(spamd_site):
    """Runs spamc, and returns its exit code and what it printed."""
    program = clients.find("spamc")
    _, port = spamd_site

    def run(*arguments, message=b""):
        done = subprocess.run(
            [program, "-d", "127.0.0.1", "-p", str(port), *arguments],
            input=message,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout.decode()

    return run


def points(printed):
    """Return the points and the threshold that spamc prints."""
    score, required = printed.partition("\n")[0].split("/")
    return float(score), float(required)


def test_spamc_pings(spamc):
    """A monitor sees that the door is open."""
    assert (0, "SPAMD/1.5 0\n") == spamc("-K")


def test_spamc_checks(spamc):
    """The exit code is the decision, and the points agree with it."""
    code, printed = spamc("-c", message=spam(9))
    other, passed = spamc("-c", message=ham(9))

    assert (1, 0) == (code, other)
    assert points(printed)[0] >= points(printed)[1] == 5.0
    assert points(passed)[0] < 0.0
    assert 1 == spamc("-E", message=spam(9))[0]


def test_spamc_marks(spamc):
    """A message comes back as it was, with headers on top and forged ones gone."""
    raw = b"X-Spam-Flag: NO\nX-Postbayes: ham\n" + spam(9)
    code, printed = spamc(message=raw)
    headers, _, body = printed.partition("\n\n")

    assert 0 == code
    assert spam(9).decode().partition("\n\n")[2] == body
    assert ["X-Postbayes: spam"] == [
        line for line in headers.splitlines() if line.startswith("X-Postbayes: ")
    ]
    assert "X-Spam-Flag: YES" in headers
    assert "X-Spam-Flag: NO" not in headers
    assert (0, printed) == spamc("--headers", message=raw)


def test_spamc_tells_why(spamc):
    """Symbols, a report, and a report for spam alone."""
    _, names = spamc("-y", message=spam(9))
    _, report = spamc("-R", message=spam(9))

    assert ["BAYES_99", "BAYES_SPAM"] == names.split(",")[:2]
    assert "POSTBAYES_WORDS" in names.split(",")
    assert "Postbayes decides: spam" in report
    assert "POSTBAYES_WORDS" in report
    assert report.partition("\n")[2] == spamc("-r", message=spam(9))[1]
    assert "" == spamc("-r", message=ham(9))[1]


def test_spamc_teaches_and_forgets(spamc, spamd_site):
    """It says whether anything was changed; the ledger has the user."""
    service, _ = spamd_site
    learned = "Message successfully un/learned\n"
    already = "Message was already un/learned\n"
    asked = [
        ("-L", "spam"),
        ("-L", "spam"),
        ("-L", "ham"),
        ("-L", "forget"),
        ("-L", "forget"),
    ]
    told = [spamc(*each, "-u", "ann", message=spam(9)) for each in asked]

    assert [(0, said) for said in (learned, already, learned, learned, already)] == told
    assert 43 == service.client.get("/profiles/default").json()["revision"]


def test_spamc_reports_to_nobody_else(spamc, spamd_site):
    """A report teaches here; that other people's databases got none, it says."""
    service, _ = spamd_site
    told = [spamc("-C", word, message=spam(9)) for word in ("report", "revoke")]

    assert [(0, "Unable to report/revoke message\n")] * 2 == told
    profile = service.client.get("/profiles/default").json()
    assert (42, {"ham": 21, "spam": 20}) == (profile["revision"], profile["messages"])


def test_what_spamc_marked_is_known_again(spamc):
    """The headers that it was given do not make it another message."""
    spamc("-L", "spam", message=spam(9))
    _, marked = spamc(message=spam(9))

    assert "Message was already un/learned\n" in spamc(
        "-L", "spam", message=marked.encode()
    )


def test_spamc_lets_mail_pass_that_cannot_be_scored(spamc, spamd_site):
    """While the service is away, and where a message is empty."""
    service, _ = spamd_site

    assert EX_IOERR == spamc("-x", message=b"\n")[0]
    assert (0, "\n") == spamc(message=b"\n")
    service.stop()
    assert (0, spam(9).decode()) == spamc(
        "--connect-retries=1", "--retry-sleep=0", message=spam(9)
    )
    assert EX_UNAVAILABLE == spamc("-x", "--connect-retries=1", message=spam(9))[0]
    assert EX_TEMPFAIL == spamc("-x", "-X", "--connect-retries=1", message=spam(9))[0]
