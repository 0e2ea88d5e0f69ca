"""Which feature does a person mean who types a word?"""

from __future__ import annotations

from app.features.hashing import ids_of
from app.features.pairs import mixed


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
