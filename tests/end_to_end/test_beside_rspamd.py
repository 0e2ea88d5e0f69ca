"""A real rspamd before Postbayes in a real Postfix, as the page on connecting has it.

rspamd runs with the configuration of its package and the files of the page; what the
test adds keeps it from looking anything up, and lets it start in a second.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.support import clients, mail_site
from tests.support.command import PATIENCE
from tests.support.mail_site import DOMAIN, required
from tests.support.messages import ham, spam
from tests.support.service import free_port

pytestmark = [pytest.mark.mail, pytest.mark.clients]

PAGE = Path(__file__).parents[2] / "docs" / "connecting.md"
PACKAGED = Path("/etc/rspamd")
# As on a block list: enough points for a mark, and not for more.
LISTED = "listed@example.net"
RULE = f"""\
rspamd_config.LISTED_SENDER = {{
    callback = function(task) return task:get_from("smtp")[1].addr == "{LISTED}" end,
    score = 8.0,
}}"""


def recipe():
    """Return the files of the section, by their names."""
    section = PAGE.read_text().split("\n## Beside rspamd\n")[1].split("\n## ")[0]
    found = re.findall(
        r"^```text\n(# /([\w./-]+).*?)^```", section, re.MULTILINE | re.DOTALL
    )
    return {Path(path).name: body for body, path in found}


class Rspamd:
    """An rspamd whose proxy is a milter and scans by itself, and its controller.

    Parameters
    ----------
    folder : Path
        Where all its files are.
    files : dict
        Files of local.d, by name.
    redis : int
        Port of the Redis that it is told to use.
    """

    def __init__(self, folder, files, redis):
        self.program = clients.find("rspamd")
        self.folder = folder
        self.milter, self.controller = free_port(), free_port()
        (folder / "suffixes").write_text("org\nnet\nexample\n")
        off = {
            f"override.d/{module.name}": "enabled = false;"
            for module in (PACKAGED / "modules.d").glob("*.conf")
        }
        ours = {
            # No module of its core, such as SPF, no look-ups, and no thousands of
            # suffixes to compile.
            "override.d/options.inc": 'filters = "";\n'
            'dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 1; }\n'
            f'url_tld = "{folder}/suffixes";\n'
            "disable_hyperscan = true;",
            "rspamd.local.lua": RULE,
            "override.d/redis.conf": f'servers = "127.0.0.1:{redis}";',
            # Mail of the tests comes from the loopback.
            "override.d/milter_headers.conf": "skip_local = false;",
            "override.d/logging.inc": 'type = "console";',
            "override.d/worker-normal.inc": "enabled = false;",
            "override.d/worker-proxy.inc": f'bind_socket = "127.0.0.1:{self.milter}";\n'
            'upstream "local" { default = yes; self_scan = yes; }',
            "override.d/worker-controller.inc": 'secure_ip = "127.0.0.1";\n'
            f'bind_socket = "127.0.0.1:{self.controller}";',
        }
        theirs = {f"local.d/{name}": text for name, text in files.items()}
        for name, text in (off | ours | theirs).items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{text}\n")
        self.process = None

    def start(self):
        """Start it, and wait until it answers."""
        folders = ("LOCAL_CONFDIR", "DBDIR", "RUNDIR", "LOGDIR")
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [
                    *(self.program, "-f", "-i", "-c", str(PACKAGED / "rspamd.conf")),
                    *(f"--var={name}={self.folder}" for name in folders),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        for port in (self.milter, self.controller):
            while not opens(port):
                assert self.process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.02)

    def stop(self):
        """Stop it."""
        self.process.terminate()
        self.process.wait(PATIENCE)

    def log(self):
        """Return what it has logged."""
        return (self.folder / "log").read_text()


def opens(port):
    """Return whether a port takes connections."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def redis():
    """A socket in Redis's place, that takes connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


@pytest.fixture(scope="module")
def rspamd(redis):
    """An rspamd as the page configures it."""
    with mail_site.open_folder() as folder:
        files = {name: text for name, text in recipe().items() if name.endswith("conf")}
        rspamd = Rspamd(folder, files, redis.getsockname()[1])
        rspamd.start()
        yield rspamd
        rspamd.stop()


@pytest.fixture(scope="module")
def site(marking, rspamd):
    """Postfix, which asks rspamd and the service, and Dovecot."""
    required()
    files = recipe()
    second = f"inet:127.0.0.1:{marking.milter}"
    files["main.cf"] = files["main.cf"].replace("inet:127.0.0.1:11336", second)
    with mail_site.mail_site(
        milter=f"inet:127.0.0.1:{rspamd.milter}",
        url=f"http://127.0.0.1:{marking.port}",
        sieve="filing",
        files=files,
    ) as site:
        yield site


@pytest.fixture
def mailbox(site):
    """Ann's mail, over IMAP."""
    with mail_site.Mailbox(site, f"ann@{DOMAIN}") as mailbox:
        yield mailbox


