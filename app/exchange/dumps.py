"""Dumps of other filters: bogofilter, SpamAssassin and SpamBayes.

Contract of this file: `MAX_FEATURES` bounds memory, and `LONGEST_LINE` a line.  Bytes
that are not a dump raise `MalformedDump` with the line number.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha1
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from app.bayes.counts import FeatureCounts
from app.bayes.state import State
from app.errors import MalformedDump
from app.features.observation import ids_of
from app.features.tokens import MAX_WORD_CHARS, of_name, of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from app.kernels import Ints


# A token with its counts takes some 200 bytes, so the limit is 2 GB. The largest known
# dump is from a site's SpamAssassin with 5 million tokens.
MAX_FEATURES: Final = 10_000_000
"""Most features of a dump."""
LARGEST_COUNT: Final = 2**31 - 1
"""Largest number of messages in a dump; bogofilter counts in 32 bits."""


# Punctuation that belongs to words (`app.features.tokens`).
_INNER: Final = frozenset("_$!%'-")


def text_word(token: str) -> str | None:
    """Return the word of a text for a token; None if it is not exactly one word.

    Other filters keep the case of a word and the punctuation around it.  The result is
    the word that Postbayes would have extracted from a text with this token.

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
    """Return the word of a header for a token; None if it is not exactly one word.

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
    """The conversion of tokens with one tag to features.

    Parameters
    ----------
    kind : str
        Name of these tokens for people.
    tag : str
        Prefix of the features' names.
    """

    word: Callable[[str], str | None]
    kind: str
    view: str
    tag: str


TEXT: Final = Rule(text_word, "words of the text", "words", "")
SUBJECT: Final = Rule(text_word, "words of subjects", "headers", "subject:")
SPLIT: Final = "tokens that Postbayes splits differently"
"""Reason for skipping a token."""
NO_MESSAGES: Final = "tokens without messages"
"""Reason for skipping a token."""


class TokenCounts(NamedTuple):
    """Numbers of messages of both kinds."""

    ham: int
    spam: int


@dataclass(slots=True, kw_only=True)
class DumpTally:
    """The counts read from a dump so far.

    Parameters
    ----------
    carried : Counter of str
        Tokens that became features, by kind.
    left : Counter of str
        Skipped tokens, by reason.
    digest : str
        SHA-256 of the dump, in hexadecimal.
    """

    program: str
    messages: TokenCounts = field(default_factory=lambda: TokenCounts(0, 0))
    carried: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    _features: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def carry(
        self,
        rule: Rule | None,
        token: str,
        counts: TokenCounts,
        *,
        otherwise: str = SPLIT,
    ) -> None:
        """Count a token as a feature, according to a rule.

        Parameters
        ----------
        token : str
            The token without its tag.
        otherwise : str
            The reason for skipping it, if the rule yields no feature.

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
            # In Postbayes, words of the subject are words of the text as well.
            self.add("words", word, counts)

    def add(self, view: str, name: str, counts: TokenCounts) -> None:
        """Add counts to a feature; several tokens may share a feature.

        Raises
        ------
        MalformedDump
            If there are more features than `MAX_FEATURES`.
        """
        found = self._features.setdefault(view, {}).setdefault(name, [0, 0])
        found[0] += counts.ham
        found[1] += counts.spam
        if self._size > MAX_FEATURES:
            raise MalformedDump(
                f"the dump has more than {MAX_FEATURES:,} different tokens; prune them "
                "in the other program, and dump again"
            )

    @property
    def _size(self) -> int:
        return sum(map(len, self._features.values()))

    @property
    def features(self) -> dict[str, int]:
        """Number of features of each view."""
        return {view: len(names) for view, names in self._features.items()}

    def taken(
        self, labels: Sequence[str], *, ham: str, spam: str
    ) -> tuple[State, dict[str, dict[int, str]]]:
        """Return the counts of the dump as statistics, and the text of its features.

        Raises
        ------
        MalformedDump
            If there is nothing to add.

        Notes
        -----
        All supported programs count a token once per message, so occurrences and
        messages are equal.  If several tokens share a feature (``Free`` and ``free``),
        their counts are added, and limited to the number of messages.
        """
        if not any(self.messages) or not self._features:
            raise MalformedDump(
                f"the dump of {self.program} contains nothing that Postbayes can "
                f"learn: it has {sum(self.messages)} messages and {self._size} usable "
                "tokens"
            )
        where = [labels.index(ham), labels.index(spam)]
        messages = np.zeros(len(labels), np.int64)
        messages[where] = self.messages
        state, names = State(), {}
        for view, features in sorted(self._features.items()):
            state[view], names[view] = _taken(features, messages, where)
        return state, names


def _taken(
    features: dict[str, list[int]], messages: Ints, where: list[int]
) -> tuple[FeatureCounts, dict[int, str]]:
    """Return the counts of one view, and the text of its features by id."""
    texts = list(features)
    ids = ids_of(texts)
    # If two names have the same id, which only an attacker would find, the first
    # counts.
    ids, first = np.unique(ids, return_index=True)
    documents = np.zeros((ids.size, messages.size), np.int64)
    given = np.array(list(features.values()), np.int64).reshape(-1, 2)
    documents[:, where] = given[first]
    np.minimum(documents, messages, out=documents)
    present = documents.any(axis=1)
    ids, documents = ids[present], documents[present]
    names = (texts[i] for i in first[present].tolist())
    return (
        FeatureCounts.of_counts(messages.copy(), ids, documents.copy(), documents),
        dict(zip(ids.tolist(), names, strict=True)),
    )


