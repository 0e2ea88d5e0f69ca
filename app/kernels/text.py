"""Text kernels: line ends, tokens and their ids, disguises, folding, JSON.

Text is UTF-8 in an array of bytes.  Invalid UTF-8 is read as arbitrary characters,
within the array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.kernels import in_place, part
from app.kernels.hashing import xxh3

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from app.kernels import Bytes, Ints


WHOLE: Final = 0
"""A span that is one token."""
NAME: Final = 1
"""A span with words as tokens."""
TEXT: Final = 2
"""A span with words, runs of marks and parts of dotted words as tokens."""

DROPPED: Final = 1
"""In place of a letter: the character does not count."""
UNSPACED: Final = 1
"""Characters of scripts without blanks; their runs are split into pairs."""
LETTER: Final = 2
"""Characters of words."""
MARK: Final = 4
"""Characters that are neither letters, digits nor blanks; some occur in words too."""
STEM: Final = 8
"""Characters that a dotted word begins with, if its parts are tokens too."""

INVISIBLE: Final = 1
"""Soft hyphens and the byte order mark; zero-width characters outside of the scripts
that are written with them, and of emoji; and any character of `UNSEEN` between letters,
the first one Latin."""
BIDI: Final = 2
"""Text with reversed direction (Unicode Technical Report 36, section 2.7).

Embeddings and isolates reverse none: mail in Hebrew and Arabic has them around names.
"""
MIXED: Final = 4
"""Letters of two of `SCRIPTS` side by side (Unicode Technical Standard 39, section 5.1,
"mixed-script confusables")."""

SPACED: Final = 8
"""Four single letters, separated by one or two blanks or marks: perhaps a word written
letter by letter."""

UNSEEN: Final = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFC), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)  # fmt: skip
"""Ranges of the characters that programs do not show.

