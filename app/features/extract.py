"""Extraction: Message to Observation, and the features for a typed word."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from app.features.grams import grams
from app.features.headers import header_words
from app.features.observation import TAGGED, Observation, digest, ids_of
from app.features.tokens import folded, tokens_of, words_of
from app.features.words import disguised_words, marked_words, sequences
from app.kernels import ids as id_kernel
from app.kernels.text import TEXT

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from app.bayes.sparse import SparseCounts
    from app.features.id_key import IdKey
    from app.kernels import Ints
    from app.mail.message import Message

FEATURE_SET: Final = 1
"""Version of the rules below; any change of their results needs a new number.

Until the first release it stays 1: no profile is older than it.
"""
VIEWS: Final = ("words", "headers", "pairs", "grams")
"""All views of a message."""
MOST_WORDS: Final = {"text": 40_000, "marked": 10_000, "headers": 5_000}
"""Most words of a message that become features, with repeats; the first ones count.

The three limits are for its text, for places outside the text (links, hidden text,
...), and for its headers.  In 39,762 messages (SpamAssassin's public corpus and
Enron-Spam), the 99.99th percentiles are 33,039, 1,702 and 602, and the maxima 39,740,
3,848 and 1,666.  A message therefore has fewer than 100,000 features in all views, and
teaches fewer than that (`app.classifier.learn.MOST_TAUGHT`).
"""
TOO_MANY_WORDS: Final = "too-many-words"
"""The defect of a message with more words."""


def extract(message: Message, views: Container[str] = VIEWS) -> Observation:
    r"""Return the features of a message.

    Notes
    -----
    There are four views, each a function of the message alone: ``words`` and
    ``headers`` count occurrences, ``pairs`` record presence, and ``grams`` count runs
    of symbols.  Grams need no names: their ids are their text.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> views = extract(parse(b"Subject: Lunch\n\nGood morning")).views
    >>> {name: x.size for name, x in views.items()}
    {'words': 3, 'headers': 1, 'pairs': 1, 'grams': 72}
    """
    headers = header_words(message) if "headers" in views else []
    read = sequences(message) if "words" in views or "pairs" in views else []
    marked = marked_words(message) if "words" in views else []
    tokens = tokens_of([*headers, *read, *marked])
    of_headers = tokens.count(len(headers))
    end_of_text = tokens.count(len(headers) + len(read))
    made: dict[str, tuple[SparseCounts, Sequence[str]]] = {}
    defects = set(message.defects)
    of_text = _first("text", of_headers, end_of_text, defects)
    if "words" in views:
        words = tokens.text[tokens.bounds[of_headers] : tokens.bounds[of_text]]
        disguised = disguised_words(read, words)
        if disguised:
            tokens += tokens_of(disguised)
        of_marked = _first("marked", end_of_text, tokens.ids.size, defects)
        made["words"] = tokens.distinct((of_headers, of_text), (end_of_text, of_marked))
    if "headers" in views:
        made["headers"] = tokens.distinct(
            (0, _first("headers", 0, of_headers, defects))
        )
    if "pairs" in views:
        made["pairs"] = tokens.pairs(
            len(headers), len(headers) + len(read), most=MOST_WORDS["text"]
        )
    if "grams" in views:
        made["grams"] = grams(message), ()
    return Observation(
        digest=digest(message),
        feature_set=FEATURE_SET,
        views={view: made[view][0] for view in made},
        names={view: made[view][1] for view in made if made[view][1]},
        defects=tuple(sorted(defects)),
    )


def _first(kind: str, first: int, end: int, defects: set[str]) -> int:
    """Return the end of the tokens of a kind that become features."""
    most = first + MOST_WORDS[kind]
    if end > most:
        defects.add(TOO_MANY_WORDS)
    return min(end, most)


def meant(name: str, key: IdKey | None = None) -> dict[str, int]:
    """Return the id of a name in each text view that may contain it.

    Parameters
    ----------
    name : str
        A feature as in explanations: ``money``, ``subject:money``, or two words
        separated by a blank; in any case.
    key : IdKey, optional
        The key of the ids, if they are keyed.

    Returns
    -------
    dict of str to int
        By view.  A name with a blank is a pair, any other a word of the body or
        of a header.  `grams` are runs of symbols and have no names.

    Examples
    --------
    >>> sorted(meant("subject:money")), sorted(meant("free money"))
    (['headers', 'words'], ['pairs'])
    """
    words = folded(name).split(" ")
    found: dict[str, Ints] = {}
    if len(words) == 1:
        found = dict.fromkeys(("words", "headers"), ids_of(words))
    elif len(words) == 2:  # noqa: PLR2004
        room = np.empty((8, 256), np.int64)
        id_kernel.neighbours(ids_of(words), np.array([2]), room)
        found = {"pairs": room[0, :1]}
    return {
        view: int((ids if key is None else key.ids(ids))[0])
        for view, ids in found.items()
    }


MOST_PARTS: Final = 20
"""Words among the parts of a name; a sentence is no word."""


def parts_of(name: str) -> list[str]:
    """Return the features of a name that is none itself: words, and then their pairs.

    A word of a script without blanks is read as pairs of letters, and `meant` knows
    only those.

    Examples
    --------
    >>> parts_of("subject:发票")
    []
    >>> parts_of("代开发票")
    ['代开', '开发', '发票', '代开 开发', '开发 发票']
    """
    name = name.strip()
    tag, colon, text = name.rpartition(":")
    words = words_of([(tag + colon, text, TEXT)])
    if " " in name or TAGGED.match(name) or len(words) == 1 or folded(name) in words:
        return []
    words = words[:MOST_PARTS]
    return [*dict.fromkeys(words), *dict.fromkeys(map(" ".join, pairwise(words)))]
