"""How does a Message become an Observation?"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from app.features import measured, structure
from app.features.grams import grams
from app.features.hashing import fixed, hashed, ids_of, sorted_by_id, valued
from app.features.headers import header_words
from app.features.identity import digest
from app.features.observation import Observation
from app.features.pairs import pairs
from app.features.words import marked_words, sequences

if TYPE_CHECKING:
    from app.mail.message import Message

FEATURE_SET: Final = 1
"""Number of the rules below; any change of what they yield is a new number.

Until the first release it stays 1: no profile is older than it.
"""


def extract(message: Message) -> Observation:
    r"""Return the features of a message.

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
    read = sequences(message)
    occurrences = Counter(chain.from_iterable(read))
    occurrences.update(marked_words(message, occurrences.keys()))
    texts = list(occurrences)
    ids = ids_of(texts)
    counts = np.fromiter(occurrences.values(), np.int64, len(texts))
    words, word_names = sorted_by_id(ids, counts, texts)
    headers, header_names = hashed(header_words(message))
    neighbours, pair_names = pairs(read, dict(zip(texts, ids.tolist(), strict=True)))
    facts, fact_names = valued(structure.structure(message), structure.FIELDS)
    numbers, number_names = fixed(measured.measured(message), measured.FIELDS)
    return Observation(
        digest=digest(message),
        feature_set=FEATURE_SET,
        views={
            "words": words,
            "headers": headers,
            "pairs": neighbours,
            "grams": grams(message),
            "structure": facts,
            "measurements": numbers,
        },
        names={
            "words": word_names,
            "headers": header_names,
            "pairs": pair_names,
            "structure": fact_names,
            "measurements": number_names,
        },
        defects=message.defects,
    )
