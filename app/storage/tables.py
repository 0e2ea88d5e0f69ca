"""Tables of the database.

Contract of this file: every key begins with `profile_id`, so the tables can be
distributed by it; only keys, people and events belong to no profile.  Labels and views
are text and times are UTC, so a person with a database shell can read them.  The text
of mail is never stored.
A change here needs a migration; a test compares the two.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    text,
)

if TYPE_CHECKING:
    from sqlalchemy import Dialect, TextClause
    from sqlalchemy.schema import SchemaItem


class UtcDateTime(TypeDecorator[datetime]):
    """A moment: an aware datetime here, UTC in the database.

    PostgreSQL keeps it as ``timestamptz``, SQLite as text like
    ``2026-03-01 09:30:00.000000``.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> datetime | None:
        """Refuse a time without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            msg = f"{value.isoformat()} has no time zone; pass an aware datetime"
            raise ValueError(msg)
        return value.astimezone(UTC)

    def process_result_value(
        self, value: datetime | None, _: Dialect
    ) -> datetime | None:
        """Return the moment as an aware datetime in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)


metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    """Return a table of the database."""
    return Table(name, metadata, *parts, **options)


def _of_profile(name: str, *parts: SchemaItem, **options: Any) -> Table:
    """Return a table whose key begins with a profile, which has to exist."""
    key: Column[int]
    key = Column("profile_id", ForeignKey("profile.id"), primary_key=True)
    return _table(name, key, *parts, **options)


