"""Reasons: the features of a message that a person takes as one.

A header is one reason, whatever its words are; so are the links to one domain, and so
are words that stand side by side, with their pairs.  Contract of this file: each
feature is in one reason and in one family, and the cost is that of sorting them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain, count, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    """What each of these adds to the log-odds.  Unit: nats."""


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
    words: dict[str, int] = {}
    for known, start in zip(views, starts, strict=False):
        if not known.names or known.view not in {"headers", "words"}:
            continue
        # Thousands of them are the most of an explanation: all at once what can be.
        kept = tuple(known.names)
        if known.view == "headers":
            heads: dict[str, int] = {}
            reason[start : start + len(kept)] = [
                heads.setdefault(name.partition(":")[0], number)
                for number, name in enumerate(kept, start)
            ]
            texts.update(zip(heads.values(), heads, strict=True))
            continue
        words = dict(zip(kept, count(start), strict=False))
        first: dict[tuple[str, str], int] = {}
        for number, (kin, text) in _tagged(kept, start):
            if kin not in families:
                families.append(kin)
            here = first.setdefault((kin, text), number)
            family[number] = families.index(kin)
            reason[number] = here
            texts[here] = text
    for known, start in zip(views, starts, strict=False):
        if known.view == "pairs" and known.names and words and joins:
            worth = np.zeros(starts[-1] + 1)
            of_words = families.index("words")
            begin = starts[of_words]
            worth[begin : starts[of_words + 1]] = views[of_words].values
            _join(known, start, words, worth, joins, reason, texts)
    return Grouped(reason, texts, families, family)


def _tagged(names: Sequence[str], start: int) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the number of each word with a tag, its family and its reason."""
    for number, name in enumerate(names, start):
        if ":" in name:
            tag, _, word = name.partition(":")
            if tag in _TAGS:
                kin = _TAGS[tag]
                yield number, (kin, _domain(word) if kin == "links" else kin)


def _domain(word: str) -> str:
    """Return the last two labels of a host; what is a path or a mark is of any link.

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
    words: Mapping[str, int],
    worth: NDArray[np.float64],
    joins: int,
    reason: NDArray[np.int64],
    texts: dict[int, str],
) -> None:
    """Give each pair to the stronger of its words, and put words side by side.

    Two words are put side by side by the pair of them, the strongest first, where all
    three speak for one side: so a reason reads like a piece of the text.

    Parameters
    ----------
    pairs : Known
        The pairs, of which the first is feature `start`.
    words : mapping of str to int
        The feature of each word.
    worth : ndarray of float64, shape (n + 1,)
        What each word adds; the last is that of no word.
    joins : int
        How many of the pairs may put words side by side.
    reason, texts : ndarray, dict
        As in `Grouped`; they are changed.
    """
    left, right = _ends(pairs, words)
    strength = np.abs(worth)
    owner = np.where(strength[left] >= strength[right], left, right)
    # Without its words, a pair is a reason of its own.
    owner = np.where((left < 0) | (right < 0), np.maximum(left, right), owner)
    own = start + np.arange(owner.size)
    values = pairs.values
    agree = (worth[left] * values > 0) & (worth[right] * values > 0)
    (sound,) = agree.nonzero()
    sound = sound[(-np.abs(values[sound])).argsort(kind="stable")[:joins]]
    text = dict(zip(words.values(), words, strict=True))
    for row in _rows(left[sound].tolist(), right[sound].tolist()):
        reason[row] = row[0]
        texts[row[0]] = " ".join([text[at] for at in row])
    reason[own] = np.where(owner < 0, own, reason[owner])


def _ends(
    pairs: Known, words: Mapping[str, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the features of the left and the right words of pairs; -1 for none."""
    # Each name is two words and the blank between them, which is no word.
    split = chain.from_iterable(map(str.partition, pairs.names, repeat(" ")))
    ends = np.fromiter(map(words.get, split, repeat(-1)), np.int64, 3 * pairs.at.size)
    return ends[::3], ends[2::3]


def _rows(left: list[int], right: list[int]) -> list[list[int]]:
    """Return words in rows: each pair joins the end of a row to the begin of another.

    Parameters
    ----------
    left, right : list of int
        The words of each pair, in the order in which they are joined.
    """
    by_first: dict[int, list[int]] = {}
    by_last: dict[int, list[int]] = {}
    joined: set[int] = set()
    for one, other in zip(left, right, strict=True):
        before = by_last.get(one) or ([] if one in joined else [one])
        after = by_first.get(other) or ([] if other in joined else [other])
        if not before or not after or before[0] == after[0]:
            continue
        if len(before) + len(after) > MOST_WORDS:
            continue
        row = before + after
        by_last.pop(one, None)
        by_first.pop(other, None)
        by_first[row[0]] = by_last[row[-1]] = row
        joined.update(row)
    return list(by_first.values())
