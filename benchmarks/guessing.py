"""Guesses of keys: what they cost the clients that have one.

    python -m benchmarks.guessing [--seconds N]

Times the gate by itself, and then the verdicts of a kept connection to a service: in
turns alone, beside another client that asks for its health 1,000 times a second over
four kept connections, and beside one that sends as many wrong keys.  The ratios of the
medians are those of one run, so that they can be read on a machine that does other
things as well.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from multiprocessing import get_context
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from app.access.rights import Keyring, Right, text_of
from app.doors.serving.request import caller_of
from app.errors import PostbayesError
from app.services.access import Gate, made_key
from app.settings import Settings
from benchmarks.http_latency import POSTBAYES, serving

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

A_SECOND: Final = 1000
CONNECTIONS: Final = 4
TURNS: Final = 4
BESIDE: Final = {
    "alone": "",
    "beside health checks": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "beside wrong keys": "GET /profiles HTTP/1.1\r\nHost: localhost\r\n"
    "Authorization: Bearer {key}\r\n\r\n",
}
"""What other clients ask."""
MESSAGE: Final = b"From: ann@example.org\nSubject: Lunch\n\n" + b"Shall we meet? " * 40
HEADERS: Final = [
    (b"host", b"localhost"),
    (b"user-agent", b"benchmark"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip"),
    (b"content-type", b"message/rfc822"),
    (b"content-length", b"640"),
]


def gate_seconds(*, host: str, token: str | None, requests: int) -> float:
    """Return what the gate takes for a request.  Unit: seconds."""
    settings = Settings(rate_per_key=1e6, rate_per_address=1e6)
    keys = []
    if token is None or token.endswith("right"):
        text, key = made_key("mx1", [Right.CLASSIFY])
        keys, token = [key], None if token is None else text
    gate = Gate(Keyring(keys), settings)
    headers = list(HEADERS)
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "client": (host, 1),
        "server": ("127.0.0.1", 8025),
        "headers": headers,
    }
    rounds = []
    for _ in range(5):
        begun = time.process_time()
        for _ in range(requests):
            try:
                gate.admit(caller_of(scope, gate.proxies), Right.CLASSIFY)
            except PostbayesError:
                continue
        rounds.append((time.process_time() - begun) / requests)
    return min(rounds)


def ask(port: int, head: str, stop: Event) -> None:
    """Send requests, so many a second, until somebody says so."""
    connections = [
        socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)
    ]
    answers = {each: each.makefile("rb") for each in connections}
    begun = time.perf_counter()
    sent = 0
    while not stop.is_set():
        for each in connections:
            key = text_of(os.urandom(32))
            each.sendall(head.format(key=key).encode())
        for each in connections:
            skip_answer(answers[each])
        sent += len(connections)
        time.sleep(max(0.0, begun + sent / A_SECOND - time.perf_counter()))


def skip_answer(answer: BinaryIO) -> None:
    """Read an answer to its end."""
    length = 0
    while (line := answer.readline().lower()) != b"\r\n":
        if not line:
            sys.exit("the service has hung up")
        name, _, value = line.partition(b":")
        length = int(value) if name == b"content-length" else length
    answer.read(length)


def verdicts(port: int, key: str, *, seconds: float) -> list[float]:
    """Return how long each verdict took.  Unit: seconds."""
    connection = HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "message/rfc822"}
    found = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        begun = time.perf_counter()
        connection.request("POST", "/classify?explain=0", MESSAGE, headers)
        answer = connection.getresponse()
        answer.read()
        found.append(time.perf_counter() - begun)
        if answer.status != 200:
            sys.exit(f"a verdict was answered with {answer.status}")
        # A mail server that is not the only one on the machine.
        time.sleep(0.002)
    return found


def measure(port: int, key: str, *, seconds: float) -> None:
    """Print what other requests cost the verdicts."""
    context = get_context("spawn")
    found: dict[str, list[float]] = {name: [] for name in BESIDE}
    verdicts(port, key, seconds=1)
    for _ in range(TURNS):
        for name, head in BESIDE.items():
            stop = context.Event()
            others = context.Process(target=ask, args=(port, head, stop))
            if head:
                others.start()
                # It imports what it needs.
                time.sleep(1.5)
            found[name] += verdicts(port, key, seconds=seconds / TURNS / len(BESIDE))
            stop.set()
            if head:
                others.join()
    for name, times in found.items():
        median, late = np.percentile(times, (50, 99)) * 1e3
        print(f"{name:24} median {median:6.2f} ms   99 % {late:6.2f} ms")
    alone, healthy, wrong = (float(np.median(times)) for times in found.values())
    print(f"{'wrong keys to alone':24} {wrong / alone:6.2f}")
    print(f"{'wrong keys to health':24} {wrong / healthy:6.2f}")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=16.0, help="of verdicts")
    options = parser.parse_args()
    for name, host, token in (
        ("gate, no key needed", "127.0.0.1", None),
        ("gate, a right key", "192.0.2.1", "right"),
        ("gate, a wrong key", "192.0.2.1", text_of(bytes(32))),
    ):
        took = gate_seconds(host=host, token=token, requests=20_000)
        print(f"{name:24} {1e6 * took:6.2f} us")
    with tempfile.TemporaryDirectory(prefix="postbayes-") as folder:
        url = f"sqlite:///{folder}/postbayes.db"
        environment = {**os.environ, "POSTBAYES_DATABASE_URL": url}
        made = subprocess.run(
            [POSTBAYES, "keys", "create", "mx1", "--right", "classify", "--json"],
            env=environment,
            check=True,
            capture_output=True,
        )
        with serving(environment) as port:
            measure(port, json.loads(made.stdout)["key"], seconds=options.seconds)


if __name__ == "__main__":
    main()
