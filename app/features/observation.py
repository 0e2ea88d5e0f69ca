"""Observation: the features of a message, and the digest that identifies it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from app.bayes.sparse import SparseCounts
from app.errors import UnknownMessage
from app.features.hashing import Pairs, names_at, pair_names
from app.features.id_key import keyable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from app.features.id_key import IdKey
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
