"""Which scored message is this? The one whose id we wrote into its headers.

Contract of this file: anybody can write such a header, so an id is a hint and
never a proof.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from app.bayes.sparse import SparseCounts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from app.features.observation import Payload

    class Seen(Protocol):
        """What was seen of a message: an observation, or what is stored of one."""

        @property
        def digest(self) -> bytes:
            """Identity of the message."""
            ...

        @property
        def feature_set(self) -> int:
            """Number of the rules of the features."""
            ...

        @property
        def views(self) -> Mapping[str, Payload]:
            """The features, view by view."""
            ...


HEADER: Final = "X-Postbayes-Id"

# Of the headers; Postfix takes 100 kB of them (header_size_limit).
_HEADER_BYTES: Final = 128 * 1024
_MOST_IDS: Final = 2

# Half of the features in common. Of 20,000 pairs of different messages of the
# SpamAssassin corpus 5 have as much; of 1,200 messages whose subject was tagged
# and that got a footer of 27 words, all have.
_SHARE: Final = 0.5

_NAME: Final = HEADER.lower().encode()
_ID: Final = re.compile(
    rb"^%b:[ \t]*([0-9a-f]{32})[ \t]*\r?$" % _NAME,
    re.MULTILINE | re.IGNORECASE,
)
# Without the \r of the line before: a pattern that begins with what may be missing
# is tried at every byte. That, and the look for the name in `marked_ids`, make it
# 2 us in place of 14 for the messages of the SpamAssassin corpus.
_END_OF_HEADERS: Final = re.compile(rb"\n\r?\n")


def marked_ids(raw: bytes) -> list[bytes]:
    r"""Return the digests that the headers of a message name, each once.

    Examples
    --------
    >>> [each.hex()[:4] for each in marked_ids(b"X-Postbayes-Id: " + b"a5" * 16)]
    ['a5a5']
    >>> marked_ids(b"Subject: x\n\nX-Postbayes-Id: " + b"a5" * 16)
    []
    """
    headers = _END_OF_HEADERS.split(raw[:_HEADER_BYTES], 1)[0]
    if _NAME not in headers.lower():
        return []
    found = dict.fromkeys(_ID.findall(headers))
    return [bytes.fromhex(each.decode()) for each in found][:_MOST_IDS]


def is_same_message(scored: Seen, arrived: Seen) -> bool:
    """Tell whether what was scored can be what arrived, with some changes.

    A server on the way may have tagged the subject or added a footer, so that
    the digest is another one.  Somebody else may have written the id of another
    message, to have that one learned in the place of his own: two messages that
    share most of their features are as good as one, and others do not pass.
    """
    if scored.digest == arrived.digest:
        return True
    if scored.feature_set != arrived.feature_set:
        return False
    shared = together = 0
    for view, one in scored.views.items():
        other = arrived.views.get(view)
        if isinstance(one, SparseCounts) and isinstance(other, SparseCounts):
            common = np.intersect1d(one.ids, other.ids, assume_unique=True).size
            shared += common
            together += one.size + other.size - common
    return together > 0 and shared >= _SHARE * together
