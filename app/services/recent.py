"""Recent messages: a cache of scored messages, and their look-up by id.

Scoring does not write to the database.  It leaves the observation here, and the
maintenance writes the observations to the `scored` table about twice a second.  The
newest ones stay in memory, so feedback by id soon after needs no query.

Contract of this file: any sender can write a header with an id, so an id is only a
hint.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from dataclasses import KW_ONLY, dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import numpy as np

from app.bayes.sparse import SparseCounts
from app.errors import ProfileReplaced
from app.features.observation import Pairs
from app.ledger.entry import ScoredRow
from app.storage import history, ledger, profiles, scored
from app.storage.database.dialect import chunks
from app.storage.database.engine import reading, with_short_timeout, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from datetime import datetime

    from sqlalchemy import Engine

    from app.classifier.verdict import HistoryLine
    from app.features.observation import Observation
    from app.ledger.entry import LedgerRow
    from app.services.cache import LiveProfiles
    from app.storage.profiles import ProfileRow

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(eq=False)
class BoundedCache(Generic[Key, Value]):
    """A cache that drops its oldest entries when they are too many or too heavy.

    Only one thread at a time may change it; any thread may call `get` meanwhile.

    Parameters
    ----------
    most : int
        Most entries.
    weigh : callable
        Returns the weight of a value, the same at each call.
    heaviest : int
        Most weight of all entries together.

    Examples
    --------
    >>> newest = BoundedCache(most=9, weigh=len, heaviest=5)
    >>> for key, value in ("a", "xxx"), ("b", "yy"), ("c", "z"):
    ...     newest.put(key, value)
    >>> newest.items()
    [('b', 'yy'), ('c', 'z')]
    """

    _: KW_ONLY
    most: int
    weigh: Callable[[Value], int]
    heaviest: int

    def __post_init__(self) -> None:
        """Begin without entries."""
        self._entries: OrderedDict[Key, Value] = OrderedDict()
        self._weight = 0

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        return self._entries.get(key)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def items(self) -> list[tuple[Key, Value]]:
        """Return all entries, oldest first."""
        return [*self._entries.items()]

    def put(self, key: Key, value: Value) -> None:
        """Add or replace an entry, as the newest."""
        self.drop(key)
        self._entries[key] = value
        self._weight += self.weigh(value)
        while len(self._entries) > self.most or self._weight > self.heaviest:
            _, oldest = self._entries.popitem(last=False)
            self._weight -= self.weigh(oldest)

    def drop(self, key: Key) -> None:
        """Drop an entry if it exists."""
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self.weigh(value)


# Flushed twice a second; at full speed 750 messages are scored in between. While the
# database is unavailable, the oldest messages that do not fit are dropped: feedback by
# their ids then gets a 404 that asks for the message itself.
CAPACITY: Final = 8_192
# Features of all waiting messages, some 60 MB: messages of the SpamAssassin corpus have
# 1,500 on average, in 45 kB with their words; one of 4 MiB had 57,000, in 2.7 MB.  With
# half as many, a client that sent batches at 750 messages a second to a busy machine
# found half of the ids forgotten.
FEATURES: Final = 2_000_000
# Memory of the written messages, enough for some 1,200: on that corpus each has 15 kB
# as written, and 26 kB of arrays. A query for a single id took 0.4 ms of the 3.6 ms of
# CPU of a lesson, and 0.13 of 2.1 ms with 32 concurrent clients. Decoding the arrays
# at each lesson took 0.08 of 0.88 ms.
WRITTEN_BYTES: Final = 48 * 1024 * 1024
# Written in one transaction; feedback may have to wait for it.
FLUSH_ROWS: Final = 64
FLUSH_FEATURES: Final = 100_000


class _Scored(NamedTuple):
    observation: Observation
    time: datetime


class RecentMessages:
    """The latest scored messages.

    Parameters
    ----------
    rows : int
        Most of them after they are written; with 0, none is kept.
    """

    def __init__(self, *, rows: int, store_words: bool) -> None:
        self.on = rows > 0
        self.store_words = store_words
        self._waiting: BoundedCache[tuple[int, bytes], _Scored] = BoundedCache(
            most=CAPACITY, weigh=_features, heaviest=FEATURES
        )
        # Lines of the history; they are written together with the messages and then
        # removed.
        self._noted: BoundedCache[tuple[int, bytes], HistoryLine] = BoundedCache(
            most=CAPACITY, weigh=lambda _: 1, heaviest=CAPACITY
        )
        self._written: BoundedCache[tuple[int, bytes], ScoredRow] = BoundedCache(
            most=rows, weigh=_bytes, heaviest=WRITTEN_BYTES
        )
        # By profile, since its last taught message.
        self._arrived: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Number of messages not written yet."""
        return len(self._waiting)

    def add(self, profile_id: int, observation: Observation, time: datetime) -> None:
        """Add a message that a profile has scored."""
        if not self.on:
            return
        observation = observation.stored(words=self.store_words)
        with self._lock:
            self._arrived[profile_id] += 1
            self._waiting.put(
                (profile_id, observation.digest), _Scored(observation, time)
            )

    def has(self, profile_id: int, digest: bytes) -> bool:
        """Return whether a message is still in memory."""
        key = profile_id, digest
        return self._waiting.get(key) is not None or self._written.get(key) is not None

    def arrived(self, profile_id: int) -> int | None:
        """Return the number of messages a profile has scored since the last call.

        None if messages are not kept.
        """
        with self._lock:
            return self._arrived.pop(profile_id, 0) if self.on else None

    def note(self, profile_id: int, line: HistoryLine) -> None:
        """Add the line of a verdict; it replaces an older unwritten one."""
        with self._lock:
            self._noted.put((profile_id, line.digest), line)

    def get(self, profile_id: int, digest: bytes) -> ScoredRow | None:
        """Return a message if it is still in memory."""
        key = profile_id, digest
        waiting = self._waiting.get(key)
        if waiting is not None:
            return ScoredRow.of(waiting.observation, time=waiting.time)
        return self._written.get(key)

    def drop(
        self, profile_id: int, digest: bytes, *, upto: datetime | None = None
    ) -> bool:
        """Drop a message that is to be forgotten, and return whether it was there.

        With `upto`, only as scored until then.
        """
        key, dropped = (profile_id, digest), False
        with self._lock:
            for cache in self._waiting, self._noted, self._written:
                seen = cache.get(key)
                if seen is not None and (upto is None or seen.time <= upto):
                    cache.drop(key)
                    dropped = True
        return dropped

    def forget(self, *, before: datetime, profiles: Container[int]) -> None:
        """Drop written messages from before a time, and those of other profiles."""
        with self._lock:
            for key, row in self._written.items():
                if row.time < before or key[0] not in profiles:
                    self._written.drop(key)
            for profile_id in [each for each in self._arrived if each not in profiles]:
                del self._arrived[profile_id]

    def flush(self, engine: Engine) -> int:
        """Write the waiting messages to the database; return their number.

        Raises
        ------
        DatabaseUnavailable
            If they cannot be written; they stay here.
        """
        with self._lock:
            waiting, noted = self._waiting.items(), self._noted.items()
        # By profile, in one pass: with 2,000 profiles, one pass for each took minutes.
        fresh: defaultdict[int, list[_Scored]] = defaultdict(list)
        lines: defaultdict[int, list[HistoryLine]] = defaultdict(list)
        for (profile_id, _), seen in waiting:
            fresh[profile_id].append(seen)
        for (profile_id, _), line in noted:
            lines[profile_id].append(line)
        for profile_id in sorted(fresh.keys() | lines.keys()):
            parts = chunks(
                fresh[profile_id], most=FLUSH_ROWS, weigh=_features, room=FLUSH_FEATURES
            )
            some = chunks(lines[profile_id], most=FLUSH_ROWS)
            for part, told in zip_longest(parts, some):
                self._write(engine, profile_id, part or (), told or ())
        return len(waiting)

    def _write(
        self,
        engine: Engine,
        profile_id: int,
        part: Sequence[_Scored],
        lines: Sequence[HistoryLine],
    ) -> None:
        """Write some messages, and some lines of the history, of one profile."""
        encoded = [
            (seen, ScoredRow.of(seen.observation, time=seen.time)) for seen in part
        ]
        with writing(engine) as connection:
            # Some may have been scored again, or forgotten, while they were encoded.
            rows = [row for seen, row in encoded if self._waits(profile_id, seen)]
            lines = [each for each in lines if self._stands(profile_id, each)]
            # If the profile was replaced since, its messages are dropped with it.
            there = profiles.is_there(connection, profile_id)
            if there:
                scored.put_many(connection, profile_id, rows)
                history.put_lines(connection, profile_id, lines)
        with self._lock:
            for line in lines:
                if self._stands(profile_id, line):
                    self._noted.drop((profile_id, line.digest))
            for seen, row in encoded:
                if self._waits(profile_id, seen):
                    key = profile_id, row.digest
                    # First, so that the message is always in one of the two caches.
                    if there:
                        self._written.put(key, row)
                    self._waiting.drop(key)

    def _waits(self, profile_id: int, seen: _Scored) -> bool:
        """Return whether a message still waits as it was scored then."""
        return self._waiting.get((profile_id, seen.observation.digest)) is seen

    def _stands(self, profile_id: int, line: HistoryLine) -> bool:
        """Return whether a line still waits, and was not replaced."""
        return self._noted.get((profile_id, line.digest)) is line


