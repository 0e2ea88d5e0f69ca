"""Messages, profiles and teachings that the storage tests are written with."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from itertools import count

import numpy as np

from app.bayes.sparse import SparseCounts
from app.classifier.specification import Specification
from app.classifier.verdict import HistoryLine, Verdict
from app.features.extract import extract
from app.features.observation import Observation
from app.ledger.entry import ScoredRow
from app.ledger.teaching import Teaching
from app.mail.parse import parse
from app.storage import feature_names, profiles, retention, runs, tables, undo_work
from app.storage.database.engine import reading, writing
from app.storage.fold import folded_revision, is_behind, prepare, write
from app.storage.ledger import append, rows_after

MARCH = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
APRIL = datetime(2026, 4, 2, 18, 0, tzinfo=UTC)

_numbers = count(1)


class Root:
    """A normaliser: the sum over the root of the number of features."""

    name = "root"

    def factor(self, features, said, /):  # noqa: ARG002
        """Return one over the root of the features, whatever is said."""
        return max(1, features) ** -0.5


class Whole:
    """A normaliser: the sum as it is, a plain naive Bayes product of views."""

    name = "whole"

    def factor(self, features, said, /):  # noqa: ARG002
        """Return 1, whatever the features, and whatever is said."""
        return 1.0


def verdict(log_odds):
    """Return a verdict of two labels, without what it was computed from."""
    return Verdict(
        decision="spam" if log_odds > 0 else "ham",
        label=int(log_odds > 0),
        probability=float(1 / (1 + np.exp(-log_odds))),
        log_odds=log_odds,
        known=True,
        log_posterior=np.zeros(2),
        views={},
        evidence=np.zeros((0, 2)),
        log_prior=np.zeros(2),
        parts={},
        factors=(),
    )


def digest(message):
    """Return the digest of a message that is named by a word or a number."""
    return blake2b(str(message).encode(), digest_size=16).digest()


@lru_cache(2**16)
def feature(name):
    """Return the id of a feature."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True)


def sparse(words):
    """Return the vector of a mapping from word to occurrences."""
    return SparseCounts.of({feature(word): n for word, n in words.items()})


def observed(message, words, pairs=None):
    """Return the observation of a message with the features of one view or two."""
    views = {"words": sparse(words)}
    names = {"words": tuple(sorted(words, key=feature))}
    if pairs is not None:
        views["pairs"] = sparse(pairs)
        names["pairs"] = tuple(sorted(pairs, key=feature))
    return Observation(digest=digest(message), feature_set=1, views=views, names=names)


def taught(
    message, label, words=None, pairs=None, *, time=MARCH, source="anna", scores=None
):
    """Return a teaching; without words it is by id."""
    return Teaching(
        digest=digest(message),
        label=label,
        evidence=None
        if words is None
        else ScoredRow.of(observed(message, words, pairs), time=time),
        source=source,
        time=time,
        scores=scores,
    )


def noted(message, *, time=MARCH, **more):
    """Return the line of a verdict in the history."""
    return HistoryLine(
        **{
            "digest": digest(message),
            "time": time,
            "door": "milter",
            "decision": "unsure",
            "log_odds": 0.5,
            "size": 812,
            "features": 9,
            "unseen": 3,
            **more,
        }
    )


def new_profile(engine, *, labels=("ham", "spam"), spam_labels=("spam",), id_key=None):
    """Return a profile that nothing was taught."""
    with writing(engine) as connection:
        return profiles.create(
            connection,
            name=f"profile-{next(_numbers)}",
            labels=labels,
            spam_labels=spam_labels,
            feature_set=1,
            created_at=MARCH,
            id_key=id_key,
        )


def teach(engine, profile, *teachings):
    """Append teachings in one transaction and return their outcomes."""
    with writing(engine) as connection:
        return append(connection, profile, teachings)


def fold(connection, profile, *, limit):
    """Fold some rows in one transaction, and return how many."""
    step = prepare(connection, profile, limit=limit)
    return step.rows if step and write(connection, profile, step) else 0


def fold_all(engine, profile, *, limit=1000):
    """Fold until nothing is left, by this or by a service that folds meanwhile."""
    behind = True
    while behind:
        with writing(engine) as connection:
            fold(connection, profile, limit=limit)
            behind = is_behind(connection, profile.id, revision=sys.maxsize)


def folded(engine, profile):
    """Return up to which revision the counts are."""
    with reading(engine) as connection:
        return folded_revision(connection, profile.id)


def begin_undo(connection, profile, asked, *, source, time):
    """Plan an undo and note it; return the plan, None if another is at work."""
    made = undo_work.plan(connection, profile, asked, source=source, time=time)
    return made if undo_work.begin(connection, profile, made) else None


def drop_vectors(connection, profile, *, before, limit):
    """Drop the vectors of the oldest rows, and return of how many."""
    drop = retention.prepare(connection, profile, before=before, limit=limit)
    if drop is None or not retention.write(connection, profile, drop):
        return 0
    return len(drop.revisions)


def counts_of(engine, profile, kind="counts"):
    """Return the counts of each month that are stored."""
    with reading(engine) as connection:
        return runs.load(connection, profile, kind)


def named(engine, profile):
    """Return the text of counted features by view, of the table and of the ledger."""
    with reading(engine) as connection:
        rows = rows_after(connection, profile.id, revision=0, limit=10_000)
        found = feature_names.of_rows(rows, profile)
        counts = runs.total(connection, profile)
    for view, feature_, text in rows_of(engine, tables.feature_name, profile):
        found.setdefault(view, {})[feature_] = text
    return {
        view: {at: texts[at] for at in counts[view].ids.tolist() if at in texts}
        for view, texts in found.items()
        if view in counts
    }


def rows_of(engine, table, profile):
    """Return the rows of a table that belong to a profile, without its id."""
    with reading(engine) as connection:
        rows = connection.execute(
            table.select().where(table.c.profile_id == profile.id)
        )
        return sorted(tuple(row)[1:] for row in rows)


def damage(engine, path, *tables):
    """Write nonsense over the first pages of tables of an SQLite database."""
    log = path.with_name(f"{path.name}-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # A page that a thread has just written to the log would hide the damage, so
        # the log is empty, and the lock keeps it so.  No checkpoint runs under the lock.
        while True:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("BEGIN IMMEDIATE")
            if not (log.exists() and log.stat().st_size):
                break
            connection.execute("ROLLBACK")
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        with path.open("r+b") as file:
            for table in tables:
                file.seek((roots[table] - 1) * size)
                file.write(b"\x0d\xff\xff\xff\xff" * 9)
        # A connection that has read the pages would go on with its copies.
        engine.dispose()
        connection.execute("ROLLBACK")


def seen(raw):
    """Return what is seen of a message."""
    return extract(parse(raw), Specification().views)
