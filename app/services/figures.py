"""Live figures: the accuracy of a profile and of its teachers, on labelled mail.

Every lesson is scored before it is learned, so the ledger has the decision that the
filter made before it knew the message.  Archives that `learn` reads are not scored, and
the figures do not include them.

Contract of this file: what was learned stays unchanged.  The log names a suspect with
the command that takes the lessons back, and suspects are refused if the operator wants
that.  A teacher whom the operator trusts is neither limited nor refused.
"""

from __future__ import annotations

import logging
import math
import shlex
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import probability_of
from app.errors import Forbidden, TooManyRequests
from app.figures import (
    Bin,
    Errors,
    brier,
    expected_calibration_error,
    reliability,
    roca_interval,
    roca_pct,
)
from app.services.profiles import learned
from app.storage import scored as scores
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable
    from datetime import datetime

    from app.kernels import Floats
    from app.services.cache import LiveProfiles
    from app.services.live import CachedProfile
    from app.settings import Settings
    from app.storage.scored import Scored


CACHED: Final = 100
"""Figures in memory, some 10 kB each."""
SOURCES: Final = 20
"""Most teachers with figures of their own: each is one series for monitoring."""
OTHERS: Final = "(others)"
SURE: Final = math.log(999)
"""Log-odds at which a calibrated filter is wrong once in a thousand messages.

On four corpora, half of the wrong decisions were below 4 to 5.6 nats, and half of the
randomly mislabelled messages below 7.9 to 9.7 (experiment 0082).  Unit: nats."""
QUARTILE: Final = 0.25
"""Share of the verdicts that agree with their labels and still count as unsure.

A hostile teacher makes the filter unsure of everything: on three corpora of six it
seldom reached `SURE`.  The verdicts that he contradicts are then as sure as the others,
but those that honest teachers correct are less sure (experiment 0092)."""
SUSPECT: Final = 10
"""Least number of contradicted sure verdicts that make a suspect."""
SHARE: Final = 3
"""A suspect contradicts at least one in this many verdicts on his messages."""
# A slice of the learning curve is a tenth of the window.
SLICES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One stretch of the learning curve."""

    first_revision: int
    last_revision: int
    errors: Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFigures:
    """The messages that one teacher labelled; see `app.doors.documents.figures`."""

    source: str
    errors: Errors
    unsure: int
    contradicted: int
    sure: int = 0
    corrected: int = 0
    last: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFigures:
    """The accuracy of a profile on the newest messages that people labelled.

    `app.doors.documents.figures` describes the fields; `ece` is a share of 1 here.
    """

    profile: str
    revision: int
    window: int
    learned: int
    errors: Errors
    unsure: int
    roca_pct: float | None
    roca_interval_pct: tuple[float, float] | None
    ece: float | None
    brier: float | None
    reliability: tuple[Bin, ...]
    curve: tuple[Slice, ...]
    sources: tuple[SourceFigures, ...]

    @property
    def suspects(self) -> tuple[SourceFigures, ...]:
        """The sources that are suspects."""
        return suspects(self.sources)


@dataclass(eq=False)
class Figures:
    """Computes the live figures of profiles."""

    live: LiveProfiles

    def __post_init__(self) -> None:
        """Begin without figures."""
        # The figures of the last requests: `/metrics` repeats the same requests every
        # few seconds, even if nothing was learned since.
        self._made = lru_cache(CACHED)(self._make)
        # One at a time: 5,000 messages take about 0.2 s, and several at once would
        # slow down scoring and not be finished any sooner.
        self._making = threading.Lock()

    def __call__(self, profile: str, *, window: int) -> LiveFigures:
        """Return the figures of the newest `window` messages.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the ledger cannot be read.
        """
        live = self.live.find(profile)
        with self._making:
            # A profile may be renamed, or replaced by another with its name or key.
            which = live.row.id, live.row.created_at
            return self._made(profile, window, live.revision, which)

    def sources(self, profile: str, *, window: int) -> tuple[SourceFigures, ...]:
        """Return the figures of the teachers only, in half of the time.

        Raises
        ------
        UnknownProfile, DatabaseUnavailable
            As for a call.
        """
        return by_source(self._scored(self.live.find(profile), window))

    def _scored(self, live: CachedProfile, window: int) -> Scored:
        with reading(self.live.engine) as connection:
            return scores.newest(
                connection, live.row.id, spam_labels=live.row.spam_labels, window=window
            )

    def _make(
        self, profile: str, window: int, revision: int, _: Hashable
    ) -> LiveFigures:
        live = self.live.find(profile)
        scored = self._scored(live, window)
        gold = scored.is_spam
        probability = np.fromiter(
            map(probability_of, scored.log_odds.tolist()), np.float64, gold.size
        )
        return LiveFigures(
            profile=profile,
            revision=revision,
            window=window,
            learned=sum(learned(live).values()),
            errors=Errors.of(gold, scored.decided_spam),
            unsure=int(scored.unsure.sum()),
            roca_pct=roca_pct(scored.log_odds, gold),
            # The seed is the revision, so the same request has the same answer.
            roca_interval_pct=roca_interval(scored.log_odds, gold, seed=revision),
            ece=expected_calibration_error(gold, probability),
            brier=brier(gold, probability),
            reliability=reliability(gold, probability),
            curve=curve(scored),
            sources=by_source(scored),
        )


def by_source(scored: Scored) -> tuple[SourceFigures, ...]:
    """Return the figures of the busiest teachers, and of all others together."""
    counted = Counter(scored.sources)
    # Including teachers without a message left.
    counted.update(dict.fromkeys(filter(None, scored.corrected), 0))
    busiest = counted.most_common()
    name_of = {source: source for source, _ in busiest[:SOURCES]}
    owner = np.array([name_of.get(each, OTHERS) for each in scored.sources])
    corrected = Counter(
        name_of.get(each, OTHERS) for each in scored.corrected if each is not None
    )
    # Unsure spam counts as missed, not as contradicted.
    wrong = scored.is_spam != scored.decided_spam
    against, agreed = wrong & ~scored.unsure, ~wrong & ~scored.unsure
    strength = np.abs(scored.log_odds)
    sure = against & (strength >= sure_from(strength[agreed]))
    found = []
    for source in dict.fromkeys(name_of.get(each, OTHERS) for each, _ in busiest):
        own = owner == source
        found.append(
            SourceFigures(
                source=source,
                errors=Errors.of(scored.is_spam[own], scored.decided_spam[own]),
                unsure=int(scored.unsure[own].sum()),
                contradicted=int(against[own].sum()),
                sure=int(sure[own].sum()),
                corrected=corrected[source],
                last=max(compress(scored.times, own.tolist()), default=None),
            )
        )
    return tuple(found)


def sure_from(agreed: Floats) -> float:
    """Return the least strength of a verdict of which the filter was sure.

    Parameters
    ----------
    agreed : ndarray of float64, shape (n,)
        The strengths of the verdicts that agree with their labels.  Unit: nats.
    """
    return min(SURE, float(np.quantile(agreed, QUARTILE))) if agreed.size else SURE


def suspects(sources: Collection[SourceFigures]) -> tuple[SourceFigures, ...]:
    """Return the teachers who contradict verdicts of which the filter was sure.

    Teachers who correct mistakes contradict the filter too, but mostly where it was
    less sure.  Teachers who slip now and then mostly agree with it, or help where it is
    unsure.  A teacher of most of the messages is no suspect.  There are no suspects
    unless they are outnumbered by other teachers with enough messages: otherwise the
    filter may be wrong, for instance after an archive with wrong labels, and the
    corrections right.
    """
    total = sum(each.errors.messages for each in sources)
    found = tuple(
        each
        for each in sources
        if each.source != OTHERS
        and each.sure >= SUSPECT
        and 2 * each.sure >= each.contradicted
        and SHARE * each.contradicted >= each.errors.messages
        and 2 * each.errors.messages <= total
    )
    agreeing = sum(e.errors.messages >= SUSPECT for e in sources if e not in found)
    return found if agreeing > len(found) else ()


def curve(scored: Scored) -> tuple[Slice, ...]:
    """Return the errors of each tenth of the messages, oldest first."""
    n = scored.is_spam.size
    ends = [n * part // SLICES for part in range(SLICES + 1)]
    return tuple(
        Slice(
            first_revision=int(scored.revisions[start]),
            last_revision=int(scored.revisions[end - 1]),
            errors=Errors.of(scored.is_spam[start:end], scored.decided_spam[start:end]),
        )
        for start, end in pairwise(ends)
        if start < end
    )


log = logging.getLogger(__name__)
# The newest labels of a profile: a teacher who is right again is no suspect for ever.
WINDOW: Final = 2_000
# Labels after which a profile is looked at again.
EVERY: Final = 20
WATCH_SECONDS: Final = 2.0
"""Seconds between two looks, each of 44 ms of CPU at 2,000 labels, in every process."""
# Profiles that are not reached are looked at next time: a start has 10,000 to look at.
WATCHED_SECONDS: Final = 0.05


@dataclass(slots=True)
class Teachers:
    """Watches who teaches the profiles in memory.

    Parameters
    ----------
    settings : Settings
        How many messages one source may teach a profile on a day, whether suspects are
        refused, and the sources that may teach all the same.
    """

    figures: Figures
    settings: Settings
    # By the key of a profile: the revision that it was looked at, and the suspects.
    _seen: dict[int, tuple[int, frozenset[str]]] = field(
        default_factory=dict, init=False
    )

    def watch(self) -> None:
        """Look for suspects where enough was taught since.

        Raises
        ------
        DatabaseUnavailable
            If the ledger cannot be read.
        """
        seen: dict[int, tuple[int, frozenset[str]]] = {}
        until = time.monotonic() + WATCHED_SECONDS
        for cached in self.figures.live:
            profile = cached.row
            revision, known = self._seen.get(profile.id, (0, frozenset[str]()))
            # Nobody is a suspect by fewer labels than these.
            if cached.revision - revision >= EVERY and time.monotonic() < until:
                revision, known = cached.revision, self._look(profile.name, known)
            seen[profile.id] = revision, known
        self._seen = seen

    def _look(self, profile: str, known: frozenset[str]) -> frozenset[str]:
        """Return the suspects of a profile, and log those that are not known yet."""
        found = suspects(self.figures.sources(profile, window=WINDOW))
        refuses = self.settings.suspects == "refuse"
        for each in found:
            if each.source not in {*known, *self.settings.trusted_sources}:
                log.warning(
                    "in the profile %r, %r contradicts confident verdicts in %d of %d "
                    "lessons%s. If the lessons are wrong, preview their removal with "
                    "`postbayes undo --profile %s --source %s --dry-run`; otherwise "
                    "add the source to POSTBAYES_TRUSTED_SOURCES",
                    profile,
                    each.source,
                    each.sure,
                    each.errors.messages,
                    "; further lessons are refused" if refuses else "",
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
        _, found = self._seen.get(profile_id, (0, frozenset[str]()))
        trusted = source in self.settings.trusted_sources
        if source in found and not trusted and self.settings.suspects == "refuse":
            raise Forbidden(
                f"the lessons of {source!r} contradict confident verdicts, so no more "
                "are learned; an administrator can check them (`postbayes teachers`) "
                "and add the source to POSTBAYES_TRUSTED_SOURCES"
            )

    def bound(self, source: str) -> int | None:
        """Return how many messages a source may teach on a day; None for any."""
        trusted = source in self.settings.trusted_sources
        return None if trusted else self.settings.teacher_per_day

    def too_many(self, source: str, time: datetime) -> TooManyRequests:
        """Return the error about a source that has taught as many as it may."""
        msg = (
            f"{source!r} has taught {self.settings.teacher_per_day} messages today "
            "(UTC), as many as POSTBAYES_TEACHER_PER_DAY allows; teach the others "
            "tomorrow, or have an administrator add the source to "
            "POSTBAYES_TRUSTED_SOURCES"
        )
        left = 86_400 - (time.hour * 3600 + time.minute * 60 + time.second)
        return TooManyRequests(msg, left)
