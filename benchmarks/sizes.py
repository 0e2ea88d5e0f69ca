"""Sizes of the tables, before and after retention and pruning.

    python -m benchmarks.sizes --index FILE [--index FILE ...] [--way WAY]
        [--database-url URL]

Teaches an empty database all messages of the indexes, and prints the bytes of each
table and index: fresh, as it was written; learned, after it was rewritten (VACUUM),
because a database gives room that is free to the next rows and not to the disk; after
all vectors were dropped for their age; and after features of one message were pruned.
Each time also per message, and how long a start takes to load the profile.

The ways are `learn`, `feedback` (each message is classified, as if it arrived, and
taught by its id), and `sums`, as `postbayes learn --sums`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import text

from app.corpora.source import read_index
from app.services.application import Application
from app.services.cache import LiveProfiles
from app.services.clock import now
from app.services.learn import Learn, LearnSums
from app.services.startup import load_profiles, open_database, specify
from app.services.upkeep import Folding, prunable, prune
from app.settings import Settings
from app.storage import profiles, retention, runs
from app.storage.database.engine import reading, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine

    from app.corpora.mailbox import CorpusMessage
    from app.storage.profiles import ProfileRow

MESSAGES: Final = "SELECT count(*) FROM ledger WHERE kind = 'message'"
LEAST: Final = 100_000
"""Bytes of a table that has a line."""
SIZES: Final = {
    "sqlite": "SELECT name, sum(pgsize) FROM dbstat GROUP BY name",
    # What is too large for a row is kept apart; it belongs to the table.
    "postgresql": """
        SELECT relname, CASE relkind WHEN 'i' THEN pg_relation_size(oid)
            ELSE pg_table_size(oid) END
        FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')
    """,
}


def learn(
    settings: Settings, messages: Iterator[CorpusMessage], kind: type[Learn]
) -> None:
    """Learn and fold all messages."""
    engine = open_database(settings, make=True)
    learner = kind(
        engine,
        load_profiles(engine, settings).get(settings.profile),
        now,
        source="benchmark",
        store_words=settings.store_words,
    )
    for _ in learner.batches(iter(lambda: list(islice(messages, kind.MOST)), [])):
        pass
    for _ in learner.fold():
        pass
    engine.dispose()


def teach(settings: Settings, messages: Iterator[CorpusMessage]) -> None:
    """Classify each message as it arrives, teach it by its id, and fold all."""
    app = Application(settings)
    app.start()
    try:
        for each in messages:
            seen = app.delivery.together([], each.raw, strongest=10, door="benchmark")
            app.feedback.teach_by_id(
                settings.profile,
                seen.classified.observation.digest,
                label=each.label or "",
                source="benchmark",
            )
    finally:
        app.stop()
    engine = open_database(settings, make=False)
    for _ in Folding(engine).all(found(engine, settings)):
        pass
    engine.dispose()


WAYS: Final[dict[str, Callable[[Settings, Iterator[CorpusMessage]], None]]] = {
    "learn": partial(learn, kind=Learn),
    "feedback": teach,
    "sums": partial(learn, kind=LearnSums),
}


def found(engine: Engine, settings: Settings) -> ProfileRow:
    """Return the profile that learned."""
    with reading(engine) as connection:
        return profiles.find(connection, settings.profile)


def rewrite(engine: Engine) -> None:
    """Give the room that is free to the disk."""
    # The driver's own connection: in a transaction nothing can be rewritten.
    with closing(engine.raw_connection()) as connection:
        if engine.dialect.name == "postgresql":
            driver: Any = connection.driver_connection
            driver.autocommit = True
            driver.execute("VACUUM FULL")
            driver.autocommit = False
        else:
            connection.cursor().execute("VACUUM")


def sizes(engine: Engine) -> dict[str, int]:
    """Return the bytes of each table and index."""
    with reading(engine) as it:
        rows = it.execute(text(SIZES[engine.dialect.name]))
        return {name: int(size) for name, size in rows}


def start_seconds(engine: Engine, settings: Settings) -> float:
    """Return how long it takes to load the profile."""
    begun = time.perf_counter()
    live = LiveProfiles(engine, specify(settings))
    live.refresh()
    live.load(settings.profile)
    return time.perf_counter() - begun


def drop_all(engine: Engine, profile: ProfileRow) -> None:
    """Drop the vectors of all rows, as a service does in half a year."""
    later = now() + timedelta(days=1)
    while True:
        with reading(engine) as connection:
            merge = runs.prepare_merge(connection, profile, "sealed")
        if merge is not None:
            with writing(engine) as connection:
                runs.write_merge(connection, profile, merge)
        with reading(engine) as connection:
            drop = retention.prepare(connection, profile, before=later, limit=64)
        if drop is None:
            return
        with writing(engine) as connection:
            retention.write(connection, profile, drop)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", type=Path, action="append", required=True)
    parser.add_argument("--way", choices=WAYS, default="learn", help="how it learns")
    parser.add_argument("--database-url", help="an empty database")
    asked = parser.parse_args()
    seen: dict[str, tuple[dict[str, int], float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = asked.database_url or f"sqlite:///{folder}/postbayes.db"
        settings = Settings(database_url=url)
        begun = time.process_time()
        WAYS[asked.way](settings, chain.from_iterable(map(read_index, asked.index)))
        cpu = time.process_time() - begun
        engine = open_database(settings, make=False)
        profile = found(engine, settings)
        with reading(engine) as connection:
            messages = connection.execute(text(MESSAGES)).scalar_one()

        def measure(name: str) -> None:
            if name != "fresh":
                rewrite(engine)
            seen[name] = sizes(engine), start_seconds(engine, settings)

        measure("fresh")
        measure("learned")
        drop_all(engine, profile)
        measure("vectors dropped")
        # In a year from now, nothing of it is young any more.
        then = now() + timedelta(days=400)
        old = prunable(
            engine, profile, max_messages=1, months=12, time=then, progress=bool
        )
        prune(engine, profile, old, time=then, progress=bool)
        for _ in Folding(engine).all(profile):
            pass
        measure("pruned")
        engine.dispose()
    print(f"{messages} messages; kB, and bytes per message")
    print(f"{'':42}" + "".join(f"{name:>18}" for name in seen))
    tables = [bytes_of for bytes_of, _ in seen.values()]
    for name in sorted(tables[0], key=lambda name: -tables[0][name]):
        of_name = [bytes_of.get(name, 0) for bytes_of in tables]
        # A page or two: nothing grows there.
        if max(of_name) > LEAST:
            print(f"{name:42}" + "".join(_cell(size, messages) for size in of_name))
    totals = [sum(bytes_of.values()) for bytes_of in tables]
    print(f"{'all':42}" + "".join(_cell(total, messages) for total in totals))
    seconds = "".join(f"{seconds:18.2f}" for _, seconds in seen.values())
    print(f"{'loaded in, seconds':42}{seconds}")
    print(f"{'learned in, ms of CPU a message':42}{1000 * cpu / messages:18.2f}")


def _cell(size: int, messages: int) -> str:
    return f"{size // 1000:10,}{size / messages:8.0f}"


if __name__ == "__main__":
    main()
