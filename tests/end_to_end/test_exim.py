"""A real Exim asks by its `spam` condition, in spamd's way and in rspamd's.

Debian installs Exim or Postfix, never both; .ci/run unpacks the one that is not
installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support import clients
from tests.support.command import PATIENCE
from tests.support.messages import HAM, SPAM, ham, spam

pytestmark = pytest.mark.clients

DOCUMENT = Path(__file__).parents[2] / "docs" / "connecting.md"

FRAME = """\
exim_path = {program}
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


def documented(variant, port):
    """Return one of the documented configurations, with the port of a service."""
    blocks = re.findall(r"```exim\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    address = "spamd_address = 127.0.0.1 "
    asking = [block for block in blocks if f"{address}783" in block]
    (block,) = (b for b in asking if ("variant=rspamd" in b) == (variant == "rspamd"))
    return block.replace(f"{address}783", f"{address}{port}")


@pytest.fixture(params=["spamd", "rspamd"])
def exim(request, spamd_site):
    """Sends a message to a private Exim, and returns its answers and its mailbox."""
    program = clients.find("exim4")
    service, port = spamd_site
    # Enough to refuse spam with the headers that Exim adds.
    for n in range(30, 60):
        service.teach(ham(n), "ham")
        service.teach(spam(n), "spam")
    # Not pytest's temporary folder: Exim gives up its rights, and may not enter.
    home = Path(tempfile.mkdtemp(prefix="postbayes-exim-"))
    home.chmod(0o755)
    settings = FRAME
    for name, value in (
        ("program", program),
        ("home", str(home)),
        ("documented", documented(request.param, port)),
    ):
        settings = settings.replace(f"{{{name}}}", value)
    (home / "conf").write_text(settings)
    (home / "conf").chmod(0o644)
    (home / "spool").mkdir()
    for path in (home, home / "spool"):
        shutil.chown(path, "Debian-exim", "Debian-exim")

    def send(raw, *options):
        head = b"EHLO client\nMAIL FROM:<a@example.net>\nRCPT TO:<bob@example.org>\n"
        dialogue = head + b"DATA\n" + raw + b".\nQUIT\n"
        done = subprocess.run(
            # -odi: delivered before it ends.
            [program, "-C", str(home / "conf"), *options, "-odi", "-bs"],
            input=dialogue.replace(b"\n", b"\r\n"),
            capture_output=True,
            check=True,
            timeout=PATIENCE,
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


def test_exim_does_not_score_mail_of_its_users(exim):
    """They forward spam, to teach it, and would be refused."""
    taken, mailbox = exim(
        SPAM[0], "-oMa", "192.0.2.1", "-oMaa", "PLAIN", "-oMai", "ann"
    )

    assert "250 OK id=" in taken
    assert "WINNER" in mailbox
    assert "X-Spam-Score" not in mailbox


def test_exim_lets_mail_pass_while_the_service_is_away(exim, spamd_site):
    """Without points, and at once."""
    service, _ = spamd_site
    service.stop()

    taken, mailbox = exim(SPAM[0])

    assert "250 OK id=" in taken
    assert "X-Spam-Score" not in mailbox
    assert "WINNER" in mailbox
