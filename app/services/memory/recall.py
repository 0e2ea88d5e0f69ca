"""Recall: a scored or taught message found by its id.

Concurrent look-ups share a query, as concurrent feedback shares a commit: one thread
takes all that wait.  While the database is away, they wait together, and hold no other
thread.

Contract of this file: any sender can write a header with an id, so an id is a hint and
never a proof.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from app.bayes.sparse import SparseCounts
from app.errors import DatabaseUnavailable, ProfileReplaced
from app.ledger.teaching import ScoredRow
from app.services.memory.replacements import Job, Replacements
from app.services.queue import JobQueue
from app.storage import ledger, profiles, scored
from app.storage.database.engine import reading, with_short_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from typing import Protocol

    from sqlalchemy import Engine

    from app.features.observation import Payload
    from app.ledger.entry import LedgerRow
    from app.services.memory.cache import CachedProfile, LiveProfiles
    from app.services.memory.recent import RecentMessages
    from app.storage.profiles import ProfileRow

    class Seen(Protocol):
        """The features of a message: an observation, or a stored one."""

        @property
        def digest(self) -> bytes:
            """Identity of the message."""
            ...

        @property
        def feature_set(self) -> int:
            """Number of the rules of the features."""
            ...

        @property
        def views(self) -> Mapping[str, Payload]:
            """The features, view by view."""
            ...


Answer = TypeVar("Answer")
# Longer than the database's own time-out, so that its error comes first.
PATIENCE: Final = 60.0
# Seconds between two looks for an id that another worker is about to store.
LOOK_AGAIN: Final = 0.1
# Ids of one query: some 8 kB are read and decoded for each.
GROUP: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message that was scored or taught, as far as it is stored.

    Parameters
    ----------
    evidence : ScoredRow or None
        Its features; None where they are not stored, or no longer.
    learned : bool
        Whether it has a label.
    """

    evidence: ScoredRow | None = None
    learned: bool = False

    def __bool__(self) -> bool:
        """Whether anything is stored of it."""
        return self.learned or self.evidence is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LookUp(Job):
    profile: CachedProfile
    digest: bytes


