"""Tokens: the boundaries and the folding of words.

The tables of character classes and folds for `app.kernels.text` are computed from the
Unicode data of the running Python.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from app.bayes.sparse import SparseCounts
from app.features.observation import PLAIN, UNREAD, FeatureNames, Pairs
from app.features.tricks import undisguised
from app.kernels import ids as id_kernel
from app.kernels import text as kernel
from app.kernels.text import LETTER, MARK, NAME, STEM, TEXT, UNSPACED, WHOLE
from app.mail.headers import ACE, normal_domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from app.kernels import Bytes, Ints

# Precedent: Stalwart cuts at 16 bytes, SpamAssassin at 15, SpamBayes and Thunderbird at
# 12. Here 12 misses a little more spam, and 20 to 80 give similar results (experiment
# 0002); 40 keeps host and file names whole.
MAX_WORD_CHARS: Final = 40
"""Most characters of a word that is not cut."""
_PIECE_CHARS: Final = 2_000
# Normalising is quadratic in a run of combining marks: 200,000 of them take minutes.
# Precedent: Unicode Standard Annex 15, section 13, allows 30 in a row. Marks are no
# letters or digits, except for those of halfwidth Katakana.
_LONG_RUN: Final = re.compile(r"((?<=[\W\uff9e\uff9f]{3})[\W\uff9e\uff9f]{30})")
# The characters that become more than six, and how many: what would be too long need
# not be normalised to know.
_EXPANDING: Final = (("\ufdfa", 18), ("\ufdfb", 8))
_UNSPACED: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F), (0x1780, 0x17FF),  # Burmese, Khmer
    (0x3041, 0x30FF), (0x31F0, 0x31FF),  # Hiragana, Katakana
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),  # Han
    (0xAC00, 0xD7AF),  # Hangul
    (0x20000, 0x3FFFF),  # Han, supplementary planes
)  # fmt: skip
_OVERLAP: Final = re.compile(
    "([{0}]) \\1(?=[{0}])".format("".join(map("{0[0]:c}-{0[1]:c}".format, _UNSPACED)))
)
# Punctuation that is evidence as part of a word ("$100", "free!!!", "don't", "opt-out")
# belongs to it.  A run of other punctuation is a word of its own.  A dot inside keeps
# hosts, versions and prices whole (experiment 0002).
_IN_WORDS: Final = [(ord(mark), ord(mark)) for mark in "$!%'-"]
# Vowels and points inside words that Unicode does not classify as letters; between the
# last two are the full stops of Hindi, which follow a word without a blank.
_MARKS: Final = (
    (0x0300, 0x036F), (0x0591, 0x05C7), (0x064B, 0x065F), (0x0670, 0x0670),
    (0x0900, 0x0963), (0x0966, 0x0DFF),
)  # fmt: skip
# Letters that people read as Latin ones, and that NFKC leaves apart, and their blocks.
_STYLED: Final = re.compile(
    "(?:LATIN (?:CAPITAL )?LETTER SMALL CAPITAL"
    "|NEGATIVE (?:CIRCLED|SQUARED) LATIN CAPITAL LETTER) ([A-Z])"
)
_BLOCKS: Final = (
    (0x250, 0x2AF),  # IPA Extensions
    (0x1D00, 0x1D7F),  # Phonetic Extensions
    (0xA720, 0xA7FF),  # Latin Extended-D
    (0xA4D0, 0xA4F7),  # Lisu
    (0x1F150, 0x1F189),  # Enclosed Alphanumeric Supplement
)
# The letters of Lisu are Latin capitals, upright or turned.
_LISU: Final = "bpddt gk jc zf mnlsr  vh  wxy a e iou"
_LETTERS: Final = {
    character: found[1].lower() if found else character
    for first, last in _BLOCKS
    for character in map(chr, range(first, last + 1))
    for found in [_STYLED.fullmatch(unicodedata.name(character, ""))]
} | {chr(0xA4D0 + at): letter for at, letter in enumerate(_LISU) if letter != " "}
# All blocks of combining diacritical marks in Unicode.
_STACKED: Final = (
    (0x300, 0x36F), (0x1AB0, 0x1AFF), (0x1DC0, 0x1DFF), (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
)  # fmt: skip


def _any_of(*ranges: tuple[int, int]) -> str:
    """Return the expression of a character of some ranges."""
    return f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in ranges)}]"


_UNSEEN: Final = re.compile(_any_of(*kernel.UNSEEN))
# Of ranges alone: with each letter by itself, a search takes four times as long.
_UNREAD: Final = re.compile(_any_of(*kernel.UNSEEN, *_STACKED, *_BLOCKS))
_POINTS: Final = re.compile(_any_of(*kernel.UNSEEN, *_STACKED, *UNREAD))


def _without_accents(letter: str) -> str:
    """Return what a letter is searched for as."""
    code = ord(letter)
    if code < PLAIN.size and PLAIN[code] not in {0, kernel.DROPPED}:
        return chr(PLAIN[code])
    apart = unicodedata.normalize("NFD", letter)
    return unicodedata.normalize("NFC", _POINTS.sub("", apart))


# Letters with accents: Latin, Greek, Cyrillic and Arabic ones.
_BARE: Final = {
    letter: bare
    for first, last in ((0xC0, 0x24F), (0x370, 0x52F), (0x621, 0x6D3), (0x1E00, 0x1FFF))
    for letter in map(chr, range(first, last + 1))
    if (bare := _without_accents(letter)) not in {"", letter}
}
# A line has few addresses; one full of labels takes 1 ms, and a search reads 20,000.
_MOST_ENCODED: Final = 16
_ENCODED: Final = re.compile(rf"\b{ACE}[a-z0-9-]{{1,59}}", re.IGNORECASE)
_UNSOUGHT: Final = re.compile(f"{_POINTS.pattern[:-1]}{''.join(_BARE)}]")


Span: TypeAlias = tuple[str, str, int]
"""A tag such as ``subject:``, a text, and how to split it into features.

