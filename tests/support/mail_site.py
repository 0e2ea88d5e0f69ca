"""A whole mail site on loopback: Postfix and Dovecot, in folders of their own.

Postfix takes mail by SMTP, asks the milter, and gives it to Dovecot by LMTP;
Dovecot has it for IMAP, and runs the IMAPSieve scripts of deploy/dovecot.  Both
come from Debian's packages and run as they do there, on ports that are free;
nothing outside the folder is written, and nothing of the system's is started.
"""

from __future__ import annotations

import email
import imaplib
import json
import os
import re
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import pytest

from tests.support import dovecot
from tests.support.command import PATIENCE
from tests.support.service import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from email.message import Message

    from tests.support.dovecot import Sieve

REQUIRE = "POSTBAYES_REQUIRE_MAIL"
PASSWORD = "secret"  # noqa: S105  of a server that lives for one test
DOMAIN = "example.org"

DEPLOY = Path(__file__).parents[2] / "deploy"

_numbers = count(1000)

_MASTER = """\
{smtp} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""

_MAIN = """\
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
maillog_file = {folder}/postfix.log
maillog_file_prefixes = {folder}
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.{domain}
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
virtual_mailbox_domains = {domain}
virtual_mailbox_maps = static:all
virtual_transport = lmtp:inet:127.0.0.1:{lmtp}
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = {folder}/auth
"""


def missing() -> str | None:
    """Return what keeps a mail site from running here, or None."""
    needed = ("/usr/sbin/postfix", "/usr/sbin/dovecot", "/usr/bin/sievec")
    absent = [program for program in needed if not Path(program).exists()]
    if absent:
        return f"{', '.join(absent)} not installed"
    if os.geteuid() != 0:
        return "Postfix and Dovecot want to be started by root"
    return None


class MailSite:
    """Postfix and Dovecot of one test."""

    def __init__(
        self,
        folder: Path,
        *,
        milter: str,
        url: str,
        sieve: Sieve,
        files: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.smtp, self.lmtp = free_port(), free_port()
        self.imap, self.imaps = free_port(), free_port()
        self.certificate = folder / "cert.pem"
        names = {
            "folder": folder,
            "domain": DOMAIN,
            "password": PASSWORD,
            "smtp": self.smtp,
            "lmtp": self.lmtp,
            "imap": self.imap,
            "imaps": self.imaps,
        }
        postfix = folder / "postfix"
        for made in (postfix, folder / "queue", folder / "data", folder / "mail"):
            made.mkdir()
        shutil.chown(folder / "data", "postfix")
        shutil.chown(folder / "mail", "nobody", "nogroup")
        ours = files.get("main.cf") or (DEPLOY / "postfix" / "main.cf").read_text()
        ours = ours.replace("inet:127.0.0.1:11332", milter)
        # A busy machine is no reason to accept mail that was not scored.
        ours = re.sub(r"_timeout=\d+s", f"_timeout={PATIENCE}s", ours)
        (postfix / "main.cf").write_text(_MAIN.format(**names) + ours)
        master = _MASTER.format(**names) + files.get("master.cf", "")
        (postfix / "master.cf").write_text(master)

        installed = folder / "postbayes"
        shutil.copytree(DEPLOY / "dovecot", installed)
        for name, text in files.items():
            if name.endswith(".sieve"):
                (installed / name).write_text(text)
        teach = installed / "postbayes-teach"
        teach.write_text(teach.read_text().replace("http://127.0.0.1:8025", url))
        configuration = dovecot.configuration(names, sieve=sieve, installed=installed)
        (folder / "dovecot.conf").write_text(configuration)
        _run(
            *("openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048"),
            *("-keyout", str(folder / "key.pem"), "-out", str(self.certificate)),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
        )
        for script in installed.glob("*.sieve"):
            if script.name in configuration:
                _run("sievec", "-c", str(folder / "dovecot.conf"), str(script))

    def start(self) -> None:
        """Start both, and wait until they answer."""
        # In the foreground: they end with us, and hold none of our pipes.
        commands = (
            ("dovecot", "-F", "-c", str(self.folder / "dovecot.conf")),
            ("postfix", "-c", str(self.folder / "postfix"), "start-fg"),
        )
        for name, *arguments in commands:
            with (self.folder / f"{name}.out").open("w") as out:
                self._processes.append(
                    subprocess.Popen(
                        [f"/usr/sbin/{name}", *arguments], stdout=out, stderr=out
                    )
                )
        for port in (self.smtp, self.lmtp, self.imap):
            self._wait(port)

    def stop(self) -> None:
        """Stop both."""
        # Trap: what `start-fg` started goes on where only its script is ended.
        subprocess.run(
            ["/usr/sbin/postfix", "-c", str(self.folder / "postfix"), "stop"],
            # It may not have come up: then that is the test's failure, not this.
            check=False,
            capture_output=True,
        )
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(PATIENCE)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(self.log())

    def flush(self) -> None:
        """Have Postfix try again what waits in its queue."""
        _run("/usr/sbin/postqueue", "-c", str(self.folder / "postfix"), "-f")

    def held(self) -> list[str]:
        """Return the senders of the messages that Postfix has on hold."""
        queue = subprocess.run(
            ["/usr/sbin/postqueue", "-c", str(self.folder / "postfix"), "-j"],
            capture_output=True,
            text=True,
            check=True,
        )
        found = [json.loads(line) for line in queue.stdout.splitlines()]
        return [each["sender"] for each in found if each["queue_name"] == "hold"]

    def log(self) -> str:
        """Return what both have logged."""
        logs = [*self.folder.glob("*.out"), *self.folder.glob("*.log")]
        return "\n".join(each.read_text() for each in logs)


class Mailbox:
    """What a user sees and does; each message is found by a word of its own."""

    def __init__(self, site: MailSite, user: str) -> None:
        self.site = site
        self.user = user
        self.imap = imaplib.IMAP4("127.0.0.1", site.imap)
        self.imap.login(user, PASSWORD)

    def __enter__(self) -> Self:
        """Return the mailbox."""
        return self

    def __exit__(self, *_: object) -> None:
        """Log out."""
        self.imap.logout()

    def submit(self, raw: bytes, *recipients: str) -> None:
        """Send a message after a login, as mail programs do."""
        with smtplib.SMTP("127.0.0.1", self.site.smtp) as smtp:
            smtp.login(self.user, PASSWORD)
            smtp.sendmail(self.user, recipients, raw)

    def send(self, raw: bytes, sender: str = "someone@example.net") -> str:
        """Send a message by SMTP, and return the word by which it is found."""
        word = f"word{next(_numbers)}"
        raw = raw.replace(b"\n", b"\r\n") + word.encode() + b"\r\n"
        with smtplib.SMTP("127.0.0.1", self.site.smtp) as smtp:
            smtp.sendmail(sender, [self.user], raw)
        return word

    def find(self, word: str, folder: str) -> str | None:
        """Return the number in a folder that a message has now, if it is there."""
        self.imap.select(folder)
        found = self.imap.uid("SEARCH", "BODY", word)[1][0].split()
        return found[-1].decode() if found else None

    def arrived(self, word: str, *folders: str) -> tuple[str, Message]:
        """Return folder and message, once it is delivered to the inbox, Junk or others."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for folder in folders or ("INBOX", "Junk"):
                number = self.find(word, folder)
                if number is not None:
                    (_, raw), _ = self.imap.uid("FETCH", number, "(BODY.PEEK[])")[1]
                    return folder, email.message_from_bytes(raw)
            time.sleep(0.02)
        raise AssertionError(self.site.log())

    def move(self, word: str, source: str, target: str) -> None:
        """Move a message from one folder to another."""
        number = self.find(word, source)
        assert "OK" == self.imap.uid("MOVE", number, target)[0]

    def mark(self, word: str, folder: str, change: str) -> None:
        """Change the flags of a message, such as by ``+FLAGS ($Junk)``."""
        number = self.find(word, folder)
        assert "OK" == self.imap.uid("STORE", number, *change.split(" ", 1))[0]


