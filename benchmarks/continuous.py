"""Latency of other clients while one teaches without a pause.

    python -m benchmarks.continuous --index FILE [--seconds N] [--teachers N]

Teaches a new database the first messages of an index, and waits until they are in the
counts.  Then one client teaches and asks over one connection: alone, and beside others
that move messages from label to label without a pause.  A burst of those is folded
afterwards; after some thousand rows the fold has to go on beside them, and what that
costs is seen here, every ten seconds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.request import urlopen

import numpy as np

from app.corpora.source import read_index
from benchmarks.clients import Connection, request, run_clients, teach_until
from benchmarks.http_latency import serving

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.corpora.mailbox import CorpusMessage

WINDOW: Final = 10.0
# Of messages that the client who is measured moves, and of those that he asks about.
OWN: Final = 500
GAUGE: Final = "postbayes_unfolded_rows{"


class Seen(NamedTuple):
    """What a client waited for in one turn. Unit: seconds."""

    feedback: float
    classify: float


def turns(
    port: int, moves: Sequence[bytes], scoring: Sequence[bytes], seconds: float
) -> list[Seen]:
    """Teach and ask in turn for some time."""
    seen: list[Seen] = []
    until = time.perf_counter() + seconds
    with Connection(port) as connection:
        while (begun := time.perf_counter()) < until:
            connection.ask(moves[len(seen) % len(moves)])
            taught = time.perf_counter()
            connection.ask(scoring[len(seen) % len(scoring)])
            seen.append(Seen(taught - begun, time.perf_counter() - taught))
    return seen


def moved(port: int, entries: Sequence[CorpusMessage]) -> list[bytes]:
    """Return requests that move messages to the other label, and then back."""
    there: list[bytes] = []
    back: list[bytes] = []
    with Connection(port) as connection:
        for each in entries:
            scored = connection.ask(request("/classify?explain=0", each.raw))
            other = "ham" if each.label == "spam" else "spam"
            for requests, label in ((there, other), (back, each.label)):
                said = json.dumps({"id": json.loads(scored)["id"], "label": label})
                requests.append(request("/feedback", said.encode(), "application/json"))
    return there + back


def rows_left(port: int) -> int:
    """Return how many rows are not in the counts."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    (gauge,) = (line for line in lines if line.startswith(GAUGE))
    return int(float(gauge.rpartition(" ")[2]))


def folded(port: int) -> float:
    """Wait until all rows are in the counts, and return how long. Unit: seconds."""
    begun = time.perf_counter()
    while rows_left(port):
        time.sleep(0.1)
    return time.perf_counter() - begun


def p99(seen: Sequence[Seen]) -> Seen:
    """Return what the slowest hundredth waited for at least. Unit: ms."""
    feedback, classify = 1e3 * np.quantile(np.array(seen), 0.99, axis=0)
    return Seen(float(feedback), float(classify))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=5000, help="messages to learn")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--teachers", type=int, default=1, help="clients beside")
    parser.add_argument("--database-url", help="default: SQLite in a new folder")
    asked = parser.parse_args()
    entries = list(islice(read_index(asked.index), asked.learn))
    scoring = [request("/classify?explain=0", e.raw) for e in entries[-OWN:]]
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = asked.database_url or f"sqlite:///{folder}/postbayes.db"
        port = stack.enter_context(
            serving(os.environ | {"POSTBAYES_DATABASE_URL": url})
        )
        pool = stack.enter_context(
            ProcessPoolExecutor(1 + asked.teachers, mp_context=context)
        )
        run_clients(
            port,
            [request(f"/feedback?label={e.label}", e.raw) for e in entries],
            8,
        )
        print(f"{asked.learn} messages are in the counts {folded(port):.1f} s later")
        own = moved(port, entries[:OWN])
        theirs = [
            moved(port, entries[OWN + n : -OWN : asked.teachers])
            for n in range(asked.teachers)
        ]

        def window() -> list[Seen]:
            return pool.submit(turns, port, own, scoring, WINDOW).result()

        window()  # the service and the processes warm up
        folded(port)
        quiet = p99(window())
        print(f"{'p99, ms':10} {'/feedback':>10} {'x':>5} {'/classify':>10} {'x':>5}")
        print(f"{'alone':10} {quiet.feedback:10.1f} {'':5} {quiet.classify:10.1f}")
        stop = stack.enter_context(context.Manager()).Event()
        taught = [pool.submit(teach_until, port, each, stop) for each in theirs]
        begun = time.perf_counter()
        while time.perf_counter() - begun < asked.seconds:
            there = p99(window())
            print(
                f"{time.perf_counter() - begun:8.0f} s "
                f"{there.feedback:10.1f} {there.feedback / quiet.feedback:5.1f} "
                f"{there.classify:10.1f} {there.classify / quiet.classify:5.1f}"
                f"   {rows_left(port):6} rows left",
                flush=True,
            )
        stop.set()
        elapsed = time.perf_counter() - begun
        rate = sum(each.result() for each in taught) / elapsed
        print(f"{rate:.0f} feedbacks a second beside it")
        print(f"all of it is in the counts {folded(port):.1f} s later")


if __name__ == "__main__":
    main()
