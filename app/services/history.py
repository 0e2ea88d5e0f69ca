"""History: verdicts as lines, by which people find and teach messages.

A line has the strongest reasons if the door asked for an explanation.  Otherwise the
page of the message computes them when it is shown, from the counts of that time.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from heapq import nlargest
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.posterior import finite, probability_of
from app.classifier.statement import UNKNOWN
from app.classifier.verdict import HistoryFilter, HistoryLine
from app.errors import UnknownMessage, UnknownProfile
from app.features.observation import Observation
from app.mail.encoding import shown
from app.services.classify import classify_observation
from app.services.clock import now
from app.storage import history, ledger, scored, tables
from app.storage.database.engine import reading

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from app.classifier.statement import Origin
    from app.classifier.verdict import Candidate, Count, Place
    from app.ledger.entry import LedgerRow
    from app.services.cache import LiveProfiles
    from app.services.classify import Classified
    from app.services.live import CachedProfile
    from app.services.recent import RecentMessages

MAX_TEXT: Final = 200
"""Most characters of a sender, a subject, the recipients or a reason.

Precedent: mail programs show about a hundred of a subject; RFC 5322 section 2.1.1
recommends lines of 78.
"""
REASONS: Final = 5
"""Reasons of a line, of both sides together."""
DEPTH: Final = 20_000
"""Lines that one search reads: 0.2 s. The answer says where the next one continues."""
REVIEWED: Final = 5_000
"""Newest lines from which the messages worth teaching are chosen: 70 ms."""
LINES: Final = 20
"""Lines of one message that its page shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHistory:
    """One message in one profile.

    Parameters
    ----------
    scored : datetime or None
        When it was last scored; None if that is not, or no longer, stored.
    entries : tuple of HistoryEntry
        Its newest lines in the history, newest first.
    rows : tuple of LedgerRow
        Its rows in the ledger, oldest first.
    now : Classified or None
        The verdict of the profile now, with everything taught since; None if the
        features of the message are not, or no longer, stored.
    """

    profile: str
    scored: datetime | None
    entries: tuple[HistoryEntry, ...]
    rows: tuple[LedgerRow, ...]
    now: Classified | None


def line_of(text: str) -> str:
    r"""Return a text of a mail as one line, with hidden characters made visible.

    Each run of blanks becomes one space.  Control characters, characters that change
    the direction of writing, and lone surrogates become visible escapes.

    Examples
    --------
    >>> line_of("cheap\tpills\x00"), line_of("exe.\u202egpj")
    ('cheap pills\\x00', 'exe.\\u202egpj')
    """
    # A header may have megabytes, and only its beginning is needed.
    return shown(" ".join(text[: 4 * MAX_TEXT].split()), MAX_TEXT)


@dataclass(frozen=True, slots=True)
class VerdictRecorder:
    """Notes verdicts for the history, which the maintenance writes.

    Parameters
    ----------
    recent : RecentMessages
        Holds them until they are written, and knows whether text may be stored.
    """

    recent: RecentMessages
    live: LiveProfiles

    def __call__(
        self,
        profile: str,
        classified: Classified,
        *,
        door: str,
        recipients: Sequence[str] = (),
        origin: Origin = UNKNOWN,
    ) -> None:
        """Note a verdict.

        Parameters
        ----------
        profile : str
            Name of the profile whose history gets the line.
        classified : Classified
            The verdict of this profile, or of one that answered in its place.
        recipients : sequence of str
            Recipients of this profile; if empty, the header To is used.
        origin : Origin
            Has the sender of the SMTP envelope, if known.
        """
        head = classified.head
        seen = classified.attribution.seen.values()
        features = sum(each.size for each in seen)
        text: dict[str, str | None] = {}
        reasons = None
        if self.recent.store_words:
            text = {
                "sender": line_of(head.sender),
                "subject": line_of(head.subject),
                "recipients": line_of(", ".join(recipients[:10]) or head.to),
                "envelope": line_of(origin.sender) if origin.sender else None,
            }
            explanation = classified.explanation
            if explanation.strongest or classified.statements:
                strongest = nlargest(
                    REASONS, explanation.reasons, key=lambda x: abs(x.log_odds)
                )
                reasons = [
                    (line_of(each.title), round(each.log_odds, 3)) for each in strongest
                ]
        line = HistoryLine(
            digest=classified.observation.digest,
            time=now(),
            door=door,
            decision=classified.verdict.decision,
            log_odds=finite(classified.verdict.log_odds),
            size=head.size,
            features=features,
            unseen=features - sum(int(np.count_nonzero(each)) for each in seen),
            reasons=reasons,
            **text,
        )
        # A profile that was just deleted has no history, but its verdict is still
        # given.
        with suppress(UnknownProfile):
            self.recent.note(self.live.find(profile).row.id, line)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """A line of the history, with the present state of its message.

    Parameters
    ----------
    line : HistoryLine
        The verdict at the time of scoring.
    label : str or None
        The present label of the message; None if it is not learned.
    source : str or None
        Who labelled it last, or took the label back; None if nobody did.
    teachable : bool
        Whether it can be taught by its id.
    """

    line: HistoryLine
    label: str | None
    source: str | None
    teachable: bool

    @property
    def worth(self) -> float:
        """The value of teaching it (`teaching_worth`)."""
        return teaching_worth(self.line)


