"""Archives: messages a second in bulk, read, learned, learned as sums; bogofilter.

    python -m benchmarks.archives --index FILE [--processes N] [--repeats N]
    python -m benchmarks.archives --index FILE [--index FILE ...] --upto N

Each way takes the whole index, ham first, into an empty SQLite database, in turns, with
the fold.  The least CPU time and the least time of the repeats are kept, so that what
else the machine does is left out as far as it can be.  bogofilter is one process, and
left out where it is not installed.

With --upto, `postbayes learn --sums` takes a quarter, a half and all of the messages,
and prints what N messages take: the slope of CPU time and bytes over these sizes, with
the interval of 95 % of bootstrapped runs.  The process that stores is told from those
that read, since it alone cannot be had twice.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import linear_regression
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.classifier.specification import Specification
from app.corpora.mailbox import CorpusMessage
from app.corpora.parallel import chunks, readers
from app.corpora.source import read_index
from app.services.classify import observe
from app.services.clock import now
from app.services.learn import Learn, LearnSums
from app.services.startup import load_profiles, open_database
from app.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOGOFILTER: Final = "/usr/bin/bogofilter"


RESAMPLED: Final = 2000
COMMAND: Final = """
import resource, sys
from app.doors.cli.__main__ import main
try:
    main()
except SystemExit as ended:
    if ended.code:
        raise
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    used = resource.getrusage(who)
    print(used.ru_utime + used.ru_stime, file=sys.stderr)
