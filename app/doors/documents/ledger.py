"""Documents of the ledger."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  pydantic reads it at run time
from typing import TYPE_CHECKING, Self

from pydantic import BaseModel, Field

from app.ledger.entry import RowKind  # noqa: TC001  pydantic reads it at run time

if TYPE_CHECKING:
    from app.services.inspection import LedgerPage


class LedgerRowOut(BaseModel):
    """One row of the ledger."""

    revision: int = Field(description="Its number: rows are counted up.")
    time: datetime = Field(description="When it was written, in UTC.")
    id: str | None = Field(
        description="The id of the message; null for a sum of many messages that were "
        "counted elsewhere."
    )
    kind: RowKind = Field(
        description="`message`, or `sum`: many messages of an import, or pruned "
        "features."
    )
    label_before: str | None = Field(
        description="What the message was before; null: not learned."
    )
    label: str | None = Field(description="What it became; null: not learned.")
    source: str = Field(description="Who taught it.")
    undo: str | None = Field(
        description="The undo that wrote the row; null: it was taught."
    )
    taken_back: bool = Field(description="Whether an undo in force takes it back.")


class LedgerOut(BaseModel):
    """Some rows of a ledger, newest first."""

    profile: str = Field(description="Whose ledger.")
    rows: list[LedgerRowOut] = Field(description="The rows.")
    next: int | None = Field(
        description="What to ask for with `before` next; null: these are the last."
    )
    unfinished: int = Field(
        description="Changes of recorded undos that the service has still to carry out."
    )

    @classmethod
    def of(cls, found: LedgerPage) -> Self:
        """Return the document of some rows."""
        return cls(
            profile=found.profile,
            rows=[
                LedgerRowOut(
                    revision=row.revision,
                    time=row.time,
                    id=row.digest.hex() if row.kind == "message" else None,
                    kind=row.kind,
                    label_before=row.label_before,
                    label=row.label,
                    source=row.source,
                    undo=None if row.undo is None else f"undo:{row.undo}",
                    taken_back=row.revision in found.taken_back,
                )
                for row in found.rows
            ],
            next=found.next,
            unfinished=found.unfinished,
        )
