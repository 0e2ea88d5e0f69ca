"""What a profile lived through, told as far as the code of a migration could.

`tests/golden/databases` holds what that code left behind: the rows of every
table, as it wrote them.  Told again with the code of today, the same story has
to end in the same state.

With a new migration the story gets a chapter, and ``python -m tests.support.eras``
keeps what the code of that migration leaves behind.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import DateTime, LargeBinary, MetaData

from app.access.lists import ListEntry, ListSubject
from app.access.rights import AccessKey, Person, Right, digest_of
from app.bayes.state import State
from app.classifier.verdict import HistoryLine
from app.ledger.entry import LedgerRow, ScoredRow
from app.ledger.sums import encode_sums
from app.ledger.undo import Selection
from app.services.upkeep import erase_some
from app.storage import (
    access,
    follow,
    hidden,
    history,
    lists,
    profiles,
    pruning,
    scored,
    tables,
    undo_work,
)
from app.storage.database.engine import migrate, open_engine, reading, writing
from app.storage.ledger import append_sums
from app.storage.lists import CorrespondentRow
from tests.support.builders import (
    APRIL,
    MARCH,
    begin_undo,
    digest,
    drop_vectors,
    fold,
    observed,
    taught,
    teach,
)
from tests.support.ledger import learned

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "databases"

# Of the profile: no other that a test makes has it.
_ID: Final = 7


def tell(engine, profile, until):
    """Live through the story up to the chapter of a migration."""
    for number, chapter in CHAPTERS.items():
        if number <= until:
            chapter(engine, profile)
    if until >= "0004":
        # Begun, and the process ends before it is carried out.
        with writing(engine) as connection:
            begin_undo(
                connection,
                profile,
                Selection(source="carl"),
                source="boss",
                time=APRIL,
            )


def _words(engine, profile):
    """Learn, move and forget; some of it is folded, one message only scored."""
    teach(
        engine,
        profile,
        taught(1, "ham", {"meeting": 1, "minutes": 2}),
        taught(2, "spam", {"cheap": 3, "pills": 1, "minutes": 1}),
        taught(3, "ham", {"cheap": 1, "flights": 1}, source="ben"),
        taught(4, "spam", {"café": 300, "pills": 1}),
        taught(10, "ham", {"offer": 1}, source="ben"),
    )
    teach(engine, profile, taught(3, "spam", time=APRIL), taught(1, None))
    _fold(engine, profile, 5)
    with writing(engine) as connection:
        row = ScoredRow.of(observed(5, {"seen": 1}), time=MARCH)
        scored.put_many(connection, profile.id, [row])
    teach(engine, profile, taught(6, "ham", {"minutes": 1}, source="carl"))


def _moved(engine, profile):
    """Learn two messages, and move one of them.

    The code of then learned measurements as well, which are left out since 0016.
    """
    teach(
        engine,
        profile,
        taught(7, "ham", {"agenda": 1}),
        taught(8, "ham", {"pills": 2}, time=APRIL),
        taught(8, "spam"),
    )
    _fold(engine, profile, 4)


def _sums(engine, profile):
    """Import the counts of several messages."""
    with writing(engine) as connection:
        append_sums(
            connection,
            profile,
            encode_sums({202602: State(words=learned()["words"])}, profile.labels),
            source="import:other",
            time=MARCH,
        )


def _undo(engine, profile):
    """Take back what Ben said."""
    with writing(engine) as connection:
        begin_undo(
            connection, profile, Selection(source="ben"), source="boss", time=APRIL
        )
    finish(engine, profile)


def _seals(engine, profile):
    """Drop old vectors and prune what only one message had."""
    _fold(engine, profile, 1000)
    with writing(engine) as connection:
        drop_vectors(connection, profile, before=APRIL, limit=4)
    with writing(engine) as connection:
        found = pruning.find(
            connection,
            profile,
            views={"words"},
            max_messages=1,
            before_epoch=202604,
            weak={},
        )
        pruning.carry_out(connection, profile, found, time=APRIL)
    teach(engine, profile, taught(9, "spam", {"pills": 1}, time=APRIL))


def _policy(engine, profile):
    """Decide by thresholds of its own."""
    with writing(engine) as connection:
        profiles.set_policy(connection, profile, {"ham_cost": 20.0})


def _part(engine, profile):
    """Fold what is left but for the last, of which the code then folded a part."""
    _fold(engine, profile, 1000)
    teach(engine, profile, taught(11, "ham", {"minutes": 1, "offer": 1, "sale": 2}))


def _forgotten(engine, profile):
    """Erase a message that is forgotten, and score one."""
    _fold(engine, profile, 1000)
    teach(engine, profile, taught(9, None, time=APRIL))
    _fold(engine, profile, 1000)
    erase_some(engine, profile, upto=1000)
    with writing(engine) as connection:
        row = ScoredRow.of(observed(12, {"seen": 1}), time=APRIL)
        scored.put_many(connection, profile.id, [row])


def _id_key(engine, profile):
    """Name a key of feature ids."""
    with writing(engine) as connection:
        connection.execute(
            tables.profile.update()
            .where(tables.profile.c.id == profile.id)
            .values(id_key="439ccfa476a7fecc")
        )


def _access(engine, profile):
    """Make and revoke a key, and add somebody."""
    # Not an event, whose number the database gives: the rows of a file have theirs.
    mx1, ann = f"{profile.name}-mx1", f"{profile.name}-ann"
    with writing(engine) as connection:
        for name, profiles_ in ((mx1, None), (ann, frozenset({"ann"}))):
            access.add_key(
                connection,
                AccessKey(
                    name=name,
                    digest=digest_of(f"pb_{name}"),
                    rights=frozenset({Right.CLASSIFY, Right.TEACH}),
                    profiles=profiles_,
                    networks=("192.0.2.0/24",),
                    created_at=MARCH,
                ),
            )
        access.revoke_key(connection, ann, time=APRIL)
        access.keys_used(connection, {mx1: APRIL})
        access.add_person(
            connection,
            Person(
                name=ann,
                password="$argon2id$",  # noqa: S106  no password
                role="teacher",
                profile="site",
                created_at=MARCH,
            ),
        )
        access.add_secret(connection, "cookies", bytes(32))


def _history(engine, profile):
    """Note a verdict."""
    with writing(engine) as connection:
        line = HistoryLine(
            digest=digest(12),
            time=APRIL,
            door="milter",
            decision="unsure",
            log_odds=-0.25,
            size=812,
            features=3,
            unseen=1,
            sender="Ann <ann@example.org>",
            subject="seen",
            recipients="bob@example.org",
            reasons=[("seen", -0.25)],
        )
        history.put_lines(connection, profile.id, [line])


def _runs(engine, profile):
    """Fold in two batches, which are two runs."""
    for number, label in ((13, "ham"), (14, "spam")):
        teach(engine, profile, taught(number, label, {"minutes": 1}))
        _fold(engine, profile, 1000)


def _lists(engine, profile):
    """Allow somebody, and deny a network for a while."""
    friend = ListEntry(
        subject=ListSubject.parse("ann@example.org"),
        nats=-5.0,
        source="user:bob",
        created_at=MARCH,
        note="a friend",
    )
    hosts = ListEntry(
        subject=ListSubject.parse("192.0.2.0/24"),
        nats=8.0,
        source="cli:root",
        created_at=MARCH,
        expires_at=APRIL,
    )
    with writing(engine) as connection:
        lists.put_many(connection, profile.id, [friend, hosts])


def _correspondent(engine, profile):
    """Write to somebody twice, and to somebody else."""
    for number, time in ((1, MARCH), (1, APRIL), (2, APRIL)):
        row = CorrespondentRow(profile.id, digest(number), digest(3), 1, time)
        with writing(engine) as connection:
            lists.add_correspondents(connection, [row])


def _following(engine, profile):
    """Take what another site says of a new message, and of one that is known."""
    said = [
        LedgerRow(
            revision=number,
            digest=digest(number),
            label_before=None,
            label=label,
            epoch=202603,
            vector=ScoredRow.of(observed(number, words), time=MARCH).vector,
            encoded_names=None,
            feature_set=1,
            source="",
            time=APRIL,
            scores=None,
        )
        for number, label, words in (
            (9, "spam", {"pills": 1}),
            (15, "ham", {"café": 1}),
        )
    ]
    with writing(engine) as connection:
        follow.take(
            connection, profile, "mx2", said, known="", cursor="2.0.0.a1", time=APRIL
        )


def _learned(engine, profile):
    """Learn one more message."""
    teach(engine, profile, taught(20, "ham", {"minutes": 1}, time=APRIL))


def _replaced(engine, profile):
    """Learn once more, after another profile came and went."""
    with writing(engine) as connection:
        other = profiles.create(
            connection,
            name=f"{profile.name}-other",
            labels=("ham", "spam"),
            spam_labels=("spam",),
            feature_set=1,
            created_at=MARCH,
        )
        hidden.hide(connection, other, why="deleted")
    for _ in hidden.remove(engine, other.id):
        pass
    teach(engine, profile, taught(21, "spam", {"sale": 1}, time=APRIL))


def _fold(engine, profile, limit):
    """Fold some rows."""
    with writing(engine) as connection:
        fold(connection, profile, limit=limit)


def finish(engine, profile):
    """Carry out the undos that were begun."""
    pending = True
    while pending:
        with writing(engine) as connection:
            undo_work.step(connection, profile, limit=undo_work.STEP)
            pending = undo_work.pending(connection, profile.id)


CHAPTERS: Final = {
    "0001": _words,
    "0002": _moved,
    "0003": _sums,
    "0004": _undo,
    "0005": _seals,
    "0006": _policy,
    "0007": _part,
    "0008": _forgotten,
    "0009": _id_key,
    "0010": _access,
    "0011": _history,
    "0012": _runs,
    "0013": _lists,
    "0014": _correspondent,
    "0015": _following,
    "0016": _learned,
    "0017": _replaced,
}


def left_behind(era):
    """Return the rows of every table that the code of a migration wrote."""
    return json.loads((GOLDEN / f"{era}.json").read_text(encoding="utf-8"))


def reflected(connection):
    """Return the tables as they are in the database, whatever the code says."""
    found = MetaData()
    found.reflect(connection)
    return found.tables


def insert(connection, rows_by_table):
    """Insert rows with the columns that they name, and no others."""
    there = reflected(connection)
    for name, rows in rows_by_table.items():
        table = there[name]
        for row in rows:
            values = {key: _bound(table.c[key].type, row[key]) for key in row}
            connection.execute(table.insert().values(values))


def read(connection, rows_by_table):
    """Return the tables' rows in the columns that the code of then knew."""
    there = reflected(connection)
    found = {}
    for name, rows in rows_by_table.items():
        table = there[name]
        names = list(rows[0]) if rows else [column.name for column in table.c]
        asked = table.select().with_only_columns(*(table.c[key] for key in names))
        found[name] = [
            {key: _plain(row[key]) for key in names}
            for row in connection.execute(
                asked.order_by(*table.primary_key.columns)
            ).mappings()
        ]
    return found


