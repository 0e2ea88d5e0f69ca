"""Observation: the features of a message with their ids and names, and its digest.

The id of a feature is a 64-bit hash of its text.  Accents and hyphens of words do not
count, because people read a word with or without them (experiment 0119), and so they
read some digits as letters (0122).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self, overload

import numpy as np
from xxhash import xxh3_64_intdigest

from app.bayes.sparse import SparseCounts
from app.errors import UnknownMessage
from app.features.id_key import keyable
from app.kernels import ids as id_kernel
from app.kernels import text as kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from app.features.id_key import IdKey
    from app.kernels import Ints
    from app.mail.message import Message


@dataclass(frozen=True, slots=True)
class Observation:
    """The features of one message, and its identity.

    Parameters
    ----------
    digest : bytes
        Identity of the message, 16 bytes (see `app.features.observation`).
    feature_set : int
        Version of the rules of extraction.
    views : mapping of str to SparseCounts
        The features of each view.
    names : mapping of str to sequence of str
        The text of each feature by view, in the order of the ids.  Empty if the text
        was not stored (a message taught by id on a site that stores no words).
    defects : tuple of str
        The defects of the message, as in `app.mail.message.Message`.
    """

    digest: bytes
    feature_set: int
    views: Mapping[str, SparseCounts]
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    defects: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The digest as 32 hex digits, for people and programs."""
        return self.digest.hex()

    def keyed(self, key: IdKey | None) -> Observation:
        """Return the observation with keyed ids; without a key, unchanged.

        The views that a key cannot hide are left out.
        """
        if key is None:
            return self
        views = keyable(self.views)
        names = dict(self.names)
        for view, x in views.items():
            ids, places = key.ordered(x.ids)
            views[view] = SparseCounts.of_sorted(ids, x.values.take(places))
            if view in names:
                names[view] = names_at(names[view], places)
        return replace(self, views=views, names=names)

    def with_pair_names(self) -> Observation:
        """Return the observation with the names of pairs restored.

        It is unchanged if the words of the pairs are unknown, as in a keyed message or
        one stored by an earlier version.
        """
        words, pairs = self.views.get("words"), self.views.get("pairs")
        names = self.names.get("words")
        if words is None or not isinstance(pairs, Pairs) or not names:
            return self
        found = pair_names(pairs, words.ids, names)
        if found is None:
            return self
        return replace(self, names={**self.names, "pairs": found})

    def stored(self, *, words: bool) -> Observation:
        """Return the observation to store, with or without the text of features.

        Names of pairs are left out: they consist of two words that are stored anyway,
        and would more than double the size of a message.
        """
        given = self.names.items() if words else ()
        names = {view: kept for view, kept in given if view != "pairs"}
        return replace(self, names=names)


DIGEST_BYTES: Final = 16
"""Size of a digest.

Among 10^12 different messages, two have the same digest with a probability below
10^-14.  Unit: bytes.
"""
HEADERS: Final = ("from", "to", "cc", "subject", "date", "message-id")
"""Headers that mail servers do not change between scoring and feedback."""


def parse_id(text: str) -> bytes:
    """Return the digest for the id of a message.

    Raises
    ------
    UnknownMessage
        If the text is not 32 hexadecimal digits, and so cannot be an id.

    Examples
    --------
    >>> parse_id("a5" * 16).hex()[:4]
    'a5a5'
    """
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != DIGEST_BYTES:
        raise UnknownMessage(
            f"{text[:64]!r} is not the id of a message; an id is the 32 hexadecimal "
            "digits that /classify returned"
        )
    return found


def digest(message: Message) -> bytes:
    r"""Return the digest that identifies a message, 16 bytes.

    Notes
    -----
    Between scoring and feedback, mail servers add headers and change the mbox line,
    line ends and the transfer encoding.  This does not change the digest, which covers
    only the decoded values of `HEADERS` and the decoded content of the parts, without
    blanks at their ends, because some servers add an empty line.  It does not cover
    headers that servers change: Return-Path, Received, X-headers, and the parameters of
    Content-Type.

    If a server rewrites the subject or adds a footer, the digest changes.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> sent = parse(b"Subject: Lunch\n\nAt noon?\n")
    >>> arrived = parse(b"Received: from a by b\r\nSubject: Lunch\r\n\r\nAt noon?\r\n")
    >>> digest(sent) == digest(arrived)
    True
    """
    pieces = [
        f"{header.name}\0{header.value}\0".encode()
        for header in message.headers
        if header.name in HEADERS
    ]
    for part in message.parts:
        pieces += f"\1{part.media_type}\0".encode(), part.fingerprint
    for text in message.texts:
        if text.place == "attached":
            pieces.append(f"\2{text.content}\0".encode())
    return blake2b(b"".join(pieces), digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True, eq=False)
