"""Markup kernel: counts the tags of HTML, and inserts blanks at line breaks.

Names of elements and blanks are ASCII, as in HTML; the HTML is UTF-8 in an array of
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part

if TYPE_CHECKING:
    from app.kernels import Bytes


BREAK: Final = 1
"""Elements that break the line or separate words."""
FORMATTING: Final = 2
"""Elements that are opened again in each following block, until they are closed."""
UNSHOWN: Final = 4
"""Elements with invisible text, but ``noscript``: mail programs run no scripts."""
IN_WORD: Final = 8
"""Comments between two letters."""
_INLINE: Final = 16
UNSHOWN_ELEMENTS: Final = (
    *("script", "style", "template", "iframe", "noframes", "noembed"),
)
BREAK_ELEMENTS: Final = (
    *("br", "img"),
    *("p", "div", "td", "th", "tr", "table", "li", "ul", "ol", "dl", "dt", "dd"),
    *("hr", "h1", "h2", "h3", "h4", "h5", "h6", "center", "blockquote", "pre"),
    *("form", "option", "select", "input", "textarea", "button", "title"),
    *("section", "article", "header", "footer", "address", "main", "nav", "aside"),
    *("figure", "figcaption", "fieldset", "legend", "details", "summary", "dialog"),
    *("caption", "hgroup", "menu", "search"),
)
"""Those of `BREAK`; the first two stand in a line all the same."""
# Those of formatting are the first.
_NAMES: Final = {
    FORMATTING: (
        *("a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike"),
        *("strong", "tt", "u"),
    ),
    BREAK | _INLINE: BREAK_ELEMENTS[:2],
    BREAK: BREAK_ELEMENTS[2:],
    _INLINE: ("span",),
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
# With the kind of all others.
_KINDS: Final = np.append(np.repeat(list(_NAMES), list(map(len, _NAMES.values()))), [0])
# Four bits for each element of formatting: how many may be open, if not more.
_FOUR: Final = 15
# States of the HTML standard's tokenizer: outside a tag; in its name; before, in and
# after the name of an attribute; before and in a value.
_TEXT, _NAME, _BEFORE, _ATTRIBUTE, _AFTER, _VALUE, _UNQUOTED, _QUOTED, _APOSTROPHE = (
    range(9)
)
_LESS, _GREATER, _SLASH, _EQUALS = b"<>/="
_BANG, _DASH, _BLANK, _DOUBLE, _SINGLE = b"!- \"'"
_SIGNS: Final = tuple(b"\"',:;{}")
_MOST_COMMENT: Final = 200


@in_place
def spaced(source: Bytes, into: Bytes) -> tuple[int, int, int, int, int, int, int, int]:
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
    reopened : int
        An upper bound of half the elements that are opened again: the sum over all tags
        of the elements of `FORMATTING` that may be open; and a quarter of the tags
        before each end tag that may move the elements since its start tag.
    signs : int
        Quotes, commas, colons, semicolons and braces: an upper bound of the pieces of
        styles.
    seen : int
        The kinds of elements found, and whether there are comments inside words.

    Notes
    -----
    An end tag closes an element of formatting for sure if nothing but text, line
    breaks, images, spans and formatting follows the start tag of that name (HTML
    standard, 13.2.6.4.7, the adoption agency algorithm): no block, cell, form or
    foreign element limits what it closes, and nothing between is a comment, a quoted
    value or a script.
    """
    size = tags = attributes = links = reopened = signs = seen = 0
    quoted = piece = tag = start = 0
    formatting, recent, state, named = 0, 0, _TEXT, 0
    less = end = min(source.size, into.size // 2)
    blank = True
    for at in range(end):
        code = source[at]
        if code == _LESS:
            tags += 1
            links += at + 1 < source.size and source[at + 1] | 32 == 97
            closing = at + 1 < source.size and source[at + 1] == _SLASH
            name = at + 1 + closing
            element, after = _element(source, name)
            ends = _is_blank(after) or after in (_SLASH, _GREATER)
            # A blank that is inserted before the next tag would end this name too.
            may_end = ends or after == _LESS
            kind = _KINDS[element]
            if kind & BREAK and ends:
                into[size] = _BLANK
                size += 1
                state = _next(state, _BLANK)
            seen |= kind if ends or (may_end and kind == UNSHOWN) else 0
            sure = state == _TEXT and ends and kind & (FORMATTING | _INLINE) != 0
            recent *= sure
            if kind == FORMATTING and may_end:
                mine = 4 * element
                known = recent >> mine & _FOUR
                if not closing:
                    formatting += 1
                    recent += (sure and known < _FOUR) << mine
                elif known:
                    formatting -= 1
                    recent -= 1 << mine
                else:
                    reopened += tags // 4
            reopened += formatting
            if state == _TEXT and name < source.size and _is_letter(source[name]):
                state, named = _NAME, name
            else:
                state = _next(state, code)
            if _is_in_word(source, at):
                seen |= IN_WORD
            less = min(less, at)
        else:
            if code == _GREATER:
                piece, tag = max(piece, at - start), max(tag, at - less)
                start, less = at + 1, end
            elif code == _EQUALS:
                quoted += _holds_greater(source, at + 1)
            if at > named:
                state = _next(state, code)
        attributes += code in (_SLASH, _EQUALS)
        signs += code in _SIGNS
        before, blank = blank, _is_blank(code)
        attributes += before and not blank
        into[size] = code
        size += 1
    piece, tag = max(piece, end - start), max(tag, end - less)
    together = min(attributes, (quoted + 1) * (piece if quoted else tag) // 2)
    return size, tags, attributes, together, links, reopened, signs, seen


@part
def _next(state: int, code: int) -> int:
    """Return the state of the tokenizer after a byte (HTML standard, 13.2.5)."""
    if state == _TEXT:
        return _TEXT
    if state >= _QUOTED:
        ended = code == (_DOUBLE if state == _QUOTED else _SINGLE)
        return _BEFORE if ended else state
    if code == _GREATER:
        return _TEXT
    if _is_blank(code):
        if state == _VALUE:
            return _VALUE
        return _AFTER if state in (_ATTRIBUTE, _AFTER) else _BEFORE
    if state == _UNQUOTED:
        return _UNQUOTED
    if state == _VALUE:
        if code == _DOUBLE:
            return _QUOTED
        return _APOSTROPHE if code == _SINGLE else _UNQUOTED
    if code == _SLASH:
        return _BEFORE
    if state == _NAME:
        return _NAME
    return _VALUE if code == _EQUALS and state != _BEFORE else _ATTRIBUTE


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
    """Return whether a byte is a blank in HTML."""
    return code in (32, 9, 10, 12, 13)


@part
def _is_letter(code: int) -> bool:
    """Return whether a byte is a letter."""
    return 97 <= code | 32 <= 122


@part
def _element(source: Bytes, at: int) -> tuple[int, int]:
    """Return the place of the name that begins here, and the byte after it."""
    name, code = 0, 0
    for here in range(at, min(at + _LONGEST + 1, source.size)):
        code = source[here]
        if 65 <= code <= 90:
            code += 32
        if not (97 <= code <= 122 or 49 <= code <= 54):
            break
        name = name * _BASE + code
    for i in range(_ELEMENTS.size):
        if _ELEMENTS[i] == name:
            return i, code
    return _ELEMENTS.size, code


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
