"""Recently scored messages in memory.

Scoring writes nothing.  It leaves the observation here, and the maintenance writes the
observations to the `scored` table about twice a second.  The newest written ones stay
in memory, so that a feedback by id soon after waits for no query.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from app.ledger.teaching import ScoredRow
from app.storage import history, profiles
from app.storage.database.engine import writing
from app.storage.scored import put_many

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy import Engine

    from app.features.observation import Observation
    from app.ledger.history import HistoryLine

Key = TypeVar("Key")
Value = TypeVar("Value")


class BoundedCache(Generic[Key, Value]):
    """A cache that drops its oldest entries when they are too many or too heavy.

    One thread at a time may change it; any may `get` meanwhile.

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

    def __init__(
        self, *, most: int, weigh: Callable[[Value], int], heaviest: int
    ) -> None:
        self._most = most
        self._weigh = weigh
        self._heaviest = heaviest
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
        """Add an entry, in place of one with that key, as the newest."""
        self.drop(key)
        self._entries[key] = value
        self._weight += self._weigh(value)
        while len(self._entries) > self._most or self._weight > self._heaviest:
            _, oldest = self._entries.popitem(last=False)
            self._weight -= self._weigh(oldest)

    def drop(self, key: Key) -> None:
        """Drop an entry, if it is there."""
        value = self._entries.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)


# Flushed twice a second, in which at full speed 750 messages are scored. What
# does not fit while the database is away is dropped, oldest first: the id then
# gets the 404 that says to send the message itself.
CAPACITY: Final = 8_192
# Of those together, in some 50 MB: messages of the SpamAssassin corpus have 600 on
# average, in 31 kB with their words; one of 4 MiB had 57,000, in 2.7 MB.
FEATURES: Final = 1_000_000
# Of those that are written: 15 kB each on that corpus as they are written, and 26 kB
# of arrays, so some 1,200 messages. Asking the database took 0.4 ms of the processor
# for a single id, of 3.6 for the whole feedback, and 0.13 of 2.1 where 32 clients ask
# at once. To decode the arrays anew at each feedback took 0.08 of 0.88.
WRITTEN_BYTES: Final = 48 * 1024 * 1024
# Written in one transaction, for which feedback may have to wait.
FLUSH_ROWS: Final = 64
FLUSH_FEATURES: Final = 100_000


class _Scored(NamedTuple):
    observation: Observation
    time: datetime


