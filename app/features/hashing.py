"""Feature ids: 64-bit hashes of the text of features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xxhash import xxh3_64_intdigest

from app.bayes.measurements import Measurements
from app.bayes.models.categorical import value_id
from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray


def ids_of(names: Sequence[str]) -> NDArray[np.int64]:
    """Return the ids of features, shape (n,), in the order of their names.

    The id is the 64 bits of xxh3 of the UTF-8 name, as a signed integer.

    Examples
    --------
    >>> ids_of(["money", "now"]).tolist()
    [5881276789356335354, 8117650502234117504]
    """
    digests = map(xxh3_64_intdigest, map(str.encode, names))
    return np.fromiter(digests, np.uint64, len(names)).view(np.int64)


def hashed(features: Sequence[str]) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return the counts of features by id, and their names in the same order.

    Parameters
    ----------
    features : sequence of str
        Names of the features that occur, with repeats.

    Returns
    -------
    counts : SparseCounts
        By id.
    names : tuple of str
        Aligned with the ids.
    """
    return counted(ids_of(features), features)


def counted(
    ids: NDArray[np.int64], names: Sequence[str]
) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return how often each id occurs, and its name.

    Parameters
    ----------
    ids : ndarray of int64, shape (n,)
        In any order, with repeats.
    names : sequence of str
        The name of each of the ids.

    Notes
    -----
    By chance no message has two names of one id, but the hash is not a
    cryptographic one: a sender can search for two such words and send them.
    The two words are then one feature, with the name of either.
    """
    found, at, counts = distinct(ids)
    return SparseCounts(found, counts), tuple([names[i] for i in at.tolist()])


def distinct(
    ids: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """Return the different ids in order, where each stands, and how often.

    Examples
    --------
    >>> [found.tolist() for found in distinct(np.array([7, 3, 7]))]
    [[3, 7], [1, 0], [1, 2]]
    """
    # Not np.unique: it sorts such that the first of equal ids comes first, which
    # takes twice as long, and nobody needs.
    order = ids.argsort()
    ordered = ids.take(order)
    starts = np.empty(ids.size + 1, np.bool_)
    starts[0] = starts[-1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:-1])
    (bounds,) = starts.nonzero()
    first = bounds[:-1]
    return ordered.take(first), order.take(first), bounds[1:] - first


def valued(
    facts: Iterable[tuple[str, str]], fields: Mapping[str, int]
) -> tuple[SparseCounts, tuple[str, ...]]:
    """Return the values of fields by id, and their names in the same order.

    Parameters
    ----------
    facts : iterable of (str, str)
        Fields and their values, each field at most once.
    fields : mapping of str to int
        The number of each field.

    Returns
    -------
    counts : SparseCounts
        By id: the field's number and 48 bits of the value's hash.
    names : tuple of str
        Such as ``charset=utf-8``, aligned with the ids.
    """
    by_id = {
        value_id(
            field=fields[field], value=xxh3_64_intdigest(value.encode())
        ): f"{field}={value}"
        for field, value in facts
    }
    ids = sorted(by_id)
    counts = SparseCounts(np.array(ids, np.int64), np.ones(len(ids), np.int64))
    return counts, tuple(by_id[i] for i in ids)


def fixed(
    values: Mapping[str, float], fields: Mapping[str, int]
) -> tuple[Measurements, tuple[str, ...]]:
    """Return measurements in fixed point, and the fields' names in their order.

    Parameters
    ----------
    values : mapping of str to float
        Fields and their values.
    fields : mapping of str to int
        The number of each field.
    """
    names = tuple(sorted(values, key=fields.__getitem__))
    return Measurements.of({fields[name]: values[name] for name in names}), names
