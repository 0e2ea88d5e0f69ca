"""What a profile is to decide by."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from app.classifier.policy import MAX_COST

_Number = Annotated[float, Field(allow_inf_nan=False)]


class ThresholdIn(BaseModel):
    """A threshold, said in one of two ways."""

    model_config = ConfigDict(extra="forbid")

    log_odds: _Number | None = Field(
        None, description="Of spam against the rest, in nats."
    )
    probability: float | None = Field(
        None, gt=0, lt=1, description="The same as a probability of spam."
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


class PolicyIn(BaseModel):
    """What a profile decides by; what is not named stays, null is as the settings."""

    model_config = ConfigDict(extra="forbid")

    ham_cost: Annotated[float, Field(ge=1, le=MAX_COST)] | None = Field(
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
