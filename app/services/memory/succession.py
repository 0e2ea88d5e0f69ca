"""Succession: requests for a profile that was replaced a moment ago.

It waits for the one that is in its place now, which is loaded at once.  To load it
takes as long as at a start, so there is a thread for it: other profiles are served
meanwhile.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from app.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from app.services.memory.live import LiveProfile
    from app.services.queue import Inbox

    Successor = Callable[[LiveProfile], LiveProfile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is wanted of a profile, and waited for.

    Parameters
    ----------
    profile : LiveProfile
        Of whom.
    answer : Future
        What becomes of it.
    handed_on : bool
        Whether it was wanted of another profile, which was replaced.
    """

    profile: LiveProfile
    answer: Future[Any] = field(default_factory=Future)
    handed_on: bool = False


AnyJob = TypeVar("AnyJob", bound=Job)


class Succession(Generic[AnyJob]):
    """Those who wait for the successors of profiles.

    Parameters
    ----------
    successor : callable
        Returns what has the place of a profile that was replaced, loaded.
    inbox : Inbox
        Where a job is left for the thread that does it.
    """

    def __init__(self, successor: Successor, inbox: Inbox[AnyJob]) -> None:
        self._successor = successor
        self._inbox = inbox
        self._changing = threading.Lock()
        self._waiting: dict[int, list[AnyJob]] = {}

    def hand_on(
        self, replaced: LiveProfile, jobs: Iterable[AnyJob], error: Exception
    ) -> None:
        """Have jobs done with the successor of their profile; return at once.

        Parameters
        ----------
        replaced : LiveProfile
            The profile that is gone.
        jobs : iterable of Job
            What was wanted of it.
        error : Exception
            What is answered to jobs that were handed on before.
        """
        meant = []
        for job in jobs:
            if job.handed_on:
                job.answer.set_exception(error)
            else:
                meant.append(job)
        if not meant:
            return
        with self._changing:
            begun = replaced.row.id in self._waiting
            self._waiting.setdefault(replaced.row.id, []).extend(meant)
        if not begun:
            threading.Thread(
                target=self._load, args=(replaced,), name="succession", daemon=True
            ).start()

    def _load(self, replaced: LiveProfile) -> None:
        try:
            successor = self._successor(replaced)
        # The outermost loop of the thread: whatever went wrong is their answer.
        except Exception as error:  # noqa: BLE001
            for job in self._taken(replaced):
                job.answer.set_exception(error)
            return
        for job in self._taken(replaced):
            try:
                self._inbox.put(replace(job, profile=successor, handed_on=True))
            except DatabaseUnavailable as error:
                job.answer.set_exception(error)

    def _taken(self, replaced: LiveProfile) -> list[AnyJob]:
        """Return all who wait; who comes later begins anew."""
        with self._changing:
            return self._waiting.pop(replaced.row.id)