class FeatureNames(Sequence[str]):
    """The names of features, decoded on demand.

    Most are never needed, because an explanation lists only a few of the strongest.

    Parameters
    ----------
    text : bytes
        Words, separated by blanks.
    bounds : ndarray of int64
        Start of each word, one byte after the end of the previous one.
    at : ndarray of int64, shape (n,)
        Index of the first word of each name.
    words : int, default 1
        Number of words in a name: two for pairs.

    Examples
    --------
    >>> bounds, at = np.array([0, 3, 8, 11]), np.array([1, 0])
    >>> names = FeatureNames(b"at noon or ", bounds, at, 2)
    >>> names[0], list(names), names[1:]
    ('noon or', ['noon or', 'at noon'], ('at noon',))
    """

    text: bytes
    bounds: Ints
    at: Ints
    words: int = 1

    @classmethod
    def of(cls, names: Sequence[str], words: int = 1) -> Self:
        """Return the names in a sequence.

        Examples
        --------
        >>> list(FeatureNames.of(["at noon", "noon or"], 2))
        ['at noon', 'noon or']
        """
        if isinstance(names, cls):
            return names
        pieces = [
            piece.encode() for name in names for piece in name.split(" ", words - 1)
        ]
        bounds = np.fromiter(
            accumulate((len(piece) + 1 for piece in pieces), initial=0),
            np.int64,
            len(pieces) + 1,
        )
        at = np.arange(0, len(pieces), words)
        return cls(b" ".join([*pieces, b""]), bounds, at, words)

    def __len__(self) -> int:
        """Return the number of names."""
        return self.at.size

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return one name, or several."""
        at = self.at[index]
        starts, stops = self.bounds[at].tolist(), self.bounds[at + self.words].tolist()
        if isinstance(index, slice):
            return tuple(
                [
                    self.text[start : stop - 1].decode()
                    for start, stop in zip(starts, stops, strict=True)
                ]
            )
        return self.text[starts : stops - 1].decode()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in order."""
        return iter(self[:])

    def as_json(self) -> bytes:
        """Return the names as a JSON list in ASCII."""
        sizes = self.bounds.take(self.at + self.words) - self.bounds.take(self.at)
        most = 6 * int(np.add.reduce(sizes)) + 3 * self.at.size
        into = np.empty(most, np.uint8)
        text = np.frombuffer(self.text, np.uint8)
        size = kernel.quoted(text, self.bounds, self.at, self.words, into)
        return b"[" + into[:size].tobytes() + b"]"

    def take(self, places: NDArray[np.intp]) -> FeatureNames:
        """Return the names at some places, in their order."""
        return FeatureNames(self.text, self.bounds, self.at.take(places), self.words)

    def __eq__(self, other: object) -> bool:
        """Compare with other names, one by one."""
        return isinstance(other, FeatureNames) and self[:] == other[:]

    # Equal names are equal values, but the arrays are mutable: no hash.
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs(SparseCounts):
    """Pairs of words, each once, with their words.

    Parameters
    ----------
    left, right : ndarray of int64, shape (n,)
        Ids of the first and second word of each pair, in any order of pairs.
    """

    left: Ints
    right: Ints


def names_at(names: Sequence[str], places: NDArray[np.intp]) -> Sequence[str]:
    """Return the names at some places, in their order."""
    if isinstance(names, FeatureNames):
        return names.take(places)
    return tuple([names[place] for place in places.tolist()])


def first_names(
    messages: Iterable[tuple[Mapping[str, Ints], Mapping[str, Sequence[str]]]],
) -> dict[str, dict[int, str]]:
    """Return the text of features, view by view, each from the first that has one.

    Given are the ids and the names of some messages; "" is no text.
    """
    found: dict[str, dict[int, str]] = {}
    for ids, names in messages:
        for view, texts in names.items():
            known = found.setdefault(view, {})
            # Messages share most of their words, and few texts are decoded.
            features = enumerate(ids[view].tolist())
            new = np.array([at for at, each in features if each not in known], np.intp)
            pairs = zip(ids[view][new].tolist(), names_at(texts, new), strict=True)
            known.update((feature, text) for feature, text in pairs if text)
    return found