`TEXT` is for people: words, runs of punctuation, and the parts of dotted words. `NAME`
is for programs: addresses, hosts and versions, with dotted words whole. `WHOLE` is a
single feature.
"""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of spans, from `app.kernels.text.tokenized`."""

    text: bytes
    bounds: Ints
    ids: Ints
    ends: Ints

    def __add__(self, other: Tokens) -> Tokens:
        """Concatenate tokens."""
        return Tokens(
            self.text + other.text,
            np.concatenate((self.bounds, other.bounds[1:] + len(self.text))),
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.ends, other.ends + self.ids.size)),
        )

    def count(self, spans: int) -> int:
        """Return the number of tokens in the first spans."""
        return int(self.ends[spans - 1]) if spans else 0

    def distinct(self, *parts: tuple[int, int]) -> tuple[SparseCounts, FeatureNames]:
        """Return the counts of the distinct tokens in some ranges, and their names.

        Parameters
        ----------
        *parts : tuple of int
            The first token of a range, and the one after its last.

        Notes
        -----
        Two names with one id do not occur by chance, but the hash is not cryptographic,
        so a sender can search for two such words.  They are then one feature with the
        name of either.
        """
        room = np.empty((8, max(self.ids.size, 256)), np.int64)
        size = id_kernel.distinct(self.ids, np.array(parts, np.int64).ravel(), room)
        # Copies, so that the larger arrays can be freed.
        ids, counts, places = room[:3, :size].copy()
        x = SparseCounts.of_sorted(ids, counts)
        return x, FeatureNames(self.text, self.bounds, places)

    def pairs(
        self, first: int, last: int, *, most: int | None = None
    ) -> tuple[Pairs, FeatureNames]:
        """Return the pairs of neighbouring tokens in spans, each once, and their names.

        If `most` is given, only the first tokens are used.

        Notes
        -----
        The id of a pair is a hash of the ids of its words, so all pairs of a message
        are hashed at once.  Its name is the two words with a blank between.  All counts
        are 1, because the view records presence.
        """
        start = self.count(first)
        ids = self.ids[start : self.count(last)][:most]
        room = np.empty((8, max(ids.size, 256)), np.int64)
        size = id_kernel.neighbours(
            ids, np.minimum(self.ends[first:last] - start, ids.size), room
        )
        at = room[2, :size] + start
        x = Pairs(
            room[0, :size].copy(),
            np.ones(size, np.int64),
            self.ids.take(at),
            self.ids.take(at + 1),
        )
        return x, FeatureNames(self.text, self.bounds, at, words=2)


