"""Write path: feedbacks a second, and the latency of verdicts beside them.

    python -m benchmarks.write_path --index FILE [--learn N] [--requests N]

Teaches a new database the first messages of an index, and then measures, with
the messages that follow:

* rows of the ledger a second, below HTTP, in groups as the writer commits them;
* one client over one connection: `/classify` and `/feedback`, while nobody else
  is there and while another client teaches without a pause;
* feedbacks a second of many clients at once.

The clients are processes of their own (`benchmarks.clients`).  Absolute
times differ between machines, so three yardsticks of this machine stand beside
them: how long the disk takes to make 8 kB durable, how long parsing and
extracting take, and for the latencies their multiple of the quiet ones.
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
from typing import TYPE_CHECKING, Final

import numpy as np

from app.corpora.source import read_index
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.services.cache import LiveProfiles
from app.services.classify import observe
from app.services.clock import now
from app.services.scheduler import CHECKPOINT_SECONDS
from app.services.startup import open_database, specify
from app.services.writer import GROUP, Writer
from app.settings import Settings
from app.storage.database.engine import writing
from app.storage.ledger import append
from benchmarks.clients import (
    Connection,
    Load,
    request,
    run_clients,
    run_one,
    teach_until,
)
from benchmarks.http_latency import learn, serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Engine

    from app.corpora.mailbox import CorpusMessage
    from app.services.live import LiveProfile

CLIENTS: Final = 32
SCORES: Final = {"decision": "unsure", "log_odds": 0.5, "views": {}}


def flush_time(folder: Path) -> float:
    """Return how long this disk takes to make 8 kB durable. Unit: ms."""
    seconds = []
    with (folder / "flush").open("wb", buffering=0) as file:
        for _ in range(100):
            begun = time.perf_counter()
            file.write(bytes(8192))
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - begun)
    return 1e3 * float(np.median(seconds))


def below_http(
    settings: Settings, entries: Sequence[CorpusMessage]
) -> Iterable[tuple[str, float]]:
    """Give ledger rows a second: committed only, and through the writer."""
    engine = open_database(settings, make=True)
    live = LiveProfiles(engine, specify(settings))
    live.refresh()
    profile = live.get(settings.profile)
    views = profile.snapshot.specification.views
    begun = time.perf_counter()
    teachings = [teaching(entry, views) for entry in entries]
    yield "read and encoded", len(entries) / (time.perf_counter() - begun)
    half = len(teachings) // 2
    yield "rows committed", committed(engine, profile, teachings[:half])
    profile.follow(engine)
    yield "rows committed and in memory", written(engine, profile, teachings[half:])
    engine.dispose()


def teaching(entry: CorpusMessage, views: Sequence[str]) -> Teaching:
    """Return what is said about a message, encoded."""
    seen = observe(entry.raw, views)
    return Teaching(
        digest=seen.digest,
        label=entry.label,
        evidence=ScoredRow.of(seen.stored(words=True), time=now()),
        source="benchmark",
        time=now(),
        scores=SCORES,
    )


def committed(
    engine: Engine, profile: LiveProfile, teachings: Sequence[Teaching]
) -> float:
    """Return rows a second that are made durable, in groups."""
    begun = time.perf_counter()
    for start in range(0, len(teachings), GROUP):
        with writing(engine) as connection:
            append(connection, profile.row, teachings[start : start + GROUP])
    return len(teachings) / (time.perf_counter() - begun)


def written(
    engine: Engine, profile: LiveProfile, teachings: Sequence[Teaching]
) -> float:
    """Return teachings a second that the writer answers."""
    writer = Writer(engine)
    writer.start()
    begun = time.perf_counter()
    answers = [writer.submit(profile, teaching) for teaching in teachings]
    for answer in answers:
        answer.result()
    rate = len(teachings) / (time.perf_counter() - begun)
    writer.stop()
    return rate


def over_http(port: int, entries: Sequence[CorpusMessage], folder: Path) -> None:
    """Measure a service, and print what is seen."""
    by_message = [request(f"/feedback?label={e.label}", e.raw) for e in entries]
    scoring = [request("/classify?explain=0", e.raw) for e in entries]
    quarter = len(entries) // 4
    context = multiprocessing.get_context("forkserver")
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(2, mp_context=context))

        def alone(requests: Sequence[bytes]) -> Load:
            return pool.submit(run_one, port, requests).result()

        def together(requests: Sequence[bytes]) -> Load:
            return pool.submit(run_clients, port, requests, CLIENTS).result()

        alone(scoring[:50])  # the service and the processes warm up
        # SQLite's log becomes as long as it gets, and is written over from then on: a
        # commit that makes it longer takes twice as long, and there are few of them.
        rehearsal = [
            request(f"/feedback?label={e.label}", e.raw + b"\nrehearsed\n")
            for e in entries
        ]
        together(rehearsal)
        time.sleep(CHECKPOINT_SECONDS + 1)
        print(f"{'one client':34} {'median':>8} {'p99':>8} {'p99':>8}")
        print(f"{'':34} {'ms':>8} {'ms':>8} {'x quiet':>8}")
        quiet = {
            "/classify": alone(scoring),
            "/feedback, message": alone(by_message[:quarter]),
        }
        ids = taught_by_id(port, entries[quarter : 2 * quarter])
        quiet["/feedback, id"] = alone(ids)
        for name, seen in quiet.items():
            print_row(name, seen, seen)
        stop = stack.enter_context(context.Manager()).Event()
        # Half of what is taught beside: each message is learned, then moved.
        beside = [
            request(f"/feedback?label={label}", e.raw)
            for label in ("spam", "ham")
            for e in entries[3 * quarter :]
        ]
        taught = pool.submit(teach_until, port, beside, stop)
        begun = time.perf_counter()
        for name, requests in (
            ("/classify", scoring),
            ("/feedback, message", by_message[2 * quarter : 3 * quarter]),
        ):
            print_row(f"{name}, while learning", alone(requests), quiet[name])
        stop.set()
        rate = taught.result() / (time.perf_counter() - begun)
        print(f"{'feedbacks beside it':34} {rate:8.0f} /s")
        fresh = [
            request(f"/feedback?label={e.label}", e.raw + b"\nonce more %d\n" % n)
            for n in range(2)
            for e in entries
        ]
        print(f"{f'{CLIENTS} clients, message':34} {together(fresh).rate:8.0f} /s")
        ids = taught_by_id(port, marked(entries, "the other half"))
        print(f"{f'{CLIENTS} clients, id':34} {together(ids).rate:8.0f} /s")
    print(f"{'the disk takes 8 kB in':34} {flush_time(folder):8.2f} ms")


def marked(entries: Sequence[CorpusMessage], mark: str) -> list[CorpusMessage]:
    """Return the same messages, as others."""
    line = f"\n{mark}\n".encode()
    return [each._replace(raw=each.raw + line) for each in entries]


def taught_by_id(port: int, entries: Sequence[CorpusMessage]) -> list[bytes]:
    """Have messages scored, and return the requests that teach them by id."""
    requests = []
    with Connection(port) as connection:
        for entry in entries:
            answer = connection.ask(request("/classify?explain=0", entry.raw))
            said = json.dumps({"id": json.loads(answer)["id"], "label": entry.label})
            requests.append(request("/feedback", said.encode(), "application/json"))
    # What was scored is kept behind the answers, within a second.
    time.sleep(2)
    return requests


def print_row(name: str, seen: Load, quiet: Load) -> None:
    """Print median and 99th percentile, and its multiple of the quiet one."""
    p99 = seen.quantile(0.99)
    print(
        f"{name:34} {seen.quantile(0.5):8.2f} {p99:8.2f} "
        f"{p99 / quiet.quantile(0.99):8.1f}",
        flush=True,
    )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled stream")
    parser.add_argument("--learn", type=int, default=2000, help="messages to learn")
    parser.add_argument("--requests", type=int, default=1000, help="messages to send")
    parser.add_argument("--database-url", help="default: SQLite in a new folder")
    parser.add_argument("--folder", help="where that is, for another disk")
    options = parser.parse_args()
    stream = (entry for entry in read_index(options.index) if entry.label)
    known = list(islice(stream, options.learn))
    fresh = list(islice(stream, options.requests))
    if len(fresh) < 100:
        parser.error(f"{options.index} is too short to send 100 messages and more")

    with tempfile.TemporaryDirectory(prefix="postbayes-", dir=options.folder) as name:
        folder = Path(name)
        url = options.database_url or f"sqlite:///{folder / 'postbayes.db'}"
        environment = {**os.environ, "POSTBAYES_DATABASE_URL": url}
        rate = learn(known, folder, environment)
        print(f"{'postbayes learn':34} {rate:8.0f} /s")
        settings = Settings(database_url=url, profile="rows")
        for what, rate in below_http(settings, fresh):
            print(f"{what:34} {rate:8.0f} /s", flush=True)
        with serving(environment) as port:
            over_http(port, fresh, folder)


if __name__ == "__main__":
    main()