Default_Ignorable_Code_Point of Unicode 15.1 (DerivedCoreProperties.txt) without
`FILLERS`, and U+FFF9 to U+FFFC, which annotate text.  Any of them inside a word leaves
it readable.
"""
FILLERS: Final = (0x115F, 0x1160, 0x3164, 0xFFA0)
"""The letters of Hangul that programs show as blanks."""
SCRIPTS: Final = (
    (0xC0, 0x2AF),  # Latin
    (0x370, 0x3FF),  # Greek
    (0x400, 0x52F),  # Cyrillic
    (0x531, 0x587),  # Armenian
    (0x13A0, 0x13FF),  # Cherokee
    (0x1400, 0x167F),  # Canadian Aboriginal
)
"""Ranges of the scripts with letters that look like those of others; ASCII is Latin."""
SIGNS: Final = (0xD7, 0xF7, 0x37E, 0x387, *range(0x55A, 0x560))
"""Signs in these ranges, which stand beside letters of any script: of multiplication
and division, and the punctuation of Greek and Armenian."""
_UNSEEN, _SCRIPTS = np.array(UNSEEN), np.array(SCRIPTS)
# Hebrew, before Arabic, the scripts of India and those of South East Asia.
_FIRST_JOINED: Final = 0x590
_LONG: Final = np.frombuffer(b"long:", np.uint8)
_LONG_PREFIX: Final = 4
_DOT: Final = ord(".")
_BLANK: Final = ord(" ")
_COMMA: Final = ord(",")
_SMALL_U: Final = ord("u")
_CR, _LF = b"\r\n"
_A, _Z, _SMALL = ord("A"), ord("Z"), ord("a")
_ZERO, _NINE = b"09"
MOST_SIGNS: Final = 2
"""Most digits and signs in a row that are letters; in "row100a", they are not."""
_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
# The letters of short escapes (RFC 8259 section 7).
_ESCAPES: Final = np.zeros(128, np.uint8)
_ESCAPES[list(b'"\\\b\f\n\r\t')] = list(b'"\\bfnrt')
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
MOST_EXCESS: Final = 200
"""Most characters by which a folded text may exceed twice its length."""


@in_place
def tokenized(
    source: Bytes,
    stops: Ints,
    hows: Bytes,
    classes: Bytes,
    longest: int,
    text: Bytes,
    bounds: Ints,
    ids: Ints,
    ends: Ints,
    dotted: Ints,
) -> int:
    """Write the tokens of spans of text, and their ids; return their number.

    Parameters
    ----------
    source : ndarray of uint8
        Tag and text of the first span, of the second, and so on.
    stops : ndarray of int64, shape (2 m,)
        End of each span's tag, and of its text.
    hows : ndarray of uint8, shape (m,)
        How to split each.
    classes : ndarray of uint8, not empty
        Class of each character; characters beyond the end have the last class.
    longest : int
        Most characters of a token; of a longer one, the first four count.
    text : ndarray of uint8
        Written: all tokens, each with its tag and followed by a blank.
    bounds : ndarray of int64, shape (n + 1,)
        Written: start of each token; it ends one byte before the next one.
    ids : ndarray of int64, shape (n,)
        Written: the hash of each token.  Its size limits the number of tokens.
    ends : ndarray of int64, shape (m,)
        Written: the number of tokens up to the end of each span.
    dotted : ndarray of int64, shape (n,)
        Work space.

    Notes
    -----
    The number of tokens is at most that of bytes and spans: *n* tokens joined by dots
    give *n* + 1 tokens in 2 *n* - 1 bytes, and two characters of a script without
    blanks have six bytes.  Each byte is in at most two tokens, or in one that ``long:``
    shortens.
    """
    if not (bounds.size and classes.size):
        return 0
    into = text, bounds, ids
    bounds[0] = 0
    count = tag = 0
    for span in range(min(stops.size // 2, hows.size, ends.size)):
        at = middle = min(max(stops[2 * span], tag), source.size)
        stop = min(max(stops[2 * span + 1], middle), source.size)
        how = hows[span]
        waiting = 0
        if how == WHOLE:
            # Not folded, like the tag.
            count = _put(into, count, source, tag, stop, stop, stop, False)
            at = stop
        while at < stop:
            kind = _kind(source, at, stop, classes)
            if kind & UNSPACED:
                end, size = _run(source, at, stop, classes, UNSPACED)
                after = _next(source, at, end)[1]
                while at < end:
                    both = _next(source, after, end)[1] if after < end else end
                    count = _put(into, count, source, tag, middle, at, both, False)
                    at, after = (after, both) if both < end else (end, end)
            elif kind & LETTER:
                end, size = _run(source, at, stop, classes, LETTER)
                parts = 1
                while _goes_on(source, end, stop, classes):
                    end, more = _run(source, end + 1, stop, classes, LETTER)
                    size += 1 + more
                    parts += 1
                stem = source[at] < 128 or kind & STEM
                if how == TEXT and parts > 1 and stem and waiting < dotted.size:
                    dotted[waiting] = at
                    waiting += 1
                long = size > longest
                count = _put(into, count, source, tag, middle, at, end, long)
            elif how == TEXT and kind & MARK:
                end, size = _run(source, at, stop, classes, MARK)
                long = size > longest
                count = _put(into, count, source, tag, middle, at, end, long)
            else:
                end = _next(source, at, stop)[1]
            at = end
        for word in range(waiting):
            at = dotted[word]
            end = at - 1
            while end < at or _goes_on(source, end, stop, classes):
                at = end + 1
                end, size = _run(source, at, stop, classes, LETTER)
                long = size > longest
                count = _put(into, count, source, tag, middle, at, end, long)
        ends[span] = count
        tag = stop
    return count


@part
def _put(
    into: tuple[Bytes, Ints, Ints],
    count: int,
    source: Bytes,
    tag: int,
    middle: int,
    start: int,
    stop: int,
    long: bool,
) -> int:
    """Add a token with its tag, in lower case; return the number of tokens."""
    text, bounds, ids = into
    at = bounds[count]
    full = count >= min(ids.size, bounds.size - 1)
    if full or at + (middle - tag) + (stop - start) + 6 > text.size:
        return count
    for i in range(tag, middle):
        text[at] = source[i]
        at += 1
    if long:
        for i in range(_LONG.size):
            text[at] = _LONG[i]
            at += 1
        end = start
        for _ in range(_LONG_PREFIX):
            end = _next(source, end, stop)[1]
        stop = end
    for i in range(start, stop):
        letter = source[i]
        text[at] = letter + (_SMALL - _A) if _A <= letter <= _Z else letter
        at += 1
    ids[count] = np.int64(xxh3(text, bounds[count], at))
    text[at] = _BLANK
    bounds[count + 1] = at + 1
    return count + 1


@in_place
def plain_ids(
    text: Bytes,
    bounds: Ints,
    stops: Ints,
    hows: Bytes,
    ends: Ints,
    plain: Bytes,
    room: Bytes,
    ids: Ints,
) -> None:
    """Write the ids of words as people read them: without accents and some marks.

    Parameters
    ----------
    text, bounds, ends
        Tokens, from `tokenized`.
    stops, hows
        Their spans, as for `tokenized`.  Words are the tokens of `TEXT`, and those
        without a tag.
    plain : ndarray of uint8
        The letter of ASCII that a character counts as; `DROPPED` if it does not count,
        and 0 if it counts as itself.  Digits and signs count as letters only in words
        that have one or two of them between letters.
    room : ndarray of uint8
        Work space; the ids of longer tokens are those of their beginning.
    ids : ndarray of int64, shape (n,)
        Written: the hash of each word that has such characters.  A word of characters
        that do not count keeps its id.
    """
    tag = first = 0
    for span in range(min(stops.size // 2, hows.size, ends.size)):
        last = min(ends[span], ids.size, bounds.size - 1)
        words = hows[span] == TEXT or stops[2 * span] <= tag
        for token in range(max(first, 0), last if words else 0):
            at = min(max(bounds[token], 0), text.size)
            stop = min(bounds[token + 1] - 1, text.size)
            size, found, signs = 0, False, False
            while at < stop:
                code, after = _next(text, at, stop)
                letter = plain[code] if code < plain.size else np.uint8(0)
                if letter and letter != DROPPED and code < _SMALL:
                    signs, letter = True, np.uint8(0)
                if letter:
                    found = True
                    at = after if letter == DROPPED else after - 1
                while at < after:
                    if size < room.size:
                        room[size] = letter or text[at]
                        size += 1
                    at += 1
            if signs and _turned(room, size, plain):
                found = True
            if found and size:
                ids[token] = np.int64(xxh3(room, 0, size))
        tag, first = stops[2 * span + 1], ends[span]


@part
def _turned(word: Bytes, size: int, plain: Bytes) -> bool:
    """Turn the digits and signs of a word into letters, if it has some between letters.

    Digits at its ends are turned with them, but not the signs of "v1agra!!!".
    """
    run, found = MOST_SIGNS + 1, False
    for at in range(size):
        if word[at] >= _SMALL:
            if 0 < run <= MOST_SIGNS:
                found = True
                for sign in range(at - run, at):
                    word[sign] = plain[word[sign]]
            run = 0
        else:
            run += 1 if word[at] < plain.size and plain[word[at]] else MOST_SIGNS + 1
    for at in range(size if found else 0):
        if _ZERO <= word[at] <= _NINE < plain.size:
            word[at] = plain[word[at]] or word[at]
    return found


@part
def _next(source: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the character at a place before `stop`, and the place of the next."""
    code: int = source[at]
    at += 1
    more = 0 if code < 0xC0 else 1 if code < 0xE0 else 2 if code < 0xF0 else 3
    if more:
        code &= 0x3F >> more
    while more and at < stop:
        code = code << 6 | source[at] & 0x3F
        at += 1
        more -= 1
    return code, at


