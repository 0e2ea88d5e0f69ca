"""How many features are there: those that were seen, or a declared number?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import InvalidObservation

if TYPE_CHECKING:
    from app.bayes.statistics import CountSource


def vocabulary_size(source: CountSource, declared: int | None) -> int:
    """Return the size of the vocabulary.

    Parameters
    ----------
    source : CountSource
        The training state.
    declared : int or None
        The size that was declared; None means the features that were seen.

    Raises
    ------
    InvalidObservation
        If training has seen more features than were declared.
    """
    if declared is None:
        return source.vocabulary
    if declared < source.vocabulary:
        msg = (
            f"the declared vocabulary has {declared} features, "
            f"but training has seen {source.vocabulary}"
        )
        raise InvalidObservation(msg)
    return declared
