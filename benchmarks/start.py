"""Start: the time to load a profile of millions of features.

    python -m benchmarks.start [--features N] [--database-url URL]

Fills the count tables of an empty database with features at random: of the views
of text, of two labels, over twelve months, as many rows per feature as real mail has
(1.8, of 501,000 features of the SpamAssassin public corpus).  Prints how long each
of three loads takes, and how much of it is CPU: on a busy machine, go by that.  Then
the same of three starts of `postbayes serve`, until it answers, and the memory that
it took at most (on Linux).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import one_hot
from app.bayes.state import History, State
from app.services.cache import LiveProfiles
from app.services.startup import open_database, specify
from app.settings import Settings
from app.storage import profiles, runs
from app.storage.database.engine import reading, writing
from benchmarks.http_latency import serving

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow

VIEWS = ("words", "headers", "pairs")
MONTHS = tuple(range(202601, 202613))
ROWS_PER_FEATURE = 1.8
MESSAGES = 1000


def fill(engine: Engine, profile: ProfileRow, features: int) -> int:
    """Write counts and return the number of rows."""
    random = np.random.default_rng(20260301)
    rows = 0
    for view in VIEWS:
        ids = np.unique(random.integers(-(2**63), 2**63 - 1, features // len(VIEWS)))
        # Each feature once, and most of the rest of the rows wherever they fall.
        places = random.integers(0, len(MONTHS) * 2, ids.size)
        more = random.choice(ids, round(ids.size * (ROWS_PER_FEATURE - 1)))
        others = random.integers(0, len(MONTHS) * 2, more.size)
        for part in range(len(MONTHS) * 2):
            here = np.union1d(ids[places == part], more[others == part])
            month, label = divmod(part, 2)
            signs = one_hot(label, 2)
            once = np.tile(signs, (here.size, 1))
            delta = FeatureCounts.of_counts(signs * MESSAGES, here, once, once)
            sums = History({MONTHS[month]: State({view: delta})})
            changes = runs.changes(sums, profile.id, profile.labels)
            parts = runs.encode(sums, profile.labels)
            with writing(engine) as connection:
                runs.add_messages(connection, changes)
                runs.add(connection, profile.id, "counts", parts)
            rows += here.size
    return rows


class Start(NamedTuple):
    """What a start took, until it answered.  Unit: seconds, and MB at most."""

    wall: float
    cpu: float
    peak_mb: int


def start(url: str) -> Start:
    """Start `postbayes serve`, and return what that took."""
    environment = os.environ | {"POSTBAYES_DATABASE_URL": url}
    begun = time.perf_counter()
    with serving(environment) as port:
        wall = time.perf_counter() - begun
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/healthz")
        process = Path("/proc", connection.getresponse().headers["Postbayes-Worker"])
        connection.close()
        # proc(5): times in clock ticks are the 14th and 15th field, and the 2nd may
        # have spaces.
        times = process.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        cpu = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        status = process.joinpath("status").read_text().splitlines()
        (peak,) = (row.split()[1] for row in status if row.startswith("VmHWM:"))
    return Start(wall, cpu, int(peak) // 1024)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=2_000_000)
    parser.add_argument("--database-url", help="an empty database")
    parser.add_argument("--times", type=int, default=3, help="starts to measure")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = asked.database_url or f"sqlite:///{folder}/postbayes.db"
        settings = Settings(database_url=url)
        engine = open_database(settings, make=True)
        with reading(engine) as connection:
            profile = profiles.find(connection, settings.profile)
        rows = fill(engine, profile, asked.features)
        for _ in range(asked.times):
            begun, cpu = time.perf_counter(), time.process_time()
            live = LiveProfiles(engine, specify(settings))
            live.refresh()
            live.load(settings.profile)
            wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
            print(
                f"{asked.features:,} features in {rows:,} rows: "
                f"loaded in {wall:.2f} s, {cpu:.2f} s of CPU"
            )
        engine.dispose()
        for _ in range(asked.times):
            took = start(url)
            print(
                f"the service answers after {took.wall:.2f} s, {took.cpu:.2f} s of "
                f"CPU, and takes {took.peak_mb} MB"
            )


if __name__ == "__main__":
    main()
