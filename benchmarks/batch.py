"""Batches: throughput of `POST /classify/batch`, and its cost to clients beside it.

Teaches a new database the first messages of an index, and sends the messages that
follow in batches: how many a second, against one at a time over a connection that
is kept open.  Then single messages while another client sends batches without a
pause.  Messages that are not UTF-8 are sent as JSON has them, and the rest of what
is compared is the same JSON.

    python -m benchmarks.batch --index FILE [--size N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.corpora.source import read_index
from benchmarks.clients import Load, client, request, run_clients
from benchmarks.http_latency import learn, serving
from benchmarks.write_path import print_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from threading import Event

JSON: Final = "application/json"


def batch_until(port: int, requests: Sequence[bytes], stop: Event) -> int:
    """Send batches without a pause until told to stop, and return how many."""
    sent = 0

    def endless() -> Iterable[bytes]:
        nonlocal sent
        for one in cycle(requests):
            if stop.is_set():
                return
            sent += 1
            yield one

    asyncio.run(client(port, endless(), []))
    return sent


def batches(texts: Sequence[str], size: int) -> list[bytes]:
    """Return the requests that send all messages, so many at once."""
    found = []
    for start in range(0, len(texts), size):
        messages = [{"message": text} for text in texts[start : start + size]]
        body = json.dumps({"messages": messages}).encode()
        found.append(request("/classify/batch", body, JSON))
    return found


def measure(port: int, texts: Sequence[str], size: int) -> None:
    """Measure a service, and print what is seen."""
    single = [
        request("/classify?explain=0", json.dumps({"message": text}).encode(), JSON)
        for text in texts
    ]
    together = batches(texts, size)
    context = multiprocessing.get_context("forkserver")
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(2, mp_context=context))

        def load(requests: Sequence[bytes]) -> Load:
            return pool.submit(run_clients, port, requests, 1).result()

        load(single[:50])  # the service and the processes warm up
        # In turn, so that what else the machine does is in both.
        alone, many = [], []
        for _ in range(3):
            alone.append(load(single))
            many.append(load(together))
        rate = 3 * len(texts) / sum(each.elapsed for each in alone)
        rate_many = 3 * len(texts) / sum(each.elapsed for each in many)
        print(f"{'one at a time':34} {rate:8.0f} /s")
        name, ratio = f"in batches of {size}", rate_many / rate
        print(f"{name:34} {rate_many:8.0f} /s  {ratio:.2f} x")
        print(f"{'':34} {'median':>8} {'p99':>8} {'p99':>8}")
        print(f"{'':34} {'ms':>8} {'ms':>8} {'x quiet':>8}")
        quiet = Load(
            [second for each in alone for second in each.seconds],
            sum(each.elapsed for each in alone),
        )
        print_row("/classify", quiet, quiet)
        stop = stack.enter_context(context.Manager()).Event()
        beside = pool.submit(batch_until, port, together, stop)
        begun = time.perf_counter()
        print_row("/classify, beside batches", load(single), quiet)
        stop.set()
        sent = beside.result() * size / (time.perf_counter() - begun)
        print(f"{'messages in batches beside it':34} {sent:8.0f} /s")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=2000, help="messages to learn")
    parser.add_argument("--requests", type=int, default=1000, help="messages to send")
    parser.add_argument("--size", type=int, default=100, help="messages of a batch")
    options = parser.parse_args()
    stream = (entry for entry in read_index(options.index) if entry.label)
    known = list(islice(stream, options.learn))
    fresh = list(islice(stream, options.requests))
    with tempfile.TemporaryDirectory(prefix="postbayes-") as name:
        folder = Path(name)
        url = f"sqlite:///{folder / 'postbayes.db'}"
        environment = {**os.environ, "POSTBAYES_DATABASE_URL": url}
        learn(known, folder, environment)
        texts = [entry.raw.decode("utf-8", "replace") for entry in fresh]
        with serving(environment) as port:
            measure(port, texts, options.size)


if __name__ == "__main__":
    main()
