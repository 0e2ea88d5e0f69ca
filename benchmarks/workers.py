"""Workers: throughput, lag and memory of one service with 1, 2 and 4 processes.

    python -m benchmarks.workers --index FILE [--database-url URL]

Teaches a new database the first messages of an index, and starts `postbayes serve`
with each number of workers in turn, forwards and backwards.  It measures:

* verdicts and feedbacks a second of many clients, the CPU time that the workers take
  for one, and how many of the workers were busy;
* lag: the time from the answer to a feedback of one worker until the verdict of
  another has its revision, while nobody else is there and beside other clients;
* memory of a worker, and how much of it is its own (on Linux).

Clients and workers share the cores of the machine, so compare the ratios to one worker
of the same round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from app.corpora.source import read_index
from benchmarks.clients import request, run_clients
from benchmarks.http_latency import RAW, learn, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.corpora.mailbox import CorpusMessage

CLIENTS: Final = 16
WORKERS: Final = (1, 2, 4)
TICKS: Final = os.sysconf("SC_CLK_TCK")
SMALL: Final = b"From: ann@example.org\nSubject: lag\n\nHow far is it?\n"
POLLS: Final = 0.001
"""Pause between two looks at the other worker.  Unit: seconds."""


class Worker:
    """A connection to one of the workers, which stays with it."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.connect()
        # The head and the body go apart; the second would wait for an answer.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.request("GET", "/healthz")
        answer = self._connection.getresponse()
        answer.read()
        self.pid = int(answer.headers["Postbayes-Worker"])

    def ask(self, path: str, raw: bytes) -> int:
        """Send a message, and return the revision in the answer."""
        self._connection.request("POST", path, raw, RAW)
        answer = self._connection.getresponse()
        document = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(document)
        return int(document["revision"])

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    @property
    def cpu(self) -> float:
        """CPU time of the process so far.  Unit: seconds."""
        # proc(5): the 14th and 15th field, and the 2nd may have spaces.
        fields = Path("/proc", str(self.pid), "stat").read_text().rpartition(")")[2]
        return sum(map(int, fields.split()[11:13])) / TICKS

    @property
    def memory(self) -> dict[str, float]:
        """Resident memory, its share, and what no other process has.  Unit: MB."""
        fields = defaultdict(float)
        rollup = Path("/proc", str(self.pid), "smaps_rollup").read_text()
        for line in rollup.splitlines()[1:]:
            name, size = line.split()[:2]
            fields[name.rstrip(":")] = int(size) / 1000
        return {
            "resident": fields["Rss"],
            "proportional": fields["Pss"],
            "private": fields["Private_Clean"] + fields["Private_Dirty"],
        }


def every_worker(port: int, workers: int) -> list[Worker]:
    """Return a connection to each of the workers."""
    found: dict[int, Worker] = {}
    while len(found) < workers:
        worker = Worker(port)
        if worker.pid in found:
            worker.close()
        else:
            found[worker.pid] = worker
    return list(found.values())


def fresh(
    entries: Sequence[CorpusMessage], numbers: Iterator[int]
) -> tuple[list[bytes], list[bytes]]:
    """Return requests that score messages, and that teach them as new ones."""
    teaching = [
        request(f"/feedback?label={e.label}", e.raw + b"\nonce more %d\n" % n)
        for n, e in zip(numbers, entries, strict=False)
    ]
    return [request("/classify", e.raw) for e in entries], teaching


def lags(
    teacher: Worker, other: Worker, times: int, numbers: Iterator[int]
) -> list[float]:
    """Return how long after its answer a feedback counts elsewhere.  Unit: seconds."""
    found = []
    for number, _ in zip(numbers, range(times), strict=False):
        wanted = teacher.ask("/feedback?label=ham", SMALL + b"\nlag %d\n" % number)
        begun = time.perf_counter()
        while other.ask("/classify?explain=0", SMALL) < wanted:
            time.sleep(POLLS)
        found.append(time.perf_counter() - begun)
        time.sleep(0.05 * (number % 7))
    return found


def shown(seconds: Sequence[float]) -> str:
    """Return median, 99th percentile and longest of some times."""
    median, p99 = np.quantile(seconds, (0.5, 0.99)) * 1e3
    return f"{median:6.0f} {p99:6.0f} {1e3 * max(seconds):6.0f} ms"


