"""Measurements of a message: sizes, shares and times, for a Gaussian.

Sizes and counts are logarithms, because they span orders of magnitude and their
logarithms are closer to a normal distribution.  Shares are between 0 and 1.

Contract of this file: a field keeps its number for ever, because databases contain it.
A dropped field leaves a gap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from app.features.headers import read_date
from app.kernels.text import shares

if TYPE_CHECKING:
    from app.mail.message import Message

FIELDS: Final = {
    "log text": 1,
    "log blanks": 2,
    "log word length": 3,
    "log links": 4,
    "log images": 5,
    "log parts": 6,
    "log headers": 7,
    "log subject": 8,
    "capitals": 9,
    "digits": 10,
    "log exclamations": 11,
    "beyond ascii": 12,
    "subject capitals": 13,
    "log hops": 14,
    "clock skew": 15,
    "log bytes": 16,
}
"""The fields, with their numbers in databases."""
# Shares are of this much text: they hardly change after it, and counting is linear.
_SAMPLE_CHARS: Final = 20_000
_HOUR: Final = 3600


def measured(message: Message) -> dict[str, float]:
    r"""Return the measurements of a message.

    Returns
    -------
    dict of str to float
        Finite values of fields of `FIELDS`.  Fields that a message lacks are left out,
        such as the clock skew of mail without a Received header.

    Examples
    --------
    >>> from app.mail.parse import parse
    >>> values = measured(parse(b"Subject: HI\n\nAB cd"))
    >>> values["subject capitals"], values["capitals"]
    (1.0, 0.5)
    """
    text = " ".join(t.content for t in message.texts if t.place in {"plain", "html"})
    sample = text[:_SAMPLE_CHARS]
    content = np.frombuffer(sample.encode(), np.uint8)
    blanks, capitals, digits, exclamations, plain = shares(content)
    printed = len(sample) - blanks
    subject = message.header("subject")
    images = [link for link in message.links if link.element == "img"]
    values = {
        "log text": math.log1p(len(text)),
        "log blanks": math.log1p(blanks),
        "log links": math.log1p(len(message.links)),
        "log images": math.log1p(len(images)),
        "log parts": math.log1p(len(message.parts)),
        "log headers": math.log1p(len(message.headers)),
        "log subject": math.log1p(len(subject)),
        "log bytes": math.log1p(sum(part.size for part in message.parts)),
    }
    if printed:
        values |= {
            "log word length": math.log1p(printed / (blanks + 1)),
            "capitals": capitals / printed,
            "digits": digits / printed,
            "log exclamations": math.log1p(exclamations),
            "beyond ascii": 1.0 - plain / len(sample),
        }
    if subject:
        capitals = shares(np.frombuffer(subject.encode(), np.uint8))[1]
        values["subject capitals"] = capitals / len(subject)
    received = message.header_values("received")
    if received:
        values["log hops"] = math.log1p(len(received))
        arrived = read_date(received[0].rpartition(";")[2])
        written = read_date(message.header("date"))
        if arrived and written:
            hours = (arrived.seconds - written.seconds) / _HOUR
            values["clock skew"] = math.copysign(math.log1p(abs(hours)), hours)
    return values
