"""Correspondents with a real Postfix: its login, its header_checks, another milter."""

from __future__ import annotations

import smtplib
import socketserver
import time
from pathlib import Path

import pytest

from app.doors.milter.codec import PacketDecoder
from app.doors.milter.session import MilterSession
from tests.support import mail_site
from tests.support.command import PATIENCE
from tests.support.databases import sqlite_url
from tests.support.mail_site import required
from tests.support.service import Service, served

pytestmark = pytest.mark.mail

PAGE = Path(__file__).parents[2] / "docs" / "connecting.md"
RULE = "/^Authentication-Results:/ IGNORE"
SERVER = "mx.example.org"
VERIFIED = f"{SERVER}; dmarc=pass header.from=friends.example"
ANN, CARL = f"ann@{mail_site.DOMAIN}", "carl@friends.example"


class Verifier(socketserver.BaseRequestHandler):
    """A milter that verifies the author of some mail, in the place of OpenDMARC."""

    def handle(self):
        """Speak the protocol until the mail server has no more."""
        session, decoder = MilterSession(frozenset()), PacketDecoder()
        while not session.ended and (data := self.request.recv(65536)):
            for packet in decoder.feed(data):
                answer = session.receive(packet)
                if not isinstance(answer, bytes):
                    honest = b"X-Honest: yes" in answer.content
                    above = [("Authentication-Results", VERIFIED)] if honest else []
                    answer = answer.accept(results=above)
                self.request.sendall(answer)


@pytest.fixture(scope="module")
def verifier():
    """The address of that milter."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Verifier)
    server.daemon_threads = True
    with served(server):
        yield f"inet:127.0.0.1:{server.server_address[1]}"


@pytest.fixture(scope="module")
def service():
    """A service that believes the name of that milter."""
    with mail_site.open_folder() as folder:
        service = Service(sqlite_url(folder), folder)
        service.milter = service.open_door("milter")
        service.environment["POSTBAYES_AUTHSERV_ID"] = SERVER
        service.start()
        yield service
        service.client.close()
        service.kill()


@pytest.fixture(scope="module")
def site(service, verifier):
    """Postfix with both milters and the rule of the page."""
    required()
    assert RULE in PAGE.read_text()
    with mail_site.open_folder() as folder:
        checks = folder / "header_checks"
        checks.write_text(f"{RULE}\n")
        main = (
            f"smtpd_milters = {verifier}, inet:127.0.0.1:{service.milter}\n"
            f"header_checks = regexp:{checks}\n"
            "smtpd_authorized_xclient_hosts = 127.0.0.0/8\n"
        )
        with mail_site.mail_site(
            milter=f"inet:127.0.0.1:{service.milter}",
            url=f"http://127.0.0.1:{service.port}",
            files={"main.cf": main},
        ) as site:
            yield site


def delivered(site, *headers):
    """Return a message from Carl as it is delivered."""
    raw = "\n".join([*headers, f"From: {CARL}", "Subject: lunch", "", "Noon?", ""])
    with mail_site.Mailbox(site, ANN) as mailbox:
        return mailbox.arrived(mailbox.send(raw.encode(), CARL))[1]


def known(service):
    """Return how many correspondents there are."""
    text = service.client.get("/metrics").text
    return float(text.rpartition("\npostbayes_correspondents ")[2].split()[0])


def test_a_user_writes_and_the_answer_is_known(service, site):
    """The login comes by a macro, and a forged result is gone before the milters."""
    with smtplib.SMTP("127.0.0.1", site.smtp) as smtp:
        smtp.ehlo()
        assert 220 == smtp.docmd("XCLIENT", f"LOGIN={ANN}")[0]
        smtp.sendmail(ANN, [CARL], f"From: {ANN}\r\n\r\nLunch?\r\n")
    deadline = time.monotonic() + PATIENCE
    while known(service) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    forged = delivered(site, f"Authentication-Results: {VERIFIED}")
    honest = delivered(site, "X-Honest: yes")

    assert "written to" not in forged["X-Postbayes-Explanation"]
    assert forged["Authentication-Results"] is None
    assert VERIFIED == honest["Authentication-Results"]
    said = " ".join(honest["X-Postbayes-Explanation"].split())
    assert "this site has written to this address once" in said