def teaching_worth(line: HistoryLine | Candidate) -> float:
    r"""Return the value of teaching a message, from 0 to 2.

    Notes
    -----
    .. math:: w = 4 p (1 - p) \left(1 + \frac{u}{n}\right)

    Here *p* is the probability of spam, and *u/n* the share of features that are new.
    The first factor is the uncertainty of the verdict: 1 at log-odds of 0, and 0.36 at
    2.2 nats (uncertainty sampling [1]_).  A message with only new words counts twice,
    because its label says most about future messages.

    References
    ----------
    .. [1] D. D. Lewis and W. A. Gale, "A Sequential Algorithm for Training Text
       Classifiers", SIGIR 1994.

    Examples
    --------
    >>> from datetime import datetime
    >>> from app.classifier.verdict import Candidate
    >>> line = Candidate(datetime.now(), b"", "unsure", 0.0, features=10, unseen=5)
    >>> teaching_worth(line)
    1.5
    """
    if line.log_odds is None:
        return 0.0
    p = probability_of(line.log_odds)
    new = line.unseen / line.features if line.features else 0.0
    return 4.0 * p * (1.0 - p) * (1.0 + new)


@dataclass(frozen=True, slots=True)
class VerdictHistory:
    """Reads the history of profiles, and the stored data of messages."""

    live: LiveProfiles

    def page(
        self,
        profile: str,
        criteria: HistoryFilter,
        *,
        before: Place | None = None,
        limit: int,
    ) -> tuple[list[HistoryEntry], Place | None]:
        """Return the newest lines that match, and where to continue.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the history cannot be read.
        """
        row = self.live.find(profile).row
        with reading(self.live.engine) as connection:
            lines, further = history.page(
                connection, row.id, criteria, before=before, limit=limit, depth=DEPTH
            )
            return self._entries(connection, row.id, lines), further

    def review(self, profile: str, *, limit: int) -> list[HistoryEntry]:
        """Return messages that nobody taught: *unsure* first, then by their worth.

        They are chosen from the newest `REVIEWED` lines.  If a message was scored
        several times, its newest line counts.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the history cannot be read.
        """
        row = self.live.find(profile).row
        with reading(self.live.engine) as connection:
            found = history.untaught(connection, row.id, depth=REVIEWED)
            newest = {each.digest: each for each in reversed(found)}
            ranked = sorted(
                newest.values(),
                key=lambda each: (
                    each.decision != "unsure",
                    -teaching_worth(each),
                    each.digest,
                ),
            )
            places = [(each.time, each.digest) for each in ranked[:limit]]
            lines = history.lines_at(connection, row.id, places)
            return self._entries(connection, row.id, lines)

    def stored(
        self, digest: bytes, *, profile: str | None, strongest: int
    ) -> list[MessageHistory]:
        """Return the stored data of a message, by profile.

        Parameters
        ----------
        digest : bytes
            The message.
        profile : str or None
            The one profile to look in; None looks in all.
        strongest : int
            How many features of each side the explanation names.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        UnknownMessage
            If no data of the message are stored.
        DatabaseUnavailable
            If it cannot be read.
        """
        asked = self.live if profile is None else (self.live.find(profile),)
        found = [
            each
            for cached in asked
            if (each := self._look_up(cached, digest, strongest)) is not None
        ]
        if not found:
            raise UnknownMessage(
                f"nothing is stored about message {digest.hex()}: it was not taught, "
                "and was not scored within POSTBAYES_SCORED_DAYS and "
                "POSTBAYES_SCORED_ROWS; the log may still have its line"
            )
        return found

    def _look_up(
        self, profile: CachedProfile, digest: bytes, strongest: int
    ) -> MessageHistory | None:
        with reading(self.live.engine) as connection:
            rows = ledger.of_message(connection, profile.row.id, digest)
            stored = scored.get_many(connection, profile.row.id, [digest])
            remembered = stored.get(digest)
            lines = history.of_message(connection, profile.row.id, digest, limit=LINES)
            entries = self._entries(connection, profile.row.id, lines)
        if not rows and remembered is None and not entries:
            return None
        kept = (row for row in reversed(rows) if row.kept)
        seen = remembered or next(kept, None)
        now = None
        if seen is not None and seen.feature_set == profile.row.feature_set:
            found = Observation(seen.digest, seen.feature_set, seen.views, seen.names)
            live = self.live.get(profile.row.name)
            now = classify_observation(
                live, found.with_pair_names(), strongest=strongest
            )
        return MessageHistory(
            profile=profile.row.name,
            scored=None if remembered is None else remembered.time,
            entries=tuple(entries),
            rows=tuple(rows),
            now=now,
        )

    def over_time(self, profile: str, *, days: float, step: int) -> list[Count]:
        """Return the verdicts of the last days, counted per `step` seconds.

        Raises
        ------
        UnknownProfile
            If there is no such profile.
        DatabaseUnavailable
            If the history cannot be read.
        """
        row = self.live.find(profile).row
        since = now() - timedelta(days=days)
        with reading(self.live.engine) as connection:
            return history.counts(connection, row.id, since=since, step=step)

    @staticmethod
    def _entries(
        connection: Connection, profile_id: int, lines: Sequence[HistoryLine]
    ) -> list[HistoryEntry]:
        digests = {line.digest for line in lines}
        latest = ledger.latest_of(connection, profile_id, digests)
        stored = ledger.known_digests(
            connection, profile_id, digests, table=tables.scored
        )
        entries = []
        for line in lines:
            row = latest.get(line.digest)
            kept = row is not None and row.kept and not row.forgotten
            entries.append(
                HistoryEntry(
                    line=line,
                    label=None if row is None else row.label,
                    source=None if row is None else row.source,
                    teachable=kept or line.digest in stored,
                )
            )
        return entries
