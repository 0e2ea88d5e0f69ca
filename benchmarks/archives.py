"""Archives: messages a second in bulk, read, learned, learned as sums; bogofilter.

    python -m benchmarks.archives --index FILE [--processes N] [--repeats N]

Each way takes the whole index, ham first, into an empty SQLite database, in turns, with
the fold.  The least CPU time and the least time of the repeats are kept, so that what
else the machine does is left out as far as it can be.  bogofilter is one process, and
left out where it is not installed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Final, NamedTuple

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
    settings = Settings(_env_file=None, database_url=url)
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


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--index", type=Path, required=True, help="labelled messages")
    parser.add_argument("--processes", type=int, default=1, help="that read mail")
    parser.add_argument("--repeats", type=int, default=3, help="of each way")
    options = parser.parse_args()
    messages = archive(options.index)
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
