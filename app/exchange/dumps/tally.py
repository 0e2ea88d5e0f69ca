"""Tally: the counts of a dump, feature by feature.

Contract of this file: memory is bounded by `MAX_FEATURES`, a line by `LONGEST_LINE`;
bytes that are no dump raise `MalformedDump` with the number of the line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.counts import FeatureCounts
from app.errors import MalformedDump
from app.features.hashing import ids_of
from app.features.tokens import MAX_WORD_CHARS, of_name, of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

# A token with its counts takes some 200 bytes here, so 2 GB. The largest dump
# known is of a site's SpamAssassin with 5 million tokens.
MAX_FEATURES: Final = 10_000_000
"""Features that are taken from one dump, at most."""
LARGEST_COUNT: Final = 2**31 - 1
"""Largest number of messages in a dump; bogofilter counts in 32 bits."""


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


class Rule(NamedTuple):
    """How the tokens of one tag become features.

    Parameters
    ----------
    word : callable
        Returns the word that a token is, or None.
    kind : str
        Name of such tokens, for people.
    view : str
        The view that gets them.
    tag : str
        Beginning of their names there.
    """

    word: Callable[[str], str | None]
    kind: str
    view: str
    tag: str


TEXT: Final = Rule(text_word, "words of the text", "words", "")
SUBJECT: Final = Rule(text_word, "words of subjects", "headers", "subject:")
SPLIT: Final = "tokens that are split in another way here"
"""Reason why a token is left out."""
NO_MESSAGES: Final = "tokens with no message left"
"""Reason why a token is left out."""


class TokenCounts(NamedTuple):
    """Numbers of messages, of either kind."""

    ham: int
    spam: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The counts of one view.

    Parameters
    ----------
    counts : FeatureCounts
        Its statistics.
    names : tuple of str
        The text of its features, in the order of the ids.
    """

    counts: FeatureCounts
    names: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class DumpTally:
    """The counts that were read from a dump so far.

    Parameters
    ----------
    program : str
        The program that wrote the dump.
    messages : TokenCounts
        Messages that the other filter has learned.
    carried : Counter of str
        Tokens that became features, by kind.
    left : Counter of str
        Tokens that did not, by reason.
    """

    program: str
    messages: TokenCounts = field(default_factory=lambda: TokenCounts(0, 0))
    carried: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    _features: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    _size: int = 0

    def carry(
        self,
        rule: Rule | None,
        token: str,
        counts: TokenCounts,
        *,
        otherwise: str = SPLIT,
    ) -> None:
        """Count a token as the feature that a rule makes of it.

        Parameters
        ----------
        rule : Rule or None
            The rule of its tag; None without one.
        token : str
            The token without its tag.
        counts : TokenCounts
            Its messages.
        otherwise : str
            The reason why it is left out, where the rule makes no feature of it.

        Raises
        ------
        MalformedDump
            If there are more features than `MAX_FEATURES`.
        """
        word = None if rule is None else rule.word(token)
        if rule is None or word is None or not any(counts):
            self.left[otherwise if any(counts) else NO_MESSAGES] += 1
            return
        self.carried[rule.kind] += 1
        self.add(rule.view, rule.tag + word, counts)
        if rule is SUBJECT:
            # Words of the subject are words of the text as well here.
            self.add("words", word, counts)

    def add(self, view: str, name: str, counts: TokenCounts) -> None:
        """Add counts to a feature; several tokens may be one feature here.

        Raises
        ------
        MalformedDump
            If there are more features than `MAX_FEATURES`.
        """
        features = self._features.setdefault(view, {})
        found = features.get(name)
        if found is None:
            features[name] = [*counts]
            self._size += 1
            if self._size > MAX_FEATURES:
                msg = (
                    f"the dump has more than {MAX_FEATURES:,} different tokens; "
                    "let the other program prune them, and dump again"
                )
                raise MalformedDump(msg)
            return
        found[0] += counts.ham
        found[1] += counts.spam

    @property
    def features(self) -> dict[str, int]:
        """Number of features of each view."""
        return {view: len(names) for view, names in self._features.items()}

    def taken(self, labels: Sequence[str], *, ham: str, spam: str) -> dict[str, Taken]:
        """Return the counts of the dump as statistics, view by view.

        Parameters
        ----------
        labels : sequence of str
            Name of each class index of the profile.
        ham, spam : str
            The labels that the two kinds of mail get.

        Raises
        ------
        MalformedDump
            If there is nothing to add.

        Notes
        -----
        A token is counted once per message by all programs that we read, so
        occurrences and messages are the same number.  Where several tokens are
        one feature here (``Free`` and ``free``), their counts are added, and
        cut at the number of messages: no more can have had it.
        """
        if not any(self.messages) or not self._features:
            msg = (
                f"the dump of {self.program} holds nothing that Postbayes can learn: "
                f"{sum(self.messages)} messages and {self._size} usable tokens"
            )
            raise MalformedDump(msg)
        where = [labels.index(ham), labels.index(spam)]
        messages = np.zeros(len(labels), np.int64)
        messages[where] = self.messages
        return {
            view: _taken(features, messages, where)
            for view, features in sorted(self._features.items())
        }


def _taken(
    features: dict[str, list[int]], messages: NDArray[np.int64], where: list[int]
) -> Taken:
    """Return the counts of one view, sorted by id."""
    texts = list(features)
    ids = ids_of(texts)
    # Two names of one id, which only an attacker finds: the first counts.
    ids, first = np.unique(ids, return_index=True)
    documents = np.zeros((ids.size, messages.size), np.int64)
    given = np.array(list(features.values()), np.int64).reshape(-1, 2)
    documents[:, where] = given[first]
    np.minimum(documents, messages, out=documents)
    present = documents.any(axis=1)
    ids, documents = ids[present], documents[present]
    names = tuple([texts[i] for i in first[present].tolist()])
    return Taken(
        FeatureCounts.of_counts(messages.copy(), ids, documents.copy(), documents),
        names,
    )


LONGEST_LINE: Final = 65_536
"""Bytes of a line, at most.  A token of bogofilter has 30 characters, one of
SpamBayes' headers may be as long as a header."""


def numbered(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Give the lines of a dump and their numbers, without line ends.

    Raises
    ------
    MalformedDump
        If a line is too long, the last one has no end, or there are bytes
        that no text has.
    """
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            msg = f"line {number} is longer than {LONGEST_LINE} bytes; this is no dump"
            raise MalformedDump(msg)
        if b"\0" in line:
            msg = f"line {number} holds a NUL byte; give the dump, not the database"
            raise MalformedDump(msg)
        if not line.endswith(b"\n"):
            msg = f"line {number} has no end: the dump was cut short"
            raise MalformedDump(msg)
        yield number, _text(line.rstrip(b"\r\n"))


def count(text: str, number: int) -> int:
    """Return a count of messages in line `number`.

    Raises
    ------
    MalformedDump
        If it is not a number from 0 to `LARGEST_COUNT`.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(LARGEST_COUNT)):
        msg = f"line {number} has {text[:40]!r} where a number of messages belongs"
        raise MalformedDump(msg)
    value = int(text)
    if value > LARGEST_COUNT:
        msg = f"line {number} says {value} messages, more than {LARGEST_COUNT}"
        raise MalformedDump(msg)
    return value


def _text(line: bytes) -> str:
    """Return a line as text: UTF-8, or else one character per byte."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
