"""Sizes of the tables, before and after retention and pruning.

    python -m benchmarks.sizes --index FILE [--index FILE ...] [--database-url URL]

Teaches an empty database all messages of the indexes, and prints the bytes of each
table and index as it was learned, after all vectors were dropped for their age, and
after features of one message were pruned; each time also per message, and how long
a start takes to load the profile.  A database gives room that is free to the next
rows, not to the disk, so it is rewritten (VACUUM) before it is measured.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import text

from app.corpora.source import read_index
from app.services.application import open_database, specify
from app.services.clock import now
from app.services.learn import BATCH, Learn
from app.services.memory.cache import LiveProfiles
from app.services.upkeep import Criterion, Folding, Prune
from app.settings import Settings
from app.storage import profiles, retention
from app.storage.counts import runs
from app.storage.database.engine import reading, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from app.storage.profiles import ProfileRow

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


def learn(engine: Engine, settings: Settings, indexes: Sequence[Path]) -> int:
    """Learn and fold all messages, and return their number."""
    live = LiveProfiles(engine, specify(settings))
    live.refresh()
    learner = Learn(
        engine,
        live.get(settings.profile),
        now,
        source="benchmark",
        store_words=settings.store_words,
    )
    learned = 0
    for index in indexes:
        entries = read_index(index)
        while some := list(islice(entries, BATCH)):
            learner.batch([(entry.label or "", entry.raw) for entry in some])
            learned += len(some)
    for _ in learner.fold():
        pass
    return learned


def sizes(engine: Engine) -> dict[str, int]:
    """Return the bytes of each table and index, without the room that is free."""
    # The driver's own connection: in a transaction nothing can be rewritten.
    with closing(engine.raw_connection()) as connection:
        if engine.dialect.name == "postgresql":
            driver: Any = connection.driver_connection
            driver.autocommit = True
            driver.execute("VACUUM FULL")
            driver.autocommit = False
        else:
            connection.cursor().execute("VACUUM")
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
    parser.add_argument("--database-url", help="an empty database")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = asked.database_url or f"sqlite:///{folder}/postbayes.db"
        settings = Settings(_env_file=None, database_url=url)
        engine = open_database(settings, make=True)
        messages = learn(engine, settings, asked.index)
        with reading(engine) as connection:
            profile = profiles.find(connection, settings.profile)
        seen = [(sizes(engine), start_seconds(engine, settings))]
        drop_all(engine, profile)
        seen.append((sizes(engine), start_seconds(engine, settings)))
        # In a year from now, nothing of it is young any more.
        Prune(engine, lambda: now() + timedelta(days=400))(
            profile, Criterion(max_messages=1, months=12), progress=lambda _: None
        )
        for _ in Folding(engine).all(profile):
            pass
        seen.append((sizes(engine), start_seconds(engine, settings)))
        engine.dispose()
    print(f"{messages} messages; kB, and bytes per message")
    print(f"{'':42}{'learned':>18}{'vectors dropped':>18}{'pruned':>18}")
    names = sorted(seen[0][0], key=lambda name: -seen[0][0][name])
    for name in names:
        found = [bytes_of.get(name, 0) for bytes_of, _ in seen]
        # A page or two: nothing grows there.
        if max(found) > 100_000:
            print(f"{name:42}" + "".join(_cell(size, messages) for size in found))
    totals = [sum(bytes_of.values()) for bytes_of, _ in seen]
    print(f"{'all':42}" + "".join(_cell(total, messages) for total in totals))
    print(f"{'loaded in, seconds':42}" + "".join(f"{s:18.2f}" for _, s in seen))


def _cell(size: int, messages: int) -> str:
    return f"{size // 1000:10,}{size / messages:8.0f}"


if __name__ == "__main__":
    main()
