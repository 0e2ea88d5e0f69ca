"""What are pseudo-counts where a message counts as many parts?

All of the family's estimates are quotients of counts: with pseudo-counts in the
same unit as the counts they do not depend on the unit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.bayes.backoff import Backoff
from app.bayes.bernoulli import Bernoulli
from app.bayes.categorical import Categorical
from app.bayes.gaussian import Gaussian
from app.bayes.multinomial import Multinomial
from app.bayes.prior import FadingPrior, SmoothedPrior
from app.bayes.smoothing import Lidstone
from app.classifier.decay import PARTS
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from app.bayes.prior import Prior
    from app.bayes.smoothing import Smoothing
    from app.classifier.specification import EventModel


def in_parts(model: EventModel) -> EventModel:
    """Return an event model for counts in parts.

    Raises
    ------
    InvalidSetting
        If it is a discriminant, which estimates its shrinkage from the number
        of messages and not from a quotient.

    Examples
    --------
    >>> in_parts(Multinomial(smoothing=Lidstone(0.5))).smoothing
    Lidstone(alpha=512.0)
    """
    match model:
        case Multinomial(smoothing=smoothing, backoff=backoff):
            return replace(
                model,
                smoothing=_smoothing(smoothing),
                backoff=None if backoff is None else Backoff(backoff.messages * PARTS),
            )
        case Bernoulli(smoothing=smoothing) | Categorical(smoothing=smoothing):
            return replace(model, smoothing=_smoothing(smoothing))
        case Gaussian():
            return model
        case _:
            msg = f"counts of a {type(model).__name__} cannot decay with their age"
            raise InvalidSetting(msg)


def prior_in_parts(prior: Prior) -> Prior:
    """Return a class prior for counts in parts.

    Examples
    --------
    >>> prior_in_parts(SmoothedPrior(1.0))
    SmoothedPrior(alpha=1024.0)
    """
    match prior:
        case SmoothedPrior(alpha=alpha):
            return SmoothedPrior(alpha * PARTS)
        case FadingPrior(pseudo=pseudo, messages=messages):
            return replace(prior, pseudo=pseudo * PARTS, messages=messages * PARTS)
        case _:
            # Shares, or what the operator states: they have no unit.
            return prior


def _smoothing(smoothing: Smoothing) -> Smoothing:
    """Return a rule of smoothing for counts in parts."""
    if isinstance(smoothing, Lidstone):
        return Lidstone(smoothing.alpha * PARTS)
    return smoothing