class RecentMessages:
    """The messages that were scored last, before and after they are written.

    Parameters
    ----------
    rows : int
        Most written messages in memory.
    store_words : bool
        Whether the text of features is stored with them.
    """

    def __init__(self, *, rows: int, store_words: bool) -> None:
        self._store_words = store_words
        self._waiting: BoundedCache[tuple[int, bytes], _Scored] = BoundedCache(
            most=CAPACITY, weigh=_features, heaviest=FEATURES
        )
        # Lines of the history, which are written with them and then gone from here.
        self._noted: BoundedCache[tuple[int, bytes], HistoryLine] = BoundedCache(
            most=CAPACITY, weigh=lambda _: 1, heaviest=CAPACITY
        )
        self._written: BoundedCache[tuple[int, bytes], ScoredRow] = BoundedCache(
            most=rows, weigh=_bytes, heaviest=WRITTEN_BYTES
        )
        # By profile, since the last one of them that was taught.
        self._arrived: Counter[int] = Counter()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Messages that are not written yet."""
        return len(self._waiting)

    def add(self, profile_id: int, observation: Observation, time: datetime) -> None:
        """Add one message that a profile has scored."""
        observation = observation.stored(words=self._store_words)
        with self._lock:
            self._arrived[profile_id] += 1
            self._waiting.put(
                (profile_id, observation.digest), _Scored(observation, time)
            )

    def has(self, profile_id: int, digest: bytes) -> bool:
        """Return whether a message is still in memory."""
        key = profile_id, digest
        return self._waiting.get(key) is not None or self._written.get(key) is not None

    def arrived(self, profile_id: int) -> int:
        """Return how many messages a profile has scored since it was asked last."""
        with self._lock:
            return self._arrived.pop(profile_id, 0)

    def note(self, profile_id: int, line: HistoryLine) -> None:
        """Add the line of a verdict; of two before the next `flush`, the newer one."""
        with self._lock:
            self._noted.put((profile_id, line.digest), line)

    def get(self, profile_id: int, digest: bytes) -> ScoredRow | None:
        """Return a message that is still in memory, or None."""
        key = profile_id, digest
        waiting = self._waiting.get(key)
        if waiting is not None:
            return ScoredRow.of(waiting.observation, time=waiting.time)
        return self._written.get(key)

    def drop(self, profile_id: int, digest: bytes) -> None:
        """Drop a message that is to be forgotten."""
        with self._lock:
            self._waiting.drop((profile_id, digest))
            self._noted.drop((profile_id, digest))
            self._written.drop((profile_id, digest))

    def forget(self, *, before: datetime, profiles: Container[int]) -> None:
        """Drop written messages that the database drops too.

        Parameters
        ----------
        before : datetime
            Messages that were scored earlier are dropped.
        profiles : container of int
            So are messages of other profiles.
        """
        with self._lock:
            for key, row in self._written.items():
                if row.time < before or key[0] not in profiles:
                    self._written.drop(key)
            for profile_id in [each for each in self._arrived if each not in profiles]:
                del self._arrived[profile_id]

    def flush(self, engine: Engine) -> int:
        """Write the messages that wait to the database; return how many.

        Raises
        ------
        DatabaseUnavailable
            If they cannot be written; they stay here.
        """
        with self._lock:
            waiting, noted = dict(self._waiting.items()), dict(self._noted.items())
        # By profile, in one pass: of 2,000 profiles a pass for each took minutes.
        of_profile: dict[int, tuple[dict[bytes, _Scored], list[HistoryLine]]] = {}
        for (profile_id, digest), seen in waiting.items():
            of_profile.setdefault(profile_id, ({}, []))[0][digest] = seen
        for (profile_id, _), line in noted.items():
            of_profile.setdefault(profile_id, ({}, []))[1].append(line)
        for profile_id, (scored, lines) in sorted(of_profile.items()):
            some = (
                lines[at : at + FLUSH_ROWS] for at in range(0, len(lines), FLUSH_ROWS)
            )
            for part, told in zip_longest(_parts(scored), some):
                self._write(engine, profile_id, part or {}, told or ())
        return len(waiting)

    def _write(
        self,
        engine: Engine,
        profile_id: int,
        part: Mapping[bytes, _Scored],
        lines: Sequence[HistoryLine],
    ) -> None:
        """Write some messages, and some lines of the history, of one profile."""
        rows = [ScoredRow.of(seen, time=time) for seen, time in part.values()]
        with writing(engine) as connection:
            # The messages of a profile that was replaced since go with it.
            there = profiles.is_there(connection, profile_id)
            if there:
                put_many(connection, profile_id, rows)
                history.put_many(connection, profile_id, lines)
        with self._lock:
            for line in lines:
                if self._noted.get((profile_id, line.digest)) is line:
                    self._noted.drop((profile_id, line.digest))
            for row in rows:
                key = profile_id, row.digest
                # First, so that it is in one of the two caches at any time.
                if there:
                    self._written.put(key, row)
                # The message may have been scored again meanwhile.
                if self._waiting.get(key) is part[row.digest]:
                    self._waiting.drop(key)


def _parts(waiting: Mapping[bytes, _Scored]) -> Iterator[dict[bytes, _Scored]]:
    """Yield messages as they are written, some in each transaction."""
    part: dict[bytes, _Scored] = {}
    room = FLUSH_FEATURES
    for digest, scored in waiting.items():
        if part and (len(part) == FLUSH_ROWS or _features(scored) > room):
            yield part
            part, room = {}, FLUSH_FEATURES
        part[digest] = scored
        room -= _features(scored)
    if part:
        yield part


def _features(scored: _Scored) -> int:
    return sum(view.size for view in scored.observation.views.values())


def _bytes(row: ScoredRow) -> int:
    arrays = sum(x.ids.nbytes + x.values.nbytes for x in row.views.values())
    return len(row.vector) + len(row.encoded_names or b"") + arrays
