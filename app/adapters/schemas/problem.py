"""What is wrong, and what to do about it?"""

from __future__ import annotations

from pydantic import BaseModel, Field


class ProblemOut(BaseModel):
    """An error, RFC 9457."""

    type: str = Field(description="A URN that programs tell the kind of problem by.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong and what to do about it.")