# With accents, and with strokes, hooks and tails.
_ACCENTED: Final = re.compile("LATIN (SMALL|CAPITAL) LETTER ([A-Z]) WITH .*")
_BLOCKS: Final = (
    (0xC0, 0x2AF),  # from Latin-1 Supplement to IPA Extensions
    (0x1D00, 0x1EFF),  # from Phonetic Extensions to Latin Extended Additional
    (0x2C60, 0x2C7F),  # Latin Extended-C
    (0xA720, 0xA7FF),  # Latin Extended-D
)
UNREAD: Final = (
    *((0x2B0, 0x2FF), (0x591, 0x5BD), (0x5BF, 0x5BF), (0x5C1, 0x5C2), (0x5C4, 0x5C5)),
    *((0x5C7, 0x5C7), (0x640, 0x640), (0x64B, 0x65F), (0x670, 0x670)),
)
"""Modifier letters; the points of Hebrew; those of Arabic, and what lengthens lines."""
_PLAIN: Final = {
    **dict.fromkeys(map(ord, "-'_"), ""),
    # Of phonetics, as senders write them (experiment 0123).
    **dict(zip(map(ord, "ɑəɛʄɧɩƖʍŋɔʃʂʊʒɮ"), "aeefhilmnossuzb", strict=True)),
    **{code: "" for first, last in UNREAD for code in range(first, last + 1)},
    **{
        code: found[2] if found[1] == "CAPITAL" else found[2].lower()
        for first, last in _BLOCKS
        for code in range(first, last + 1)
        if (found := _ACCENTED.fullmatch(unicodedata.name(chr(code), "")))
    },
}
PLAIN: Final = np.zeros(_BLOCKS[-1][-1] + 1, np.uint8)
"""What characters count as in words, for `app.kernels.text.plain_ids`."""
PLAIN[[*_PLAIN]] = [ord(each) if each else kernel.DROPPED for each in _PLAIN.values()]
# As in "v1agra" and "ca$h".
_SIGNS: Final = str.maketrans("013457$!", "oieastsi")
PLAIN[[*_SIGNS]] = [*_SIGNS.values()]
_DIGITS: Final = {sign: _SIGNS[sign] for sign in b"013457"}
_BETWEEN: Final = re.compile(
    rf"(?<=[^\0-`])[{''.join(map(chr, _SIGNS))}]{{1,{kernel.MOST_SIGNS}}}(?=[^\0-`])"
)
TAGGED: Final = re.compile(r"\A(?!subject:|alt:|hidden:|long:)[a-z-]++:")
"""The beginning of a feature that is no word for people, such as a host."""


def ids_of(names: Sequence[str]) -> Ints:
    """Return the ids of features, shape (n,), in the order of their names.

    The id is the 64 bits of xxh3 of the UTF-8 name, as a signed integer.  In words for
    people, neither the accents of Latin letters nor the points of Hebrew and Arabic
    count, nor hyphens, apostrophes and underscores.  Letters of phonetics count as the
    letters that they look like, and so do one or two digits between letters, and the
    others of such a word.

    Examples
    --------
    >>> ids_of(["money", "now", "món-éy", "m0ney"]).tolist()
    [5881276789356335354, 8117650502234117504, 5881276789356335354, 5881276789356335354]
    """
    plain = [name if TAGGED.match(name) else _plain(name) for name in names]
    digests = map(xxh3_64_intdigest, map(str.encode, plain))
    return np.fromiter(digests, np.uint64, len(names)).view(np.int64)


def _plain(word: str) -> str:
    """Return the word that people read, unless nothing is left."""
    word = word.translate(_PLAIN) or word
    turned = _BETWEEN.sub(lambda signs: signs[0].translate(_SIGNS), word)
    return word if turned == word else turned.translate(_DIGITS)


def pair_names(pairs: Pairs, words: Ints, names: Sequence[str]) -> FeatureNames | None:
    """Return the names of pairs, in the order of their ids.

    Parameters
    ----------
    pairs : Pairs
        The pairs of one message.
    words : ndarray of int64
        Ids of its words.
    names : sequence of str
        The names of the words.

    Returns
    -------
    FeatureNames or None
        None if a pair has another word.
    """
    made, places = np.empty((2, pairs.size), np.int64)
    if not id_kernel.paired(words, pairs.left, pairs.right, places):
        return None
    id_kernel.joined(pairs.left, pairs.right, made)
    left, right = np.divmod(places.take(made.argsort()), max(words.size, 1))
    both = zip(names_at(names, left), names_at(names, right), strict=True)
    return FeatureNames.of([f"{first} {second}" for first, second in both], 2)
