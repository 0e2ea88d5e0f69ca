"""Users forward mail to an address, and a real Postfix or Exim has it taught."""

from __future__ import annotations

import re
import shutil
import smtplib
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.support import clients, command, mail_site
from tests.support.command import PATIENCE
from tests.support.mail_site import DEPLOY, required
from tests.support.messages import ham, spam
from tests.support.service import learned, more, until

DOCUMENT = Path(__file__).parents[2] / "docs" / "connecting.md"
ANN = f"ann@{mail_site.DOMAIN}"
PROGRAM = "/usr/bin/postbayes forwarded"


@contextmanager
def program(service):
    """Give the documented command as other users can run it, to teach this service."""
    with command.on_path() as folder:
        for path in (Path(folder), *Path(folder).iterdir()):
            path.chmod(0o777)
        # The Python of the tests may be where other users have no access.
        found = Path(folder, "postbayes")
        theirs = shutil.which("python3", path="/usr/bin") or sys.executable
        found.write_text(found.read_text().replace(sys.executable, theirs))
        url = f"http://127.0.0.1:{service.port}"
        yield f"{folder}/postbayes forwarded --url={url}"


def documented(start, language="text"):
    """Return the block of the page that begins so."""
    page = DOCUMENT.read_text()
    (block,) = re.findall(
        rf"```{language}\n({re.escape(start)}.*?)```", page, re.DOTALL
    )
    return block


def forward(*messages, to="spam@example.org"):
    """Return a message that has others attached."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = ANN, to, "Fwd: this one"
    made.set_content("See the attachment.")
    for each in messages:
        made.add_attachment(each)
    return made.as_bytes()


def last_row(service):
    """Return label, source and id of the newest row of the ledger."""
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        return database.execute(
            "SELECT label, source, lower(hex(digest)) FROM ledger ORDER BY revision DESC"
        ).fetchone()


@pytest.mark.mail
def test_postfix_has_it_taught_by_those_who_have_signed_in(marking):
    """Under the id of its verdict, though its subject is another; strangers do not."""
    required()
    with program(marking) as ours:
        master = documented("# /etc/postfix/master.cf")
        main = documented("# /etc/postfix/main.cf: forwarded mail")
        assert PROGRAM in master
        files = {
            "main.cf": (DEPLOY / "postfix" / "main.cf").read_text() + main,
            "master.cf": master.replace(PROGRAM, ours),
        }
        url, milter = (
            f"http://127.0.0.1:{marking.port}",
            f"inet:127.0.0.1:{marking.milter}",
        )
        with (
            mail_site.mail_site(milter=milter, url=url, files=files) as site,
            mail_site.Mailbox(site, ANN) as mailbox,
        ):
            _, arrived = mailbox.arrived(mailbox.send(ham(300)))
            arrived.replace_header("Subject", f"[list] {arrived['Subject']}")
            expected = more(marking, spam=1)
            with smtplib.SMTP("127.0.0.1", site.smtp) as smtp:
                stranger = forward(arrived, to="ham@example.org")
                smtp.sendmail(ANN, ["ham@example.org"], stranger)
            mailbox.submit(forward(arrived), "spam@example.org")
            until(marking, expected)

            assert ("spam", ANN, arrived["X-Postbayes-Id"]) == last_row(marking)
            expected = more(marking, spam=-1, ham=1)
            marking.stop()
            mailbox.submit(forward(arrived), "ham@example.org")
            deadline = time.monotonic() + PATIENCE
            while "status=deferred (temporary failure" not in site.log():
                assert time.monotonic() < deadline, site.log()
                time.sleep(0.05)
            marking.start()
            site.flush()
            until(marking, expected)

            assert (
                f"(by {ANN})"
                in marking.command("why", arrived["X-Postbayes-Id"]).stdout
            )


EXIM = """\
exim_path = {program}
primary_hostname = mx.example.org
spool_directory = {home}/spool
log_file_path = {home}/%slog
tls_advertise_hosts =
keep_environment =
acl_smtp_rcpt = accept
queue_only

{documented}

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${{if eq{{$auth3}}{{secret}}}}
  server_set_id = $auth2
"""


@pytest.mark.clients
def test_exim_has_it_taught_by_those_who_have_signed_in(spamd_site):
    """A session for each of two senders, and a delivery of what they sent."""
    service, _ = spamd_site
    exim = clients.find("exim4")
    with mail_site.open_folder() as home, program(service) as ours:
        block = documented("begin routers\npostbayes:", "exim")
        assert PROGRAM in block
        (home / "spool").mkdir()
        configuration = EXIM.format(
            program=exim, home=home, documented=block.replace(PROGRAM, ours)
        )
        (home / "conf").write_text(configuration)
        (home / "conf").chmod(0o644)
        for path in (home, home / "spool"):
            shutil.chown(path, "Debian-exim", "Debian-exim")

        def call(*arguments, stdin=b""):
            done = subprocess.run(
                [exim, "-C", str(home / "conf"), *arguments],
                input=stdin,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
            assert 0 == done.returncode, done
            return done.stdout

        expected = more(service, spam=1)
        # PLAIN of "\\0ann@example.org\\0secret".
        login = b"AUTH PLAIN AGFubkBleGFtcGxlLm9yZwBzZWNyZXQ=\n"
        for auth, label in ((b"", b"ham"), (login, b"spam")):
            head = b"EHLO c\n%bMAIL FROM:<%b>\nRCPT TO:<%b@example.org>\nDATA\n"
            said = head % (auth, ANN.encode(), label)
            mail = forward(message_from_bytes(spam(300)))
            call("-bs", stdin=said + mail + b"\n.\nQUIT\n")
        call("-q")

        log = (home / "mainlog").read_text()
        assert f"{ANN}: 1 taught as spam" in log
        assert "the sender is not authenticated" in log
        assert expected == learned(service)
        assert ("spam", ANN) == last_row(service)[:2]
