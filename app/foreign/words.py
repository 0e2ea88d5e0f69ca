"""Which of our features does a word of another filter become?"""

from __future__ import annotations

from typing import Final

from app.features.tokens import MAX_WORD_CHARS, of_name, of_text

# Punctuation that belongs to words (`app.features.tokens`).
_INNER: Final = frozenset("_$!%'-")


def text_word(token: str) -> str | None:
    """Return the one word of a text that a token is, or None.

    Other filters keep the case and the punctuation around a word; ours is the
    word that a text with this token would have given.

    Examples
    --------
    >>> text_word("Today,"), text_word("FREE!!!"), text_word("www.example.com")
    ('today', 'free!!!', 'www.example.com')
    >>> text_word("and/or") is None
    True
    """
    if len(token) > MAX_WORD_CHARS:
        return None
    words = [word for word in of_text(token) if word[0].isalnum() or word[0] in _INNER]
    # A dotted word comes first, then its parts.
    if words and words[1:] in ([], words[0].split(".")):
        return words[0]
    return None


def name_word(token: str) -> str | None:
    """Return the one word of a header that a token is, or None.

    Examples
    --------
    >>> name_word("Mail.Example.com"), name_word("ann@example.com")
    ('mail.example.com', None)
    """
    if len(token) > MAX_WORD_CHARS:
        return None
    words = of_name(token)
    return words[0] if len(words) == 1 else None
