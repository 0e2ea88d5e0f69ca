"""Reasons: the features of a message that a person takes as one.

A header is one reason, whatever its words are; so are the links to one domain, and so
are words that stand side by side, with their pairs.  Contract of this file: each
feature is in one reason and in one family, and the cost is that of sorting them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.features.hashing import FeatureNames, names_at
from app.kernels.reasons import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

# With single words and their pairs, ten reasons of each side show a median of 45 to
# 54 % of the log-odds, and with up to six words 55 to 76 (experiment 0075). Eight show
# little more, and are too many to read at a glance.
MOST_WORDS: Final = 6
"""Words of one reason, at most."""
_TAGS: Final = {
    "link": "links",
    "file": "files",
    "alt": "images",
    "hidden": "hidden",
    "trick": "tricks",
    "random": "tricks",
}
"""The family of a word by its tag (`app.features.words`)."""


class Known(NamedTuple):
    """The features of one view that have been seen before."""

    view: str
    """The view."""
    names: Sequence[str]
    """The text of each; none if it is not kept."""
    at: NDArray[np.intp]
    """Which of the features of the message they are."""
    values: NDArray[np.float64]
    """Contribution of each of these to the log-odds.  Unit: nats."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """The known features of a message, view after view, by reason and by family.

    Parameters
    ----------
    reason : ndarray of int64, shape (n,)
        The first feature of the reason of each.
    texts : mapping of int to str
        The text of a reason, where it is not that of its first feature.
    families : list of str
        The families.
    family : ndarray of int64, shape (n,)
        To which of them each feature belongs.
    """

    reason: NDArray[np.int64]
    texts: Mapping[int, str]
    families: list[str]
    family: NDArray[np.int64]


def grouped(views: Sequence[Known], *, joins: int) -> Grouped:
    """Return the known features of a message by reason and by family.

    Parameters
    ----------
    views : sequence of Known
        The views.
    joins : int
        How many pairs may put words side by side, the strongest of them; with 0 each
        pair is a reason of its own, too.

    Examples
    --------
    >>> every = np.arange(3)
    >>> found = grouped([
    ...     Known("words", ["free", "money", "noon"], every, np.array([1., 1, -1])),
    ...     Known("headers", ["from:bob", "from:shape:a"], every[:2], np.ones(2)),
    ...     Known("pairs", ["free money", "money noon"], every[:2], np.array([2, 0.1])),
    ... ], joins=9)
    >>> found.reason.tolist(), found.texts
    ([0, 0, 2, 3, 3, 0, 0], {3: 'from', 0: 'free money'})
    >>> [found.families[at] for at in found.family.tolist()]
    ['words', 'words', 'words', 'headers', 'headers', 'pairs', 'pairs']
    """
    sizes = [known.at.size for known in views]
    starts = list(accumulate(sizes, initial=0))
    reason = np.arange(starts[-1])
    family = np.repeat(np.arange(len(views)), sizes)
    families = [known.view for known in views]
    texts: dict[int, str] = {}
    words: tuple[int, Known, NDArray[np.int64]] | None = None
    for known, start in zip(views, starts, strict=False):
        if not known.names or known.view not in {"headers", "words"}:
            continue
        hashes, tags, colons = FeatureNames.of(known.names).hashes()
        if known.view == "headers":
            _, first, which = np.unique(tags, return_index=True, return_inverse=True)
            reason[start : start + tags.size] = start + first[which]
            for at, name in zip(
                first.tolist(), names_at(known.names, first), strict=True
            ):
                texts[start + at] = name.partition(":")[0]
            continue
        words = start, known, hashes
        first_of: dict[tuple[str, str], int] = {}
        tagged = (colons >= 0).nonzero()[0]
        for at, name in zip(
            tagged.tolist(), names_at(known.names, tagged), strict=True
        ):
            tag, _, word = name.partition(":")
            if tag not in _TAGS:
                continue
            kin = _TAGS[tag]
            text = _domain(word) if kin == "links" else kin
            if kin not in families:
                families.append(kin)
            here = first_of.setdefault((kin, text), start + at)
            family[start + at] = families.index(kin)
            reason[start + at] = here
            texts[here] = text
    for known, start in zip(views, starts, strict=False):
        if known.view == "pairs" and known.names and words and joins:
            _join(known, start, *words, joins, reason, texts)
    return Grouped(reason, texts, families, family)


def _domain(word: str) -> str:
    """Return the last two labels of a host; paths and marks belong to any link.

    Examples
    --------
    >>> _domain(".shop.example.com"), _domain("(other-host)")
    ('example.com', 'paths')
    """
    labels = word.strip(".").rsplit(".", 2)
    return ".".join(labels[-2:]) if len(labels) > 1 else "paths"


def _join(
    pairs: Known,
    start: int,
    begin: int,
    words: Known,
    hashes: NDArray[np.int64],
    joins: int,
    reason: NDArray[np.int64],
    texts: dict[int, str],
) -> None:
    """Give each pair to the stronger of its words, and put words side by side.

    Two words are put side by side by the pair of them, the strongest first, where all
    three speak for one side: so a reason reads like a piece of the text.

    Parameters
    ----------
    pairs, words : Known
        The pairs, of which the first is feature `start`, and the words, of which the
        first is feature `begin`.
    hashes : ndarray of int64
        The hash of each word.
    joins : int
        How many of the pairs may put words side by side.
    reason, texts : ndarray, dict
        As in `Grouped`; they are changed.
    """
    names = FeatureNames.of(pairs.names, 2)
    order = hashes.argsort()
    ends = np.concatenate([names.hashes(word)[0] for word in range(2)])
    at = order.take(hashes.searchsorted(ends, sorter=order), mode="clip")
    # The last number is that of no word.
    at[hashes.take(at) != ends] = -1
    left, right = at[: names.at.size], at[names.at.size :]
    worth = np.append(words.values, 0.0)
    strength = np.abs(worth)
    owner = np.where(strength[left] >= strength[right], left, right)
    # Without its words, a pair is a reason of its own.
    owner = np.where((left < 0) | (right < 0), np.maximum(left, right), owner)
    values = pairs.values
    agree = (worth[left] * values > 0) & (worth[right] * values > 0)
    (sound,) = agree.nonzero()
    sound = sound[(-np.abs(values[sound])).argsort(kind="stable")[:joins]]
    room = np.empty((6, words.at.size), np.int64)
    size = rows(left[sound], right[sound], MOST_WORDS, room)
    inside, first = room[:2, :size]
    reason[begin + inside] = begin + first
    read = names_at(words.names, inside)
    for at, name in zip((begin + first).tolist(), read, strict=True):
        texts[at] = f"{texts[at]} {name}" if at in texts else name
    own = start + np.arange(owner.size)
    reason[own] = np.where(owner < 0, own, reason[begin + owner])
