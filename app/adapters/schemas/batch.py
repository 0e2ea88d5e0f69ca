"""Many messages, and what is answered about each of them."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from app.adapters.schemas.answer import ClassifyOut  # noqa: TC001  read at run time
from app.adapters.schemas.message import TextIn  # noqa: TC001
from app.adapters.schemas.problem import ProblemOut  # noqa: TC001

# 8 MiB of JSON, which is the limit of a body, have 8 kB for each. Precedent: the
# batchModify of Gmail's API takes 1,000 messages.
MAX_MESSAGES: Final = 1000


class BatchIn(BaseModel):
    """Messages as JSON, each of which is looked at by itself."""

    model_config = ConfigDict(extra="forbid")

    # Looked at one by one: what is wrong with one is no matter of the others.
    messages: list[SkipValidation[TextIn]] = Field(
        description=f"The messages, {MAX_MESSAGES:,} at most, each with the fields of "
        "the JSON of `/classify`."
    )


class ResultOut(BaseModel):
    """What became of one message."""

    answer: ClassifyOut | None = Field(
        description="What `/classify` answers; null where the message cannot be used."
    )
    problem: ProblemOut | None = Field(
        description="What is wrong with it, as `/classify` would say; else null."
    )


class BatchOut(BaseModel):
    """The answer of `/classify/batch`."""

    results: list[ResultOut] = Field(
        description="One for each message, in their order."
    )