class Run:
    """What one database saw.

    Parameters
    ----------
    entries : sequence of CorpusMessage
        What is sent.
    environment : dict
        Of the services.
    """

    def __init__(
        self, entries: Sequence[CorpusMessage], environment: dict[str, str]
    ) -> None:
        self._entries = entries
        self._environment = environment
        self._numbers = iter(range(10**9))
        self.rates: dict[tuple[str, int], list[float]] = defaultdict(list)

    def __call__(self, pool: ProcessPoolExecutor, workers: int, lag_times: int) -> None:
        """Measure a service with some workers."""
        with serving({**self._environment, "POSTBAYES_WORKERS": str(workers)}) as port:
            each = every_worker(port, workers)
            scoring, _ = fresh(self._entries[:100], self._numbers)
            pool.submit(run_clients, port, scoring * workers, CLIENTS).result()
            scoring, teaching = fresh(self._entries, self._numbers)
            for name, requests in (("verdicts", scoring), ("feedbacks", teaching)):
                before = [worker.cpu for worker in each]
                load = pool.submit(run_clients, port, requests, CLIENTS).result()
                spent = [
                    worker.cpu - start
                    for worker, start in zip(each, before, strict=True)
                ]
                self.rates[name, workers].append(load.rate)
                print(
                    f"{workers} workers, {name:9} {load.rate:6.0f} /s "
                    f"{1e3 * sum(spent) / len(requests):6.2f} ms of CPU each, "
                    f"{load.quantile(0.5):5.0f} {load.quantile(0.99):5.0f} ms; shares "
                    + " ".join(f"{s / sum(spent):.2f}" for s in sorted(spent)),
                    flush=True,
                )
            for worker in each:
                print(
                    "   memory, MB:",
                    *(f"{name} {mb:.0f}" for name, mb in worker.memory.items()),
                )
                # The service would, after a while without a request.
                worker.close()
            if workers > 1 and lag_times:
                self._lag(pool, port, lag_times)

    def _lag(self, pool: ProcessPoolExecutor, port: int, times: int) -> None:
        teacher, other = every_worker(port, 2)
        print("   lag, alone ", shown(lags(teacher, other, times, self._numbers)))
        seen: list[float] = []
        while len(seen) < times:
            scoring, teaching = fresh(self._entries, self._numbers)
            mixed = [r for pair in zip(scoring, teaching, strict=True) for r in pair]
            beside = pool.submit(run_clients, port, mixed, CLIENTS)
            while not beside.done() and len(seen) < times:
                seen += lags(teacher, other, 1, self._numbers)
            rate = beside.result().rate
        print("   lag, beside", shown(seen), f"{rate:.0f} /s beside", flush=True)
        teacher.close()
        other.close()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=2000, help="messages to learn")
    parser.add_argument("--requests", type=int, default=1000, help="messages to send")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--lags", type=int, default=50, help="lags to measure, 0: none")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--database-url", help="default: SQLite in a new folder")
    asked = parser.parse_args()
    stream = read_index(asked.index)
    known = list(islice(stream, asked.learn))
    entries = list(islice(stream, asked.requests))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            **os.environ,
            "POSTBAYES_DATABASE_URL": asked.database_url
            or f"sqlite:///{folder / 'postbayes.db'}",
        }
        learn(known, folder, environment)
        run = Run(entries, environment)
        context = multiprocessing.get_context("forkserver")
        pool = stack.enter_context(ProcessPoolExecutor(1, mp_context=context))
        for number in range(asked.rounds):
            order = asked.workers if number % 2 == 0 else asked.workers[::-1]
            for workers in order:
                run(pool, workers, asked.lags if number < 2 else 0)
    first = asked.workers[0]
    for (name, workers), rates in sorted(run.rates.items(), reverse=True):
        ratios = np.array(rates) / run.rates[name, first]
        print(
            f"{name:9} {workers} workers: {np.median(rates):6.0f} /s, "
            f"{np.median(ratios):.2f} times {first} worker "
            f"({ratios.min():.2f} to {ratios.max():.2f})"
        )


if __name__ == "__main__":
    main()