def _bound(kind, value):
    """Return a value of the file as the database takes it."""
    if value is None:
        return None
    if isinstance(kind, LargeBinary):
        return bytes.fromhex(value)
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(value)
    return value


def _plain(value):
    """Return a value of the database as the file has it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        # SQLite forgets the zone, which is always UTC.
        known = value if value.tzinfo else value.replace(tzinfo=UTC)
        return known.astimezone(UTC).isoformat()
    return value


def main():
    """Keep what the code of the newest migration leaves behind."""
    with TemporaryDirectory() as folder:
        engine = open_engine(f"sqlite:///{folder}/era.db")
        migrate(engine)
        with writing(engine) as connection:
            profile = tables.profile.insert().values(
                id=_ID,
                name="site",
                labels=["ham", "spam"],
                spam_labels=["spam"],
                feature_set=1,
                revision=0,
                created_at=MARCH,
            )
            connection.execute(profile)
            fold_row = {"profile_id": _ID, "folded_revision": 0}
            connection.execute(tables.fold.insert().values(fold_row))
            site = profiles.find(connection, "site")
        newest = max(CHAPTERS)
        tell(engine, site, newest)
        # Those first that others refer to.
        names = [table.name for table in tables.metadata.sorted_tables]
        with reading(engine) as connection:
            found = read(connection, {name: [] for name in names})
        engine.dispose()
    parts = [
        f" {json.dumps(name)}: [" + ",".join("\n  " + _line(row) for row in rows) + "]"
        for name, rows in found.items()
    ]
    file = GOLDEN / f"{newest}.json"
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{file}\n")


def _line(row):
    return json.dumps(row, ensure_ascii=False)


if __name__ == "__main__":
    main()
