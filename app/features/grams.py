"""Grams: runs of four bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from app.mail.message import Message

GRAM_BYTES: Final = 4
MAX_GRAM_TEXT: Final = 3_500
"""Most bytes of text from which grams are taken.

Spammers append text that looks like ham, which few readers reach. Precedent: Bratko et
al., "Spam filtering using statistical data compression models", JMLR 7, 2006, section
5.6, cut messages at 2,500 bytes. Here, 1,000 to 6,000 give similar results (experiment
0021).
"""
BUCKET_BITS: Final = 20
"""Bits of the number of a bucket, which is the id of a gram.

With 2^16 buckets grams alone rank much worse, and with 2^22 no better than with 2^20
(experiment 0021).
"""
# Knuth, "The Art of Computer Programming", volume 3, section 6.4:
# multiplicative hashing by the golden ratio of 2^32.
_GOLDEN: Final = np.uint32(2_654_435_769)
_GRAM_SHIFT: Final = np.uint32(32 - BUCKET_BITS)


def grams(message: Message) -> SparseCounts:
    r"""Return the buckets of the 4-grams of subject and text, each once.

    Notes
    -----
    Grams are taken from the decoded text in UTF-8, not from the raw message: grams of
    headers gain nothing and double the number (experiment 0021), and those of base64 do
    not recur.  Whitespace and capitals are kept.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> grams(parse(b"Subject: ab\n\ncd")).size
    3
    """
    text = message.header("subject") + "\n"
    for part in message.texts:
        if len(text) >= MAX_GRAM_TEXT:
            break
        text += part.content[:MAX_GRAM_TEXT] + "\n"
    content = text[:MAX_GRAM_TEXT].encode()[:MAX_GRAM_TEXT]
    if len(content) < GRAM_BYTES:
        return SparseCounts(np.zeros(0, np.int64), np.zeros(0, np.int64))
    # Four overlapping views of the bytes as little-endian 32-bit integers.
    windows = np.concatenate(
        [
            np.frombuffer(content, "<u4", (len(content) - start) // GRAM_BYTES, start)
            for start in range(GRAM_BYTES)
        ]
    )
    buckets = (windows * _GOLDEN) >> _GRAM_SHIFT
    buckets.sort()
    first = np.ones(buckets.size, np.bool_)
    np.not_equal(buckets[1:], buckets[:-1], out=first[1:])
    ids = buckets[first].astype(np.int64)
    return SparseCounts(ids, np.ones_like(ids))