def _features(scored: _Scored) -> int:
    return sum(view.size for view in scored.observation.views.values())


def _bytes(row: ScoredRow) -> int:
    # Pairs have four arrays, with those of their words.
    arrays = sum(
        x.ids.nbytes * (4 if isinstance(x, Pairs) else 2) for x in row.views.values()
    )
    return row.stored_bytes + arrays


# Seconds between two looks for an id that another worker is about to store.
LOOK_AGAIN: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """The stored data of a message that was scored or taught.

    Parameters
    ----------
    evidence : ScoredRow or None
        Its features; None if they are not, or no longer, stored.
    learned : bool
        Whether it has a label.
    """

    evidence: ScoredRow | None = None
    learned: bool = False

    def __bool__(self) -> bool:
        """Whether any data of it are stored."""
        return self.learned or self.evidence is not None


@dataclass(eq=False)
class Recall:
    """Looks up messages by their ids.

    Parameters
    ----------
    write_behind : float
        Time until another worker has stored a scored message.  Unit: seconds.
    """

    live: LiveProfiles
    recent: RecentMessages
    _: KW_ONLY
    write_behind: float = 0.0

    def __post_init__(self) -> None:
        """Begin without a look-up."""
        self._under_way: list[bytes] = []

    @property
    def waiting(self) -> int:
        """Number of look-ups under way."""
        return len(self._under_way)

    def at_hand(self, profile: str, digest: bytes) -> StoredMessage | None:
        """Return a message that is in memory; None if it is not.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        """
        seen = self.recent.get(self.live.find(profile).row.id, digest)
        return None if seen is None else StoredMessage(evidence=seen)

    def look_up(
        self, profile: str, digest: bytes, *, within: float = 0.0
    ) -> StoredMessage:
        """Return the stored data of a message, waiting some seconds for it.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the database does not answer.
        """
        until = time.monotonic() + within
        self._under_way.append(digest)
        try:
            while True:
                stored = self.at_hand(profile, digest) or self._find(profile, digest)
                if stored or time.monotonic() >= until:
                    return stored
                time.sleep(LOOK_AGAIN)
        finally:
            self._under_way.pop()

    def _find(self, profile: str, digest: bytes) -> StoredMessage:
        try:
            return self._read(self.live.find(profile).row, digest)
        except ProfileReplaced:
            self.live.refresh()
            return self._read(self.live.find(profile).row, digest)

    def _read(self, profile: ProfileRow, digest: bytes) -> StoredMessage:
        with reading(with_short_timeout(self.live.engine)) as connection:
            latest = ledger.latest_of(connection, profile.id, {digest}).get(digest)
            kept: LedgerRow | ScoredRow | None = latest
            if latest is None or latest.forgotten or not latest.kept:
                kept = scored.get_many(connection, profile.id, {digest}).get(digest)
            if kept is None and not profiles.is_there(connection, profile.id):
                raise profiles.replaced(profile)
        evidence = None
        if kept is not None and kept.vector is not None:
            names = kept.encoded_names if self.recent.store_words else None
            evidence = replace(kept, encoded_names=names, decoded=kept.views)
        learned = latest is not None and latest.label is not None
        return StoredMessage(evidence=evidence, learned=learned)


