"""Documents of figures: errors, teachers, words and the overview."""

from __future__ import annotations

from datetime import (
    UTC,
    datetime,
)
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, Field

from app.doors.documents import AnswerDocument
from app.services.figures import suspects

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.figures.metrics import Errors
    from app.ledger.entry import Count
    from app.services.figures import LiveFigures


class ErrorsOut(AnswerDocument):
    """Errors of the filter on messages, before it learned them."""

    messages: int = Field(description="Messages that were scored and then labelled.")
    ham: int = Field(description="Messages with a ham label.")
    spam: int = Field(description="Messages with a spam label.")
    ham_lost: int = Field(description="Ham that the filter took for spam.")
    spam_missed: int = Field(
        description="Spam that the filter let through, including *unsure*."
    )
    ham_lost_pct: float | None = Field(
        description="Per cent of the ham; null without ham."
    )
    spam_missed_pct: float | None = Field(
        description="Per cent of the spam; null without spam."
    )
    lam_pct: float | None = Field(
        description="Logistic average of the two rates; null without ham or spam."
    )

    @classmethod
    def of(cls, errors: Errors, *described: object, **fields: object) -> Self:
        """Return the document of errors, and of what else it describes."""
        messages = errors.ham + errors.spam
        return cls.describing(*described, errors, messages=messages, **fields)


class SliceOut(ErrorsOut):
    """A tenth of the messages, for the learning curve."""

    first_revision: int = Field(description="Ledger row of its first message.")
    last_revision: int = Field(description="Ledger row of its last message.")


class BinOut(AnswerDocument):
    """Messages of nearly the same probability, for the reliability diagram."""

    messages: int = Field(description="Messages in the bin.")
    spam: int = Field(description="Spam messages in the bin.")
    low: float = Field(description="Lowest probability of the bin.")
    high: float = Field(description="Highest probability of the bin.")
    mean: float = Field(description="Predicted share of spam.")
    share: float = Field(description="Actual share of spam.")


class SourceOut(ErrorsOut):
    """The messages that one teacher labelled."""

    source: str = Field(
        description="Source of the labels; `(others)` for all but the busiest 20."
    )
    unsure: int = Field(description="Messages that were *unsure*.")
    contradicted: int = Field(
        description="Messages that the filter had decided the other way. A teacher "
        "with many more than the others makes mistakes, or teaches the filter wrongly."
    )
    sure: int = Field(
        description="Contradicted messages with a confident verdict, where a "
        "calibrated filter is wrong once in a thousand messages."
    )
    corrected: int = Field(
        description="Messages that somebody else has relabelled since."
    )
    last: datetime | None = Field(description="Time of their latest label, in UTC.")
    suspect: bool = Field(
        description="Whether the lessons contradict confident verdicts, while others "
        "teach as much (`POSTBAYES_SUSPECTS`)."
    )


class FiguresOut(ErrorsOut):
    """How a profile does on the mail that people labelled."""

    profile: str = Field(description="The profile that answered.")
    revision: int = Field(description="The latest ledger row that was learned.")
    window: int = Field(description="Number of messages requested.")
    learned: int = Field(
        description="Messages that the profile has learned. The figures leave out "
        "archives that `postbayes learn` read, imports, and verdicts that the filter "
        "learned itself."
    )
    unsure: int = Field(description="Messages that were *unsure*.")
    roca_pct: float | None = Field(
        description="1-ROCA %: share of pairs of ham and spam that are ranked wrongly."
    )
    roca_interval_pct: tuple[float, float] | None = Field(
        description="Its 95 % bootstrap interval."
    )
    ece_pct: float | None = Field(
        description="Expected calibration error: how far the probability is off."
    )
    brier: float | None = Field(description="Mean squared error of the probability.")
    reliability: list[BinOut] = Field(
        description="Predicted and actual shares of spam, by probability."
    )
    learning_curve: list[SliceOut] = Field(
        description="Tenths of the messages, oldest first."
    )
    sources: list[SourceOut] = Field(
        description="The teachers of these messages, the busiest first."
    )

    @classmethod
    def of_figures(cls, figures: LiveFigures) -> Self:
        """Return the document of live figures."""
        found = {each.source for each in suspects(figures.sources)}
        return cls.of(
            figures.errors,
            figures,
            ece_pct=None if figures.ece is None else 100.0 * figures.ece,
            learning_curve=[SliceOut.of(part.errors, part) for part in figures.curve],
            sources=[
                SourceOut.of(each.errors, each, suspect=each.source in found)
                for each in figures.sources
            ],
        )


