"""A decision with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, Field

from app.classifier.record import finite

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from app.classifier.score import Verdict

Nats = Annotated[float | None, Field(description="Natural-log units; null for -∞.")]


class ViewOut(BaseModel):
    """What one naive Bayes classifier says by itself."""

    event_model: str = Field(description="Its event model, such as `multinomial`.")
    log_posterior: dict[str, Nats] = Field(
        description="Log-posterior of each label, in nats."
    )
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    features: int = Field(description="Features of the message seen before.")


class VerdictOut(BaseModel):
    """A decision with its numbers."""

    decision: Literal["spam", "ham", "unsure"] = Field(
        description="What the filter says: `spam`, `ham`, or `unsure` between the "
        "thresholds and while it knows too little."
    )
    label: str = Field(description="The most probable label.")
    probability: float = Field(description="Probability of spam.")
    log_odds: Nats = Field(description="Spam against the rest, in nats.")
    log_posterior: dict[str, Nats] = Field(
        description="Log-posterior of each label, in nats."
    )
    views: dict[str, ViewOut] = Field(
        description="The naive Bayes classifiers by themselves, by name."
    )


def verdict_fields(verdict: Verdict, labels: tuple[str, ...]) -> dict[str, object]:
    """Return the fields of a `VerdictOut`, in its order."""
    return {
        "decision": verdict.decision,
        "label": labels[verdict.label],
        "probability": verdict.probability,
        "log_odds": finite(verdict.log_odds),
        "log_posterior": _by_label(labels, verdict.log_posterior),
        "views": {
            name: {
                "event_model": view.event_model,
                "log_posterior": _by_label(labels, view.log_posterior),
                "log_odds": finite(view.log_odds),
                "features": view.features,
            }
            for name, view in verdict.views.items()
        },
    }


def _by_label(
    labels: tuple[str, ...], values: NDArray[np.float64]
) -> dict[str, float | None]:
    return {
        label: finite(value)
        for label, value in zip(labels, values.tolist(), strict=True)
    }
