"""Follow: words of a profile for other sites, and words received from other sites.

Contract of this file: `app.ledger.undo` defines words and their merge.  Here a word is
a ledger row without text, teachers and scores.  An offer starts at a cursor, which only
the site that wrote it can interpret.  Words and the cursor after them are stored in one
transaction, and a known word changes nothing.  So a page that is cut off, requested
twice or received by two processes is learned once, and a reader may start again at any
time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from sqlalchemy import bindparam, delete, func, select

from app.errors import OtherProfile
from app.ledger.entry import MERGED, OWN, SITE_PREFIX, LedgerRow, epoch_of
from app.ledger.undo import NEVER, UndoRow, in_force
from app.ledger.vector import is_whole
from app.storage import ledger, profiles, tables, undo_records, undo_work
from app.storage.database.dialect import chunks, upsert, where_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, Select

    from app.ledger.undo import RowHistory
    from app.storage.profiles import ProfileRow

_LEDGER: Final = tables.ledger
_UNDONE: Final = tables.undone
_FOLLOWING: Final = tables.following
_ROWS: Final = 256
_AT_ONCE: Final = 16
# Bytes of the vectors of a page without its last messages: some 130 messages.
_BYTES: Final = 1024 * 1024
# Rows of the messages of a page that are read, likewise.  A follower waits 5 s for a
# page, and 10,000 rows of one message take 0.8 to 1.3 s on a busy machine.
_READ: Final = 20_000


class Cursor(NamedTuple):
    """The position in a ledger: rows, undos, and rows of the next undo."""

    revision: int
    undos: int
    undone: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A page of words that a profile offers.

    Parameters
    ----------
    words : tuple of LedgerRow
        The words of this site.  A word without a label means a forgotten message or, at
        the time `NEVER`, that the site no longer has a word.
    cursor : str
        Start of the next page.
    left : int
        Number of rows and undos after it.
    """

    words: tuple[LedgerRow, ...]
    cursor: str
    left: int


def offer(connection: Connection, profile: ProfileRow, *, after: str) -> Offer:
    """Return the next page of words that a profile offers.

    Parameters
    ----------
    connection : Connection
        The snapshot in which `profile` was read.
    after : str
        The cursor of the previous page; empty for the first.

    Raises
    ------
    OtherProfile
        If the cursor is invalid, or belongs to another ledger.
    """
    undos = undo_records.all_of(connection, profile.id)
    newest = undo_records.newest(undos)
    at = Cursor(0, newest, 0)
    if after:
        at = _read(after)
        if _write(connection, profile, undos, at) != after:
            raise OtherProfile(
                f"the cursor is not of the ledger that the profile {profile.name!r} "
                "has now: it was restored or replaced; begin with its first row"
            )
    words, last = _page(connection, profile, undos, _newest(at.revision))
    if last is not None:
        at = at._replace(revision=last)
    else:
        at = at._replace(revision=profile.revision)
        if at.undos < newest and not words:
            before, upto = (
                in_force([undo for undo in undos if undo.number <= number])
                for number in (at.undos, at.undos + 1)
            )
            found = _newest(at.undone, before ^ upto)
            words, last = _page(connection, profile, undos, found)
            ended = Cursor(at.revision, at.undos + 1, 0)
            at = ended if last is None else at._replace(undone=last)
    return Offer(
        words=tuple(words),
        cursor=_write(connection, profile, undos, at),
        left=profile.revision - at.revision + newest - at.undos,
    )


def _newest(
    after: int, undos: frozenset[int] | None = None
) -> Select[tuple[int, bytes]]:
    """Select the newest row after a revision of each message that people taught here.

    Only of the rows that some undos take back, if given.  With all rows of a message, a
    page read its history up to 16 times: 51 s for one that was moved 33,000 times.
    """
    revision, digest = _LEDGER.c.revision, _LEDGER.c.digest
    if undos is None:
        # One look into the index for each row.  PostgreSQL compared all rows of a
        # message with each other where NOT EXISTS asked for a newer one.
        later = _LEDGER.alias()
        newest = (
            select(later.c.revision)
            .where(later.c.digest == digest, *_taught(later))
            .order_by(later.c.revision.desc())
            .limit(1)
            .scalar_subquery()
        )
        return (
            select(revision, digest)
            .where(*_taught(_LEDGER), revision > after, revision == newest)
            .order_by(revision)
        )
    latest = func.max(revision)
    return (
        select(latest.label("revision"), digest)
        .join(
            _UNDONE,
            (_UNDONE.c.profile_id == _LEDGER.c.profile_id)
            & (_UNDONE.c.revision == revision),
        )
        .where(*_taught(_LEDGER), revision > after, _UNDONE.c.number.in_(undos))
        .group_by(digest)
        .order_by(latest)
    )