class EpochOut(AnswerDocument):
    """One month of one label."""

    epoch: int = Field(description="Month, YYYYMM.")
    label: str = Field(description="Label of the messages.")
    occurrences: int = Field(description="Occurrences of the word.")
    messages: int = Field(description="Messages with the word.")
    learned: int = Field(description="Messages of the label learned in that month.")


class MonthOut(AnswerDocument):
    """The evidence of a word at the end of a month."""

    epoch: int = Field(description="Month, YYYYMM.")
    weight: float = Field(
        description="Current weight of a message of that month; 1 without a half-life."
    )
    log_odds: float = Field(
        description="Log of the ratio of the word's frequency in spam to that in other "
        "mail, in nats, from the messages up to that month with their weights at that "
        "time."
    )


class WordInViewOut(AnswerDocument):
    """A word in one view."""

    learned: dict[str, int] = Field(
        description="Messages that the view has learned, per label; fewer than the "
        "profile has learned if an import had nothing for the view."
    )
    messages: dict[str, int] = Field(description="Messages with the word, per label.")
    occurrences: dict[str, int] = Field(description="Occurrences, per label.")
    log_odds: float = Field(
        description="Nats that one occurrence adds to the log-odds of the view's "
        "classifier; positive is evidence of spam."
    )
    epochs: list[EpochOut] = Field(description="The months, oldest first.")
    months: list[MonthOut] = Field(
        description="The evidence of the word after each month."
    )


class WordOut(AnswerDocument):
    """A word in a profile."""

    word: str = Field(description="The word as requested.")
    profile: str = Field(description="The profile that answered.")
    revision: int = Field(description="The latest ledger row that was learned.")
    folded_revision: int = Field(
        description="The months include the ledger up to this row, and may include "
        "some newer rows."
    )
    messages: dict[str, int] = Field(
        description="Messages learned, per label; with a half-life, their current "
        "weight in whole messages."
    )
    half_life: float | None = Field(
        description="Months after which a message counts half; null: never."
    )
    views: dict[str, WordInViewOut] = Field(
        description="The views that have seen the word; none if it was never learned."
    )


class VerdictsOut(BaseModel):
    """The verdicts of one stretch of time."""

    begin: datetime = Field(description="Start of the interval, in UTC.")
    spam: int = Field(description="Verdicts *spam*.")
    unsure: int = Field(description="Verdicts *unsure*.")
    ham: int = Field(description="Verdicts *ham*.")


class DoorOut(BaseModel):
    """One door of the service."""

    open: bool = Field(description="Whether this service listens there.")
    verdicts: int = Field(description="Verdicts during the time of the overview.")


class BacklogOut(BaseModel):
    """Waiting work."""

    feedback: int = Field(description="Feedback waiting to be written.")
    look_ups: int = Field(description="Ids waiting to be looked up.")
    scored: int = Field(description="Scored messages waiting to be written.")
    unfolded: int = Field(description="Ledger rows that are not in the counts yet.")


class DatabaseOut(BaseModel):
    """The database."""

    kind: str = Field(description="`sqlite` or `postgresql`.")
    writable: bool = Field(description="Whether the latest write succeeded.")
    failure: str | None = Field(
        description="The reason for the failure; null if the write succeeded."
    )


class OverviewOut(BaseModel):
    """The answer of `/overview`."""

    profile: str = Field(description="The profile that answered.")
    step: int = Field(description="Length of an interval of `verdicts`, in seconds.")
    verdicts: list[VerdictsOut] = Field(
        description="Verdicts of the history over time, oldest first; intervals "
        "without verdicts are left out."
    )
    doors: dict[str, DoorOut] = Field(description="The doors, by name.")
    learned: dict[str, int] = Field(description="Messages learned, per label.")
    figures: FiguresOut = Field(
        description="Accuracy on the newest 5,000 labelled messages, as in "
        "`/profiles/{name}/figures`."
    )
    backlog: BacklogOut = Field(description="Waiting work of this process.")
    database: DatabaseOut = Field(
        description="The kind of the database, and whether it can be written."
    )


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
