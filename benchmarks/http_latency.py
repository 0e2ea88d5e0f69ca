"""Latency of single requests over HTTP, and the rate of learning.

Teaches a new database the first messages of an index with `postbayes learn`,
starts `postbayes serve` on a free port, and sends it the messages that follow,
one at a time over one connection that is kept open, as a mail server would.

    python benchmarks/http_latency.py --index FILE [--learn N] [--requests N]

Absolute times differ between machines and from hour to hour on a busy one, so
each is also given as a multiple of the time that parsing the message and
extracting its features take in this same process: that ratio is what to
compare between two versions.
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
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from app.corpora.source import read_index
from app.features.extract import extract
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from app.corpora.mailbox import CorpusMessage

POSTBAYES = str(Path(sys.executable).with_name("postbayes"))
RAW = {"Content-Type": "message/rfc822"}


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the calls of one kind took.

    Parameters
    ----------
    name : str
        The kind.
    seconds : sequence of float
        One entry per call.
    """

    name: str
    seconds: Sequence[float]

    @property
    def median(self) -> float:
        """Unit: seconds."""
        return float(np.median(self.seconds))

    def row(self, unit: float) -> str:
        """Return one line of the table, with the median as a multiple of `unit`."""
        p99 = float(np.quantile(self.seconds, 0.99))
        return (
            f"{self.name:32} {1e3 * self.median:9.2f} {1e3 * p99:9.2f} "
            f"{self.median / unit:9.1f} {1 / float(np.mean(self.seconds)):9.0f}"
        )


def measure(
    name: str, call: Callable[[CorpusMessage], object], entries: Sequence[CorpusMessage]
) -> Timing:
    """Time `call` on each entry, one after the other."""
    seconds = []
    for entry in entries:
        begun = time.perf_counter()
        call(entry)
        seconds.append(time.perf_counter() - begun)
    return Timing(name, seconds)


class Client:
    """One connection to the service, kept open."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.connect()
        # http.client sends headers and body apart; the second would wait for
        # the first to be acknowledged.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def health(self, _: CorpusMessage) -> None:
        """Ask whether the service lives: what HTTP alone costs."""
        self._ask("GET", "/healthz")

    def classify(self, entry: CorpusMessage) -> str:
        """Score a message and return its id."""
        answer = self._ask("POST", "/classify", entry.raw, RAW)
        return str(answer["id"])

    def explain(self, entry: CorpusMessage) -> None:
        """Score a message and have the ten strongest features of each side."""
        self._ask("POST", "/classify?explain=10", entry.raw, RAW)

    def teach(self, entry: CorpusMessage) -> None:
        """Learn a message that is sent."""
        self._ask("POST", f"/feedback?label={entry.label}", entry.raw, RAW)

    def teach_by_id(self, label: str | None, message_id: str) -> None:
        """Learn a message that was scored before."""
        body = json.dumps({"id": message_id, "label": label}).encode()
        self._ask("POST", "/feedback", body, {"Content-Type": "application/json"})

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, object]:
        self._connection.request(method, path, body, dict(headers or {}))
        response = self._connection.getresponse()
        content = response.read()
        if not 200 <= response.status < 300:
            sys.exit(f"{method} {path}: {response.status} {content[:300]!r}")
        document: dict[str, object] = json.loads(content)
        return document


@contextmanager
def serving(environment: Mapping[str, str]) -> Iterator[int]:
    """Run `postbayes serve` on a free port, and give the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    service = subprocess.Popen(
        [POSTBAYES, "serve"],
        env={
            **environment,
            "POSTBAYES_HOST": "127.0.0.1",
            "POSTBAYES_PORT": str(port),
            "POSTBAYES_LOG_LEVEL": "warning",
        },
    )
    try:
        while service.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
            except OSError:
                time.sleep(0.05)
        else:
            sys.exit("postbayes serve did not start")
        yield port
    finally:
        service.terminate()
        service.wait(60)


def learn(
    entries: Sequence[CorpusMessage], folder: Path, environment: Mapping[str, str]
) -> float:
    """Teach the entries with `postbayes learn`; return messages per second."""
    index = folder / "index"
    lines = (f"{entry.label} {Path(entry.where).absolute()}\n" for entry in entries)
    index.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    command = [POSTBAYES, "learn", "--json", "--index", str(index)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return float(json.loads(done.stdout)["messages_per_second"])


def requests(client: Client, entries: Sequence[CorpusMessage]) -> Iterator[Timing]:
    """Send the entries in every way that is measured."""
    measure("", client.classify, entries[:50])  # the service warms up
    yield measure("GET /healthz", client.health, entries)
    yield measure("POST /classify", client.classify, entries)
    yield measure("POST /classify?explain=10", client.explain, entries)
    half = len(entries) // 2
    yield measure("POST /feedback, message", client.teach, entries[:half])
    ids = {entry.where: client.classify(entry) for entry in entries[half:]}
    # What was scored is kept in batches behind the answers, within a second.
    time.sleep(2)
    yield measure(
        "POST /feedback, id",
        lambda entry: client.teach_by_id(entry.label, ids[entry.where]),
        entries[half:],
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=2000, help="messages to learn")
    parser.add_argument("--requests", type=int, default=1000, help="messages to send")
    parser.add_argument("--database-url", help="default: SQLite in a new folder")
    options = parser.parse_args()
    stream = read_index(options.index)
    known = list(islice(stream, options.learn))
    fresh = list(islice(stream, options.requests))
    if len(fresh) < 100:
        parser.error(f"{options.index} is too short to send 100 messages and more")

    with tempfile.TemporaryDirectory(prefix="postbayes-") as name:
        folder = Path(name)
        environment = {
            **os.environ,
            "POSTBAYES_DATABASE_URL": options.database_url
            or f"sqlite:///{folder / 'postbayes.db'}",
        }
        alone = measure(
            "parse and extract, no HTTP", lambda e: extract(parse(e.raw)), fresh
        )
        rate = learn(known, folder, environment)
        print(f"{'':32} {'median':>9} {'p99':>9} {'times':>9} {'calls':>9}")
        print(f"{'':32} {'ms':>9} {'ms':>9} {'parsing':>9} {'/s':>9}")
        print(alone.row(alone.median))
        with serving(environment) as port:
            for timing in requests(Client(port), fresh):
                print(timing.row(alone.median), flush=True)
        print(
            f"postbayes learn: {rate:.0f} messages a second, each "
            f"{1 / rate / alone.median:.1f} times the median of parsing"
        )


if __name__ == "__main__":
    main()