def without_overlaps(text: str) -> str:
    """Return words with the pairs of scripts without blanks run together.

    Examples
    --------
    >>> without_overlaps("代开 开发 发票 for free")
    '代开发票 for free'
    """
    return text if text.isascii() else _OVERLAP.sub(r"\1", text)


def tokens_of(spans: Sequence[Span]) -> Tokens:
    """Return the tokens of spans: folded, tagged, bounded, and hashed."""
    tags, texts, hows = zip(*spans, strict=True) if spans else ((), (), ())
    pieces = [*tags, *texts]
    pieces[::2], pieces[1::2] = tags, texts
    source = "".join(pieces)
    if source.isascii():
        content = source.encode()
        sizes = list(map(len, pieces))
    else:
        encoded = list(map(str.encode, pieces))
        for place, (text, how) in enumerate(zip(texts, hows, strict=True)):
            if how != WHOLE and not text.isascii():
                # Not names: a host that looks like another is not the other.
                plain = undisguised(text) if how == TEXT else text
                encoded[2 * place + 1] = _folded(plain)
        content = b"".join(encoded)
        sizes = list(map(len, encoded))
    most = len(content) + len(spans)
    room = np.empty(most * (max(sizes[::2], default=0) + 3) + 8, np.uint8)
    bounds, ids, work = np.empty((3, most + 1), np.int64)
    ends = np.empty(len(spans), np.int64)
    stops = np.fromiter(accumulate(sizes), np.int64, len(sizes))
    splits = np.frombuffer(bytes(hows), np.uint8)
    count = kernel.tokenized(
        np.frombuffer(content, np.uint8),
        stops,
        splits,
        _classes(),
        MAX_WORD_CHARS,
        room,
        bounds,
        ids,
        ends,
        work,
    )
    bounds, ids = bounds[: count + 1].copy(), ids[:count]
    text = room[: bounds[count]]
    # No token has more bytes than the content.
    kernel.plain_ids(text, bounds, stops, splits, ends, PLAIN, work.view(np.uint8), ids)
    return Tokens(text.tobytes(), bounds, ids, ends)


def words_of(spans: Sequence[Span]) -> list[str]:
    """Return the text of the tokens of spans."""
    found = tokens_of(spans)
    return list(FeatureNames(found.text, found.bounds, np.arange(found.ids.size)))


def of_text(text: str) -> list[str]:
    """Split text for people: words, runs of punctuation, parts of dotted words.

    Examples
    --------
    >>> of_text("FREE!!! See www.example.com")
    ['free!!!', 'see', 'www.example.com', 'www', 'example', 'com']
    """
    return words_of([("", text, TEXT)])


def of_name(text: str) -> list[str]:
    """Split text for programs: addresses, hosts, versions; dotted words whole.

    Examples
    --------
    >>> of_name("Bob <bob@mail.example.com>")
    ['bob', 'bob', 'mail.example.com']
    """
    return words_of([("", text, NAME)])


def folded(text: str) -> str:
    """Return a text with the case and the compatibility forms of tokens.

    Examples
    --------
    >>> folded("GROẞ")
    'gross'
    """
    return text.lower() if text.isascii() else _folded(text).decode()


def sought(text: str) -> str:
    """Return a line in the form in which people search for it.

    Notes
    -----
    As in words, neither case and compatibility forms count, nor what is not shown,
    accents, and the points of Hebrew and Arabic.  The hamza of Arabic, which words
    have, is left out too: it is often not typed.  Domains count as people write them.

    Examples
    --------
    >>> sought("GROẞE Cafe\u0301"), sought("\uff21\uff22\uff23"), sought("إلى أحمد")
    ('grosse cafe', 'abc', 'الى احمد')
    """
    if ACE in text.lower():
        text = _ENCODED.sub(lambda found: normal_domain(found[0]), text, _MOST_ENCODED)
    if text.isascii():
        return text.lower()
    # Not by decomposing and composing again, which takes four times as long.
    whole = unicodedata.normalize("NFKC", text)
    return _small(_UNSOUGHT.sub(lambda found: _BARE.get(found[0], ""), whole))


