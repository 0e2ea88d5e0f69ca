"""Dumps of SpamAssassin (`sa-learn --backup`).

Lines with tabs between their fields: ``v`` a number and its name, ``t`` the
messages of spam and of ham that had a token, when it was seen last and the
token, ``s`` a message that was learned.

A token is the last five bytes of the SHA-1 of a word
(Mail::SpamAssassin::Plugin::Bayes, `tokenize`), so that only a word that is
known already can be found in the list.  SpamAssassin keeps a word of the body,
or of the subject, in lower case beside the way it is written, which is the word
that we count.
"""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Final

from app.errors import MalformedDump
from app.exchange.dumps.tally import (
    MAX_FEATURES,
    TEXT,
    DumpTally,
    TokenCounts,
    count,
    numbered,
)
from app.features.tokens import of_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import BinaryIO

_TOKEN_BYTES: Final = 5
_FIELDS: Final = 5
_UNKNOWN: Final = "hashes of words that are not among the words given"


def read(file: BinaryIO, words: Iterable[str] | None) -> DumpTally:
    """Return the counts of a backup of SpamAssassin's Bayes database.

    Parameters
    ----------
    file : binary file
        The backup.
    words : iterable of str or None
        Texts with the words to look for in it; None if there are no texts.

    Raises
    ------
    MalformedDump
        If it is not such a backup, or no word can be found in it.
    """
    tally = DumpTally(program="SpamAssassin")
    tokens = _tokens(file, tally)
    if words is None:
        learned = tally.messages
        msg = (
            f"the backup has {len(tokens):,} tokens of {learned.spam:,} spam and "
            f"{learned.ham:,} ham, but a token is a hash of a word, and no word can be "
            "read from it. Give a file of words to look for with --words, or learn "
            "from the mail folders instead"
        )
        raise MalformedDump(msg)
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
    """Return the tokens of a backup; its messages go into the tally."""
    tokens: dict[bytes, TokenCounts] = {}
    numbers: dict[str, int] = {}
    for number, line in numbered(file):
        kind, *fields = line.split("\t")
        if number == 1 and (kind != "v" or "db_version" not in line):
            break
        if kind == "v" and len(fields) >= 2:  # noqa: PLR2004  (a value and its name)
            numbers[fields[1].split(" ")[0]] = count(fields[0], number)
        elif kind == "t" and len(fields) == _FIELDS - 1:
            spam, ham = count(fields[0], number), count(fields[1], number)
            tokens[_token(fields[3], number)] = TokenCounts(ham, spam)
            if len(tokens) > MAX_FEATURES:
                msg = f"the backup has more than {MAX_FEATURES:,} tokens"
                raise MalformedDump(msg)
        elif kind != "s":
            msg = f"line {number} is not one of `sa-learn --backup`: {line[:60]!r}"
            raise MalformedDump(msg)
    if not {"num_spam", "num_nonspam"} <= numbers.keys():
        msg = (
            "the first lines are not the version and the numbers of messages that "
            "`sa-learn --backup` writes"
        )
        raise MalformedDump(msg)
    tally.messages = TokenCounts(numbers["num_nonspam"], numbers["num_spam"])
    return tokens


def _token(text: str, number: int) -> bytes:
    """Return the bytes of a token."""
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != _TOKEN_BYTES:
        msg = f"line {number} has {text[:40]!r} where a token of 10 digits belongs"
        raise MalformedDump(msg)
    return token
