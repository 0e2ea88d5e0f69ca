"""A real `postbayes serve`, in a process of its own, over loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import httpx2
import pytest

from tests import mail_site
from tests.messages import ham, spam

# Ends what hangs.  A busy machine does not: five processes that start at once have
# taken more than a minute where twenty others were at work.
PATIENCE = 600


def free_port():
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Service:
    """One server process at a time, on one port and one database."""

    def __init__(self, url, folder):
        self.port = free_port()
        self.folder = folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("POSTBAYES_")},
            "POSTBAYES_DATABASE_URL": url,
            "POSTBAYES_PORT": str(self.port),
        }
        self.process = None
        self.client = httpx2.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE
        )

    def open_door(self, name):
        """Have another door opened at the start, and return its port."""
        port = free_port()
        self.environment[f"POSTBAYES_{name.upper()}"] = f"127.0.0.1:{port}"
        return port

    def command(self, *arguments):
        """Run `postbayes` with some arguments to its end."""
        return subprocess.run(
            [sys.executable, "-m", "app.doors.cli", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def start(self):
        """Start the server, and wait until it is ready."""
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "app.doors.cli", "serve"],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self.client.get("/readyz").is_success:
                    return
            except httpx2.TransportError:
                time.sleep(0.05)
            assert self.process.poll() is None, (self.folder / "log").read_text()
        pytest.fail("the service did not become ready")

    def kill(self):
        """End the server as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ask the server to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def audit(self):
        """Return what `postbayes audit --json` prints, and its exit code."""
        done = self.command("audit", "--json")
        return done.returncode, json.loads(done.stdout)

    def classify(self, raw):
        """Return the answer about one message."""
        answer = self.client.post(
            "/classify", content=raw, headers={"content-type": "message/rfc822"}
        )
        answer.raise_for_status()
        return answer.json()

    def teach(self, raw, label):
        """Teach one message, and return the answer."""
        answer = self.client.post(
            "/feedback",
            params={"label": label},
            content=raw,
            headers={"content-type": "message/rfc822"},
        )
        answer.raise_for_status()
        return answer.json()


@pytest.fixture
def service(database_url, tmp_path):
    """A service that is not started yet; whatever runs at the end is killed."""
    service = Service(database_url, tmp_path)
    yield service
    service.client.close()
    if service.process is not None and service.process.poll() is None:
        service.kill()


@pytest.fixture
def spamd_site(tmp_path):
    """A service that has learned forty messages, and the port of its spamd door."""
    service = Service(f"sqlite:///{tmp_path}/postbayes.db", tmp_path)
    port = service.open_door("spamd")
    try:
        service.start()
        for n in range(10, 30):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service, port
    finally:
        service.client.close()
        service.kill()


@pytest.fixture(scope="module")
def marking():
    """A service with its milter open, that has learned 48 messages."""
    with mail_site.open_folder() as folder:
        service = Service(f"sqlite:///{folder}/postbayes.db", folder)
        service.milter = service.open_door("milter")
        service.start()
        for n in range(24):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service
        service.client.close()
        if service.process.poll() is None:
            service.kill()
