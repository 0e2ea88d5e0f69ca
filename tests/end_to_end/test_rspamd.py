"""The real client of rspamd: rspamc scans, teaches and gets statistics."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support import clients
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service

pytestmark = pytest.mark.clients


@pytest.fixture
def rspamd_site(tmp_path):
    """A service with a profile for a domain, and the port of its rspamd door."""
    service = Service(sqlite_url(tmp_path), tmp_path)
    service.environment["POSTBAYES_REJECT_FROM"] = "8"
    port = service.open_door("rspamd")
    try:
        assert 0 == service.command("profiles", "create", "example.org").returncode
        service.start()
        yield service, port
    finally:
        service.client.close()
        service.kill()


@pytest.fixture
def rspamc(rspamd_site):
    """Runs rspamc, and returns its exit code and what it printed."""
    program = clients.find("rspamc")
    _, port = rspamd_site

    def run(*arguments, message=b""):
        done = subprocess.run(
            [program, "-h", f"127.0.0.1:{port}", *arguments],
            input=message,
            capture_output=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout.decode()

    return run


@pytest.fixture
def taught(rspamc):
    """Rspamc, after it has taught eighteen messages."""
    for n in range(9):
        for command, message in (("learn_ham", ham(n)), ("learn_spam", spam(n))):
            code, printed = rspamc(command, message=message)

            assert 0 == code
            assert "success = true;" in printed
    return rspamc


def test_rspamc_scans(taught):
    """Action, points and symbols are ours, on rspamd's scale."""
    code, printed = taught(message=spam(9))
    _, passed = taught(message=ham(9))

    assert 0 == code
    assert "Action: reject\nSpam: true\nScore: " in printed
    assert " / 15.00\n" in printed
    assert "Symbol: BAYES_SPAM (0.00)[99." in printed
    assert "Symbol: POSTBAYES_WORDS (" in printed
    assert "Action: no action\nSpam: false\nScore: -" in passed
    assert "Symbol: BAYES_HAM (0.00)" in passed


def test_rspamc_shows_the_whole_answer(taught):
    """The symbols add up, and the headers to add are in it."""
    _, printed = taught("-j", message=spam(9))
    answer = json.loads(printed)

    assert answer["score"] == pytest.approx(
        sum(symbol["score"] for symbol in answer["symbols"].values())
    )
    assert "spam" == answer["milter"]["add_headers"]["X-Postbayes"]


def test_rspamc_is_told_what_is_known_already(taught):
    """It prints the error of a 208 and ends well, as with rspamd."""
    code, printed = taught("learn_spam", message=spam(0))

    assert 0 == code
    assert 'has been already learned as spam, ignore it";' in printed


def test_rspamc_teaches_the_profile_of_the_recipient(taught, rspamd_site):
    """By -d; the site's profile learns nothing of it."""
    service, _ = rspamd_site
    taught("learn_spam", "-d", "bob@example.org", message=spam(7))

    revisions = [
        service.client.get(f"/profiles/{name}").json()["revision"]
        for name in ("default", "example.org")
    ]

    assert [18, 1] == revisions


def test_rspamc_gets_statistics(taught):
    """Of what was scanned, and of what is learned."""
    taught(message=spam(9))
    taught(message=ham(9))
    code, printed = taught("stat")

    assert 0 == code
    assert "Messages scanned: 2\nMessages with action reject: 1, 50.00%" in printed
    assert "Messages learned: 18\n" in printed
    assert "Statfile: BAYES_SPAM type: postbayes;" in printed
    assert "Total learns: 18\n" in printed


def test_rspamc_compresses(taught):
    """What it packs is scored and learned as what it does not."""
    _, plain = taught("-j", message=spam(9))
    code, packed = taught("-j", "-z", message=spam(9))

    assert 0 == code
    assert json.loads(plain)["postbayes"] == json.loads(packed)["postbayes"]
    assert "success = true;" in taught("learn_spam", "-z", message=spam(9))[1]
    assert "already learned" in taught("learn_spam", message=spam(9))[1]


def test_rspamc_gets_its_verdict_compressed(taught):
    """It asks for that by a flag, and says what the answer's headers were."""
    code, printed = taught("--headers", "--header=Flags=zstd", message=spam(9))

    assert 0 == code
    assert "\ncompression: zstd" in printed
    assert "Action: reject" in printed


def test_the_filter_of_opensmtpd_marks_mail(rspamd_site):
    """It speaks to OpenSMTPD on its standard streams (smtpd-filters(7))."""
    session = "0.6|1.0|smtp-in"
    lines = [
        "config|ready",
        f"report|{session}|link-connect|s|mx|pass|192.0.2.1:25|192.0.2.2:25",
        f"report|{session}|link-identify|s|EHLO|mx",
        f"report|{session}|tx-begin|s|m",
        f"report|{session}|tx-mail|s|m|ok|ann@example.org",
        f"report|{session}|tx-rcpt|s|m|ok|bob@example.org",
        *(
            f"filter|{session}|data-line|s|t|{line}"
            for line in (b"X-Postbayes: ham\n" + spam(9) + b"\n.").decode().splitlines()
        ),
        f"filter|{session}|commit|s|t|",
    ]
    found = []
    with subprocess.Popen(
        [clients.find("filter-rspamd"), "-url", f"http://127.0.0.1:{rspamd_site[1]}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None
        program.stdin.write("\n".join([*lines, ""]))
        program.stdin.flush()
        for line in program.stdout or ():
            found.append(line.rstrip("\n"))
            if found[-1].endswith("|."):
                break
        program.stdin.close()

    marks = [line for line in found if "X-Postbayes:" in line]
    assert ["filter-dataline|s|t|X-Postbayes: unsure"] == [m[:40] for m in marks]
    assert "filter-result|s|t|proceed" in found
    assert "filter-dataline|s|t|." == found[-1]
