"""Lines of the history, and the searches for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Place: TypeAlias = "tuple[datetime, bytes]"
"""Time and digest of a line: where it stands in a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One verdict on one message.

    Parameters
    ----------
    digest : bytes
        Identity of the message, 16 bytes.
    time : datetime
        When it was scored.
    door : str
        What asked: `http`, `milter`, `spamd` or `rspamd`.
    decision : str
        The decision then.
    log_odds : float or None
        The log-odds then; None where they were not finite.  Unit: nats.
    size : int
        Of the message.  Unit: bytes.
    features, unseen : int
        Features of the message, and those that the profile had never seen.
    sender, subject : str or None
        Its headers From and Subject; None where words are not stored.
    recipients : str or None
        Those of the profile, as the mail server named them; else its header To.
    envelope : str or None
        Sender of the SMTP envelope, where the door knows it.
    reasons : sequence of (str, float) pairs, or None
        The strongest reasons with what they added; None where they were not computed.
        Unit: nats.
    """

    digest: bytes
    time: datetime
    door: str
    decision: str
    log_odds: float | None
    size: int
    features: int
    unseen: int
    sender: str | None = None
    subject: str | None = None
    recipients: str | None = None
    envelope: str | None = None
    reasons: Sequence[tuple[str, float]] | None = None

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.time, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """The lines that are asked for; those that match all that is given.

    Parameters
    ----------
    search : str
        Stands in sender, subject, recipients or envelope; ASCII letters in any case.
    decision, door : str or None
        Of the line.
    taught : bool or None
        Whether the message is learned now.
    since, until : datetime or None
        Scored from then on, and before then.
    """

    search: str = ""
    decision: str | None = None
    door: str | None = None
    taught: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def looks(self) -> bool:
        """Whether lines have to be looked at, beyond their time."""
        return bool(self.search or self.decision or self.door) or (
            self.taught is not None
        )


class Candidate(NamedTuple):
    """The fields of a line that the worth of teaching depends on."""

    time: datetime
    digest: bytes
    decision: str
    log_odds: float | None
    features: int
    unseen: int


class Count(NamedTuple):
    """The lines of a stretch of time with one decision, of one door.

    Parameters
    ----------
    begin : int
        When it begins.  Unit: seconds since 1970 in UTC.
    decision, door : str
        Of the lines.
    lines : int
        How many there are.
    """

    begin: int
    decision: str
    door: str
    lines: int
