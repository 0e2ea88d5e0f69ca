"""Automatic learning from the filter's own confident verdicts."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from app.classifier.learn import confident
from app.errors import DatabaseUnavailable
from app.ledger.entry import OWN
from app.ledger.teaching import ScoredRow, Teaching

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from datetime import date, datetime

    from app.classifier.verdict import Verdict
    from app.features.observation import Observation
    from app.services.memory.live import LiveProfile
    from app.services.threads.writer import Writer, Written

log: Final = logging.getLogger(__name__)


class AutoLearn:
    """Teaches confident verdicts to the filter that gave them.

    Parameters
    ----------
    writer : Writer
        The thread that appends to the ledger.
    clock : callable
        Returns the time now, in UTC.
    own_from : float
        From this far from 0 on, log-odds are confident.  Unit: nats.
    per_day : int
        Messages that a profile may learn so on a day, in UTC.
    store_words : bool
        Whether the text of features is kept.

    Notes
    -----
    The ledger keeps to `per_day` across workers and starts, and skips messages that
    were taught before.  The count here only saves look-ups.
    """

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], datetime],
        *,
        own_from: float,
        per_day: int,
        store_words: bool,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._own_from = own_from
        self._per_day = per_day
        self._store_words = store_words
        self._lock = threading.Lock()
        # Learned or on the way, by profile; of that day only.
        self._day: date | None = None
        self._learned: dict[int, int] = {}

    def __call__(
        self, live: LiveProfile, observation: Observation, verdict: Verdict
    ) -> None:
        """Have a verdict learned if it is confident, without waiting."""
        if not confident(verdict, live.snapshot, own_from=self._own_from):
            return
        now = self._clock()
        day, profile = now.date(), live.row.id
        if not self._take(profile, day):
            return
        teaching = Teaching(
            digest=observation.digest,
            label=live.row.labels[verdict.label],
            evidence=ScoredRow.of(
                observation.stored(words=self._store_words), time=now
            ),
            source=OWN,
            time=now,
            per_day=self._per_day,
        )
        try:
            answer = self._writer.submit(live, teaching)
        except DatabaseUnavailable as error:
            log.info("a confident verdict is not learned: %s", error)
            self._settle(profile, day, 0)
            return
        answer.add_done_callback(lambda done: self._done(profile, day, done))

    def _take(self, profile: int, day: date) -> bool:
        with self._lock:
            if self._day != day:
                self._day = day
                self._learned.clear()
            learned = self._learned.get(profile, 0)
            if learned >= self._per_day:
                return False
            self._learned[profile] = learned + 1
            return True

    def _done(self, profile: int, day: date, answer: Future[Written]) -> None:
        error = answer.exception()
        if error is not None:
            log.info("a confident verdict is not learned: %s", error)
            self._settle(profile, day, 0)
            return
        kind = answer.result().outcome.kind
        if kind != "learned":
            self._settle(profile, day, self._per_day if kind == "full" else 0)

    def _settle(self, profile: int, day: date, at_least: int) -> None:
        """Correct the count for a message that was not learned."""
        with self._lock:
            if self._day == day:
                self._learned[profile] = max(at_least, self._learned[profile] - 1)
