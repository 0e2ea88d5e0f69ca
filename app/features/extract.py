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

    from numpy.typing import NDArray

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
    occurrences = Counter(features)
    names = list(occurrences)
    ids = np.array(
        [xxh3_64_intdigest(name.encode()) for name in names], np.uint64
    ).view(np.int64)
    order = np.argsort(ids, kind="stable")
    counts = np.fromiter(occurrences.values(), np.int64, len(names))
    return merged(ids[order], counts[order], tuple(names[i] for i in order))


def merged(
    ids: NDArray[np.int64], counts: NDArray[np.int64], names: tuple[str, ...]
) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return features whose ids are sorted as a vector, equal ids made one.

    By chance no message has two names of one id, but the hash is not a
    cryptographic one: whoever wants to can find two such words and send them.
    """
    first = np.ones(ids.size, np.bool_)
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    if first.all():
        return SparseCounts(ids, counts), names
    starts = np.flatnonzero(first)
    return (
        SparseCounts(ids[starts], np.add.reduceat(counts, starts)),
        tuple(names[i] for i in starts),
    )
