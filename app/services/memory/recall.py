"""Recall: a scored or taught message found by its id.

Concurrent look-ups share a query, as concurrent feedback shares a commit: one
thread takes all that is waiting.  While the database is away, they wait for it
together, and hold no other thread.

Contract of this file: anybody can write such a header, so an id is a hint and
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
from app.services.memory.succession import Job, Succession
from app.services.queue import Inbox
from app.storage import ledger, profiles, scored
from app.storage.database.engine import reading, with_short_timeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future
    from typing import Protocol

    from sqlalchemy import Engine

    from app.features.observation import Payload
    from app.ledger.entry import LedgerRow
    from app.services.memory.live import LiveProfile, LiveProfiles
    from app.services.memory.recent import Recent
    from app.storage.profiles import ProfileRow

    class Seen(Protocol):
        """What was seen of a message: an observation, or what is stored of one."""

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
class Known:
    """What there is of a message.

    Parameters
    ----------
    evidence : ScoredRow or None
        What was seen of it; None where that is not kept, or not any more.
    learned : bool
        Whether it has a label.
    """

    evidence: ScoredRow | None = None
    learned: bool = False

    def __bool__(self) -> bool:
        """Tell whether anything is known of it."""
        return self.learned or self.evidence is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job(Job):
    digest: bytes


class Recall:
    """The thread that looks up messages by their ids.

    Parameters
    ----------
    engine : Engine
        Where messages are looked up that were scored a while ago.
    live : LiveProfiles
        The profiles in memory.
    recent : Recent or None
        The messages that were scored last.
    store_words : bool
        Whether the text of features is kept.
    write_behind : float
        How long another worker may take to store what it has scored; an id that
        is not known yet is waited for as long. Unit: seconds.
    """

    def __init__(
        self,
        engine: Engine,
        live: LiveProfiles,
        recent: Recent | None,
        *,
        store_words: bool,
        write_behind: float = 0.0,
    ) -> None:
        self._engine = engine
        self._live = live
        self._recent = recent
        self._store_words = store_words
        self.write_behind = write_behind
        self._inbox: Inbox[_Job] = Inbox()
        self._succession = Succession(live.successor, self._inbox)
        self._thread = threading.Thread(target=self._run, name="recall", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Answer what was asked, and end the thread."""
        self._inbox.close()
        self._thread.join()

    def look_up(self, profile: str, digest: bytes) -> Future[Known]:
        """Ask what is known of a message now.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If too much is waiting already, or the service is stopping.
        """
        job = _Job(profile=self._live.get(profile), digest=digest)
        # Running, so that nobody can cancel it: an answer to a cancelled future
        # would raise in the thread.
        job.answer.set_running_or_notify_cancel()
        seen = None
        if self._recent is not None:
            seen = self._recent.get(job.profile.row.id, digest)
        if seen is None:
            self._inbox.put(job)
        else:
            job.answer.set_result(Known(evidence=seen))
        return job.answer

    def wait(self, profile: str, digest: bytes) -> Known:
        """Return what is known of a message, or will be within `write_behind`.

        Raises
        ------
        UnknownProfile, DatabaseUnavailable
            As `look_up`; or if the answer does not come in time.
        """
        until = time.monotonic() + self.write_behind
        while True:
            known = answered(self.look_up(profile, digest))
            if known or time.monotonic() >= until:
                return known
            time.sleep(LOOK_AGAIN)

    def _run(self) -> None:
        try:
            while jobs := self._inbox.take(GROUP):
                by_profile: dict[int, list[_Job]] = {}
                for job in jobs:
                    by_profile.setdefault(job.profile.row.id, []).append(job)
                for group in by_profile.values():
                    self._answer(group[0].profile, group)
        finally:
            self._inbox.close()

    def _answer(self, profile: LiveProfile, jobs: Sequence[_Job]) -> None:
        try:
            found = self._find(profile.row, [job.digest for job in jobs])
        except ProfileReplaced as error:
            self._succession.hand_on(profile, jobs, error)
            return
        # The outermost loop of the thread: whatever went wrong is the answer of
        # those who wait for it.
        except Exception as error:  # noqa: BLE001
            for job in jobs:
                job.answer.set_exception(error)
            return
        for job in jobs:
            job.answer.set_result(found[job.digest])

    def _find(
        self, profile: ProfileRow, digests: Sequence[bytes]
    ) -> dict[bytes, Known]:
        with reading(with_short_timeout(self._engine)) as connection:
            latest = ledger.latest_of(connection, profile.id, set(digests))
            kept: dict[bytes, LedgerRow | ScoredRow] = {
                digest: row for digest, row in latest.items() if row.vector is not None
            }
            kept |= scored.get_many(connection, profile.id, set(digests) - set(kept))
            if set(digests) - set(kept):
                profiles.require_there(connection, profile)
        return {
            digest: Known(
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


def answered(answer: Future[Answer]) -> Answer:
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
# Of the headers; Postfix takes 100 kB of them (header_size_limit).
_HEADER_BYTES: Final = 128 * 1024
_MOST_IDS: Final = 2
# Half of the features in common. Of 20,000 pairs of different messages of the
# SpamAssassin corpus 5 have as much; of 1,200 messages whose subject was tagged
# and that got a footer of 27 words, all have.
_SHARE: Final = 0.5
_NAME: Final = HEADER.lower().encode()
_ID: Final = re.compile(
    rb"^%b:[ \t]*([0-9a-f]{32})[ \t]*\r?$" % _NAME,
    re.MULTILINE | re.IGNORECASE,
)
# Without the \r of the line before: a pattern that begins with what may be missing
# is tried at every byte. That, and the look for the name in `marked_ids`, make it
# 2 us in place of 14 for the messages of the SpamAssassin corpus.
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
    if _NAME not in headers.lower():
        return []
    found = dict.fromkeys(_ID.findall(headers))
    return [bytes.fromhex(each.decode()) for each in found][:_MOST_IDS]


def is_same_message(scored: Seen, arrived: Seen) -> bool:
    """Tell whether what was scored can be what arrived, with some changes.

    A server on the way may have tagged the subject or added a footer, so that
    the digest is another one.  Somebody else may have written the id of another
    message, to have that one learned in the place of his own: two messages that
    share most of their features are as good as one, and others do not pass.
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