"""


class Sums(NamedTuple):
    """What an archive takes that is learned as sums.  Unit: seconds of CPU, bytes."""

    messages: int
    storing: float
    reading: float
    size: int


class Cost(NamedTuple):
    """What a way to learn an archive takes."""

    cpu: float
    seconds: float
    size: int


def archive(index: Path) -> list[tuple[str, bytes]]:
    """Return the labelled messages of an index, those of a label together."""
    return sorted(
        ((entry.label or "", entry.raw) for entry in read_index(index)),
        key=lambda message: message[0],
    )


def learn(
    messages: Sequence[tuple[str, bytes]], folder: Path, processes: int, *, sums: bool
) -> None:
    """Learn and fold an archive, message by message or as sums."""
    url = f"sqlite:///{folder / 'postbayes.db'}"
    settings = Settings(database_url=url)
    engine = open_database(settings, make=True)
    kind = LearnSums if sums else partial(Learn, in_order=False)
    learner = kind(
        engine,
        load_profiles(engine, settings).get(settings.profile),
        now,
        source="benchmark",
        store_words=settings.store_words,
    )
    archive = [CorpusMessage(label, raw, "") for label, raw in messages]
    parts = chunks(archive, lambda each: len(each.raw), most=learner.MOST)
    with readers(processes) as others:
        for _ in learner.batches(parts, readers=others):
            pass
    for _ in learner.fold():
        pass
    engine.dispose()


def read(messages: Sequence[tuple[str, bytes]], _: Path) -> None:
    """Read the features of each message, in one process."""
    views = Specification().views
    for _label, raw in messages:
        observe(raw, views)


def bogofilter(messages: Sequence[tuple[str, bytes]], folder: Path) -> None:
    """Have bogofilter register an archive, which is written to files before."""
    for option, label in (("-n", "ham"), ("-s", "spam")):
        paths = [
            str(folder.parent / str(number))
            for number, (given, _) in enumerate(messages)
            if given == label
        ]
        subprocess.run(
            [BOGOFILTER, "-C", "-d", str(folder), option, "-b"],
            input="".join(f"{path}\n" for path in paths).encode(),
            check=True,
        )


def cost(way: Callable[[Path], object], folder: Path) -> Cost:
    """Return what a way takes in an empty folder."""
    folder.mkdir()
    before = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    begun = time.perf_counter()
    way(folder)
    seconds = time.perf_counter() - begun
    after = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in after)
    cpu -= sum(each.ru_utime + each.ru_stime for each in before)
    size = sum(file.stat().st_size for file in folder.iterdir())
    shutil.rmtree(folder)
    return Cost(cpu, seconds, size)


def command(lines: Sequence[str], folder: Path, processes: int) -> Sums:
    """Return what `postbayes learn --sums` takes for the messages of an index."""
    folder.mkdir()
    index, database = folder / "index", folder / "postbayes.db"
    index.write_text("\n".join(lines) + "\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "learn", "--sums", "--index", str(index),
         "--processes", str(processes)],
        env=os.environ | {"POSTBAYES_DATABASE_URL": f"sqlite:///{database}"},
        check=True,
        capture_output=True,
        text=True,
    )  # fmt: skip
    storing, reading = map(float, done.stderr.split()[-2:])
    size = database.stat().st_size
    shutil.rmtree(folder)
    return Sums(len(lines), storing, reading, size)


def slope(found: Sequence[Sums], of: str) -> tuple[float, float, float]:
    """Return what one more message takes, and the interval of 95 % of it."""
    points = [(each.messages, getattr(each, of)) for each in found]
    random = np.random.default_rng(1)
    slopes = [linear_regression(*zip(*points, strict=True)).slope]
    while len(slopes) <= RESAMPLED:
        some = [points[at] for at in random.integers(0, len(points), len(points))]
        if len({messages for messages, _ in some}) > 1:
            slopes.append(linear_regression(*zip(*some, strict=True)).slope)
    low, high = np.percentile(slopes[1:], (2.5, 97.5)).tolist()
    return slopes[0], low, high


def extrapolate(
    indexes: Sequence[Path], *, upto: int, processes: int, repeats: int
) -> None:
    """Measure three sizes, and print what so many messages take."""
    lines = []
    for index in indexes:
        for line in index.read_text("utf-8").splitlines():
            label, path = line.split(maxsplit=1)
            lines.append(f"{label} {(index.parent / path).absolute()}")
    found = []
    with tempfile.TemporaryDirectory(prefix="postbayes-") as name:
        for _ in range(repeats):
            for share in (4, 2, 1):
                some = lines[::share]
                one = command(some, Path(name) / "database", processes)
                found.append(one)
                print(
                    f"{one.messages:8,} messages: {one.storing:6.1f} s of CPU to "
                    f"store, {one.reading:6.1f} s to read, "
                    f"{one.size / one.messages:6.0f} bytes each",
                    flush=True,
                )
    for of, unit, by in (
        ("storing", "hours of CPU to store", 3600),
        ("reading", "hours of CPU to read", 3600),
        ("size", "GB", 1e9),
    ):
        middle, low, high = (upto * each / by for each in slope(found, of))
        print(f"{upto:,} messages: {middle:.2f} {unit} ({low:.2f} to {high:.2f})")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--index", type=Path, action="append", required=True, help="labelled messages"
    )
    parser.add_argument("--upto", type=int, help="say what so many messages take")
    parser.add_argument("--processes", type=int, default=1, help="that read mail")
    parser.add_argument("--repeats", type=int, default=3, help="of each way")
    options = parser.parse_args()
    if options.upto:
        extrapolate(
            options.index,
            upto=options.upto,
            processes=max(2, options.processes),
            repeats=options.repeats,
        )
        return
    messages = [each for index in options.index for each in archive(index)]
    ways: dict[str, Callable[[Path], object]] = {
        "read": partial(read, messages),
        "learn": partial(learn, messages, processes=options.processes, sums=False),
        "learn --sums": partial(
            learn, messages, processes=options.processes, sums=True
        ),
    }
    if Path(BOGOFILTER).exists():
        ways["bogofilter -b"] = partial(bogofilter, messages)
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(prefix="postbayes-") as name:
        for number, (_, raw) in enumerate(messages):
            (Path(name) / str(number)).write_bytes(raw)
        for _ in range(options.repeats):
            for each, way in ways.items():
                found[each].append(cost(way, Path(name) / "database"))
    print(f"{'':14} {'/s of CPU':>10} {'/s':>8} {'kB each':>8}")
    for each, costs in found.items():
        n = len(messages)
        cpu, seconds = min(x.cpu for x in costs), min(x.seconds for x in costs)
        size = costs[0].size / n / 1000
        print(f"{each:14} {n / cpu:10.0f} {n / seconds:8.0f} {size:8.2f}")


if __name__ == "__main__":
    main()
