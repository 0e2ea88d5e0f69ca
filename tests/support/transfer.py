"""Exports and imports of profiles, and dumps of another filter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from app.exchange import dumps
from app.exchange.blocks import BlockReader, BlockWriter
from app.exchange.survey import survey
from app.ledger.undo import Selection
from app.services.transfer import Transfer
from app.storage import profiles, tables
from app.storage.database.engine import reading, writing
from app.storage.fold import audit, load
from tests.support.builders import (
    APRIL,
    begin_undo,
    new_profile,
    taught,
    teach,
)

DUMPS = Path(__file__).parent.parent / "golden" / "dumps"
LATER = datetime(2026, 5, 1, tzinfo=UTC)


def transfer(engine, *, store_words=True, key=None):
    """Return the use cases, with a clock that stands."""
    return Transfer(engine, lambda: LATER, store_words=store_words, key=key)


def exported(engine, profile, *, contents="counts", words=True):
    """Return an export of a profile, whose ledger is folded first."""
    file = BytesIO()
    service = transfer(engine)
    list(service.fold(profile))
    service.export(
        profile.name, file, contents=contents, words=words, progress=lambda _: None
    )
    return file.getvalue()


def imported(engine, data, name, *, store_words=True, instead=False, key=None):
    """Import an export, fold it, and return what became of it."""
    service = transfer(engine, store_words=store_words, key=key)
    file = BytesIO(data)
    found = survey(file)
    file.seek(0)
    if instead:
        old = service.profile(name)
        learned = service.replace(old, file, found, progress=lambda _: None)
    else:
        learned = service.add(name, file, found, progress=lambda _: None)
    list(service.fold(learned.profile))
    return learned


def is_there(engine, name):
    """Return whether there is a profile of a name."""
    with reading(engine) as connection:
        return name in {row.name for row in profiles.list_all(connection)}


def state(engine, name):
    """Return the statistics of a profile, by view."""
    with reading(engine) as connection:
        return load(connection, profiles.find(connection, name)).tables


def audited(engine, name):
    """Return the audit of a profile."""
    with reading(engine) as connection:
        return audit(connection, profiles.find(connection, name))


def undo(engine, profile, **asked):
    """Take back what was taught, to the end."""
    with writing(engine) as connection:
        begin_undo(connection, profile, Selection(**asked), source="boss", time=APRIL)
    list(transfer(engine).fold(profile))


def taught_profile(engine, **labels):
    """Return a profile of two months, three views and a relabelling."""
    profile = new_profile(engine, **labels)
    teach(
        engine,
        profile,
        taught("one", "ham", {"lunch": 1, "noon": 2}, {"length": 2**40}),
        taught("two", "spam", {"prize": 3, "noon": 1}, {"length": 5}),
        taught("three", "ham", {"prize": 1}, {"height": 7}, time=APRIL, source="bob"),
        taught("empty", "spam", {}, time=APRIL),
        taught("three", "spam", time=APRIL, scores={"log_odds": -0.5}),
    )
    return profile


def created(engine, profile, time):
    """Give a profile another time of making."""
    with writing(engine) as connection:
        connection.execute(
            tables.profile.update()
            .where(tables.profile.c.id == profile.id)
            .values(created_at=time)
        )


def altered(data, **changes):
    """Return an export with another header, as if it had been written so."""
    return rebuilt(data, lambda blocks: blocks, **changes)


def rebuilt(data, change, **header):
    """Return an export of other blocks and another header, whole in itself."""
    reader = BlockReader(BytesIO(data))
    file = BytesIO()
    writer = BlockWriter(file, json.dumps(json.loads(reader.header) | header).encode())
    for kind, content in change(list(reader)):
        writer.write(kind, content)
    writer.close()
    return file.getvalue()


OF_PROFILES = [t for t in tables.metadata.sorted_tables if "profile_id" in t.c]


class CutError(Exception):
    """What ends an import in the middle."""


def stored(engine):
    """Return the keys of the profiles that any table has rows of."""
    found = set()
    with reading(engine) as connection:
        for table in OF_PROFILES:
            found |= set(connection.execute(table.select()).scalars())
    return found


def seen(engine):
    """Return the keys of the profiles that people see."""
    with reading(engine) as connection:
        return {row.id for row in profiles.list_all(connection)}


def add(
    engine,
    profile,
    *,
    store_words=True,
    key=None,
    digest="5ca1ab1e" * 8,
    ham="",
    spam="",
    progress=lambda _: None,
):
    """Import the dump of bogofilter, fold it, and return what became of it."""
    with (DUMPS / "bogofilter.txt").open("rb") as file:
        tally = dumps.read_bogofilter(file)
    tally.digest = digest
    service = transfer(engine, store_words=store_words, key=key)
    learned = service.add_dump(
        profile.name, tally, ham=ham, spam=spam, progress=progress
    )
    list(service.fold(learned.profile))
    return learned