@part
def _kind(source: Bytes, at: int, stop: int, classes: Bytes) -> int:
    """Return the class of the character at a place."""
    kind: int = classes[min(_next(source, at, stop)[0], classes.size - 1)]
    return kind


@part
def _run(
    source: Bytes, at: int, stop: int, classes: Bytes, wanted: int
) -> tuple[int, int]:
    """Return the end of a run of characters of a class, and their number."""
    size = 0
    while at < stop:
        # Most characters are ASCII, which takes a third of the time.
        code: int = source[at]
        after = at + 1
        if code > 127:
            code, after = _next(source, at, stop)
        if not classes[min(code, classes.size - 1)] & wanted:
            break
        at = after
        size += 1
    return at, size


@part
def _goes_on(source: Bytes, at: int, stop: int, classes: Bytes) -> bool:
    """Return whether a place has a dot followed by a letter."""
    if at + 1 >= stop or source[at] != _DOT:
        return False
    return _kind(source, at + 1, stop, classes) & LETTER != 0


@in_place
def folded(source: Bytes, places: NDArray[np.int32], folds: Bytes, into: Bytes) -> int:
    """Write a text folded character by character; return its size, or -1.

    Parameters
    ----------
    source : ndarray of uint8
        The text.
    places : ndarray of int32, shape (n + 1,)
        Start of each character's fold; characters beyond have none.
    folds : ndarray of uint8
        The folds; that of a character which joins others contains 0.
    into : ndarray of uint8
        Written: the folded text.

    Returns
    -------
    int
        Bytes of the folded text; -1 if a character has no separate fold, or there is
        not enough room.
    """
    at = size = excess = 0
    while at < source.size:
        code, at = _next(source, at, source.size)
        if code >= places.size - 1:
            return -1
        letters = 0
        for i in range(max(places[code], 0), min(places[code + 1], folds.size)):
            letter = folds[i]
            if not letter or size == into.size:
                return -1
            letters += (letter & 0xC0) != 0x80
            into[size] = letter
            size += 1
        excess += max(0, letters - 2)
        if excess > MOST_EXCESS:
            return -1
    return size


