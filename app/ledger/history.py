"""Lines of the history, and searches for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Place: TypeAlias = "tuple[datetime, bytes]"
"""Time and digest of a line: its place in the history of a profile."""


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
        The door that asked: `http`, `milter`, `spamd` or `rspamd`.
    decision : str
        The decision then.
    log_odds : float or None
        The log-odds then; None if not finite.  Unit: nats.
    size : int
        Size of the message.  Unit: bytes.
    features, unseen : int
        Number of features of the message, and of those new to the profile.
    sender, subject : str or None
        Its headers From and Subject; None if words are not stored.
    recipients : str or None
        Recipients with this profile, from the mail server or else from the header To.
    envelope : str or None
        Sender of the SMTP envelope, if known.
    reasons : sequence of (str, float) pairs, or None
        The strongest reasons with their log-odds; None if not computed.  Unit: nats.
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
        """Its place in the history."""
        return self.time, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Conditions on lines; a line must meet all that are given.

    Parameters
    ----------
    search : str
        Substring of sender, subject, recipients or envelope; ASCII letters match in any
        case.
    decision, door : str or None
        Decision and door of the line.
    taught : bool or None
        Whether the message is learned now.
    since, until : datetime or None
        Scored at or after, and before.
    """

    search: str = ""
    decision: str | None = None
    door: str | None = None
    taught: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def looks(self) -> bool:
        """Whether there are conditions other than on the time."""
        return bool(self.search or self.decision or self.door) or (
            self.taught is not None
        )


class Candidate(NamedTuple):
    """The fields of a line that determine the worth of teaching it."""

    time: datetime
    digest: bytes
    decision: str
    log_odds: float | None
    features: int
    unseen: int


class Count(NamedTuple):
    """The number of lines in a period, for one decision and door.

    Parameters
    ----------
    begin : int
        Start of the period.  Unit: seconds since 1970 in UTC.
    decision, door : str
        Decision and door of the lines.
    lines : int
        Their number.
    """

    begin: int
    decision: str
    door: str
    lines: int
