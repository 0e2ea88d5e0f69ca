"""What is compared? A filter, and what it learns of what it could."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.evaluation.training import EVERYTHING, Training

if TYPE_CHECKING:
    from app.classifier.specification import Specification


@dataclass(frozen=True, slots=True)
class Configuration:
    """One of those that are compared.

    Parameters
    ----------
    specification : Specification
        What the filter is made of.
    training : Training
        What it learns.
    """

    specification: Specification
    training: Training = EVERYTHING
