"""Which smoothing, prior and shrinkage do the words of a command stand for?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.bayes.prior import FittedPrior, FixedPrior, SmoothedPrior, UniformPrior
from app.bayes.shrinkage import LedoitWolf, StatedFraction
from app.bayes.smoothing import Epsilon, Lidstone, NoSmoothing
from app.errors import InvalidObservation

if TYPE_CHECKING:
    from app.bayes.shrinkage import Shrinkage
    from app.lab.exact import ClassPrior, Rule


def smoothing(words: str) -> Rule:
    """Return the smoothing that is meant.

    Raises
    ------
    InvalidObservation
        If it is none.

    Examples
    --------
    >>> smoothing("laplace"), smoothing("epsilon=1e-6"), smoothing("lidstone=1/2")
    (Lidstone(alpha=1.0), Epsilon(epsilon=1e-06), Lidstone(alpha=0.5))
    """
    name, given, value = words.partition("=")
    if words == "none":
        return NoSmoothing()
    if words == "laplace":
        return Lidstone(1.0)
    if name == "lidstone" and given:
        return Lidstone(_number(value, words))
    if name == "epsilon" and given:
        return Epsilon(_number(value, words))
    msg = f"smoothing is none, laplace, lidstone=A or epsilon=E, not {words!r}"
    raise InvalidObservation(msg)


def prior(words: str) -> ClassPrior:
    """Return the class prior that is meant.

    Raises
    ------
    InvalidObservation
        If it is none.

    Examples
    --------
    >>> prior("fixed=1/4,3/4")
    FixedPrior(probabilities=(0.25, 0.75))
    """
    name, given, value = words.partition("=")
    if words == "fitted":
        return FittedPrior()
    if words == "uniform":
        return UniformPrior()
    if name == "smoothed" and given:
        return SmoothedPrior(_number(value, words))
    if name == "fixed" and given:
        return FixedPrior(tuple(_number(p, words) for p in value.split(",")))
    msg = f"a prior is fitted, uniform, smoothed=A or fixed=P,P..., not {words!r}"
    raise InvalidObservation(msg)


def shrinkage(words: str) -> Shrinkage:
    """Return the shrinkage that is meant.

    Raises
    ------
    InvalidObservation
        If it is none.

    Examples
    --------
    >>> shrinkage("0.1"), shrinkage("estimated")
    (StatedFraction(value=0.1), LedoitWolf())
    """
    if words == "estimated":
        return LedoitWolf()
    return StatedFraction(_number(words, words))


def _number(value: str, words: str) -> float:
    over, slash, under = value.partition("/")
    try:
        # Not fractions.Fraction: 1e999999999 would take all memory.
        return float(over) / float(under) if slash else float(over)
    except (ValueError, ZeroDivisionError) as error:
        msg = f"{value!r} in {words!r} is not a number like 0.5 or 1/2"
        raise InvalidObservation(msg) from error