@contextmanager
def away(server):
    """Run without rspamd or without the service for a while."""
    server.stop()
    try:
        yield
    finally:
        server.start()


def verdicts(mailbox, raw, **sender):
    """Return the folder of a message, our mark, and rspamd's mark and findings."""
    folder, message = mailbox.arrived(mailbox.send(raw, **sender))
    findings = message["X-Spamd-Result"]
    return folder, message["X-Postbayes"], message["X-Spam"], findings is not None


def test_mail_carries_the_headers_of_both(mailbox):
    """Spam that we were taught is ours to mark; rspamd finds nothing in it."""
    assert ("Junk", "spam", None, True) == verdicts(mailbox, spam(150))
    assert ("INBOX", "ham", None, True) == verdicts(mailbox, ham(150))


def test_what_rspamd_marks_is_filed_and_is_no_evidence(marking, mailbox):
    """A message is scored as it would be without the headers of rspamd."""
    folder, message = mailbox.arrived(mailbox.send(ham(151), LISTED))
    plain = message_from_bytes(bytes(message))
    for name in ("X-Spam", "X-Spamd-Result", "X-Rspamd-Server", "X-Rspamd-Queue-Id"):
        assert name in plain
        del plain[name]

    with_headers, without = (marking.classify(bytes(m)) for m in (message, plain))

    assert ("Junk", "Yes", "ham") == (folder, message["X-Spam"], message["X-Postbayes"])
    assert message["X-Postbayes-Id"] == with_headers["id"] == without["id"]
    assert with_headers["log_odds"] == without["log_odds"]


def test_rspamd_has_no_statistics(rspamd, redis, mailbox):
    """It neither asks nor teaches its Bayes, and says so at its start."""
    verdicts(mailbox, spam(152))

    assert "success = true" in rspamc(rspamd, "learn_spam", message=spam(153))
    printed = rspamc(rspamd, "stat")

    assert "Messages learned: 0\n" in printed
    assert "Statfile" not in printed
    assert "so disable classifier bayes completely" in rspamd.log()
    with pytest.raises(BlockingIOError):
        redis.accept()


def rspamc(rspamd, *arguments, message=b""):
    """Return what rspamc prints."""
    done = subprocess.run(
        [clients.find("rspamc"), "-h", f"127.0.0.1:{rspamd.controller}", *arguments],
        input=message,
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout.decode()


def test_while_rspamd_is_away_postbayes_marks(rspamd, mailbox):
    """Mail passes without rspamd's headers."""
    with away(rspamd):
        without = verdicts(mailbox, spam(154))

    assert ("Junk", "spam", None, False) == without
    assert ("Junk", "spam", None, True) == verdicts(mailbox, spam(155))


def test_while_postbayes_is_away_rspamd_marks(marking, mailbox):
    """Mail passes without our headers."""
    with away(marking):
        without = verdicts(mailbox, ham(156), sender=LISTED)

    assert ("Junk", None, "Yes", True) == without
    assert ("Junk", "ham", "Yes", True) == verdicts(mailbox, ham(157), sender=LISTED)
