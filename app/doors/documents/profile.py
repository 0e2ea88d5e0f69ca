"""Documents of profiles, their policies, and the settings of the service."""

from __future__ import annotations

import math
from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from app.classifier.policy import MAX_COST
from app.classifier.specification import KINDS
from app.classifier.verdict import MAX_NATS
from app.doors.documents import AnswerDocument, RequestDocument
from app.errors import InvalidInput


class ViewStateOut(AnswerDocument):
    """What one view has learned."""

    features: int = Field(
        description="Distinct features seen in any class, or fields measured."
    )
    occurrences: dict[str, int] = Field(
        description="Occurrences of features per label; empty for measurements."
    )


class ThresholdOut(AnswerDocument):
    """Where a decision begins, on two scales."""

    log_odds: float = Field(description="Log-odds of spam against the rest, in nats.")
    probability: float = Field(description="The same as a probability of spam.")


class FusionOut(AnswerDocument):
    """What the views are worth here."""

    weights: dict[str, float] = Field(
        description="Weight of each view, by its normaliser."
    )
    bias: dict[str, float] = Field(description="Added for each label, in nats.")
    fitted_revision: int = Field(
        description="The last ledger row that they were fitted to."
    )
    fitted_messages: int = Field(
        description="How many messages they were fitted to; 0: shipped weights."
    )


class DecayOut(AnswerDocument):
    """What old mail weighs."""

    half_life: float = Field(description="After so many months a message counts half.")
    epoch: int | None = Field(
        description="The month that ages are counted from, YYYYMM: that of the newest "
        "ledger row. null before the first."
    )


class ListedOut(BaseModel):
    """One profile of many."""

    name: str = Field(description="The profile's name.")
    revision: int = Field(
        description="Its newest ledger row that this process has learned."
    )
    messages: dict[str, int] = Field(description="Messages learned, per label.")


class ProfilesOut(BaseModel):
    """Some profiles, in the order of their names."""

    profiles: list[ListedOut] = Field(description="The profiles.")
    next: str | None = Field(
        description="The name to ask for with `after` next; null: these are the last."
    )


class ProfileOut(AnswerDocument):
    """One profile: what it is made of and what it has learned."""

    name: str = Field(description="The profile's name.")
    labels: list[str] = Field(description="What its messages can be labelled as.")
    spam_labels: list[str] = Field(
        description="Those of the labels that stand for unwanted mail."
    )
    feature_set: int = Field(
        description="The number of the rules that features are extracted by."
    )
    created_at: datetime = Field(description="When it was made, in UTC.")
    revision: int = Field(
        description="Its newest ledger row that this process has learned."
    )
    messages: dict[str, int] = Field(description="Messages learned, per label.")
    views: dict[str, ViewStateOut] = Field(description="What each view has learned.")
    spam_threshold: ThresholdOut = Field(
        description="From here up the decision is spam."
    )
    ham_threshold: ThresholdOut = Field(
        description="From here down the decision is ham; between the two lies unsure."
    )
    quarantine_from: ThresholdOut | None = Field(
        description="From here up the doors that can quarantine; null: never."
    )
    reject_from: ThresholdOut | None = Field(
        description="From here up the doors that can reject; null: never."
    )
    policy: dict[str, float | Literal["never"]] = Field(
        description="What the profile decides by otherwise than the service's "
        "settings: `ham_cost`, and `ham_threshold`, `quarantine_from` and "
        "`reject_from` in nats."
    )
    fusion: FusionOut = Field(
        description="What the views are worth, as it follows from what was taught."
    )
    undo_days: float | None = Field(
        description="Days for which what was taught can be undone, moved or "
        "forgotten; null: for ever."
    )
    decay: DecayOut | None = Field(
        description="What old mail weighs; null where it weighs as much as new mail. "
        "Counts are then what they weigh now, as whole messages."
    )