profile: Final = _table(
    "profile",
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("labels", JSON, nullable=False),
    Column("spam_labels", JSON, nullable=False),
    Column("feature_set", Integer, nullable=False),
    # Of the newest ledger row.  Taken under this row's lock, so that the order
    # of commits is the order of revisions.
    Column("revision", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # Thresholds that are not those of the service's settings
    # (`app.classifier.policy`).  NULL: none.
    Column("policy", JSON(none_as_null=True)),
    # Digest of the key of its feature ids (`app.features.id_key`), which is not in
    # the database.  NULL: they are not keyed.
    Column("id_key", Text),
    # Number of changes of its lists, its policy and its name, by which other processes
    # notice them.  Last, and with a default, because a migration added it.
    Column("lists", BigInteger, nullable=False, server_default="0"),
    # SQLite would give the key of a deleted profile to the next one, with what other
    # processes still score for it.
    sqlite_autoincrement=True,
)
# A separate row: with the mark in `profile`, a fold would hold the lock that feedback
# needs (docs/decisions/0002).
fold: Final = _of_profile(
    "fold",
    # Ledger rows up to this revision are in the counts.
    Column("folded_revision", BigInteger, nullable=False),
)


def _partial(name: str, *columns: str, where: TextClause) -> Index:
    """Return an index of the rows that a condition is true of."""
    return Index(name, *columns, sqlite_where=where, postgresql_where=where)


FORGOTTEN: Final = text("label IS NULL AND undo IS NULL AND vector IS NOT NULL")
ledger: Final = _of_profile(
    "ledger",
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("digest", LargeBinary, nullable=False),
    # NULL: not learned.  The row adds -delta(vector, label_before) and
    # +delta(vector, label) to the counts of its epoch.
    Column("label_before", Text),
    Column("label", Text),
    # Month in which the message was learned, YYYYMM.  A relabelling has the
    # epoch of the learning that it moves.
    Column("epoch", Integer, nullable=False),
    # NULL: dropped when it was too old to be undone.
    Column("vector", LargeBinary),
    # The text of the features, compressed.  NULL: not kept.
    Column("names", LargeBinary, key="encoded_names"),
    Column("feature_set", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("time", UtcDateTime, nullable=False),
    # Of the views, before learning.  NULL: not scored.
    Column("scores", JSON(none_as_null=True)),
    # "message", or "sum": of many messages that were counted elsewhere, whose
    # `vector` is what it adds (`app.ledger.sums`) and whose labels are NULL; or "note",
    # of what another site says, which adds nothing.
    # Last, and with a default, because a migration added it.
    Column("kind", Text, nullable=False, server_default="message"),
    # Number of the undo that this row carries out.  NULL: it was taught.  0: it follows
    # from what several sites say.
    Column("undo", Integer),
    Index(None, "profile_id", "digest", "revision"),
    Index(None, "profile_id", "time"),
    Index(None, "profile_id", "source", "time"),
    # Of messages that were forgotten and are not erased yet; few at any time.
    _partial("ix_ledger_forgotten", "profile_id", "revision", where=FORGOTTEN),
    # Retention looks for the oldest vectors, and must not walk past all rows
    # that have none.
    _partial("ix_ledger_kept", "profile_id", "time", where=text("vector IS NOT NULL")),
)
# Sums of statistics (`app.storage.runs`): "counts" of the folded rows, "sealed"
# of the rows whose vectors were dropped.  No foreign key: the `fold` row, whose lock
# every writer of the counts holds, has one.
run: Final = _table(
    "run",
    Column("profile_id", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("view", Text, primary_key=True),
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    # Of the features of the part.
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("vector", LargeBinary, nullable=False),
)
# What somebody took back.  An undo takes back rows of the ledger, listed in
# `undone`, and earlier undos, listed in `takes`; what it takes back is in force
# again once the undo is taken back itself.
undo: Final = _of_profile(
    "undo",
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("source", Text, nullable=False),
    Column("time", UtcDateTime, nullable=False),
    # What was asked for: ids, source, since, until.
    Column("asked", JSON, nullable=False),
    Column("takes", JSON, nullable=False),
)
undone: Final = _table(
    "undone",
    Column("profile_id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Index(None, "profile_id", "revision"),
    sqlite_with_rowid=False,
)
# What an undo has still to do; empty once it is carried out.
undo_work: Final = _table(
    "undo_work",
    Column("profile_id", Integer, primary_key=True, autoincrement=False),
    # Of one row of a message that has to be put right, or of a sum.
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, nullable=False),
    # Of a sum: 1 to add it again, -1 to take it back.
    Column("sign", Integer, nullable=False),
    sqlite_with_rowid=False,
)
class_count: Final = _of_profile(
    "class_count",
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    # Per view, since a message learned before a view existed has no part in it.
    Column("view", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("messages", BigInteger, nullable=False),
    CheckConstraint("messages >= 0", name="messages"),
    sqlite_with_rowid=False,
)
# No foreign key: it would be checked once per row, a few hundred times per message.
feature_name: Final = _table(
    "feature_name",
    Column("profile_id", Integer, primary_key=True, autoincrement=False),
    Column("view", Text, primary_key=True),
    Column("feature", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    sqlite_with_rowid=False,
)
scored: Final = _of_profile(
    "scored",
    Column("digest", LargeBinary, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    # The text of the features, compressed.  NULL: not kept.
    Column("names", LargeBinary, key="encoded_names"),
    Column("feature_set", Integer, nullable=False),
    Column("time", UtcDateTime, nullable=False),
    # Bytes of `vector` and `names`.  0: written by the code before it.  Last, and with
    # a default, because a migration added it.
    Column("bytes", BigInteger, nullable=False, server_default="0"),
    # With the bytes, so that their sum is read from the index: of 50,000 rows of 15 kB,
    # it took 1.9 s from the table.
    Index(None, "profile_id", "time", "digest", "bytes"),
)
# API keys (`app.access.rights`): a row stays when its key is revoked, so that nobody
# else gets the name that the ledger has as a source, but by making the key anew.
access_key: Final = _table(
    "access_key",
    Column("name", Text, primary_key=True),
    # SHA-256 of its text, which is stored nowhere.
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("rights", JSON, nullable=False),
    # What it is limited to.  NULL: all profiles, all labels, any network.
    Column("profiles", JSON(none_as_null=True)),
    Column("labels", JSON(none_as_null=True)),
    Column("networks", JSON(none_as_null=True)),
    Column("names_sources", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    # To the minute.
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    # Counts the changes, so that the sum over all rows grows with each.
    Column("revision", Integer, nullable=False),
)
person: Final = _table(
    "person",
    Column("name", Text, primary_key=True),
    # As argon2 writes it.  NULL: signs in through a proxy or a provider only.
    Column("password", Text),
    Column("role", Text, nullable=False),
    # The only profile that it sees.  NULL: all.
    Column("profile", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("removed_at", UtcDateTime),
    Column("revision", Integer, nullable=False),
)
# Who did what, beside the ledger.
audit_event: Final = _table(
    "audit_event",
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("time", UtcDateTime, nullable=False),
    Column("who", Text, nullable=False),
    Column("act", Text, nullable=False),
    # The key, the person or the profile.
    Column("object", Text, nullable=False),
    Column("details", JSON(none_as_null=True)),
    Index(None, "time"),
)
# What cookies are signed with, and what was found about the clock
# (`app.storage.retention`).
service_secret: Final = _table(
    "service_secret",
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
# One row for each verdict.  Text is what a person finds the mail by, each a line of a
# bounded length; NULL: words are not stored.
history: Final = _of_profile(
    "history",
    Column("digest", LargeBinary, primary_key=True),
    Column("time", UtcDateTime, primary_key=True),
    Column("door", Text, nullable=False),
    Column("decision", Text, nullable=False),
    # NULL: not finite.
    Column("log_odds", Float),
    Column("size", BigInteger, nullable=False),
    # Features of the message, and those of them that were new to the profile.
    Column("features", Integer, nullable=False),
    Column("unseen", Integer, nullable=False),
    Column("sender", Text),
    Column("subject", Text),
    Column("recipients", Text),
    Column("envelope", Text),
    # The strongest reasons and what they added.  NULL: not computed then.
    Column("reasons", JSON(none_as_null=True)),
    # With all that the overview counts, which then reads no row.
    Index(None, "profile_id", "time", "digest", "decision", "door"),
)
# Allow and deny entries of senders (`app.access.lists`).
list_entry: Final = _of_profile(
    "list_entry",
    Column("kind", Text, primary_key=True),
    # In the form that is compared.
    Column("value", Text, primary_key=True),
    # Added to the log-odds: negative allows, positive denies.
    Column("nats", Float, nullable=False),
    # Who set it, and when.
    Column("source", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # NULL: never.
    Column("expires_at", UtcDateTime),
    Column("note", Text, nullable=False),
)
# Whom the owner of a profile wrote to.  Digests, so that the table names nobody
# (`app.classifier.statement`).
correspondent: Final = _of_profile(
    "correspondent",
    Column("address", LargeBinary, primary_key=True),
    Column("domain", LargeBinary, nullable=False),
    Column("messages", Integer, nullable=False),
    # To the day.
    Column("last", UtcDateTime, nullable=False),
    # Other processes read what was written lately.
    Index(None, "profile_id", "last"),
    sqlite_with_rowid=False,
)
# How far other sites were followed (`app.storage.follow`).
following: Final = _of_profile(
    "following",
    Column("site", Text, primary_key=True),
    # As the other site gave it.
    Column("cursor", Text, nullable=False),
    # Of its last answer.
    Column("time", UtcDateTime, nullable=False),
    sqlite_with_rowid=False,
)
OF_THE_SITE: Final = (access_key, person, audit_event, service_secret)
"""The tables that are of no profile; all are small."""