def _taught(rows: FromClause) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for rows that people have taught here."""
    return (
        rows.c.profile_id == bindparam("profile_id"),
        rows.c.kind == "message",
        rows.c.undo.is_(None),
        rows.c.source != OWN,
        ~rows.c.source.startswith(SITE_PREFIX, autoescape=True),
    )


def _page(
    connection: Connection,
    profile: ProfileRow,
    undos: Sequence[UndoRow],
    chosen: Select[tuple[int, bytes]],
) -> tuple[list[LedgerRow], int | None]:
    """Return words of the first rows, and the last of these; None at the end."""
    found = connection.execute(chosen.limit(_ROWS), {"profile_id": profile.id}).all()
    words: list[LedgerRow] = []
    standing = in_force(undos)
    last = read = size = 0
    for some in chunks(found, most=_AT_ONCE):
        if size >= _BYTES or read >= _READ:
            return words, last
        last = some[-1].revision
        digests = {row.digest for row in some}
        for each in undo_work.histories(connection, profile.id, digests, standing):
            read += len(each.rows)
            word = _own_word(connection, profile, each)
            if word is not None:
                words.append(word)
                size += len(word.vector or b"")
    return words, found[-1].revision if len(found) == _ROWS else None


def _own_word(
    connection: Connection, profile: ProfileRow, history: RowHistory
) -> LedgerRow | None:
    """Return the word of this site on a message; None if its features are gone.

    Or if they are damaged: no site would learn a page with them, or any after it.
    """
    word, newest = history.own_word, history.rows[-1]
    empty = LedgerRow(
        revision=newest.revision,
        digest=newest.digest,
        label_before=None,
        label=None,
        epoch=epoch_of(NEVER),
        vector=None,
        encoded_names=None,
        feature_set=profile.feature_set,
        source="",
        time=NEVER,
        scores=None,
    )
    if word is None or word.time == NEVER:
        return empty
    if word.label is None:
        return replace(empty, epoch=epoch_of(word.time), time=word.time)
    kept = history.vectors.get(word.chain)
    for row in ledger.get_many(connection, profile.id, [kept] if kept else []):
        if row.kept and is_whole(row.vector or b""):
            return replace(
                empty,
                label=word.label,
                time=word.time,
                epoch=row.epoch,
                vector=row.vector,
            )
    return None


def _read(cursor: str) -> Cursor:
    """Parse a cursor."""
    try:
        revision, undos, undone, _ = cursor.split(".")
        return Cursor(int(revision[:18]), int(undos[:9]), int(undone[:18]))
    except ValueError as error:
        raise OtherProfile(f"{cursor[:80]!r} is no cursor of a ledger") from error


def _write(
    connection: Connection, profile: ProfileRow, undos: Sequence[UndoRow], at: Cursor
) -> str:
    """Return a cursor; it has a digest of the last row and undo before it."""
    rows = ledger.get_many(connection, profile.id, [at.revision])
    last = [(undo.number, undo.time) for undo in undos if undo.number == at.undos]
    of = profile.created_at, [row.identity for row in rows], last
    check = blake2b(repr(of).encode(), digest_size=8).hexdigest()
    return f"{at.revision}.{at.undos}.{at.undone}.{check}"


def cursor_of(connection: Connection, profile_id: int, site: str) -> str:
    """Return the cursor of a followed site; empty for a new one."""
    mine = select(_FOLLOWING.c.cursor).filter_by(profile_id=profile_id, site=site)
    return connection.scalar(mine) or ""


def restart(connection: Connection, profile: ProfileRow, site: str) -> None:
    """Reset a site to be read from its first row."""
    connection.execute(delete(_FOLLOWING).filter_by(profile_id=profile.id, site=site))


def take(
    connection: Connection,
    profile: ProfileRow,
    site: str,
    words: Sequence[LedgerRow],
    *,
    known: str,
    cursor: str,
    time: datetime,
) -> int | None:
    """Learn a page of another site.

    Parameters
    ----------
    known, cursor : str
        The cursor of the request, and the next one.
    time : datetime
        The present time; no word is later.

    Returns
    -------
    int or None
        Number of new words; None if another process has taken the page.

    Raises
    ------
    ProfileReplaced
        If the profile was deleted or replaced.
    """
    revision = profiles.lock(connection, profile)
    if cursor_of(connection, profile.id, site) != known:
        return None
    at = {"profile_id": profile.id, "site": site, "cursor": cursor, "time": time}
    upsert(connection, _FOLLOWING, [at])
    source = f"{SITE_PREFIX}{site}"
    by_digest = {word.digest: word for word in words}
    latest = ledger.latest_of(connection, profile.id, by_digest)
    of_message = _LEDGER.c.kind != "sum"
    there = ledger.known_digests(connection, profile.id, by_digest, of_message)
    earlier = _newest_of(connection, profile.id, source, by_digest)
    rows: list[LedgerRow] = []
    for digest, word in by_digest.items():
        if _is_known(word, earlier.get(digest)):
            continue
        newest = latest.get(digest)
        fresh = digest not in there and word.label is not None
        forgotten = newest and newest.forgotten and word.time <= newest.time
        row = replace(
            word,
            revision=revision + len(rows) + 1,
            label_before=None if fresh else word.label,
            vector=None if forgotten else word.vector,
            kind="message" if fresh else "note",
            source=source,
        )
        rows.append(row)
    ledger.write(connection, profile.id, rows)
    merged = undo_work.put_right(
        connection,
        profile,
        {row.digest for row in rows if row.kind == "note"},
        UndoRow(number=MERGED, source=source, time=time, takes=frozenset()),
        in_force=undo_records.standing(connection, profile.id),
        revision=revision + len(rows),
    )
    ledger.write(connection, profile.id, merged)
    return len(rows)


def _newest_of(
    connection: Connection, profile_id: int, source: str, digests: Iterable[bytes]
) -> dict[bytes, LedgerRow]:
    """Return the newest word of a site on each message, if it has one."""
    newest = (
        select(func.max(_LEDGER.c.revision).label("revision"))
        .filter_by(profile_id=profile_id, source=source, undo=None)
        .group_by(_LEDGER.c.digest)
    )
    found = where_in(connection, newest, _LEDGER.c.digest, digests)
    revisions = [row.revision for row in found]
    rows = ledger.get_many(connection, profile_id, revisions)
    return {row.digest: row for row in rows}


def _is_known(word: LedgerRow, row: LedgerRow | None) -> bool:
    """Return whether a word is already known."""
    if row is None:
        return word.label is None and word.time == NEVER
    same = (row.label, row.time, row.epoch) == (word.label, word.time, word.epoch)
    return same and row.vector in (None, word.vector)