class ProfileIn(RequestDocument):
    """A profile that is to be made."""

    name: str = Field(
        max_length=128,
        description="What it is called: the address or the domain of those whose mail "
        "it decides about, or any other name.",
    )
    kind: Literal["mail"] | None = Field(
        default=None,
        description="Labels by a name, in place of both lists. mail: ham, newsletter, "
        "notification, phishing and spam, of which the last two stand for spam.",
    )
    labels: list[str] = Field(
        default=[],
        description="What its messages can be labelled as. Empty: POSTBAYES_LABELS.",
    )
    spam_labels: list[str] = Field(
        default=[],
        description="Those of the labels that stand for unwanted mail. Empty: "
        "POSTBAYES_SPAM_LABELS.",
    )

    def of_labels(
        self, labels: tuple[str, ...], spam_labels: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return its labels, and those for spam; what is not given is as given here.

        Raises
        ------
        InvalidInput
            If they are given twice.
        """
        if self.kind is None:
            return tuple(self.labels) or labels, tuple(self.spam_labels) or spam_labels
        if self.labels or self.spam_labels:
            msg = "`kind` has labels of its own; leave `labels` and `spam_labels` out"
            raise InvalidInput(msg)
        return KINDS[self.kind]


# Not true and false, which pydantic takes for 1 and 0.
_Nats = Annotated[float, Field(strict=True, ge=-MAX_NATS, le=MAX_NATS)]


class ThresholdIn(RequestDocument):
    """A threshold, on one of two scales."""

    log_odds: _Nats | None = Field(
        None, description="Log-odds of spam against the rest, in nats."
    )
    probability: float | None = Field(
        None,
        strict=True,
        gt=0,
        lt=1,
        description="The same as a probability of spam.",
    )

    @model_validator(mode="after")
    def _in_one_way(self) -> Self:
        if (self.log_odds is None) == (self.probability is None):
            msg = "say either `log_odds` or `probability`"
            raise ValueError(msg)
        return self

    def nats(self) -> float:
        """Return the log-odds."""
        if self.log_odds is not None:
            return self.log_odds
        p = self.probability or 0.0
        return math.log(p) - math.log1p(-p)


class PolicyIn(RequestDocument):
    """What a profile decides by; what is not named stays, null is as the settings."""

    ham_cost: Annotated[float, Field(strict=True, ge=1, le=MAX_COST)] | None = Field(
        None,
        description="How many missed spam a lost ham is worth: where spam begins, "
        "and on the other side of even odds where ham ends.",
    )
    ham_threshold: ThresholdIn | None = Field(
        None,
        description="From here down the decision is ham, if not so far from even odds "
        "as spam begins; between the two lies unsure.",
    )
    quarantine_from: ThresholdIn | Literal["never"] | None = Field(
        None,
        description="From here up the doors that can quarantine; `never` even where "
        "the service's settings say so.",
    )
    reject_from: ThresholdIn | Literal["never"] | None = Field(
        None,
        description="From here up the doors that can reject; `never` even where the "
        "service's settings say so.",
    )

    def changes(self) -> dict[str, float | Literal["never"] | None]:
        """Return the fields that were named, thresholds in nats."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return {
            name: value.nats() if isinstance(value, ThresholdIn) else value
            for name, value in given.items()
        }


class SettingOut(AnswerDocument):
    """One setting in force."""

    variable: str = Field(description="Its variable, `POSTBAYES_…`.")
    value: str | None = Field(
        description="What it is, as text; null: unset. Secrets are `(hidden)`."
    )
    default: str | None = Field(
        description="What it is where nobody sets it; null: unset."
    )
    description: str = Field(description="What it does.")


class SettingsOut(AnswerDocument):
    """What a service is made of."""

    version: str = Field(description="Version of Postbayes.")
    database: str = Field(description="`sqlite` or `postgresql`.")
    database_url: str = Field(description="Where it is, without its password.")
    workers: int = Field(description="Processes of the service.")
    profiles: int = Field(description="Profiles of the database.")
    memory_bytes: int = Field(
        description="What the counts of the profiles in memory take in the process "
        "that answers."
    )
    settings: list[SettingOut] = Field(description="All settings.")
