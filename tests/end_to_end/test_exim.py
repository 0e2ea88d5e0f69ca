"""A real Exim asks by its `spam` condition.

Exim and Postfix cannot be installed side by side, so where Exim is not, CI
included, this file is left out; the bytes that Exim sends and what it makes of
the answer are in `tests/golden/spamd/report-exim.txt` as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.messages import HAM, SPAM

DOCUMENT = Path(__file__).parents[2] / "docs" / "connecting.md"

FRAME = """\
primary_hostname = mx.example.org
spool_directory = {home}/spool
log_file_path = {home}/%slog
tls_advertise_hosts =
keep_environment =
acl_smtp_rcpt = accept

{documented}

begin routers
keep:
  driver = accept
  transport = file

begin transports
file:
  driver = appendfile
  file = {home}/mbox
  user = Debian-exim
"""


def configuration(home, port):
    """Return the documented lines in a configuration of their own."""
    (documented,) = re.findall(r"```exim\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    address = "spamd_address = 127.0.0.1 "
    assert f"{address}783\n" in documented
    documented = documented.replace(f"{address}783\n", f"{address}{port}\n")
    return FRAME.replace("{home}", str(home)).replace("{documented}", documented)


@pytest.fixture
def exim(spamd_site):
    """Sends a message to a private Exim, and returns its answers and its mailbox."""
    _, port = spamd_site
    # Not pytest's temporary folder: Exim gives up its rights, and may not enter.
    home = Path(tempfile.mkdtemp(prefix="postbayes-exim-"))
    home.chmod(0o755)
    (home / "conf").write_text(configuration(home, port))
    (home / "conf").chmod(0o644)
    (home / "spool").mkdir()
    for path in (home, home / "spool"):
        shutil.chown(path, "Debian-exim", "Debian-exim")

    def send(raw):
        head = b"EHLO client\nMAIL FROM:<a@example.net>\nRCPT TO:<bob@example.org>\n"
        dialogue = head + b"DATA\n" + raw + b".\nQUIT\n"
        done = subprocess.run(
            # -odi: delivered before it ends.
            ["/usr/sbin/exim4", "-C", str(home / "conf"), "-odi", "-bs"],
            input=dialogue.replace(b"\n", b"\r\n"),
            capture_output=True,
            check=True,
            timeout=60,
        )
        mailbox = home / "mbox"
        return done.stdout.decode(), mailbox.read_text() if mailbox.exists() else ""

    yield send
    shutil.rmtree(home)


def test_exim_asks_by_its_spam_condition(exim):
    """Spam is refused at the end of DATA, and the rest carries its points."""
    refused, _ = exim(SPAM[0])
    taken, mailbox = exim(HAM[0])

    assert "550 This looks like spam (" in refused
    assert "250 OK id=" in taken
    assert "X-Spam-Score: -" in mailbox
    assert "POSTBAYES_WORDS" in mailbox
    assert "WINNER" not in mailbox


def test_exim_lets_mail_pass_while_the_service_is_away(exim, spamd_site):
    """Without points, and at once."""
    service, _ = spamd_site
    service.stop()

    taken, mailbox = exim(SPAM[0])

    assert "250 OK id=" in taken
    assert "X-Spam-Score" not in mailbox
    assert "WINNER" in mailbox