def _folded(text: str) -> bytes:
    """Fold case and compatibility forms, and drop invisible characters; in UTF-8."""
    content = np.frombuffer(text.encode(), np.uint8)
    into = np.empty(2 * content.size + kernel.MOST_EXCESS, np.uint8)
    size = kernel.folded(content, *_folds(), into)
    if size >= 0:
        return into[:size].tobytes()
    return _small(as_read(normalized(_UNSEEN.sub("", text)))).encode()


def _small(text: str) -> str:
    """Fold case; of "I" with a dot and "i" without, which Turkish has, to "i"."""
    return text.casefold().replace("i\u0307", "i").replace("\u0131", "i")


def as_read(text: str) -> str:
    """Return a text with the letters that people read.

    Notes
    -----
    Characters that are not shown are dropped, and so are marks above, below and through
    letters, but for those that are one character with them.  Small capitals, and
    letters in black squares and circles, are letters.

    Examples
    --------
    >>> as_read("V\u200bi\u0336\u1d00gra, café, \U0001f175\U0001f181\U0001f174e")
    'Viagra, café, free'
    """
    if text.isascii():
        return text
    return _UNREAD.sub(lambda found: _LETTERS.get(found[0], ""), text)


def normalized(text: str) -> str:
    """Return the compatibility form NFKC in linear time.

    A mark at the start of a piece, or far behind its letter, is not joined to it.
    """
    pieces = (text[i : i + _PIECE_CHARS] for i in range(0, len(text), _PIECE_CHARS))
    return "".join(map(_normalized_piece, pieces))


def _normalized_piece(piece: str) -> str:
    """Return the compatibility form of a piece, unless it is much longer."""
    # One character may become eighteen (U+FDFA), so a text within its limit could
    # become 3.6 million characters; normal text does not double.
    most = 2 * len(piece) + kernel.MOST_EXCESS
    if sum(size * piece.count(long) for long, size in _EXPANDING) > most:
        return piece
    runs = _LONG_RUN.split(piece)
    folded = "".join([unicodedata.normalize("NFKC", run) for run in runs])
    return folded if len(folded) <= most else piece


@cache
def _classes() -> Bytes:
    """Return the classes of characters; those beyond count as the last, a mark."""
    characters = np.arange(0x40001, dtype=np.uint32).view("U1")
    word = np.strings.isalnum(characters)
    word[ord("_")] = True
    found = np.where(word, LETTER | STEM, MARK).astype(np.uint8)
    found[np.strings.isspace(characters)] = 0
    found[[*kernel.FILLERS]] = 0
    for first, last in (*_IN_WORDS, *_MARKS):
        found[first : last + 1] |= LETTER
    for first, last in _UNSPACED:
        found[first : last + 1] &= ~np.uint8(LETTER)
        found[first : last + 1] |= UNSPACED
    return found


@cache
def _folds() -> tuple[NDArray[np.int32], Bytes]:
    """Return the start of each character's fold, and the concatenated folds.

    The tables cover the planes with living scripts and emoji.  A text with other
    characters, or with ones that join those before them, is folded as a whole.
    """
    characters = [
        *map(chr, range(0xD800)),
        *["\0"] * 0x800,
        *map(chr, range(0xE000, 0x20000)),
    ]
    joining = set(filter(unicodedata.combining, characters))
    joining |= {chr(jamo) for jamo in range(0x1160, 0x1200)}
    for character in characters:
        # Python 3.14 also decomposes a syllable of Hangul, into up to three.
        first, *others = unicodedata.decomposition(character).split() or ["<"]
        if first[0] != "<":
            joining.update(chr(int(other, 16)) for other in others)
    # All at once, separated by a character that does not join.
    apart = chr(0xF0000)
    whole = _UNSEEN.sub("", apart.join(characters))
    whole = re.sub(f"[{''.join(joining)}]", "\0", unicodedata.normalize("NFKC", whole))
    folds = _small(as_read(whole)).encode().split(apart.encode())
    places = np.fromiter(
        accumulate(map(len, folds), initial=0), np.int32, len(folds) + 1
    )
    return places, np.frombuffer(b"".join(folds), np.uint8)
