"""Extraction: Message to Observation, and the feature that a typed word stands for."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from app.features import measured, structure
from app.features.hashing import counted, fixed, hashed, ids_of, valued
from app.features.headers import header_words
from app.features.observation import Observation, Payload, digest
from app.features.pairs import grams, mixed, pairs
from app.features.words import marked_words, sequences

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from app.mail.message import Message

FEATURE_SET: Final = 1
"""Number of the rules below; any change of what they yield is a new number.

Until the first release it stays 1: no profile is older than it.
"""
VIEWS: Final = ("words", "headers", "pairs", "grams", "structure", "measurements")
"""All views that a message can be seen in."""


def extract(message: Message, views: Container[str] = VIEWS) -> Observation:
    r"""Return the features of a message.

    Parameters
    ----------
    message : Message
        The message.
    views : container of str
        The views that are wanted; the others are neither made nor there.

    Notes
    -----
    Six views, each a function of the message alone: ``words`` and ``headers``
    count occurrences, ``pairs`` and ``grams`` presence, ``structure`` has a
    value for each of some fields, and ``measurements`` numbers in fixed point.
    Grams have no names: a bucket stands for several, and four bytes tell a
    reader little.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> views = extract(parse(b"Subject: Lunch\n\nGood morning")).views
    >>> {name: x.size for name, x in views.items()}
    {'words': 3, 'headers': 1, 'pairs': 1, 'grams': 16, 'structure': 8,
    'measurements': 14}
    """
    made: dict[str, tuple[Payload, Sequence[str]]] = {}
    if "words" in views or "pairs" in views:
        texts = sequences(message)
        read = list(chain.from_iterable(texts))
        words = read + marked_words(message, set(read)) if "words" in views else read
        ids = ids_of(words)
        if "words" in views:
            made["words"] = counted(ids, words)
        if "pairs" in views:
            made["pairs"] = pairs(read, ids[: len(read)], list(map(len, texts)))
    if "headers" in views:
        made["headers"] = hashed(header_words(message))
    if "grams" in views:
        made["grams"] = grams(message), ()
    if "structure" in views:
        facts = structure.structure(message)
        made["structure"] = valued(facts, structure.FIELDS)
    if "measurements" in views:
        numbers = measured.measured(message)
        made["measurements"] = fixed(numbers, measured.FIELDS)
    kept = [view for view in VIEWS if view in made and view in views]
    return Observation(
        digest=digest(message),
        feature_set=FEATURE_SET,
        views={view: made[view][0] for view in kept},
        names={view: made[view][1] for view in kept if made[view][1]},
        defects=message.defects,
    )


def meant(name: str) -> dict[str, int]:
    """Return the id that a name has in each text view that could hold it.

    Parameters
    ----------
    name : str
        A feature as explanations write it: ``money``, ``subject:money``, or two
        words with a blank between them.

    Returns
    -------
    dict of str to int
        By view.  A name with a blank is a pair, any other a word of the body or
        of a header.  `grams` are buckets of bytes and have no names.

    Examples
    --------
    >>> sorted(meant("subject:money")), sorted(meant("free money"))
    (['headers', 'words'], ['pairs'])
    """
    words = name.split(" ")
    if len(words) == 1:
        (number,) = ids_of(words).tolist()
        return {"words": number, "headers": number}
    if len(words) == 2:  # noqa: PLR2004
        ids = ids_of(words)
        return {"pairs": int(mixed(ids[:1], ids[1:])[0])}
    return {}