class Recall:
    """The thread that looks up messages by their ids.

    Parameters
    ----------
    engine : Engine
        The database, for messages that were scored a while ago.
    live : LiveProfiles
        The profiles in memory.
    recent : RecentMessages or None
        The messages that were scored last.
    store_words : bool
        Whether the text of features is kept.
    write_behind : float
        Time in which another worker stores a scored message; an unknown id is waited
        for as long.  Unit: seconds.
    """

    def __init__(
        self,
        engine: Engine,
        live: LiveProfiles,
        recent: RecentMessages | None,
        *,
        store_words: bool,
        write_behind: float = 0.0,
    ) -> None:
        self._engine = engine
        self._live = live
        self._recent = recent
        self._store_words = store_words
        self.write_behind = write_behind
        self._queue: JobQueue[_LookUp] = JobQueue()
        self._replacements = Replacements(live.found_again, self._queue)
        self._thread = threading.Thread(target=self._run, name="recall", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        """Look-ups that wait for the thread."""
        return self._queue.size

    def stop(self) -> None:
        """Answer all look-ups that wait, and end the thread."""
        self._queue.close()
        self._thread.join()

    def look_up(self, profile: str, digest: bytes) -> Future[StoredMessage]:
        """Begin to look up a message.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If too many requests wait, or the service is stopping.
        """
        job = _LookUp(profile=self._live.find(profile), digest=digest)
        # Running, so that it cannot be cancelled: an answer to a cancelled future would
        # raise in the thread.
        job.answer.set_running_or_notify_cancel()
        seen = None
        if self._recent is not None:
            seen = self._recent.get(job.profile.row.id, digest)
        if seen is None:
            self._queue.put(job)
        else:
            job.answer.set_result(StoredMessage(evidence=seen))
        return job.answer

    def wait(self, profile: str, digest: bytes) -> StoredMessage:
        """Return a message that is stored, or will be within `write_behind`.

        Raises
        ------
        UnknownProfile, DatabaseUnavailable
            As `look_up`; or if the answer does not come in time.
        """
        until = time.monotonic() + self.write_behind
        while True:
            stored = wait_for(self.look_up(profile, digest))
            if stored or time.monotonic() >= until:
                return stored
            time.sleep(LOOK_AGAIN)

    def _run(self) -> None:
        try:
            while jobs := self._queue.take(GROUP):
                by_profile: dict[int, list[_LookUp]] = {}
                for job in jobs:
                    by_profile.setdefault(job.profile.row.id, []).append(job)
                for group in by_profile.values():
                    self._answer(group[0].profile, group)
        finally:
            self._queue.close()

    def _answer(self, profile: CachedProfile, jobs: Sequence[_LookUp]) -> None:
        try:
            found = self._find(profile.row, [job.digest for job in jobs])
        except ProfileReplaced as error:
            self._replacements.requeue(profile, jobs, error)
            return
        # The outermost loop of the thread: any error is the answer to those who wait.
        except Exception as error:  # noqa: BLE001
            for job in jobs:
                job.answer.set_exception(error)
            return
        for job in jobs:
            job.answer.set_result(found[job.digest])

    def _find(
        self, profile: ProfileRow, digests: Sequence[bytes]
    ) -> dict[bytes, StoredMessage]:
        with reading(with_short_timeout(self._engine)) as connection:
            latest = ledger.latest_of(connection, profile.id, set(digests))
            kept: dict[bytes, LedgerRow | ScoredRow] = {
                digest: row
                for digest, row in latest.items()
                if row.kept and not row.forgotten
            }
            kept |= scored.get_many(connection, profile.id, set(digests) - set(kept))
            if set(digests) - set(kept):
                profiles.require_there(connection, profile)
        return {
            digest: StoredMessage(
                evidence=self._evidence(digest, kept.get(digest)),
                learned=digest in latest and latest[digest].label is not None,
            )
            for digest in digests
        }

    def _evidence(
        self, digest: bytes, row: LedgerRow | ScoredRow | None
    ) -> ScoredRow | None:
        if row is None or row.vector is None:
            return None
        return ScoredRow(
            digest=digest,
            vector=row.vector,
            encoded_names=row.encoded_names if self._store_words else None,
            feature_set=row.feature_set,
            time=row.time,
            decoded=row.views,
        )


def wait_for(answer: Future[Answer]) -> Answer:
    """Wait for an answer of a thread, and return it.

    Raises
    ------
    DatabaseUnavailable
        If it does not come within `PATIENCE`, or the thread answers so.
    """
    try:
        return answer.result(PATIENCE)
    except FutureTimeoutError as error:
        raise too_late() from error


def too_late() -> DatabaseUnavailable:
    """Return the error of an answer that did not come within `PATIENCE`."""
    return DatabaseUnavailable(
        f"the database has not answered within {PATIENCE:.0f} s; the "
        "feedback may still be stored, and sending it again is safe"
    )


HEADER: Final = "X-Postbayes-Id"
# Bytes of headers that are searched; Postfix takes 100 kB (header_size_limit).
_HEADER_BYTES: Final = 128 * 1024
_MOST_IDS: Final = 2
# Half of the features in common. Of 20,000 pairs of different messages of the
# SpamAssassin corpus 5 have as much; of 1,200 messages whose subject was tagged
# and that got a footer of 27 words, all have.
_SHARE: Final = 0.5
_ID: Final = re.compile(
    rb"^%b:[ \t]*([0-9a-f]{32})[ \t]*\r?$" % HEADER.encode(),
    re.MULTILINE | re.IGNORECASE,
)
# Without the \r of the line before: a pattern that begins with what may be missing
# is tried at every byte.
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


def is_same_message(scored: Seen, arrived: Seen) -> bool:
    """Return whether a scored message can be the one that arrived, with some changes.

    A server on the way may have tagged the subject or added a footer, which changes the
    digest.  A spammer may have written the id of another message, to have that one
    learned in place of his own: only messages that share most of their features count
    as the same.
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
