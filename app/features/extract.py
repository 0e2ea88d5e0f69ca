"""How does a Message become an Observation?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
from xxhash import xxh3_64_intdigest

from app.bayes.categorical import value_id
from app.bayes.measurements import Measurements
from app.bayes.sparse import SparseCounts
from app.features import measured, structure
from app.features.identity import digest
from app.features.observation import Observation
from app.features.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    views: dict[str, SparseCounts | Measurements] = {}
    names: dict[str, tuple[str, ...]] = {}
    views["words"], names["words"] = hashed(words(message))
    views["structure"], names["structure"] = valued(structure.structure(message))
    views["measurements"], names["measurements"] = fixed(measured.measured(message))
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


def valued(
    facts: Iterable[tuple[str, str]],
) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return the values of fields by id, and their names in the same order.

    Parameters
    ----------
    facts : iterable of (str, str)
        Fields of `app.features.structure.FIELDS` and their values.

    Returns
    -------
    counts : SparseCounts
        By id: the field's number and 48 bits of the value's hash.
    names : tuple of str
        Such as ``charset=utf-8``, aligned with the ids.
    """
    by_id = {
        value_id(
            field=structure.FIELDS[field], value=xxh3_64_intdigest(value.encode())
        ): f"{field}={value}"
        for field, value in facts
    }
    ids = sorted(by_id)
    counts = SparseCounts(np.array(ids, np.int64), np.ones(len(ids), np.int64))
    return counts, tuple(by_id[i] for i in ids)


def fixed(values: Mapping[str, float]) -> tuple[Measurements, tuple[str, ...]]:
    """Return measurements in fixed point, and the fields' names in their order.

    Parameters
    ----------
    values : mapping of str to float
        Fields of `app.features.measured.FIELDS` and their values.
    """
    names = tuple(sorted(values, key=measured.FIELDS.__getitem__))
    by_number = {measured.FIELDS[name]: values[name] for name in names}
    return Measurements.of(by_number), names


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
