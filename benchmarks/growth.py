"""Growth: score, learning, start, memory and disk, from small to large.

    python -m benchmarks.growth FOLDER [--features N] [--messages N] [--profiles N]
        [--pictures FOLDER]

Measures at each power of ten up to N, and appends each row to `growth.jsonl` in FOLDER.
It can be interrupted and run again: rows that stand there are not measured again, and
the databases in FOLDER are filled further.

The mail is synthetic and the same at each run.  The words of a message are drawn by
Zipf's law from a vocabulary without an end, half of them from one that its label has
for itself: so new words and new pairs keep coming, as in real mail.  Times are CPU
time; to read a message takes as long at each size, so compare the multiples of it.

features
    Messages of 300 words, learned in memory, until a profile knows so many features.
messages
    Messages of 100 words in a database, as `postbayes learn --sums` stores them.  Their
    words are drawn, hashed and added up a thousand messages at a time, without a
    message ever being written or parsed; all that the command does with the sums is
    done.
profiles
    Profiles in a database, each of which has learned ten messages of 100 words.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from hashlib import blake2b
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sqlalchemy import text

from app.bayes.counts import FeatureCounts
from app.bayes.sparse import one_hot
from app.bayes.state import State
from app.classifier.explain import attribute, explain
from app.classifier.learn import Move, sum_of_moves
from app.classifier.snapshot import Snapshot, score
from app.classifier.specification import Specification
from app.features.extract import extract
from app.features.tokens import tokens_of
from app.kernels.ids import joined
from app.kernels.text import TEXT
from app.ledger.entry import ScoredRow, epoch_of
from app.ledger.sums import encode_sums
from app.ledger.teaching import Teaching
from app.ledger.vector import IN_SUM
from app.mail.parse import parse
from app.services.application import Application
from app.services.cache import LiveProfiles
from app.services.classify import observe, warm_up
from app.services.clock import now
from app.services.startup import open_database, specify
from app.services.upkeep import Folding
from app.settings import Settings
from app.storage import profiles
from app.storage.database.engine import reading, writing
from app.storage.ledger import append, append_sums
from benchmarks.drawing import growth
from benchmarks.start import start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow

    Row = dict[str, Any]

TOGETHER: Final = 20
"""Messages that are learned as one sum."""
FRESH: Final = 200
WORDS: Final = 300
"""Words of a message, as its text is drawn."""
FEWER_WORDS: Final = 100
PART: Final = 1000
LESSONS: Final = 10
SOURCE: Final = "growth"
# A share of r**-0.3 of all words has a rank above r, as with Zipf's exponent 1.3.
TAIL: Final = 0.3
DONE: Final = "SELECT count(*) FROM ledger WHERE source = 'growth' AND label != ''"
BYTES: Final = "SELECT sum(pgsize) FROM dbstat"


def words_of(random: np.random.Generator, label: int, words: int) -> list[str]:
    """Return the words of a message."""
    ranks = (random.random(words) ** (-1 / TAIL)).clip(max=2.0**62).astype(np.int64)
    own = random.random(words) < 0.5
    return [
        f"{'hs'[label] if alone else 'w'}{rank:x}"
        for rank, alone in zip(ranks.tolist(), own.tolist(), strict=True)
    ]


def mail(seed: int, words: int = WORDS) -> Iterator[tuple[bytes, int]]:
    """Yield messages without an end, each with its label."""
    random = np.random.default_rng(seed)
    for number in count():
        label = number % 2
        drawn = words_of(random, label, words)
        head = f"From: {drawn[0]}@{drawn[1]}.example\nSubject: {' '.join(drawn[2:8])}"
        yield f"{head}\n\n{' '.join(drawn[8:])}\n".encode(), label


def scored(snapshot: Snapshot, fresh: Sequence[bytes]) -> Row:
    """Return what fresh messages take, and how large the tables are."""
    made_of = snapshot.specification
    seconds = []
    for raw in fresh:
        begun = time.thread_time()
        seen = extract(parse(raw), made_of.views)
        read = time.thread_time()
        found = score(snapshot, seen.views)
        after = time.thread_time()
        explain(attribute(found, snapshot), snapshot, seen, strongest=10)
        seconds.append((read - begun, after - read, time.thread_time() - begun))
    tables = snapshot.tables.values()
    features = sum(table.vocabulary for table in tables)
    read, of_score, verdict = np.median(seconds, axis=0).tolist()
    return {
        "features": features,
        "read_us": 1e6 * read,
        "score": of_score / read,
        "verdict": verdict / read,
        "table_bytes": sum(table.nbytes for table in tables) / features,
    }


def by_features(wanted: Sequence[int], _: Path) -> Iterator[Row]:
    """Learn in memory, and measure at each number of features."""
    made_of = Specification()
    snapshot = Snapshot.empty(made_of)
    learned, fresh = mail(1), mail(2)
    messages = known = 0
    for size in wanted:
        while known < size:
            moves = [
                Move(
                    views=extract(parse(raw), made_of.views).views,
                    before=None,
                    after=label,
                )
                for raw, label in islice(learned, TOGETHER)
            ]
            messages += len(moves)
            snapshot.learn(sum_of_moves(moves, n_classes=2), revision=messages)
            known = sum(t.vocabulary for t in snapshot.tables.values())
        some = [raw for raw, _ in islice(fresh, FRESH)]
        yield {"messages": messages} | scored(snapshot, some)


def counted(ids: NDArray[np.int64], label: int, *, presence: bool) -> FeatureCounts:
    """Return the statistics of messages of one label, shape (messages, features)."""
    every, occurrences = np.unique(ids, return_counts=True)
    rows = np.sort(ids, axis=1)
    first = np.ones(rows.shape, np.bool_)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=first[:, 1:])
    _, documents = np.unique(rows[first], return_counts=True)
    signs = one_hot(label, 2)
    return FeatureCounts.of_counts(
        signs * len(ids),
        every,
        np.outer(documents if presence else occurrences, signs),
        np.outer(documents, signs),
    )


def part(number: int) -> State:
    """Return what the words and the pairs of a thousand messages add."""
    random = np.random.default_rng((1, number))
    found = []
    for label in (0, 1):
        texts = [words_of(random, label, FEWER_WORDS) for _ in range(PART // 2)]
        spans = [("", " ".join(words), TEXT) for words in texts]
        ids = tokens_of(spans).ids.reshape(len(texts), FEWER_WORDS)
        pairs = np.empty(ids[:, 1:].size, np.int64)
        joined(ids[:, :-1].ravel(), ids[:, 1:].ravel(), pairs)
        found.append(
            State(
                words=counted(ids, label, presence=False),
                pairs=counted(pairs.reshape(len(texts), -1), label, presence=True),
            )
        )
    return State.sum(found)


def store(engine: Engine, profile: ProfileRow, number: int, state: State) -> None:
    """Write a part into the ledger as `app.services.learn.LearnSums` does."""
    moment = now()
    sums = encode_sums({epoch_of(moment): state}, profile.labels)
    teachings = [
        Teaching(
            digest=blake2b(f"{number}/{at}".encode(), digest_size=16).digest(),
            label=profile.labels[at % 2],
            evidence=ScoredRow(
                digest=b"", vector=IN_SUM, encoded_names=None,
                feature_set=profile.feature_set, time=moment,
            ),
            source=SOURCE,
            time=moment,
        )
        for at in range(PART)
    ]  # fmt: skip
    with writing(engine) as connection:
        append_sums(connection, profile, sums, source=SOURCE, time=moment)
        append(connection, profile, teachings)


def by_messages(wanted: Sequence[int], folder: Path) -> Iterator[Row]:
    """Learn sums into a database, and measure at each number of messages."""
    settings = settings_of(folder / "messages.db")
    for size in wanted:
        engine = open_database(settings, make=True)
        with reading(engine) as connection:
            profile = profiles.find(connection, settings.profile)
        begun = first = one(engine, DONE)
        cpu = 0.0
        while first < size:
            state = part(first // PART)
            before = time.process_time()
            store(engine, profile, first // PART, state)
            for _ in Folding(engine).all(profile):
                pass
            cpu += time.process_time() - before
            first += PART
        stored = one(engine, BYTES) / size
        engine.dispose()
        row = {
            "learn_ms": each_ms(cpu, first - begun),
            "disk_bytes": stored,
            **started(settings),
        }
        yield row | taught(settings, seed=size)


def taught(settings: Settings, *, seed: int) -> Row:
    """Return what verdicts and feedback take in a service on a database."""
    fresh = [*islice(mail(seed, FEWER_WORDS), FRESH)]
    app = Application(settings)
    app.start()
    seconds = []
    try:
        live = app.live.get(settings.profile)
        row = scored(live.snapshot, [raw for raw, _ in fresh])
        for raw, label in fresh:
            before = time.process_time()
            app.feedback.teach(
                settings.profile, raw, label=live.row.labels[label], source="fresh"
            )
            seconds.append(time.process_time() - before)
    finally:
        app.stop()
    return row | {"feedback": 1e6 * float(np.median(seconds)) / row["read_us"]}


def by_profiles(wanted: Sequence[int], folder: Path) -> Iterator[Row]:
    """Make profiles in a database, and measure at each number of them."""
    settings = settings_of(folder / "profiles.db")
    made_of = specify(settings)
    for size in wanted:
        engine = open_database(settings, make=True)
        with reading(engine) as connection:
            site = profiles.find(connection, settings.profile)
            there = len(profiles.list_all(connection))
        lessons = [
            (observe(raw, Specification().views), site.labels[label])
            for raw, label in islice(mail(3, FEWER_WORDS), 20 * LESSONS)
        ]
        begun = time.process_time()
        for number in range(there, size):
            learn_profile(engine, site, number, lessons)
        cpu = time.process_time() - begun
        stored = one(engine, BYTES) / size
        live = LiveProfiles(engine, made_of)
        live.refresh()
        refresh = cpu_of(live.refresh, times=20)
        names = [cached.row.name for cached in live][:: max(1, size // 50)]
        load = [cpu_of(partial(live.load, name)) for name in names]
        live.close()
        engine.dispose()
        yield {
            "learn_ms": each_ms(cpu, LESSONS * (size - there)),
            "disk_bytes": stored,
            "refresh_ms": 1000 * refresh,
            "load_ms": 1000 * float(np.median(load)),
            **started(settings),
        }


def learn_profile(
    engine: Engine, site: ProfileRow, number: int, lessons: Sequence[tuple[Any, str]]
) -> None:
    """Make a profile, and teach it some of the lessons, as feedback does."""
    moment = now()
    at = number * LESSONS % len(lessons)
    with writing(engine) as connection:
        row = profiles.create(
            connection,
            name=f"user{number}@example.org",
            labels=site.labels,
            spam_labels=site.spam_labels,
            feature_set=site.feature_set,
            created_at=moment,
        )
        teachings = [
            Teaching(
                digest=seen.digest,
                label=label,
                evidence=ScoredRow.of(seen.stored(words=True), time=moment),
                source=SOURCE,
                time=moment,
            )
            for seen, label in lessons[at : at + LESSONS]
        ]
        append(connection, row, teachings)
    for _ in Folding(engine).all(row):
        pass


def started(settings: Settings) -> Row:
    """Return what a start of the service takes."""
    found = start(settings.database_url)
    return {"start_cpu_s": found.cpu, "peak_mb": found.peak_mb}


def each_ms(cpu: float, messages: int) -> float | None:
    """Return the time of a message; None where this run learned none."""
    return 1000 * cpu / messages if messages else None


def cpu_of(act: Callable[[], object], *, times: int = 1) -> float:
    """Return the median CPU time of a call.  Unit: seconds."""
    seconds = []
    for _ in range(times):
        begun = time.process_time()
        act()
        seconds.append(time.process_time() - begun)
    return float(np.median(seconds))


def settings_of(path: Path) -> Settings:
    """Return the settings of a database of its own."""
    return Settings(database_url=f"sqlite:///{path}")


def one(engine: Engine, query: str) -> int:
    """Return the number that a query gives."""
    with reading(engine) as connection:
        return int(connection.execute(text(query)).scalar_one())


WAYS: Final[dict[str, tuple[int, Callable[[Sequence[int], Path], Iterator[Row]]]]] = {
    "features": (10_000, by_features),
    "messages": (PART, by_messages),
    "profiles": (1, by_profiles),
}
"""What grows: its smallest size, and how it is measured."""
LINES: Final = {
    "features": ("growth.svg", "features of the profile", ("score", "verdict")),
    "messages": (
        "growth-messages.svg",
        "messages learned",
        ("score", "verdict", "feedback"),
    ),
    "profiles": ("growth-profiles.svg", "profiles", ("refresh_ms", "load_ms")),
}
NAMES: Final = {
    "score": "score",
    "verdict": "bytes to verdict",
    "feedback": "feedback",
    "refresh_ms": "looking for changes",
    "load_ms": "loading a profile",
}


def main() -> None:
    """Measure, and print each row."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the rows and the databases")
    for name, most in (("features", 10**7), ("messages", 10**6), ("profiles", 10**4)):
        parser.add_argument(f"--{name}", type=int, default=most, help="0: none")
    parser.add_argument("--pictures", type=Path, help="a folder for SVG files")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    kept = asked.folder / "growth.jsonl"
    lines = kept.read_text("utf-8").splitlines() if kept.exists() else []
    rows: list[Row] = [json.loads(line) for line in lines]
    warm_up()
    for way, (smallest, measure) in WAYS.items():
        there = {row["size"] for row in rows if row["of"] == way}
        most = getattr(asked, way)
        sizes = [smallest * 10**n for n in range(9) if smallest * 10**n <= most]
        wanted = [size for size in sizes if size not in there]
        for size, found in zip(wanted, measure(wanted, asked.folder), strict=True):
            row = {"of": way, "size": size} | found
            rows.append(row)
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(shown(row), flush=True)
    if asked.pictures:
        for way, (name, across, keys) in LINES.items():
            of_way = [row for row in rows if row["of"] == way]
            if len(of_way) > 1:
                picture = growth(
                    [row["size"] for row in of_way],
                    [(NAMES[key], [row[key] for row in of_way]) for key in keys],
                    across=across,
                    up="ms of CPU" if way == "profiles" else "times reading a message",
                )
                (asked.pictures / name).write_text(picture, "utf-8")


def shown(row: Row) -> str:
    """Return a row as a line of text."""
    head = f"{row['size']:,} {row['of']}:"
    return f"{head:22} " + ", ".join(
        f"{name} {value:,.4g}" if isinstance(value, float) else f"{name} {value:,}"
        for name, value in row.items()
        if name not in {"of", "size"} and value is not None
    )


if __name__ == "__main__":
    main()
