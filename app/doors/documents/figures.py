"""Documents of figures: errors, teachers, words and the overview."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from app.doors.documents import AnswerDocument, OfProfileOut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.classifier.verdict import Count
    from app.services.figures import LiveFigures


class ErrorsOut(AnswerDocument):
    """Errors of the filter on messages, before it learned them."""

    messages: int
    """Messages that were scored and then labelled."""
    ham: int
    """Messages with a ham label."""
    spam: int
    """Messages with a spam label."""
    ham_lost: int
    """Ham that the filter took for spam."""
    spam_missed: int
    """Spam that the filter let through, including *unsure*."""
    ham_lost_pct: float | None
    """Per cent of the ham; null without ham."""
    spam_missed_pct: float | None
    """Per cent of the spam; null without spam."""
    lam_pct: float | None
    """Logistic average of the two rates; null without ham or spam."""


class SliceOut(ErrorsOut):
    """A tenth of the messages, for the learning curve."""

    first_revision: int
    """Ledger row of its first message."""
    last_revision: int
    """Ledger row of its last message."""


class BinOut(AnswerDocument):
    """Messages of nearly the same probability, for the reliability diagram."""

    messages: int
    """Messages in the bin."""
    spam: int
    """Spam messages in the bin."""
    low: float
    """Lowest probability of the bin."""
    high: float
    """Highest probability of the bin."""
    mean: float
    """Predicted share of spam."""
    share: float
    """Actual share of spam."""


class SourceOut(ErrorsOut):
    """The messages that one teacher labelled."""

    source: str
    """Source of the labels; `(others)` for all but the busiest 20."""
    unsure: int
    """Messages that were *unsure*."""
    contradicted: int
    """Messages that the filter had decided the other way. A teacher with many more than
    the others makes mistakes, or teaches the filter wrongly.
    """
    sure: int
    """Contradicted messages with a confident verdict, where a calibrated filter is
    wrong once in a thousand messages.
    """
    corrected: int
    """Messages that somebody else has relabelled since."""
    last: datetime | None
    """Time of their latest label, in UTC."""
    suspect: bool
    """Whether the lessons contradict confident verdicts, while others teach as much
    (`POSTBAYES_SUSPECTS`).
    """


class FiguresOut(ErrorsOut):
    """How a profile does on the mail that people labelled."""

    profile: str
    """The profile that answered."""
    revision: int
    """The latest ledger row that was learned."""
    window: int
    """Number of messages requested."""
    learned: int
    """Messages that the profile has learned. The figures leave out archives that
    `postbayes learn` read, imports, and verdicts that the filter learned itself.
    """
    unsure: int
    """Messages that were *unsure*."""
    roca_pct: float | None
    """1-ROCA %: share of pairs of ham and spam that are ranked wrongly."""
    roca_interval_pct: list[float] | None
    """The two ends of its 95 % bootstrap interval; null if no pair is ranked wrongly.
    """
    ece_pct: float | None
    """Expected calibration error: how far the probability is off."""
    brier: float | None
    """Mean squared error of the probability."""
    reliability: list[BinOut]
    """Predicted and actual shares of spam, by probability."""
    learning_curve: list[SliceOut]
    """Tenths of the messages, oldest first."""
    sources: list[SourceOut]
    """The teachers of these messages, the busiest first."""

    @classmethod
    def of_figures(cls, figures: LiveFigures) -> Self:
        """Return the document of live figures."""
        found = {each.source for each in figures.suspects}
        return cls.describing(
            figures,
            figures.errors,
            ece_pct=None if figures.ece is None else 100.0 * figures.ece,
            learning_curve=[
                SliceOut.describing(part, part.errors) for part in figures.curve
            ],
            sources=[
                SourceOut.describing(each, each.errors, suspect=each.source in found)
                for each in figures.sources
            ],
        )


class EpochOut(AnswerDocument):
    """One month of one label."""

    epoch: int
    """Month, YYYYMM."""
    label: str
    """Label of the messages."""
    occurrences: int
    """Occurrences of the word."""
    messages: int
    """Messages with the word."""
    learned: int
    """Messages of the label learned in that month."""


class MonthOut(AnswerDocument):
    """The evidence of a word at the end of a month."""

    epoch: int
    """Month, YYYYMM."""
    weight: float
    """Current weight of a message of that month; 1 without a half-life."""
    log_odds: float
    """Log of the ratio of the word's frequency in spam to that in other mail, in nats,
    from the messages up to that month with their weights at that time.
    """


class WordInViewOut(AnswerDocument):
    """A word in one view."""

    learned: dict[str, int]
    """Messages that the view has learned, per label; fewer than the profile has learned
    if an import had nothing for the view.
    """
    messages: dict[str, int]
    """Messages with the word, per label."""
    occurrences: dict[str, int]
    """Occurrences, per label."""
    log_odds: float
    """Nats that one occurrence adds to the log-odds of the view's classifier; positive
    is evidence of spam.
    """
    epochs: list[EpochOut]
    """The months, oldest first."""
    months: list[MonthOut]
    """The evidence of the word after each month."""


class WordOut(AnswerDocument):
    """A word in a profile."""

    word: str
    """The word as requested."""
    profile: str
    """The profile that answered."""
    revision: int
    """The latest ledger row that was learned."""
    folded_revision: int
    """The months include the ledger up to this row, and may include some newer rows."""
    messages: dict[str, int]
    """Messages learned, per label; with a half-life, their current weight in whole
    messages.
    """
    half_life: float | None
    """Months after which a message counts half; null: never."""
    views: dict[str, WordInViewOut]
    """The views that have seen the word; none if it was never learned."""
    parts: dict[str, dict[str, WordInViewOut]]
    """The words and pairs as which the filter reads the word, each with its views but
    without months; none if it is one word of the filter.  Words of scripts without
    blanks, such as Chinese, are read as pairs of letters.
    """


class VerdictsOut(AnswerDocument):
    """The verdicts of one stretch of time."""

    begin: datetime
    """Start of the interval, in UTC."""
    spam: int
    """Verdicts *spam*."""
    unsure: int
    """Verdicts *unsure*."""
    ham: int
    """Verdicts *ham*."""


class DoorOut(AnswerDocument):
    """One door of the service."""

    open: bool
    """Whether this service listens there."""
    verdicts: int
    """Verdicts during the time of the overview."""


class BacklogOut(AnswerDocument):
    """Waiting work."""

    feedback: int
    """Feedback waiting to be written."""
    look_ups: int
    """Ids waiting to be looked up."""
    scored: int
    """Scored messages waiting to be written."""
    unfolded: int
    """Ledger rows that are not in the counts yet."""


class DatabaseOut(AnswerDocument):
    """The database."""

    kind: str
    """`sqlite` or `postgresql`."""
    writable: bool
    """Whether the latest write succeeded."""
    failure: str | None
    """The reason for the failure; null if the write succeeded."""


class OverviewOut(OfProfileOut):
    """The answer of `/overview`."""

    step: int
    """Length of an interval of `verdicts`, in seconds."""
    verdicts: list[VerdictsOut]
    """Verdicts of the history over time, oldest first; intervals without verdicts are
    left out.
    """
    doors: dict[str, DoorOut]
    """The doors, by name."""
    learned: dict[str, int]
    """Messages learned, per label."""
    figures: FiguresOut
    """Accuracy on the newest 5,000 labelled messages, as in `/profiles/{name}/figures`.
    """
    backlog: BacklogOut
    """Waiting work of this process."""
    database: DatabaseOut
    """The kind of the database, and whether it can be written."""


def verdicts_of(counts: Iterable[Count]) -> list[VerdictsOut]:
    """Return counts by stretch of time."""
    found: dict[int, dict[str, int]] = {}
    for begin, decision, _, lines in counts:
        each = found.setdefault(begin, {"spam": 0, "unsure": 0, "ham": 0})
        each[decision] += lines
    return [
        VerdictsOut(begin=datetime.fromtimestamp(begin, UTC), **each)
        for begin, each in sorted(found.items())
    ]