@in_place
def quoted(text: Bytes, bounds: Ints, at: Ints, words: int, into: Bytes) -> int:
    """Write names as items of a JSON list in ASCII; return the size.

    Parameters
    ----------
    text : ndarray of uint8
        Words in UTF-8, each followed by a blank.
    bounds : ndarray of int64
        Start of each word, and end of the last.
    at : ndarray of int64
        First word of each name.
    words : int
        Words per name.
    into : ndarray of uint8
        Written: as many names as fit; each needs at most six bytes for each of its
        bytes, two quotes and a comma.
    """
    size = 0
    for name in range(at.size):
        first, last = at[name], at[name] + words
        if not 0 <= first <= last < bounds.size:
            break
        here, stop = max(bounds[first], 0), min(bounds[last] - 1, text.size)
        if size + 6 * max(stop - here, 0) + 3 > into.size:
            break
        if name:
            into[size] = _COMMA
            size += 1
        into[size] = _QUOTE
        size += 1
        while here < stop:
            code, here = _next(text, here, stop)
            if 31 < code < 127 and not _ESCAPES[code]:
                into[size] = code
                size += 1
            elif code < 128 and _ESCAPES[code]:
                into[size], into[size + 1] = _BACKSLASH, _ESCAPES[code]
                size += 2
            else:
                # More than 16 bits become two surrogates.
                if code > 0xFFFF:
                    size = _put_escape(0xD7C0 + (code >> 10), into, size)
                    code = 0xDC00 | code & 0x3FF
                size = _put_escape(code, into, size)
        into[size] = _QUOTE
        size += 1
    return size


