"""What does the fusion of the views read of a row of the ledger?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What the fusion reads of a row of the ledger.

    Parameters
    ----------
    revision : int
        Its place in the ledger.
    digest : bytes
        Identity of the message.
    label_before : str or None
        What the message was learned as; None if it was not.
    label : str or None
        What it is learned as now; None if it is forgotten.
    scores : mapping or None
        What was said of it before (`app.classifier.record`).
    own : bool, default False
        Whether the filter itself said so, and not a person.
    """

    revision: int
    digest: bytes
    label_before: str | None
    label: str | None
    scores: Mapping[str, Any] | None
    own: bool = False
