"""What do the models see of a message?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from app.bayes.measurements import Measurements
from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Payload = SparseCounts | Measurements
"""What one view holds of a message; a view is of one kind for ever."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The features of one message, and what identifies it.

    Parameters
    ----------
    digest : bytes
        Identity of the message, 16 bytes (see `app.features.identity`).
    feature_set : int
        Number of the rules that the features were extracted with.
    views : mapping of str to SparseCounts or Measurements
        The features, or the measured fields, of each view.
    names : mapping of str to sequence of str
        The text of each feature, view by view, in the order of its ids.
        Empty where the text was not kept (a message taught by id on a site
        that stores no words).
    defects : tuple of str
        What was wrong with the message, as `app.mail.message.Message` has it.
    """

    digest: bytes
    feature_set: int
    views: Mapping[str, Payload]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defects: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The digest as people and programs pass it on: 32 hex digits."""
        return self.digest.hex()

    def browsable(self) -> Observation:
        """Return the observation with the names that are kept for people.

        Those of pairs are not: they are two words that are named themselves,
        and would more than double what is kept of a message.
        """
        names = {view: kept for view, kept in self.names.items() if view != "pairs"}
        return replace(self, names=names)

    def nameless(self) -> Observation:
        """Return the observation without the text of its features."""
        return replace(self, names={})
