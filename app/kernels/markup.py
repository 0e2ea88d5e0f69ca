"""Markup kernel: counts the tags of HTML, and inserts blanks at line breaks.

Names of elements and blanks are ASCII, as in HTML; the HTML is UTF-8 in an array of
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

BREAK: Final = 1
"""Elements that break the line or separate words."""
FORMATTING: Final = 2
"""Start tags of elements that are reopened in each following block."""
UNSHOWN: Final = 4
"""Elements with invisible text."""
IN_WORD: Final = 8
"""Comments between two letters."""
UNSHOWN_ELEMENTS: Final = ("script", "style", "noscript", "template")
_NAMES: Final = {
    BREAK: (
        *("p", "div", "td", "th", "tr", "table", "li", "ul", "ol", "dl", "dt", "dd"),
        *("br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "center", "blockquote"),
        *("pre", "form", "option", "select", "input", "textarea", "button", "img"),
        *("title", "section", "article", "header", "footer", "address"),
    ),
    FORMATTING: (
        *("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike"),
        *("strong", "tt", "u"),
    ),
    UNSHOWN: UNSHOWN_ELEMENTS,
}
_LONGEST: Final = max(len(name) for names in _NAMES.values() for name in names)
# A name as a number, unique for names of up to nine letters.
_BASE: Final = 131
_ELEMENTS: Final = np.array(
    [
        sum(byte * _BASE**place for place, byte in enumerate(name.encode()[::-1]))
        % 2**64
        for names in _NAMES.values()
        for name in names
    ],
    np.uint64,
).view(np.int64)
_KINDS: Final = np.repeat(list(_NAMES), list(map(len, _NAMES.values())))
_LESS, _GREATER, _SLASH, _EQUALS = b"<>/="
_BANG, _DASH, _BLANK, _DOUBLE, _SINGLE = b"!- \"'"
_MOST_COMMENT: Final = 200


@in_place
def spaced(source: Bytes, into: Bytes) -> tuple[int, int, int, int, int, int, int]:
    """Write HTML with a blank before each tag that breaks the line; count its tags.

    Parameters
    ----------
    source : ndarray of uint8
        The HTML.
    into : ndarray of uint8
        Written, within its size: twice the size of the source is enough.

    Returns
    -------
    size : int
        Bytes written.
    tags : int
        Less-than signs.
    attributes : int
        Words, slashes and equals signs: an upper bound of the attributes.
    together : int
        An upper bound of the attributes of one tag.  A tag goes from ``<`` to ``>``,
        and to one more ``>`` for each in a quoted value; before each attribute is a
        blank, a slash, or a value that ends in a quote.
    links : int
        Less-than signs followed by "a".
    formatting : int
        Tags of `FORMATTING`.
    seen : int
        The kinds of elements found, and whether there are comments inside words.
    """
    size = tags = attributes = links = formatting = seen = 0
    quoted = piece = tag = start = 0
    less = end = min(source.size, into.size // 2)
    blank = True
    for at in range(end):
        code = source[at]
        if code == _LESS:
            tags += 1
            links += at + 1 < source.size and source[at + 1] | 32 == 97
            kind = _kind(source, at + 1)
            if kind & BREAK:
                into[size] = _BLANK
                size += 1
            formatting += kind == FORMATTING
            seen |= kind
            if _is_in_word(source, at):
                seen |= IN_WORD
            less = min(less, at)
        elif code == _GREATER:
            piece, tag = max(piece, at - start), max(tag, at - less)
            start, less = at + 1, end
        elif code == _EQUALS:
            quoted += _holds_greater(source, at + 1)
        attributes += code in (_SLASH, _EQUALS)
        before, blank = blank, _is_blank(code)
        attributes += before and not blank
        into[size] = code
        size += 1
    piece, tag = max(piece, end - start), max(tag, end - less)
    together = min(attributes, (quoted + 1) * (piece if quoted else tag) // 2)
    return size, tags, attributes, together, links, formatting, seen


@part
def _holds_greater(source: Bytes, at: int) -> bool:
    """Return whether a greater-than sign is in the quoted value that begins here."""
    while at < source.size and _is_blank(source[at]):
        at += 1
    if at == source.size or source[at] not in (_DOUBLE, _SINGLE):
        return False
    for here in range(at + 1, source.size):
        if source[here] == source[at] or source[here] == _GREATER:
            found: bool = source[here] == _GREATER
            return found
    return False


@part
def _is_blank(code: int) -> bool:
    """Return whether a byte is a blank."""
    return code == _BLANK or 9 <= code <= 13 or 28 <= code <= 31


@part
def _is_letter(code: int) -> bool:
    """Return whether a byte is a letter."""
    return 97 <= code | 32 <= 122


@part
def _kind(source: Bytes, at: int) -> int:
    """Return the kind of the element whose name begins here, or 0."""
    closing = at < source.size and source[at] == _SLASH
    at += closing
    name, code = 0, 0
    for here in range(at, min(at + _LONGEST + 1, source.size)):
        code = source[here]
        if 65 <= code <= 90:
            code += 32
        if not (97 <= code <= 122 or 49 <= code <= 54):
            break
        name = name * _BASE + code
    ends = _is_blank(code) or code in (_SLASH, _GREATER)
    # A blank inserted before the next tag would end the name of this one.
    if not (ends or code == _LESS):
        return 0
    for i in range(_ELEMENTS.size):
        if _ELEMENTS[i] == name:
            kind: int = _KINDS[i]
            wanted = kind == UNSHOWN or (ends and not (closing and kind == FORMATTING))
            return kind if wanted else 0
    return 0


@part
def _is_in_word(source: Bytes, at: int) -> bool:
    """Return whether a short comment between two letters begins here."""
    first = at + 4
    if not at or first > source.size or not _is_letter(source[at - 1]):
        return False
    if source[at + 1] != _BANG or source[at + 2] != _DASH or source[at + 3] != _DASH:
        return False
    chars, end = 0, first
    while end < source.size and source[end] != _GREATER and source[end] != _LESS:
        chars += source[end] & 0xC0 != 0x80
        if chars > _MOST_COMMENT + 2:
            return False
        end += 1
    return (
        end >= first + 2
        and end + 1 < source.size
        and source[end] == _GREATER
        and source[end - 1] == _DASH
        and source[end - 2] == _DASH
        and _is_letter(source[end + 1])
    )