HEADER: Final = "X-Postbayes-Id"
# Bytes of headers to search; Postfix accepts 100 kB (header_size_limit).
_HEADER_BYTES: Final = 128 * 1024
_MOST_IDS: Final = 2
# Half of the features in common. In the SpamAssassin corpus, 5 of 20,000 pairs of
# different messages share that many, and so do all of 1,200 messages before and after
# tagging the subject and adding a footer of 27 words.
_SHARE: Final = 0.5
_ID: Final = re.compile(
    rb"^%b:[ \t]*([0-9a-f]{32})[ \t]*\r?$" % HEADER.encode(),
    re.MULTILINE | re.IGNORECASE,
)
# Without the \r of the line before: a pattern that begins with an optional part is
# tried at every byte.
_END_OF_HEADERS: Final = re.compile(rb"\n\r?\n")


def marked_ids(raw: bytes) -> list[bytes]:
    r"""Return the digests that the headers of a message name, each once.

    Examples
    --------
    >>> [each.hex()[:4] for each in marked_ids(b"X-Postbayes-Id: " + b"a5" * 16)]
    ['a5a5']
    >>> marked_ids(b"Subject: x\n\nX-Postbayes-Id: " + b"a5" * 16)
    []
    """
    headers = _END_OF_HEADERS.split(raw[:_HEADER_BYTES], 1)[0]
    found = dict.fromkeys(_ID.findall(headers))
    return [bytes.fromhex(each.decode()) for each in found][:_MOST_IDS]


def is_same_message(
    scored: Observation | ScoredRow, arrived: Observation | ScoredRow
) -> bool:
    """Return whether an arrived message can be a changed copy of a scored one.

    A mail server may have tagged the subject or added a footer, which changes the
    digest.  A spammer may have written the id of another message, so that it is learned
    in place of his own.  Therefore only messages that share most of their features
    count as the same.
    """
    if scored.digest == arrived.digest:
        return True
    if scored.feature_set != arrived.feature_set:
        return False
    shared = together = 0
    for view, one in scored.views.items():
        other = arrived.views.get(view)
        if isinstance(one, SparseCounts) and isinstance(other, SparseCounts):
            common = np.intersect1d(one.ids, other.ids, assume_unique=True).size
            shared += common
            together += one.size + other.size - common
    return together > 0 and shared >= _SHARE * together
