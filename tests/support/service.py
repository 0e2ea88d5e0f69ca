"""A real `postbayes serve`, in a process of its own, over loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from itertools import cycle, islice

import httpx2
import pytest

from tests.support import command
from tests.support.command import PATIENCE, Command

# Not those from 32768 on, which Linux gives to connections: one of them could take
# the port before the service does.  Each process begins elsewhere.
_ports = islice(cycle(range(10_000, 32_000)), os.getpid() * 97 % 22_000, None)


@contextmanager
def served(server):
    """Run another server of this machine in a thread, and close it."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def free_port():
    """Return a port that nobody listens on."""
    for port in _ports:
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError


def loopbacks():
    """Return the machine's own addresses: a container often has none of IPv6."""
    found = ["127.0.0.1"]
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        found.append("::1")
    return found


def client_of(port):
    """Return a client of the service on a port."""
    # Without the certificates of authorities, which take 22 ms to load: it meets none.
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx2.Client(
        base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, verify=nobody
    )


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
        self.client = client_of(self.port)

    def open_door(self, name):
        """Have another door opened at the start, and return its port."""
        port = free_port()
        self.environment[f"POSTBAYES_{name.upper()}"] = f"127.0.0.1:{port}"
        return port

    def command(self, *arguments):
        """Run `postbayes` with some arguments to its end."""
        return command.run(arguments, environment=self.environment, folder=self.folder)

    def start(self, *options, until="/readyz"):
        """Start the server, and wait until it is ready."""
        log = self.folder / "log"
        self.process = Command(
            ["serve", *options],
            environment=self.environment,
            folder=self.folder,
            out=log,
            err=log,
        )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if self.client.get(until).is_success:
                    return
            except httpx2.TransportError:
                time.sleep(0.05)
            assert self.process.poll() is None, log.read_text()
        pytest.fail("the service did not become ready")

    def kill(self):
        """End the server as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ask the server to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

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


def learned(service):
    """Return how many messages of each label are learned."""
    return service.client.get("/profiles/default").json()["messages"]


def until(service, expected):
    """Wait until so much is learned; teaching goes on in the background."""
    deadline = time.monotonic() + PATIENCE
    while learned(service) != expected:
        assert time.monotonic() < deadline, (learned(service), expected)
        time.sleep(0.02)


def more(service, **numbers):
    """Return what will be learned once so many messages are added."""
    return {
        label: number + numbers.get(label, 0)
        for label, number in learned(service).items()
    }