@part
def _put_escape(code: int, into: Bytes, size: int) -> int:
    """Write a 16-bit code as a JSON escape; return the size."""
    into[size], into[size + 1] = _BACKSLASH, _SMALL_U
    for digit in range(4):
        into[size + 2 + digit] = _HEX[code >> 4 * (3 - digit) & 15]
    return size + 6


@in_place
def with_lf(text: Bytes, into: Bytes) -> int:
    """Write a text with line ends LF; return its size.

    CR LF and CR are line ends, and so are several CR before one LF: some programs
    convert LF to CR LF once too often (experiment 0024).

    Parameters
    ----------
    text : ndarray of uint8
        The text.
    into : ndarray of uint8
        Written, within its size; that of the text is enough.
    """
    size = waiting = 0
    for at in range(min(text.size, into.size)):
        if text[at] == _CR:
            waiting += 1
            continue
        if text[at] != _LF:
            for _ in range(waiting):
                into[size] = _LF
                size += 1
        waiting = 0
        into[size] = text[at]
        size += 1
    into[size : size + waiting] = _LF
    return size + waiting


@in_place
def disguises(text: Bytes) -> int:
    """Return the tricks with characters as the sum of their numbers above."""
    found = at = before = letters = 0
    gap = 3
    while at < text.size:
        code, at = _next(text, at, text.size)
        inside = _is_latin(code) or 48 <= code <= 57
        if letters > 3 and not gap and not inside:
            found |= SPACED
        between = _is_between(code)
        if (code > 127 and not between) or _is_latin(code):
            # A letter after another letter or a digit is not single.
            alone = not (_is_latin(before) or 48 <= before <= 57)
            letters = (letters + 1 if 0 < gap < 3 else 1) if alone else 0
            gap = 0
        else:
            letters = 0 if inside and not gap else letters
            gap = gap + 1 if between else 3
        if code > 127 or before > 127:
            # The next byte is part of a character beyond ASCII, or a Latin letter.
            goes_on = at < text.size and (text[at] > 127 or _is_latin(text[at]))
            found |= _trick(before, code, goes_on)
        before = code
    return found | SPACED if letters > 3 and not gap else found


@part
def _trick(before: int, code: int, goes_on: bool) -> int:
    """Return the trick of a character behind another one; 0 if it is none."""
    script = _script(code)
    if script and _script(before) and script != _script(before):
        return MIXED
    if 0x202D <= code <= 0x202E:
        return BIDI
    if (
        code in (0xAD, 0xFEFF)
        or 0x2060 <= code <= 0x2064
        or (0x200B <= code <= 0x200D and before < _FIRST_JOINED)
        or (_is_latin(before) and goes_on and _is_unseen(code))
    ):
        return INVISIBLE
    return 0


@part
def _script(code: int) -> int:
    """Return the number of a character's script among `SCRIPTS`, or 0."""
    if _is_latin(code):
        return 1
    if code in SIGNS:
        return 0
    for i in range(_SCRIPTS.shape[0]):
        if code <= _SCRIPTS[i, 1]:
            return i + 1 if code >= _SCRIPTS[i, 0] else 0
    return 0


@part
def _is_between(code: int) -> bool:
    """Return whether a character may separate the letters of a spaced word."""
    # Blanks that end a line or a paragraph do not.
    blank = code in (32, 0xA0, 0x202F, 0x205F, 0x2800) or 0x2000 <= code <= 0x200A
    return blank or code in FILLERS or code in (42, 45, 46)


@part
def _is_unseen(code: int) -> bool:
    """Return whether a character is one of `UNSEEN`."""
    for i in range(_UNSEEN.shape[0]):
        if code <= _UNSEEN[i, 1]:
            found: bool = code >= _UNSEEN[i, 0]
            return found
    return False


@part
def _is_latin(code: int) -> bool:
    """Return whether a character is an ASCII letter."""
    return 65 <= code & ~32 <= 90
