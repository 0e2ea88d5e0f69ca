"""How does a Message become an Observation?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from xxhash import xxh3_64_intdigest

from app.bayes.sparse import SparseCounts
from app.features.identity import digest
from app.features.observation import Observation
from app.features.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.mail.message import Message

FEATURE_SET: Final = 1
"""Number of the rules below; any change of what they yield is a new number."""


def extract(message: Message) -> Observation:
    """Return the features of a message.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> extract(parse(b"Good morning")).views["words"].size
    2
    """
    views = {}
    names = {}
    views["words"], names["words"] = hashed(words(message))
    return Observation(
        digest=digest(message),
        feature_set=FEATURE_SET,
        views=views,
        names=names,
        defects=message.defects,
    )


def hashed(features: Iterable[str]) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return the counts of features by id, and their names in the same order.

    Parameters
    ----------
    features : iterable of str
        Names of the features that occur, with repeats.

    Returns
    -------
    counts : SparseCounts
        By id: the 64 bits of xxh3 of the UTF-8 name, as a signed integer.
    names : tuple of str
        Aligned with the ids.
    """
    counts = Counter(features)
    names = list(counts)
    ids = np.array(
        [xxh3_64_intdigest(name.encode()) for name in names], np.uint64
    ).view(np.int64)
    order = np.argsort(ids)
    values = np.fromiter(counts.values(), np.int64, len(names))
    return SparseCounts(ids[order], values[order]), tuple(names[i] for i in order)