@contextmanager
def mail_site(
    *,
    milter: str,
    url: str,
    sieve: Sieve = "learning",
    files: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[MailSite]:
    """Run a mail site as long as the context lasts.

    Parameters
    ----------
    milter : str
        Address of the milter, as Postfix writes it.
    url : str
        Address of the HTTP door.
    sieve : Sieve
        What Dovecot does with mail.
    files : mapping of str to str
        The text of files that are not to be those of deploy: main.cf, Sieve scripts;
        and of master.cf, that of further services.
    """
    with open_folder() as folder:
        site = MailSite(folder, milter=milter, url=url, sieve=sieve, files=files)
        try:
            site.start()
            yield site
            # Dovecot 2.3 refuses the second run where two of the labels' rules match.
            assert dovecot.version() < (2, 4) or "rror: sieve" not in site.log()
        finally:
            site.stop()


@contextmanager
def open_folder() -> Iterator[Path]:
    """Make a folder that is there as long as the context lasts.

    Not pytest's, which only root may enter: both servers run as users of their
    own.
    """
    folder = Path(tempfile.mkdtemp(prefix="postbayes-mail-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def required():
    """Skip the test where there is no Postfix or Dovecot; in CI it fails."""
    reason = missing()
    if reason is not None:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1")
        pytest.skip(f"{reason}: not tested")
