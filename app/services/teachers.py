"""Teachers: bounds on what one of them may teach, and the suspects among them.

Contract of this file: nothing that was learned changes.  A suspect is named in the log
with the command that takes the lessons back, and refused where the operator wants that;
whom the operator trusts is neither bounded nor refused.
"""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Final

from app.errors import Forbidden, TooManyRequests
from app.services.figures import suspects

if TYPE_CHECKING:
    from collections.abc import Container
    from datetime import datetime

    from app.services.figures import Figures
    from app.services.memory.cache import LiveProfiles

log = logging.getLogger(__name__)
# The newest labels of a profile: a teacher who is right again is no suspect for ever.
WINDOW: Final = 2_000
# Labels after which a profile is looked at again: 2,000 take 0.1 s.
EVERY: Final = 20


class Teachers:
    """Watches who teaches the profiles in memory.

    Parameters
    ----------
    live : LiveProfiles
        The profiles.
    figures : Figures
        Where they contradict the filter.
    per_day : int or None
        Messages that one source may teach a profile on a day, in UTC; None for any.
    refuse : bool
        Whether suspects are refused.
    trusted : container of str
        Sources that may teach all the same.
    """

    def __init__(
        self,
        live: LiveProfiles,
        figures: Figures,
        *,
        per_day: int | None,
        refuse: bool,
        trusted: Container[str],
    ) -> None:
        self._live = live
        self._figures = figures
        self._per_day = per_day
        self._refuse = refuse
        self._trusted = trusted
        # By the key of a profile: the revision that it was looked at, and the suspects.
        self._seen: dict[int, tuple[int, frozenset[str]]] = {}

    def watch(self) -> None:
        """Look for suspects where enough was taught since.

        Raises
        ------
        DatabaseUnavailable
            If the ledger cannot be read.
        """
        seen: dict[int, tuple[int, frozenset[str]]] = {}
        for cached in self._live:
            profile, before = cached.row, self._seen.get(cached.row.id)
            if before is None or cached.revision - before[0] >= EVERY:
                known = frozenset[str]() if before is None else before[1]
                before = cached.revision, self._look(profile.name, known)
            seen[profile.id] = before
        self._seen = seen

    def _look(self, profile: str, known: frozenset[str]) -> frozenset[str]:
        """Return the suspects of a profile, and log those that are not known yet."""
        found = suspects(self._figures(profile, window=WINDOW).sources)
        for each in found:
            if each.source not in known and each.source not in self._trusted:
                log.warning(
                    "in the profile %r, %r contradicts what the filter is sure of: %d "
                    "of %d lessons. If they are wrong, `postbayes undo --profile %s "
                    "--source %s --dry-run` shows what takes them back; else name it "
                    "in POSTBAYES_TRUSTED_SOURCES",
                    profile,
                    each.source,
                    each.sure,
                    each.messages,
                    *map(shlex.quote, (profile, each.source)),
                )
        return frozenset(each.source for each in found)

    def require(self, profile_id: int, source: str) -> None:
        """Refuse a suspect.

        Raises
        ------
        Forbidden
            If it is one, and suspects are refused.
        """
        if not self._refuse or source in self._trusted:
            return
        _, found = self._seen.get(profile_id, (0, frozenset[str]()))
        if source in found:
            msg = (
                f"the lessons of {source!r} contradict what the filter is sure of, so "
                "that no more are learned; an administrator can look at them "
                "(`postbayes teachers`) and name it in POSTBAYES_TRUSTED_SOURCES"
            )
            raise Forbidden(msg)

    def bound(self, source: str) -> int | None:
        """Return how many messages a source may teach on a day; None for any."""
        return None if source in self._trusted else self._per_day

    def too_many(self, source: str, time: datetime) -> TooManyRequests:
        """Return the error about a source that has taught as many as it may."""
        msg = (
            f"{source!r} has taught {self._per_day} messages today (UTC), as many as "
            "POSTBAYES_TEACHER_PER_DAY allows; teach the others tomorrow, or have an "
            "administrator name it in POSTBAYES_TRUSTED_SOURCES"
        )
        left = 86_400 - (time.hour * 3600 + time.minute * 60 + time.second)
        return TooManyRequests(msg, left)