LONGEST_LINE: Final = 65_536
"""Most bytes of a line.  A token of bogofilter has 30 characters; a header token of
SpamBayes may be as long as a header."""


def numbered(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield the lines of a dump with their numbers, without line ends.

    Raises
    ------
    MalformedDump
        If a line is too long, the last line has no end, or there are bytes that cannot
        be text.
    """
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise MalformedDump(
                f"line {number} is longer than {LONGEST_LINE} bytes; this is not a dump"
            )
        if b"\0" in line:
            msg = f"line {number} contains a NUL byte; give the dump, not the database"
            raise MalformedDump(msg)
        if not line.endswith(b"\n"):
            raise MalformedDump(f"line {number} has no end: the dump was cut short")
        yield number, _text(line.rstrip(b"\r\n"))


def count(text: str, number: int) -> int:
    """Return a count of messages in line `number`.

    Raises
    ------
    MalformedDump
        If it is not a number from 0 to `LARGEST_COUNT`.
    """
    is_short = len(text) <= len(str(LARGEST_COUNT))
    if text.isascii() and text.isdigit() and is_short and int(text) <= LARGEST_COUNT:
        return int(text)
    raise MalformedDump(
        f"line {number} has {text[:40]!r} instead of a number of messages up to "
        f"{LARGEST_COUNT}"
    )


def _text(line: bytes) -> str:
    """Return a line as text: UTF-8, or otherwise one character per byte."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


# One token per line: the token, the numbers of spam and ham messages with it, and the
# day when it was last seen.  Names that begin with a dot describe the list;
# ``.MSG_COUNT`` has the numbers of messages.

_MESSAGES: Final = ".MSG_COUNT"
# bogofilter's tag -> our header. bogofilter gives Cc and Bcc the tag of To.
_HEADERS: Final = {
    "from": "from",
    "to": "to",
    "rtrn": "return-path",
    "rcvd": "received",
}
_BOGOFILTER_RULES: Final = {
    "subj": SUBJECT,
    **{
        tag: Rule(name_word, f"words of {name.title()}", "headers", f"{name}:")
        for tag, name in _HEADERS.items()
    },
}
_LEFT: Final = {
    "head": "words of other headers, whose names bogofilter does not keep",
    "mime": "words of the headers of parts, which are not features in Postbayes",
}


def read_bogofilter(file: BinaryIO) -> DumpTally:
    """Return the counts of a dump of bogofilter's word list.

    Raises
    ------
    MalformedDump
        If it is not such a dump, or it was cut short.
    """
    tally = DumpTally(program="bogofilter")
    found = False
    for number, line in numbered(file):
        fields = line.split(" ")
        if len(fields) not in {3, 4} or not fields[0]:
            raise MalformedDump(
                f"line {number} is not a token, two counts and a date: {line[:60]!r}; "
                "write the dump with `bogoutil -d wordlist.db`"
            )
        token, spam, ham = fields[0], count(fields[1], number), count(fields[2], number)
        counts = TokenCounts(ham, spam)
        if token == _MESSAGES:
            tally.messages, found = counts, True
        elif not token.startswith("."):
            tag, colon, word = token.partition(":")
            if colon:
                reason = _LEFT.get(tag, SPLIT)
                tally.carry(_BOGOFILTER_RULES.get(tag), word, counts, otherwise=reason)
            else:
                tally.carry(TEXT, token, counts)
    if not found:
        raise MalformedDump(
            f"there is no line {_MESSAGES}, so this is not what "
            "`bogoutil -d wordlist.db` writes"
        )
    return tally


# Tab-separated lines: ``v`` a number and its name; ``t`` the numbers of spam and ham
# messages with a token, the time when it was last seen, and the token; ``s`` a learned
# message.
#
# A token is the last five bytes of the SHA-1 of a word
# (Mail::SpamAssassin::Plugin::Bayes, `tokenize`), so only known words can be found in
# the list.  SpamAssassin stores a word of the body or the subject both as written and
# in lower case; the lower-case form is counted here.

_TOKEN_BYTES: Final = 5
_SPAMASSASSIN_FIELDS: Final = 5
_UNKNOWN: Final = "hashes of words that are not in the given file"


def read_spamassassin(file: BinaryIO, words: Iterable[str] | None) -> DumpTally:
    """Return the counts of a backup of SpamAssassin's Bayes database.

    Parameters
    ----------
    words : iterable of str or None
        Texts with the words to look for; None if there are no texts.

    Raises
    ------
    MalformedDump
        If it is not such a backup, or no word can be found in it.
    """
    tally = DumpTally(program="SpamAssassin")
    tokens = _tokens(file, tally)
    if words is None:
        learned = tally.messages
        raise MalformedDump(
            f"the backup has {len(tokens):,} tokens of {learned.spam:,} spam and "
            f"{learned.ham:,} ham, but a token is only a hash of a word. Give a file "
            "of words to look for with --words, or learn from the mail folders instead"
        )
    for text in words:
        for word in of_text(text):
            token = sha1(word.encode(), usedforsecurity=False).digest()[-_TOKEN_BYTES:]
            found = tokens.pop(token, None)
            if found is not None:
                tally.carried[TEXT.kind] += 1
                tally.add("words", word, found)
    tally.left[_UNKNOWN] += len(tokens)
    return tally


def _tokens(file: BinaryIO, tally: DumpTally) -> dict[bytes, TokenCounts]:
    """Return the tokens of a backup, and put its messages into the tally."""
    tokens: dict[bytes, TokenCounts] = {}
    numbers: dict[str, int] = {}
    for number, line in numbered(file):
        kind, *fields = line.split("\t")
        if number == 1 and (kind != "v" or "db_version" not in line):
            break
        if kind == "v" and len(fields) >= 2:  # noqa: PLR2004  (a value and its name)
            numbers[fields[1].split(" ")[0]] = count(fields[0], number)
        elif kind == "t" and len(fields) == _SPAMASSASSIN_FIELDS - 1:
            spam, ham = count(fields[0], number), count(fields[1], number)
            tokens[_token(fields[3], number)] = TokenCounts(ham, spam)
            if len(tokens) > MAX_FEATURES:
                raise MalformedDump(f"the backup has more than {MAX_FEATURES:,} tokens")
        elif kind != "s":
            msg = f"line {number} was not written by `sa-learn --backup`: {line[:60]!r}"
            raise MalformedDump(msg)
    if not {"num_spam", "num_nonspam"} <= numbers.keys():
        raise MalformedDump(
            "the first lines are not the version and the numbers of messages that "
            "`sa-learn --backup` writes"
        )
    tally.messages = TokenCounts(numbers["num_nonspam"], numbers["num_spam"])
    return tokens


def _token(text: str, number: int) -> bytes:
    """Return the bytes of a token."""
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != _TOKEN_BYTES:
        raise MalformedDump(
            f"line {number} has {text[:40]!r} instead of a token of 10 hexadecimal "
            "digits"
        )
    return token


# A CSV file: first the numbers of ham and spam messages, then a line per token with the
# numbers of ham and spam messages that had it.

_SPAMBAYES_FIELDS: Final = 3


_LINK: Final = Rule(name_word, "words of links", "words", "link:")
_SPAMBAYES_RULES: Final = {
    "email name": TEXT,
    "email addr": TEXT,
    "subject": SUBJECT,
    "url": _LINK,
    "proto": _LINK,
    **{
        f"{header}:{part}": Rule(
            name_word, "words of addresses", "headers", f"{header}:"
        )
        for header in ("from", "to", "cc", "reply-to", "sender")
        for part in ("name", "addr")
    },
    **{
        header: Rule(name_word, "words of other headers", "headers", f"{header}:")
        for header in ("message-id", "x-mailer", "received")
    },
}
_ADDRESSED: Final = frozenset(
    tag.partition(":")[0] for tag in _SPAMBAYES_RULES if ":" in tag
)
_LONG: Final = "lengths of long words, which are not features in Postbayes"
_FACTS: Final = "facts about messages, which have a view of their own in Postbayes"


def read_spambayes(file: BinaryIO) -> DumpTally:
    """Return the counts of an exported database of SpamBayes.

    Raises
    ------
    MalformedDump
        If it is not such an export, or it was cut short.
    """
    tally = DumpTally(program="SpamBayes")
    rows = _rows(file)
    _, first = next(rows, (0, []))
    if len(first) != 2:  # noqa: PLR2004  (ham and spam)
        raise MalformedDump(
            "the first line is not the two numbers of messages that "
            "`sb_dbexpimp.py -e` writes"
        )
    tally.messages = TokenCounts(count(first[0], 1), count(first[1], 1))
    for number, row in rows:
        if len(row) != _SPAMBAYES_FIELDS:
            raise MalformedDump(
                f"line {number} must have a token and two counts, but has {len(row)} "
                "fields"
            )
        counts = TokenCounts(count(row[1], number), count(row[2], number))
        token = row[0]
        tag, _, rest = token.partition(":")
        if tag in _ADDRESSED:
            part, _, rest = rest.partition(":")
            tag = f"{tag}:{part}"
        if tag in {"skip", "8bit%"}:
            tally.carry(None, rest, counts, otherwise=_LONG)
        elif tag in _SPAMBAYES_RULES:
            tally.carry(_SPAMBAYES_RULES[tag], rest, counts)
        else:
            # A word of the text may contain a colon too, as in "note:".
            reason = _FACTS if ":" in token else SPLIT
            tally.carry(TEXT, token, counts, otherwise=reason)
    return tally


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the file, each with the number of its last line."""
    reader = csv.reader((line + "\n" for _, line in numbered(file)), strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise MalformedDump(f"line {reader.line_num} is not CSV: {error}") from error
